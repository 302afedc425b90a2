"""The Ascend part of the benchmark: bytes against the least possible, and the host model's time; nothing is timed."""

from __future__ import annotations

from argparse import Namespace

import torch
from torch import Tensor

from tilevl.bmp_to_patches import bmp_to_patches
from tilevl.testing import same_bits
from tilevl.testing.ascend_benchmark import modelled, npu
from tilevl.testing.benchmark import Row, report

MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)  # CLIP
BF16, FP32 = torch.bfloat16, torch.float32
SHAPES = {  # images, side in pixels (a multiple of 4, so that rows have no padding), patch size, window, bytes, dtype
    "4 of 1024 x 1024, patch 16": (4, 1024, 16, 1, 3, BF16),
    "4 of 1024 x 1024, patch 16, window 2": (4, 1024, 16, 2, 3, BF16),
    "4 of 1008 x 1008, patch 14, window 2": (4, 1008, 14, 2, 3, BF16),
    "4 of 1024 x 1024, patch 16, 4 bytes a pixel": (4, 1024, 16, 1, 4, BF16),
    "4 of 1024 x 1024, patch 16, float32": (4, 1024, 16, 1, 3, FP32),
    "1 of 448 x 448, patch 14": (1, 448, 14, 1, 3, BF16),
    "1 of 512 x 512, patch 4": (1, 512, 4, 1, 3, BF16),
}


def measure(shape: str) -> list[Row]:
    """Verifies against the CPU target, then asks the model; images are bottom-up, as they lie in their files."""
    images, side, patch_size, window, pixel_bytes, dtype = SHAPES[shape]
    size, stride = pixel_bytes * side * side, pixel_bytes * side
    pixels = torch.randint(0, 256, (images * size,), dtype=torch.uint8)
    crops = torch.tensor([[i * size + size - stride, -stride, side, side] for i in range(images)])
    count = (side // patch_size) ** 2
    sums = torch.arange(images + 1) * count
    rest = images * count, patch_size, MEAN, STD, pixel_bytes, window, dtype
    tensors = [tensor.to(npu()) for tensor in (pixels, crops, sums)]

    def own() -> Tensor:
        return bmp_to_patches(*tensors, *rest)

    result = own()
    assert same_bits(result, bmp_to_patches(pixels, crops, sums, *rest))
    return modelled(shape, own, pixels.nbytes + crops.nbytes + sums.nbytes + result.nbytes)


def main(given: Namespace) -> None:
    """All shapes."""
    report("bmp_to_patches_ascend_model", [row for shape in SHAPES for row in measure(shape)], given.out)
