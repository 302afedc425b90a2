"""Any call of replace_input_embeds and image_token_index: the right value or a documented error, and no other byte."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tilevl.replace_input_embeds.op import OP
from tilevl.replace_input_embeds.token_index.op import OP as TOKEN_INDEX_OP
from tilevl.testing import same_bits
from tilevl.testing.fuzz import FuzzedOp, is_contiguous, is_dense, rows_apart, share_memory
from tilevl.testing.fuzz_strategies import FLOATS, INDICES, Args, hostile, indices, layouts, spoiled

from .errors import TABLES

FLOAT_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def metadata_holds(embeds: Tensor, rows: Tensor, index: Tensor) -> bool:
    return (
        embeds.dim() in (2, 3)
        and (rows.dim(), index.dim()) == (2, 1)
        and embeds.device == rows.device == index.device
        and embeds.dtype in FLOAT_DTYPES
        and rows.dtype == embeds.dtype
        and index.dtype in (torch.int32, torch.int64)
        and rows.shape == (index.shape[0], embeds.shape[-1])
        and is_dense(embeds)
        and is_dense(rows)
        and is_contiguous(index)
        and rows_apart(embeds)
        and not share_memory(embeds, rows)
        and not share_memory(embeds, index)
    )


def rows_of(embeds: Tensor) -> int:
    return embeds.shape[:-1].numel()


def data_holds(embeds: Tensor, rows: Tensor, index: Tensor) -> bool:
    return all(place < rows_of(embeds) for place in index.tolist())


def rows_are_right(result: Tensor, args: Args) -> None:
    """An index past the end is skipped; of equal ones any may win."""
    before, rows, index = args
    after, before = (tensor.cpu().reshape(rows_of(tensor), tensor.shape[-1]) for tensor in (result, before))
    for place in range(len(before)):
        sources = [rows[i] for i, to in enumerate(index.tolist()) if to == place] or [before[place]]
        assert any(same_bits(after[place], row) for row in sources)


FUZZED = FuzzedOp(TABLES[0], OP, metadata_holds, data_holds, rows_are_right, rows_are_right)


@st.composite
def calls(draw: st.DrawFn, bad_contents: bool = False) -> Args:
    batch, tokens, width = (draw(st.integers(0, most)) for most in (3, 9, 6))
    shape = (batch, tokens, width) if draw(st.booleans()) else (tokens, width)
    dtype, room = draw(FLOATS), max(1, tokens * (batch if len(shape) == 3 else 1))
    place = hostile(room) if bad_contents else st.integers(-2, room - 1)
    index = indices(draw(st.lists(place, max_size=12)), draw(INDICES), draw(st.integers(0, 2)))
    return draw(layouts(shape, dtype, shared=False)), draw(layouts((len(index), width), dtype)), index


@given(args=calls().flatmap(lambda args: spoiled(args, {})))
def test_any_metadata_gives_the_right_value_or_its_error(args: Args, target: str, device: torch.device) -> None:
    FUZZED.check(args, device)


@given(args=calls(bad_contents=True))
def test_any_contents_give_the_right_value_or_their_error(args: Args, target: str, device: torch.device) -> None:
    FUZZED.check(args, device)


@pytest.mark.targets("ascend", "cuda")
@given(args=calls(bad_contents=True))
def test_contents_that_nobody_checks_touch_nothing_else(args: Args, target: str, device: torch.device) -> None:
    FUZZED.check_unchecked(args, device)


def mask_holds(mask: Tensor, length: int) -> bool:
    return mask.dim() in (1, 2) and mask.dtype == torch.bool and length >= 0


def marks_fit(mask: Tensor, length: int) -> bool:
    return int(mask.sum()) <= length


def marks_are_listed(result: Tensor, args: Args) -> None:
    mask, length = args
    places = [i for i, marked in enumerate(mask.flatten().tolist()) if marked][:length]
    assert result.tolist() == places + [-1] * (length - len(places))


FUZZED_INDEX = FuzzedOp(TABLES[1], TOKEN_INDEX_OP, mask_holds, marks_fit, marks_are_listed, marks_are_listed)
LENGTHS = st.integers(0, 40) | st.sampled_from([-(2**63), -(2**31), -1])


@st.composite
def masks(draw: st.DrawFn) -> Args:
    shape = draw(st.tuples(st.integers(0, 20)) | st.tuples(st.integers(0, 4), st.integers(0, 9)))
    return draw(layouts(shape, torch.bool)), draw(st.integers(0, 30))


@given(args=masks().flatmap(lambda args: spoiled(args, {1: LENGTHS})))
def test_any_mask_gives_its_marks_or_its_error(args: Args, target: str, device: torch.device) -> None:
    FUZZED_INDEX.check(args, device)


@pytest.mark.targets("ascend", "cuda")
@given(args=masks())
def test_a_mask_that_nobody_checks_touches_nothing_else(args: Args, target: str, device: torch.device) -> None:
    FUZZED_INDEX.check_unchecked(args, device)
