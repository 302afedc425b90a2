"""new_op in the standard suite."""

from __future__ import annotations

from tilevl.new_op import new_op
from tilevl.new_op.op import OP
from tilevl.testing.standard import StandardSuite

from . import oracle
from .cases import CASES, REFUSALS, series


class TestNewOp(StandardSuite):
    function = staticmethod(new_op)
    op = OP
    cases = CASES
    refusals = REFUSALS
    oracle = staticmethod(oracle.new_op)
    series = staticmethod(series)
