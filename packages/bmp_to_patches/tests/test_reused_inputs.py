"""Inputs that are overwritten as soon as a call returns: https://github.com/vllm-project/vllm-ascend/pull/11678."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from tilevl.bmp_to_patches import bmp_to_patches
from tilevl.testing import same_bits

from . import oracle
from .cases import images


def test_pixels_and_crops_overwritten_right_after_the_call_do_not_change_the_result(
    device: torch.device, rng: Generator
) -> None:
    drawn = [images(rng, (8, 12), (12, 8)), images(rng, (12, 8), (8, 12))]
    expected = [oracle.bmp_to_patches(*args) for args in drawn]
    held = [[arg.to(device) for arg in args if isinstance(arg, Tensor)] for args in drawn]
    inputs = [tensor.clone() for tensor in held[0]]
    results = []
    for turn in range(100):
        results.append(bmp_to_patches(*inputs, *drawn[0][3:]))
        for tensor, other in zip(inputs, held[(turn + 1) % 2], strict=True):
            tensor.copy_(other)
    for turn, result in enumerate(results):
        assert same_bits(result, expected[turn % 2])
