"""Calls of shuffle_image_tokens that must work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor

from tilevl.testing import Case

Args = tuple[Any, ...]
Span = tuple[int, int]  # first row and number of rows
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
INT32, INT64 = torch.int32, torch.int64


def draw(g: Generator, *shape: int, dtype: torch.dtype = BF16) -> Tensor:
    return torch.randn(shape, generator=g).to(dtype)


def call(
    embeds: Tensor,
    spans: Sequence[Span],
    groups: int = 2,
    bound: int | None = None,
    dtypes: tuple[torch.dtype, torch.dtype] = (INT64, INT64),
) -> Args:
    starts = torch.tensor([start for start, _ in spans], dtype=dtypes[0])
    counts = torch.tensor([count for _, count in spans], dtype=dtypes[1])
    longest = max((count for start, count in spans if start >= 0), default=0)
    return embeds, starts, counts, longest if bound is None else bound, groups


def in_any_order(g: Generator, spans: Sequence[Span]) -> list[Span]:
    return [spans[i] for i in torch.randperm(len(spans), generator=g)]


def packed(g: Generator, counts: Sequence[int], most_between: int = 3) -> tuple[list[Span], int]:
    """Spans of the counts with 0 to ``most_between`` rows before each, in any order, and the rows they take."""
    spans, row = [], 0
    for count, between in zip(counts, torch.randint(0, most_between + 1, (len(counts),), generator=g), strict=True):
        row += int(between)
        spans.append((row, count))
        row += count
    return in_any_order(g, spans), row


def several(g: Generator, dtype: torch.dtype = BF16, groups: int = 2) -> Args:
    counts = [groups * n for n in (3, 1, 0, 7, 2, 16)]
    spans, rows = packed(g, counts)
    return call(draw(g, rows + 2, 24, dtype=dtype), spans, groups)


def fixed(g: Generator) -> Args:
    spans = in_any_order(g, [(1, 6), (9, 2), (12, 0), (12, 10), (-1, 4), (24, 4)])
    return call(draw(g, 30, 16), spans, bound=12, dtypes=(INT32, INT64))


def batched(g: Generator) -> Args:
    return call(draw(g, 3, 10, 8), in_any_order(g, [(2, 6), (8, 4), (14, 14)]), bound=14)


def strided_batch(g: Generator) -> Args:
    embeds = draw(g, 3, 15, 20)[:, 2:12, 4:12]
    return call(embeds, in_any_order(g, [(0, 4), (5, 18), (24, 6)]), bound=18)


def tokens_before_batch(g: Generator) -> Args:
    return call(draw(g, 10, 3, 8).transpose(0, 1), [(1, 8), (9, 12), (22, 6)])


def one_token_per_entry(g: Generator) -> Args:
    return call(draw(g, 12, 5, 8)[:, 3:4], [(1, 4), (6, 6)])


def one_entry(g: Generator) -> Args:
    return call(draw(g, 4, 20, 16)[2:3, 3:17, 2:10], [(0, 6), (7, 6)])


def strided_rows(g: Generator) -> Args:
    return call(draw(g, 60, 32)[3:53:2, 5:21], in_any_order(g, [(2, 8), (11, 14)]), bound=20)


def lengths_of_one_image(g: Generator, length: int, groups: int, width: int = 8) -> Args:
    return call(draw(g, length + 5, width), [(3, length)], groups)


def longer_than_a_block(g: Generator) -> Args:
    """23 MiB, and strips of columns whose last one is narrower."""
    return call(draw(g, 9002, 1300), [(1, 9000)], 3)


def longer_than_a_block_over_entries(g: Generator) -> Args:
    return call(draw(g, 3, 3003, 1300)[:, :3000], [(1, 8998)])


def longest_strips(g: Generator) -> Args:
    """So many rows that the narrowest strips pass the block."""
    return call(draw(g, 20003, 500), [(2, 20000)], 5)


def equal_at_equal_distances(g: Generator) -> Args:
    return call(draw(g, 40 * 11 + 9, 64), in_any_order(g, [(2 + 11 * i, 9) for i in range(40)]), 3)


def equal_in_several_blocks(g: Generator) -> Args:
    return call(draw(g, 30 * 400 + 7, 520), [(4 + 400 * i, 396) for i in range(30)], 4)


def many_small(g: Generator) -> Args:
    spans, rows = packed(g, (2 * torch.randint(0, 6, (500,), generator=g)).tolist())
    return call(draw(g, rows + 1, 12), spans)


def small_among_large(g: Generator) -> Args:
    counts = [*(3 * torch.randint(1, 4, (40,), generator=g)).tolist(), 300, 600, 301 * 3]
    spans, rows = packed(g, counts)
    return call(draw(g, rows + 1, 700), spans, 3)


def small_in_several_blocks(g: Generator) -> Args:
    spans, rows = packed(g, (2 * torch.randint(1, 5, (700,), generator=g)).tolist())
    return call(draw(g, rows, 1000), spans)


def one_column(g: Generator) -> Args:
    return call(draw(g, 30, 4)[:, 1:2], [(2, 8), (12, 14)])


def payloads(g: Generator) -> Args:
    codes = torch.randint(-(2**15), 2**15, (20, 40), generator=g, dtype=torch.int16)
    return call(codes.view(BF16), [(2, 16)], 4)


def payloads_fp32(g: Generator) -> Args:
    codes = torch.randint(-(2**31), 2**31, (20, 40), generator=g, dtype=INT64).to(INT32)
    codes[:, ::3] |= 0x7F800001
    return call(codes.view(FP32), [(1, 18)], 3)


def skipped(g: Generator) -> Args:
    spans = [(-1, 4), (3, 0), (500, 0), (-9, -3), (-(2**62), 10**9), (4, 6), (6, 0)]
    return call(draw(g, 12, 8), in_any_order(g, spans), bound=6)


def size_one_with_odd_strides(g: Generator) -> Args:
    embeds = torch.as_strided(draw(g, 64), (1, 4, 8), (3, 8, 1))
    starts = torch.as_strided(torch.tensor([0, 7]), (1,), (2,))
    return embeds, starts, torch.tensor([4]), 4, 2


CASES = [
    Case("fixed", fixed, traced=True),
    Case("several", several),
    Case("fp16", lambda g: several(g, FP16)),
    Case("fp32", lambda g: several(g, FP32)),
    Case("groups_of_5", lambda g: several(g, groups=5)),
    Case("one_group", lambda g: several(g, groups=1)),
    Case("as_many_groups_as_rows", lambda g: lengths_of_one_image(g, 6, 6)),
    Case("length_0", lambda g: lengths_of_one_image(g, 0, 2)),
    Case("length_1", lambda g: lengths_of_one_image(g, 1, 1)),
    Case("length_2", lambda g: lengths_of_one_image(g, 2, 2)),
    Case("length_3", lambda g: lengths_of_one_image(g, 3, 3)),
    Case("odd_length", lambda g: lengths_of_one_image(g, 105, 7)),
    Case("whole_tensor", lambda g: call(draw(g, 24, 16), [(0, 24)])),
    Case("longer_than_a_block", longer_than_a_block),
    Case("longer_than_a_block_over_entries", longer_than_a_block_over_entries),
    Case("longest_strips", longest_strips),
    Case("batched", batched),
    Case("strided_batch", strided_batch, traced=True),
    Case("tokens_before_batch", tokens_before_batch, layout=True),
    Case("one_token_per_entry", one_token_per_entry),
    Case("one_entry", one_entry),
    Case("strided_rows", strided_rows, traced=True),
    Case("equal_at_equal_distances", equal_at_equal_distances),
    Case("equal_in_several_blocks", equal_in_several_blocks),
    Case("many_small", many_small),
    Case("small_among_large", small_among_large),
    Case("small_in_several_blocks", small_in_several_blocks),
    Case("one_column", one_column),
    Case("payloads", payloads),
    Case("payloads_fp32", payloads_fp32),
    Case("skipped", skipped),
    Case("size_one_with_odd_strides", size_one_with_odd_strides, layout=True),
    Case("no_images", lambda g: call(draw(g, 9, 8), []), traced=True),
    Case("no_tokens", lambda g: call(draw(g, 0, 8), [(-1, 4), (0, 0)])),
    Case("no_columns", lambda g: call(draw(g, 9, 0), [(0, 4)])),
]


def series(g: Generator, count: int) -> Args:
    spans, _ = packed(g, [6] * count)
    return call(draw(g, 13 + 10 * count, 16), spans, groups=3, bound=6 + count)
