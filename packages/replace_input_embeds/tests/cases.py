"""Calls of replace_input_embeds and image_token_index that must work, and calls that must be refused."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor

from tilevl.testing import Case, Refusal

Args = tuple[Any, ...]
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32


def draw(g: Generator, *shape: int, dtype: torch.dtype = BF16) -> Tensor:
    return torch.randn(shape, generator=g).to(dtype)


def distinct(g: Generator, count: int, rows: int, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.randperm(rows, generator=g)[:count].to(dtype)


def plain(g: Generator, tokens: int = 37, width: int = 24, count: int = 9, dtype: torch.dtype = BF16) -> Args:
    return draw(g, tokens, width, dtype=dtype), draw(g, count, width, dtype=dtype), distinct(g, count, tokens)


def some_skipped(g: Generator) -> Args:
    index = distinct(g, 12, 40)
    index[[0, 5, 11]] = torch.tensor([-1, -7, -(2**62)])
    return draw(g, 40, 16), draw(g, 12, 16), index


def runs(g: Generator) -> Args:
    index = torch.cat([torch.arange(50, 90), torch.arange(3, 30), torch.arange(120, 160)])
    return draw(g, 200, 8, dtype=FP16), draw(g, index.numel(), 8, dtype=FP16), index.int()


def run_from_below_zero(g: Generator) -> Args:
    return draw(g, 60, 8), draw(g, 40, 8), torch.arange(-8, 32)


def batched(g: Generator) -> Args:
    return draw(g, 3, 10, 8), draw(g, 7, 8), distinct(g, 7, 30, torch.int32)


def strided_batch(g: Generator) -> Args:
    return draw(g, 3, 15, 20)[:, 2:12, 4:12], draw(g, 11, 8), distinct(g, 11, 30)


def tokens_before_batch(g: Generator) -> Args:
    return draw(g, 10, 3, 8).transpose(0, 1), draw(g, 11, 8), distinct(g, 11, 30)


def strided_rows(g: Generator) -> Args:
    return draw(g, 40, 32)[3:33:2, 5:21], draw(g, 20, 40)[::3, 1:17], distinct(g, 7, 15)


def expanded_source(g: Generator) -> Args:
    return draw(g, 20, 8), draw(g, 1, 8).expand(6, 8), distinct(g, 6, 20)


def views_of_one_storage(g: Generator) -> Args:
    both = draw(g, 20, 16)
    return both[:, :8], both[4:10, 8:], distinct(g, 6, 20)


def size_one_with_odd_strides(g: Generator) -> Args:
    embeds = torch.as_strided(draw(g, 64), (1, 1, 8), (3, 5, 1))
    return embeds, torch.as_strided(draw(g, 64), (1, 8), (2, 1)), torch.tensor([0])


def one_column(g: Generator) -> Args:
    return draw(g, 30, 4)[:, 1:2], draw(g, 5, 3)[:, 2:], distinct(g, 5, 30)


def payloads(g: Generator) -> Args:
    codes = torch.randint(-(2**15), 2**15, (6, 8), generator=g, dtype=torch.int16)
    return draw(g, 9, 8), codes.view(BF16), distinct(g, 6, 9)


def no_rows(g: Generator) -> Args:
    return draw(g, 9, 8), draw(g, 0, 8), torch.empty(0, dtype=torch.int64)


def no_tokens(g: Generator) -> Args:
    return draw(g, 0, 8), draw(g, 3, 8), torch.tensor([-1, -2, -3])


def no_columns(g: Generator) -> Args:
    return draw(g, 5, 0), draw(g, 2, 0), torch.tensor([4, 1])


CASES = [
    Case("plain", plain, traced=True),
    Case("fp16", lambda g: plain(g, dtype=FP16)),
    Case("fp32", lambda g: plain(g, dtype=FP32)),
    Case("long", lambda g: plain(g, 700, 40, 600)),
    Case("some_skipped", some_skipped),
    Case("runs", runs),
    Case("run_from_below_zero", run_from_below_zero),
    Case("batched", batched, traced=True),
    Case("strided_batch", strided_batch, traced=True),
    Case("tokens_before_batch", tokens_before_batch, layout=True),
    Case("strided_rows", strided_rows, traced=True),
    Case("expanded_source", expanded_source, layout=True),
    Case("views_of_one_storage", views_of_one_storage),
    Case("size_one_with_odd_strides", size_one_with_odd_strides, layout=True),
    Case("one_column", one_column),
    Case("payloads", payloads),
    Case("no_rows", no_rows, traced=True),
    Case("no_tokens", no_tokens),
    Case("no_columns", no_columns),
]


def series(g: Generator, count: int) -> Args:
    return plain(g, 12 + 3 * count, 16, count)


def changed(position: int, value: Any) -> Any:
    """A plain call with one argument replaced; ``value`` is called with the plain one."""

    def make(g: Generator) -> Args:
        args = list(plain(g))
        args[position] = value(args[position])
        return tuple(args)

    return make


def overlapping(g: Generator) -> Args:
    embeds = draw(g, 20, 8)
    return embeds, embeds[3:7], distinct(g, 4, 20)


def index_in_the_embeds(g: Generator) -> Args:
    embeds = draw(g, 20, 8, dtype=FP32)
    return embeds, draw(g, 4, 8, dtype=FP32), embeds.view(torch.int32).flatten()[:4]


def set_at(index: Tensor, position: int, value: int) -> Tensor:
    index = index.clone()
    index[position] = value
    return index


REFUSALS = [
    Refusal("rank", changed(0, lambda t: t[0]), ValueError, "input_embeds must be [T, D] or [B, T, D], got shape [24]"),
    Refusal(
        "source_rank", changed(1, lambda t: t[None]), ValueError, "image_embeds must be [M, D], got shape [1, 9, 24]"
    ),
    Refusal("index_rank", changed(2, lambda t: t[:, None]), ValueError, "token_index must be [M], got shape [9, 1]"),
    Refusal(
        "dtype",
        changed(0, Tensor.double),
        TypeError,
        "input_embeds must be bfloat16 or float16 or float32, got float64",
    ),
    Refusal(
        "source_dtype",
        changed(1, Tensor.float),
        TypeError,
        "image_embeds must have the dtype of input_embeds, bfloat16, got float32",
    ),
    Refusal(
        "source_dtype_narrower",
        lambda g: (draw(g, 37, 24, dtype=FP32), draw(g, 9, 24), distinct(g, 9, 37)),
        TypeError,
        "image_embeds must have the dtype of input_embeds, float32, got bfloat16",
    ),
    Refusal(
        "source_dtype_of_the_same_size",
        lambda g: (draw(g, 37, 24), torch.full((9, 24), 65504.0, dtype=FP16), distinct(g, 9, 37)),
        TypeError,
        "image_embeds must have the dtype of input_embeds, bfloat16, got float16",
    ),
    Refusal("index_dtype", changed(2, Tensor.short), TypeError, "token_index must be int32 or int64, got int16"),
    Refusal(
        "device", changed(1, lambda t: t.to("meta")), TypeError, "image_embeds must be on the device of input_embeds"
    ),
    Refusal(
        "index_device",
        changed(2, lambda t: t.to("meta")),
        TypeError,
        "token_index must be on the device of input_embeds",
    ),
    Refusal("width", changed(1, lambda t: t[:, :23]), ValueError, "rows of 24 elements like input_embeds, got 23"),
    Refusal("more_indices", changed(1, lambda t: t[:8]), ValueError, "one element per row of image_embeds, 8, got 9"),
    Refusal(
        "swapped",
        lambda g: (draw(g, 9, 24), draw(g, 37, 24), distinct(g, 9, 9)),
        ValueError,
        "token_index must have one element per row of image_embeds, 37, got 9",
    ),
    Refusal("count", changed(2, lambda t: t[:8]), ValueError, "one element per row of image_embeds, 9, got 8"),
    Refusal(
        "last_stride",
        changed(0, lambda t: t.t().contiguous().t()),
        ValueError,
        "input_embeds must have a last stride of 1",
    ),
    Refusal(
        "source_last_stride",
        changed(1, lambda t: t.t().contiguous().t()),
        ValueError,
        "image_embeds must have a last stride of 1",
    ),
    Refusal(
        "index_strides",
        changed(2, lambda t: torch.stack([t, t], 1)[:, 0]),
        ValueError,
        "token_index must be contiguous, got strides [2]",
    ),
    Refusal(
        "expanded_rows",
        changed(0, lambda t: t[:1].expand(37, 24)),
        ValueError,
        "input_embeds must have rows that don't overlap, got strides [0, 1]",
    ),
    Refusal(
        "overlapping_rows",
        changed(0, lambda t: torch.as_strided(t, (37, 24), (23, 1))),
        ValueError,
        "input_embeds must have rows that don't overlap, got strides [23, 1]",
    ),
    Refusal(
        "expanded_batch",
        changed(0, lambda t: t.expand(2, 37, 24)),
        ValueError,
        "input_embeds must have rows that don't overlap, got strides [0, 24, 1]",
    ),
    Refusal("overlap", overlapping, ValueError, "image_embeds must not overlap input_embeds"),
    Refusal(
        "index_overlap",
        index_in_the_embeds,
        ValueError,
        "token_index must not overlap input_embeds",
        targets=("cpu", "cuda"),  # the simulated NPU can't give one storage two dtypes
    ),
    Refusal(
        "past_the_end",
        changed(2, lambda t: set_at(t, 4, 37)),
        ValueError,
        "token_index[4] must be less than 37, got 37",
        data=True,
    ),
    Refusal(
        "past_the_end_of_many",
        lambda g: (draw(g, 700, 8), draw(g, 600, 8), set_at(torch.arange(600), 571, 2**40)),
        ValueError,
        "token_index[571] must be less than 700, got 1099511627776",
        data=True,
    ),
    Refusal(
        "no_tokens",
        lambda g: (draw(g, 0, 8), draw(g, 2, 8), torch.tensor([-1, 0])),
        ValueError,
        "token_index[1] must be less than 0, got 0",
        data=True,
    ),
]


def mask(g: Generator, *shape: int) -> Tensor:
    return torch.rand(shape, generator=g) < 0.4


INDEX_CASES = [
    Case("one_sequence", lambda g: (mask(g, 50), 50), traced=True),
    Case("batch", lambda g: (mask(g, 3, 20), 60), traced=True),
    Case("exactly_as_many", lambda g: ((m := mask(g, 40)), int(m.sum()))),
    Case("transposed", lambda g: (mask(g, 20, 3).t(), 60), layout=True),
    Case("expanded", lambda g: (mask(g, 1, 20).expand(3, 20), 60), layout=True),
    Case("none_marked", lambda g: (torch.zeros(9, dtype=torch.bool), 4)),
    Case("no_tokens", lambda g: (mask(g, 0), 3)),
    Case("no_length", lambda g: (torch.zeros(9, dtype=torch.bool), 0), traced=True),
]


def index_series(g: Generator, count: int) -> Args:
    return mask(g, 20 + count) & (torch.arange(20 + count) < count), count


INDEX_REFUSALS = [
    Refusal(
        "rank", lambda g: (mask(g, 2, 3, 4), 5), ValueError, "is_image_token must be [T] or [B, T], got shape [2, 3, 4]"
    ),
    Refusal("dtype", lambda g: (mask(g, 5).int(), 5), TypeError, "is_image_token must be bool, got int32"),
    Refusal("length", lambda g: (mask(g, 5), -1), ValueError, "num_image_tokens must be at least 0, got -1"),
    Refusal(
        "too_many",
        lambda g: (torch.tensor([[False, True, True], [True, False, True]]), 2),
        ValueError,
        "at most num_image_tokens, 2, tokens, got 4; the first too many is token 3",
        data=True,
    ),
]
