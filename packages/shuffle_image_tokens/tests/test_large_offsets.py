"""Offsets past 2**31 elements, where a 32-bit index wraps: https://github.com/pytorch/pytorch/pull/187225."""

from __future__ import annotations

import pytest
import torch
from torch import Generator

from tilevl.shuffle_image_tokens import shuffle_image_tokens
from tilevl.testing import same_bits

from . import oracle


@pytest.mark.targets("cpu")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bf16", "fp32"])
def test_rows_more_than_2_to_the_31_elements_apart(dtype: torch.dtype, rng: Generator) -> None:
    """An image in each entry, and one over both; only the pages that are touched take memory."""
    stride = 2**31 + 11
    embeds = torch.empty(stride + 200, dtype=dtype).as_strided((2, 12, 16), (stride, 16, 1))
    embeds.copy_(torch.randn(2, 12, 16, generator=rng).to(dtype))
    starts, counts = torch.tensor([1, 8, 18]), torch.tensor([6, 8, 4])
    expected = oracle.shuffle_image_tokens(embeds.clone(), starts, counts, 8, 2)
    shuffle_image_tokens(embeds, starts, counts, 8)
    assert same_bits(embeds, expected)
