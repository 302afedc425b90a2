"""Arguments in order become the names of the generated source; the program is a stand-in with TileLang's attributes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tilevl.testing.simulated_launch import named_arguments


def variable(name: str) -> Any:
    return SimpleNamespace(name=name)


class Parameter:
    def __init__(self, name: str) -> None:
        self.name = name


def program(strides: tuple[Any, ...] = ()) -> Any:
    """x: [rows, 4], y: [rows], and a number."""
    x, y, scale = Parameter("x_handle"), Parameter("y_handle"), Parameter("scale")
    rows = variable("rows")
    buffers = {
        x: SimpleNamespace(name="x", shape=(rows, 4), strides=strides),
        y: SimpleNamespace(name="y", shape=(rows,), strides=()),
    }
    return SimpleNamespace(attrs={"global_symbol": "scaled"}, params=[x, y, scale], buffer_map=buffers)


def test_sizes_and_strides_are_read_from_the_tensors() -> None:
    x, y = torch.empty(3, 10)[:, :4], torch.empty(3)
    named = named_arguments(program((variable("apart"), 1)), (x, y, 2.5), ["apart", "rows", "scale", "x", "y"])
    assert named["x"] is x and named["y"] is y
    assert (named["apart"], named["rows"], named["scale"]) == (10, 3, 2.5)


def test_only_what_the_source_takes_is_passed() -> None:
    assert list(named_arguments(program(), (torch.empty(3, 4), torch.empty(3), 1), ["y"])) == ["y"]


def test_a_fixed_stride_of_one_element_is_not_looked_at() -> None:
    x = torch.empty(8).as_strided((1, 4), (7, 1))
    named_arguments(program((4, 1)), (x, torch.empty(1), 1), [])


@pytest.mark.parametrize(
    ("x", "y", "strides", "text"),
    [
        (torch.empty(3, 4), torch.empty(2), (), "y: size must be .* = 3, got 2"),
        (torch.empty(3, 5), torch.empty(3), (), "x: size must be 4 = 4, got 5"),
        (torch.empty(12), torch.empty(3), (), r"x must have 2 dimensions, got shape \[12\]"),
        (torch.empty(3, 8)[:, :4], torch.empty(3), (), r"x must be contiguous, got strides \[8, 1\]"),
        (torch.empty(3, 8)[:, ::2], torch.empty(3), (8, 1), "x: stride must be 1 = 1, got 2"),
    ],
)
def test_what_the_program_does_not_declare_is_refused(
    x: torch.Tensor, y: torch.Tensor, strides: tuple[int, ...], text: str
) -> None:
    with pytest.raises(ValueError, match=f"^scaled: {text}"):
        named_arguments(program(strides), (x, y, 1), [])


def test_another_number_of_parameters_is_refused() -> None:
    with pytest.raises(TypeError, match="scaled: takes 3 parameters, got 2"):
        named_arguments(program(), (torch.empty(3, 4), torch.empty(3)), [])
