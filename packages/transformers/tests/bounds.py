"""What a swapped model may differ by: no further from the untouched one in float64 than twice the untouched one is."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from tilevl.testing import relative_error

FACTOR = 2.0  # both round at the same places or fewer; one draw of roundings against another


def in_double(module: nn.Module, *args: Tensor) -> Tensor:
    """The first result of the untouched module in float64, on the CPU."""
    exact = copy.deepcopy(module).cpu().double()
    with torch.no_grad():
        return first(exact(*(arg.cpu().double() for arg in args)))


def first(output: object) -> Tensor:
    """The tensor that counts: a model's last hidden state, or an attention's result."""
    found = getattr(output, "last_hidden_state", None)
    return found if found is not None else output[0]  # type: ignore[index]


def assert_as_close(own: Tensor, plain: Tensor, exact: Tensor) -> None:
    """The bound."""
    error, allowed = relative_error(own, exact), FACTOR * relative_error(plain, exact)
    assert 0 < allowed < 0.2, allowed
    assert error <= allowed, f"{error:.2e} from float64, allowed is {allowed:.2e}"
