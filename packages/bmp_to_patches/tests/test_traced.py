"""Graphs that serve more than one batch."""

from __future__ import annotations

import pytest
import torch
from torch import Generator, Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from tilevl.bmp_to_patches import bmp_to_patches
from tilevl.testing import same_bits

from . import oracle
from .cases import CLIP, images


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_total_patches_may_come_from_the_data(backend: str, device: torch.device, rng: Generator) -> None:
    def whole(pixels: Tensor, crops: Tensor, cu_patches: Tensor) -> Tensor:
        return bmp_to_patches(pixels, crops, cu_patches, cu_patches[-1].item(), 4, *CLIP) * 2

    counter = CompileCounterWithBackend(backend)
    counts = []
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = torch.compile(whole, fullgraph=True, backend=counter, dynamic=True)
        for sizes in ((8, 8), (12, 8), (4, 4), (3, 3)):
            args = images(rng, sizes)
            result = compiled(*(arg.to(device) for arg in args[:3]))
            assert same_bits(result.cpu(), oracle.bmp_to_patches(*args) * 2)
            counts.append(counter.frame_count)
    assert counts[-1] == counts[0]


def test_one_graph_for_any_number_of_images(device: torch.device, rng: Generator) -> None:
    def half(pixels: Tensor, crops: Tensor, cu_patches: Tensor) -> Tensor:
        return bmp_to_patches(pixels, crops, cu_patches, 16, 4, *CLIP) / 2

    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(half, fullgraph=True, backend=counter, dynamic=True)
    counts = []
    for number in (2, 3, 5, 4, 2):
        args = list(images(rng, *[(4, 8 + 4 * (i % 2)) for i in range(number)]))
        args[3] = 16
        result = compiled(*(arg.to(device) for arg in args[:3]))
        assert same_bits(result.cpu(), oracle.bmp_to_patches(*args) / 2)
        counts.append(counter.frame_count)
    assert counts[-1] == counts[0]
