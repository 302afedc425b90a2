"""Any call of shuffle_image_tokens: the right value or a documented error, and no other byte."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tilevl.shuffle_image_tokens.op import OP
from tilevl.testing import same_bits
from tilevl.testing.bits import bits_of
from tilevl.testing.fuzz import FuzzedOp, is_contiguous, is_dense, rows_apart, share_memory
from tilevl.testing.fuzz_strategies import FLOATS, INDICES, NUMBERS, Args, hostile, indices, layouts, spoiled

from . import oracle
from .errors import TABLES

FLOAT_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
INDEX_DTYPES = (torch.int32, torch.int64)


def metadata_holds(embeds: Tensor, starts: Tensor, counts: Tensor, longest: int, groups: int) -> bool:
    return (
        embeds.dim() in (2, 3)
        and (starts.dim(), counts.dim()) == (1, 1)
        and embeds.device == starts.device == counts.device
        and embeds.dtype in FLOAT_DTYPES
        and starts.dtype in INDEX_DTYPES
        and counts.dtype in INDEX_DTYPES
        and starts.shape == counts.shape
        and longest >= 0
        and groups >= 1
        and is_dense(embeds)
        and is_contiguous(starts)
        and is_contiguous(counts)
        and rows_apart(embeds)
        and not share_memory(embeds, starts)
        and not share_memory(embeds, counts)
    )


def rows_of(embeds: Tensor) -> int:
    return embeds.shape[:-1].numel()


def spans(starts: Tensor, counts: Tensor) -> list[tuple[int, int]]:
    pairs = zip(starts.tolist(), counts.tolist(), strict=True)
    return [(start, count) for start, count in pairs if start >= 0 and count != 0]


def data_holds(embeds: Tensor, starts: Tensor, counts: Tensor, longest: int, groups: int) -> bool:
    given_spans = spans(starts, counts)
    if not all(0 < n <= min(longest, rows_of(embeds)) and n % groups == 0 for _, n in given_spans):
        return False
    taken = [row for start, n in given_spans for row in range(start, start + n)]
    return len(set(taken)) == len(taken) and all(row < rows_of(embeds) for row in taken)


def rows_are_right(result: Tensor, args: Args) -> None:
    assert same_bits(result, oracle.shuffle_image_tokens(*args))


def only_rows_of_images_changed(result: Tensor, args: Args) -> None:
    """Bad images are skipped, images of their own are shuffled; rows of images that overlap hold anything."""
    before, starts, counts, longest, groups = args
    rows = rows_of(before)
    good = [
        (start, n) for start, n in spans(starts, counts) if 0 < n <= longest and n % groups == 0 and start <= rows - n
    ]
    owners = Counter(row for start, n in good for row in range(start, start + n))
    alone = [(start, n) for start, n in good if all(owners[row] == 1 for row in range(start, start + n))]
    columns = torch.tensor([start for start, _ in alone]), torch.tensor([n for _, n in alone])
    expected = bits_of(oracle.shuffle_image_tokens(before, *columns, longest, groups)).reshape(rows, before.shape[-1])
    after = bits_of(result).reshape(rows, before.shape[-1])
    shared = {row for start, n in good if (start, n) not in alone for row in range(start, start + n)}
    kept = [row for row in range(rows) if row not in shared]
    assert torch.equal(after[kept], expected[kept])


FUZZED = FuzzedOp(TABLES[0], OP, metadata_holds, data_holds, rows_are_right, only_rows_of_images_changed)


@st.composite
def calls(draw: st.DrawFn, bad_contents: bool = False) -> Args:
    batch, tokens, width, groups = (draw(st.integers(low, most)) for low, most in ((0, 3), (0, 12), (0, 6), (1, 4)))
    shape = (batch, tokens, width) if draw(st.booleans()) else (tokens, width)
    rows = tokens * (batch if len(shape) == 3 else 1)
    offset = draw(st.integers(0, 2))
    if bad_contents:
        number = hostile(rows + 2) | st.integers(0, 4).map(lambda n: n * groups)
        pairs = draw(st.lists(st.tuples(hostile(rows), number), max_size=6))
    else:
        pairs, row = [], 0
        for count in draw(st.lists(st.integers(0, 3).map(lambda n: n * groups), max_size=5)):
            row += draw(st.integers(0, 2))
            if row + count <= rows:
                pairs.append((row, count) if draw(st.integers(0, 5)) else (-1, count))
                row += count
        pairs = draw(st.permutations(pairs))
    longest = draw(st.integers(max([count for _, count in pairs if 0 < count <= 40], default=0), 40))
    starts, counts = (indices([pair[i] for pair in pairs], draw(INDICES), offset) for i in (0, 1))
    return draw(layouts(shape, draw(FLOATS), shared=False)), starts, counts, longest, groups


NUMBERS_BY_POSITION = {3: NUMBERS, 4: NUMBERS}


@given(args=calls().flatmap(lambda args: spoiled(args, NUMBERS_BY_POSITION)))
def test_any_metadata_gives_the_right_value_or_its_error(args: Args, target: str, device: torch.device) -> None:
    FUZZED.check(args, device)


@given(args=calls(bad_contents=True))
def test_any_contents_give_the_right_value_or_their_error(args: Args, target: str, device: torch.device) -> None:
    FUZZED.check(args, device)


@pytest.mark.targets("ascend", "cuda")
@given(args=calls(bad_contents=True))
def test_contents_that_nobody_checks_touch_nothing_else(args: Args, target: str, device: torch.device) -> None:
    FUZZED.check_unchecked(args, device)
