"""The standard suite."""

from tilevl.prepare_image_attn_pos_id import prepare_image_attn_pos_id
from tilevl.prepare_image_attn_pos_id.op import OP
from tilevl.testing.standard import StandardSuite

from . import oracle
from .cases import CASES, REFUSALS, series


class TestPrepareImageAttnPosId(StandardSuite):
    function = staticmethod(prepare_image_attn_pos_id)
    op = OP
    cases = CASES
    refusals = REFUSALS
    oracle = staticmethod(oracle.prepare_image_attn_pos_id)
    series = staticmethod(series)
