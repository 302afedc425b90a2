"""The standard suite for both ops of the package."""

from tilevl.replace_input_embeds import image_token_index, replace_input_embeds
from tilevl.replace_input_embeds.op import OP
from tilevl.replace_input_embeds.token_index.op import OP as TOKEN_INDEX_OP
from tilevl.testing.standard import StandardSuite

from . import oracle
from .cases import CASES, INDEX_CASES, INDEX_REFUSALS, REFUSALS, index_series, series


class TestReplaceInputEmbeds(StandardSuite):
    function = staticmethod(replace_input_embeds)
    op = OP
    cases = CASES
    refusals = REFUSALS
    oracle = staticmethod(oracle.replace_input_embeds)
    series = staticmethod(series)


class TestImageTokenIndex(StandardSuite):
    function = staticmethod(image_token_index)
    op = TOKEN_INDEX_OP
    cases = INDEX_CASES
    refusals = INDEX_REFUSALS
    oracle = staticmethod(oracle.image_token_index)
    series = staticmethod(index_series)
