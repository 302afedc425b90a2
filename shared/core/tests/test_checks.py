"""Rules on metadata and data, against brute force where there is geometry in them."""

from __future__ import annotations

import os
import tracemalloc

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from tilevl.core import checks, data_checks


def elements(tensor: Tensor) -> list[set[int]]:
    """Element offsets of each row of a tensor, row by row, from its strides."""
    places = torch.arange(4096).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return [set(row.tolist()) for row in places.reshape(-1, tensor.shape[-1])]


@st.composite
def layouts(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    rank = draw(st.integers(2, 3))
    shape = (*(draw(st.integers(1, 4)) for _ in range(rank - 1)), draw(st.integers(1, 4)))
    strides = (*(draw(st.integers(0, 14)) for _ in range(rank - 1)), 1)
    return shape, strides, draw(st.integers(0, 20))


@settings(deadline=None, max_examples=400)
@given(layouts())
def test_rows_apart_is_what_placing_every_element_says(layout: tuple[tuple[int, ...], tuple[int, ...], int]) -> None:
    tensor = torch.empty(4096).as_strided(*layout)
    rows = elements(tensor)
    apart = sum(len(row) for row in rows) == len(set().union(*rows))
    if apart:
        checks.check_rows_apart("op", "x", tensor)
    else:
        with pytest.raises(ValueError, match="op: x must have rows that don't overlap, got strides"):
            checks.check_rows_apart("op", "x", tensor)


def test_an_expanded_row_is_refused_without_placing_all_its_copies() -> None:
    tensor = torch.empty(1, 8).expand(100_000, 8)
    tracemalloc.start()
    with pytest.raises(ValueError, match="op: x must have rows that don't overlap, got strides"):
        checks.check_rows_apart("op", "x", tensor)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200_000


@settings(deadline=None, max_examples=400)
@given(layouts(), layouts())
def test_overlap_is_what_placing_every_element_says(
    left: tuple[tuple[int, ...], tuple[int, ...], int], right: tuple[tuple[int, ...], tuple[int, ...], int]
) -> None:
    storage = torch.empty(4096)
    written, read = storage.as_strided(*left), storage.as_strided(*right)
    assume(all(elements(written)))
    shared = set().union(*elements(written)) & set().union(*elements(read))
    if shared:
        with pytest.raises(ValueError, match="op: read must not overlap written"):
            checks.check_no_overlap("op", "written", written, read=read)
    else:
        checks.check_no_overlap("op", "written", written, read=read)
    checks.check_no_overlap("op", "written", written, read=read.clone())


def test_overlap_counts_bytes_across_dtypes() -> None:
    storage = torch.zeros(16, dtype=torch.float32)
    halves = storage.view(torch.bfloat16)
    checks.check_no_overlap("op", "written", storage[:4], read=halves[8:])
    with pytest.raises(ValueError, match="read must not overlap"):
        checks.check_no_overlap("op", "written", storage[:4], read=halves[7:])


def test_a_false_condition_builds_its_message_and_a_true_one_does_not() -> None:
    checks.require(True, lambda: pytest.fail("built"))
    checks.require_type(True, lambda: pytest.fail("built"))
    with pytest.raises(ValueError, match="op: size must be 2"):
        checks.require(False, lambda: "op: size must be 2")
    with pytest.raises(TypeError, match="op: dtype must be bool"):
        checks.require_type(False, lambda: "op: dtype must be bool")


@pytest.mark.parametrize("count", [5, 600])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_range_names_the_first_offender(count: int, dtype: torch.dtype) -> None:
    index = torch.arange(count, dtype=dtype)
    data_checks.check_range("op", "index", index, 0, count)
    data_checks.check_range("op", "index", index - 9, None, count)
    index[[2, 4]] = torch.tensor([count, -1], dtype=dtype)
    with pytest.raises(ValueError, match=rf"op: index\[2\] must be in \[0, {count}\), got {count}"):
        data_checks.check_range("op", "index", index, 0, count)
    with pytest.raises(ValueError, match=rf"op: index\[2\] must be less than {count}, got {count}"):
        data_checks.check_range("op", "index", index, None, count)
    index[2] = 0
    with pytest.raises(ValueError, match=rf"op: index\[4\] must be in \[0, {count}\), got -1"):
        data_checks.check_range("op", "index", index, 0, count)


@pytest.mark.parametrize(
    ("sums", "total", "text"),
    [
        ([1, 5, 9], 9, r"op: cu\[0\] must be 0, .* got 1"),
        ([0, 4, 9], 9, r"op: cu\[2\] must be 8, .* got 9"),
        ([0, 8, 4], 9, r"op: cu\[1\] must be 4, .* got 8"),
        ([0, 4, 8], 7, r"op: total must be at least cu\[2\], 8, got 7"),
    ],
)
def test_prefix_sums_name_the_first_offender(sums: list[int], total: int, text: str) -> None:
    data_checks.check_prefix_sums("op", "cu", [0, 4, 8], [4, 4], 8, "total")
    data_checks.check_prefix_sums("op", "cu", [0], [], 0, "total")
    with pytest.raises(ValueError, match=text):
        data_checks.check_prefix_sums("op", "cu", sums, [4, 4], total, "total")


@pytest.mark.parametrize(("value", "enabled"), [(None, False), ("", False), ("0", False), ("1", True)])
def test_check_data_variable(value: str | None, enabled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(data_checks.ENVIRONMENT_VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(data_checks.ENVIRONMENT_VARIABLE, value)
    assert data_checks.enabled_on_devices("op") is enabled


def test_check_data_variable_counts_also_in_another_mapping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(data_checks.ENVIRONMENT_VARIABLE, raising=False)
    monkeypatch.setattr(os, "environ", {data_checks.ENVIRONMENT_VARIABLE: "1"})
    assert data_checks.enabled_on_devices("op")


def test_check_data_variable_refuses_other_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(data_checks.ENVIRONMENT_VARIABLE, "yes")
    with pytest.raises(ValueError, match="TILEVL_CHECK_DATA must be 0 or 1, got 'yes'"):
        data_checks.enabled_on_devices("op")
