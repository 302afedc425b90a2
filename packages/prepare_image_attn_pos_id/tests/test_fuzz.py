"""Any call of prepare_image_attn_pos_id: the right value or a documented error, and no other byte."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tilevl.prepare_image_attn_pos_id.op import OP
from tilevl.testing import same_bits
from tilevl.testing.fuzz import FuzzedOp, is_contiguous
from tilevl.testing.fuzz_strategies import INDICES, NUMBERS, Args, hostile, indices, spoiled

from . import oracle
from .errors import TABLES

INDEX_DTYPES = (torch.int32, torch.int64)


def metadata_holds(grid_hw: Tensor, sums: Tensor, total: int, window: int) -> bool:
    return (
        (grid_hw.dim(), sums.dim()) == (2, 1)
        and grid_hw.shape[1] == 2
        and sums.shape[0] == grid_hw.shape[0] + 1
        and grid_hw.device == sums.device
        and grid_hw.dtype in INDEX_DTYPES
        and sums.dtype in INDEX_DTYPES
        and is_contiguous(grid_hw)
        and is_contiguous(sums)
        and total >= 0
        and window >= 1
    )


def data_holds(grid_hw: Tensor, sums: Tensor, total: int, window: int) -> bool:
    expected = [0]
    for height, width in grid_hw.tolist():
        if not (0 <= height <= 2**31 and 0 <= width <= 2**31) or height % window or width % window:
            return False
        expected.append(expected[-1] + height * width)
    return sums.tolist() == expected and expected[-1] <= total


def positions_are_right(result: Tensor, args: Args) -> None:
    assert same_bits(result, oracle.prepare_image_attn_pos_id(*args))


FUZZED = FuzzedOp(TABLES[0], OP, metadata_holds, data_holds, positions_are_right)
TOTALS = st.integers(0, 400) | st.sampled_from([-(2**63), -(2**31), -1])  # no result that memory can't hold


@st.composite
def calls(draw: st.DrawFn, bad_contents: bool = False) -> Args:
    window = draw(st.integers(1, 3))
    side = st.integers(0, 4).map(lambda n: n * window)
    grids = draw(st.lists(st.tuples(side, side), max_size=5)) * draw(st.sampled_from([1, 1, 1, 20]))
    sums = [0]
    for height, width in grids:
        sums.append(sums[-1] + height * width)
    total = sums[-1] + draw(st.integers(0, 9))
    sides = [side for grid in grids for side in grid]
    if bad_contents:
        for values in draw(st.sampled_from([[sides], [sums], [sides, sums]])):
            for _ in range(draw(st.integers(1, 3)) if values else 0):
                values[draw(st.integers(0, len(values) - 1))] = draw(hostile(total))
        total = draw(st.integers(0, total))
        window = draw(st.sampled_from([window, 2**31, 2**40, 2**63 - 1]))
    grid_hw = indices(sides, draw(INDICES), 2 * draw(st.integers(0, 1))).view(-1, 2)
    return grid_hw, indices(sums, draw(INDICES), draw(st.integers(0, 2))), total, window


@given(args=calls().flatmap(lambda args: spoiled(args, {2: TOTALS, 3: NUMBERS})))
def test_any_metadata_gives_the_right_value_or_its_error(args: Args, target: str, device: torch.device) -> None:
    FUZZED.check(args, device)


@given(args=calls(bad_contents=True))
def test_any_contents_give_the_right_value_or_their_error(args: Args, target: str, device: torch.device) -> None:
    FUZZED.check(args, device)


@pytest.mark.targets("ascend", "cuda")
@given(args=calls(bad_contents=True))
def test_contents_that_nobody_checks_touch_nothing_else(args: Args, target: str, device: torch.device) -> None:
    FUZZED.check_unchecked(args, device)
