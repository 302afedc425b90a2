"""Offsets past 2**31 elements, where a 32-bit index wraps: https://github.com/pytorch/pytorch/pull/187225."""

from __future__ import annotations

import pytest
import torch
from torch import Generator

from tilevl.replace_input_embeds import replace_input_embeds
from tilevl.testing import same_bits


@pytest.mark.targets("cpu")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bf16", "fp32"])
def test_rows_more_than_2_to_the_31_elements_apart(dtype: torch.dtype, rng: Generator) -> None:
    """Only the pages that are touched take memory."""
    stride = 2**31 + 11
    embeds = torch.empty(stride + 100, dtype=dtype).as_strided((2, 4, 16), (stride, 16, 1))
    before, rows = (torch.randn(shape, generator=rng).to(dtype) for shape in ((2, 4, 16), (3, 16)))
    embeds.copy_(before)
    replace_input_embeds(embeds, rows, torch.tensor([6, 1, 4]))
    expected = before.clone()
    expected.view(8, 16)[[6, 1, 4]] = rows
    assert same_bits(embeds, expected)
