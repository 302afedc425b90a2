"""Offsets past 2**31 elements, where a 32-bit index wraps: https://github.com/pytorch/pytorch/pull/187225."""

from __future__ import annotations

import pytest
import torch
from torch import Generator, Tensor

from tilevl.attn_rel_h_rel_w import attn_rel_h_rel_w

from . import oracle
from .cases import BF16, FP32, tensors
from .test_standard import compare


def far_apart(tensor: Tensor) -> Tensor:
    """The same batch with 2**31 elements and some between its entries; only the pages that are touched take memory."""
    batch = tensor.shape[0]
    stride = 2**31 + 5 * tensor[0].numel()
    memory = torch.empty((batch - 1) * stride + tensor[0].numel(), dtype=tensor.dtype)
    apart = memory.as_strided(tensor.shape, (stride, *tensor.stride()[1:]))
    return apart.copy_(tensor)


@pytest.mark.targets("cpu")
@pytest.mark.parametrize("dtype", [BF16, FP32], ids=["bf16", "fp32"])
@pytest.mark.parametrize("grid", [(4, 3), (16, 20)], ids=str)
@pytest.mark.parametrize("names", [("query",), ("key", "value"), ("rel_h", "rel_w")], ids="-".join)
def test_entries_of_a_batch_more_than_2_to_the_31_elements_apart(
    names: tuple[str, ...], grid: tuple[int, int], dtype: torch.dtype, rng: Generator
) -> None:
    inputs = dict(zip(("query", "key", "value", "rel_h", "rel_w"), tensors(rng, *grid, dtype=dtype), strict=True))
    expected = oracle.attn_rel_h_rel_w(*inputs.values(), *grid)
    moved = [far_apart(tensor) if name in names else tensor for name, tensor in inputs.items()]
    compare(attn_rel_h_rel_w(*moved, *grid), expected)


@pytest.mark.targets("cuda")
def test_windows_past_2_to_the_31_elements(target: str, device: torch.device, rng: Generator) -> None:
    """14,300 windows of 196 tokens, as SAM's encoder makes them of many images; the last gives what it gives alone."""
    shapes = [(1, 196, 12, 64)] * 3 + [(1, 196, 12, 14)] * 2
    one = [torch.randn(shape, generator=rng).bfloat16().to(device) for shape in shapes]
    many = [tensor.repeat(14_300, 1, 1, 1) for tensor in one]
    for tensor in many:
        tensor[1:-1].mul_(0.5)
    result = attn_rel_h_rel_w(*many)
    alone = attn_rel_h_rel_w(*one)[0]
    assert result.numel() > 2**31
    assert torch.equal(result[-1], alone) and torch.equal(result[0], alone)
