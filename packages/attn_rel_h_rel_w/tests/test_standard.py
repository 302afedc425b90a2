"""The standard suite, with the accuracy of the contract."""

from __future__ import annotations

import torch
from torch import Tensor

from tilevl.attn_rel_h_rel_w import attn_rel_h_rel_w
from tilevl.attn_rel_h_rel_w.op import OP
from tilevl.testing import relative_error
from tilevl.testing.standard import StandardSuite

from . import oracle
from .cases import CASES, REFUSALS, series

BOUNDS = {torch.bfloat16: 4e-3, torch.float16: 1e-3, torch.float32: 5e-6}


def compare(result: Tensor, expected: Tensor) -> None:
    """NaN where the oracle has it, zeros where it has rows of zeros, the rest within the dtype's bound."""
    assert result.shape == expected.shape
    result = result.cpu()
    assert torch.equal(result.isnan(), expected.isnan())
    empty = (expected == 0).all(-1)
    assert torch.equal((result == 0).all(-1), empty)
    error = relative_error(result.nan_to_num(0.0), expected.nan_to_num(0.0))
    assert error < BOUNDS[result.dtype], error


class TestAttnRelHRelW(StandardSuite):
    function = staticmethod(attn_rel_h_rel_w)
    op = OP
    cases = CASES
    refusals = REFUSALS
    oracle = staticmethod(oracle.attn_rel_h_rel_w)
    compare = staticmethod(compare)
    series = staticmethod(series)
