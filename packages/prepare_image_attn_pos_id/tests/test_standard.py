"""The standard suite."""

from collections.abc import Iterator

import pytest
import torch

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

    @pytest.fixture(autouse=True)
    def two_images_are_not_two_columns(self) -> Iterator[None]:
        """Equal sizes of the first call aren't taken for one symbol, which would tie it to 2 images."""
        with torch.fx.experimental._config.patch(use_duck_shape=False):
            yield
