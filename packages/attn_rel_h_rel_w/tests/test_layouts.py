"""Any shape in any layout: axes in any order, gaps, offsets, expanded axes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from tilevl.attn_rel_h_rel_w import attn_rel_h_rel_w

from . import oracle
from .test_standard import compare


@st.composite
def layouts(draw: st.DrawFn, shape: tuple[int, int, int, int], dtype: torch.dtype) -> Tensor:
    """A tensor of a shape and unit last stride, its other axes in some order, with room between and before them."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    shared = [draw(st.booleans()) and draw(st.booleans()) for _ in range(3)]
    order = draw(st.permutations(range(3)))
    room = [draw(st.integers(0, 2)) for _ in range(4)]
    kept = [1 if expand else size for size, expand in zip(shape[:3], shared, strict=True)] + [shape[3]]
    whole = [kept[axis] + room[axis] for axis in order] + [kept[3] + room[3]]
    memory = torch.randn(whole, generator=generator).to(dtype)
    inner = memory[tuple(slice(room[axis], None) for axis in (*order, 3))]
    return inner.permute(*[order.index(axis) for axis in range(3)], 3).expand(shape)


@st.composite
def calls(draw: st.DrawFn) -> tuple[object, ...]:
    """A whole call."""
    batch, heads = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    grid_h, grid_w = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    dtype = draw(st.sampled_from([torch.bfloat16, torch.float16]))
    widths = [16 * draw(st.integers(1, 3))] * 3 + [grid_h + draw(st.integers(0, 2)), grid_w + draw(st.integers(0, 2))]
    inputs = [draw(layouts((batch, grid_h * grid_w, heads, width), dtype)) for width in widths]
    given_sides = [(grid_h, grid_w), (grid_h, None), (None, grid_w)] + [(None, None)] * (grid_h == grid_w)
    return *inputs, *draw(st.sampled_from(given_sides)), draw(st.sampled_from([None, 0.25, -0.3]))


@pytest.mark.targets("cpu")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(call=calls())
def test_any_layout_gives_the_oracle_s_values(call: tuple) -> None:
    before = [arg.clone() for arg in call[:5]]
    result = attn_rel_h_rel_w(*call)
    assert result.is_contiguous() and result.dtype == call[0].dtype
    compare(result, oracle.attn_rel_h_rel_w(*call))
    assert all(torch.equal(arg, copy) for arg, copy in zip(call[:5], before, strict=True))
