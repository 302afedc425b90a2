"""The standard suite."""

from tilevl.shuffle_image_tokens import shuffle_image_tokens
from tilevl.shuffle_image_tokens.op import OP
from tilevl.testing.standard import StandardSuite

from . import oracle
from .cases import CASES, series
from .refusals import REFUSALS


class TestShuffleImageTokens(StandardSuite):
    function = staticmethod(shuffle_image_tokens)
    op = OP
    cases = CASES
    refusals = REFUSALS
    oracle = staticmethod(oracle.shuffle_image_tokens)
    series = staticmethod(series)
