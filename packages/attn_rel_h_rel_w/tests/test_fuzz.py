"""Any call of attn_rel_h_rel_w: the right value or a documented error, and no other byte."""

from __future__ import annotations

import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tilevl.attn_rel_h_rel_w.op import OP
from tilevl.testing.fuzz import FuzzedOp, is_dense
from tilevl.testing.fuzz_strategies import NUMBERS, Args, layouts, spoiled

from . import oracle
from .cases import BF16, FP16, FP32
from .errors import TABLES
from .test_standard import compare


def grid_holds(tokens: int, grid_h: int | None, grid_w: int | None) -> tuple[int, int] | None:
    """Rows and columns, None where they aren't a grid of the tokens."""
    if grid_h is None and grid_w is None:
        side = math.isqrt(tokens)
        return (side, side) if side * side == tokens else None
    sides = [side for side in (grid_h, grid_w) if side is not None]
    if min(sides) < 0 or (0 in sides and tokens):
        return None
    if len(sides) == 2:
        return (sides[0], sides[1]) if sides[0] * sides[1] == tokens else None
    other = tokens // sides[0] if sides[0] else 0
    if other * sides[0] != tokens:
        return None
    return (sides[0], other) if grid_w is None else (other, sides[0])


def metadata_holds(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    rel_h: Tensor,
    rel_w: Tensor,
    grid_h: int | None,
    grid_w: int | None,
    scale: float | None,
) -> bool:
    tensors = (query, key, value, rel_h, rel_w)
    if any(tensor.dim() != 4 for tensor in tensors):
        return False
    grid = grid_holds(query.shape[1], grid_h, grid_w)
    return (
        grid is not None
        and all(tensor.dtype == query.dtype and tensor.device == query.device for tensor in tensors)
        and query.dtype in ((BF16, FP16, FP32) if query.device.type in ("cpu", "meta") else (BF16, FP16))
        and key.shape == value.shape == query.shape
        and query.shape[3] in range(16, 129, 16)
        and all(
            table.shape[:3] == query.shape[:3] and table.shape[3] >= side
            for table, side in zip((rel_h, rel_w), grid, strict=True)
        )
        and all(is_dense(tensor) for tensor in tensors)
        and (scale is None or math.isfinite(scale))
    )


def values_are_right(result: Tensor, args: Args) -> None:
    compare(result, oracle.attn_rel_h_rel_w(*args))


FUZZED = FuzzedOp(TABLES[0], OP, metadata_holds, lambda *args: True, values_are_right)
SIDES = NUMBERS | st.none() | st.integers(0, 12)
OTHERS = {5: SIDES, 6: SIDES, 7: st.sampled_from([None, 0.0, -0.5, 0.2, math.nan, math.inf, -math.inf])}
GRIDS = st.sampled_from([(4, 4), (3, 4), (0, 3), (0, 0)])  # each is a kernel of its own: those of the standard suite


@st.composite
def calls(draw: st.DrawFn) -> Args:
    """One tensor may stand in several places."""
    batch, heads = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    rows, columns = draw(GRIDS)
    tokens = rows * columns
    given_sides = [(rows, columns), (rows, None), (None, columns)] + [(None, None)] * (rows == columns)
    grid_h, grid_w = draw(st.sampled_from(given_sides))
    if grid_h is None and grid_w is not None and columns and not rows:
        rows = 0
    shape = (batch, tokens, heads, 16)
    inputs = [draw(layouts(shape, BF16)) for _ in range(draw(st.integers(1, 3)))]
    query, key, value = (draw(st.sampled_from(inputs)) for _ in range(3))
    tables = (draw(layouts((*shape[:3], side + draw(st.integers(0, 2))), BF16)) for side in (rows, columns))
    return query, key, value, *tables, grid_h, grid_w, draw(st.sampled_from([None, 0.3]))


@given(args=calls().flatmap(lambda args: spoiled(args, OTHERS)))
def test_any_metadata_gives_the_right_value_or_its_error(args: Args, target: str, device: torch.device) -> None:
    FUZZED.check(args, device)
