"""The standard suite."""

from tilevl.bmp_to_patches import bmp_to_patches
from tilevl.bmp_to_patches.op import OP
from tilevl.testing.standard import StandardSuite

from . import oracle
from .cases import CASES, REFUSALS, series


class TestBmpToPatches(StandardSuite):
    function = staticmethod(bmp_to_patches)
    op = OP
    cases = CASES
    refusals = REFUSALS
    oracle = staticmethod(oracle.bmp_to_patches)
    series = staticmethod(series)
