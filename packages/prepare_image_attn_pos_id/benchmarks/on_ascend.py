"""The Ascend part of the benchmark: bytes against the least possible, and the host model's time; nothing is timed."""

from __future__ import annotations

from argparse import Namespace

import torch
from torch import Tensor

from tilevl.prepare_image_attn_pos_id import prepare_image_attn_pos_id
from tilevl.testing import same_bits
from tilevl.testing.ascend_benchmark import modelled, npu
from tilevl.testing.benchmark import Row, report

SHAPES = {
    "64 images of 128 x 128, window 1": (torch.full((64, 2), 128), 1),
    "64 images of 128 x 128, window 2": (torch.full((64, 2), 128), 2),
    "64 images of 64..158 a side, window 2": (torch.randint(32, 80, (64, 2)) * 2, 2),
    "10,000 images of 2 x 2, window 2": (torch.full((10_000, 2), 2), 2),
    "10,000 images of 1..4 a side, window 1": (torch.randint(1, 5, (10_000, 2)), 1),
    "1 image of 64 x 64, window 2": (torch.tensor([[64, 64]]), 2),
}


def measure(shape: str) -> list[Row]:
    """Verifies against the CPU target, then asks the model."""
    grid_hw, window = SHAPES[shape]
    sums = torch.nn.functional.pad(grid_hw.prod(1).cumsum(0), (1, 0))
    grids, ends, total = grid_hw.to(npu()), sums.to(npu()), int(sums[-1])

    def own() -> Tensor:
        return prepare_image_attn_pos_id(grids, ends, total, window)

    assert same_bits(own(), prepare_image_attn_pos_id(grid_hw, sums, total, window))
    return modelled(shape, own, 8 * total + grid_hw.nbytes + sums.nbytes)


def main(given: Namespace) -> None:
    """All shapes."""
    report("prepare_image_attn_pos_id_ascend_model", [row for shape in SHAPES for row in measure(shape)], given.out)
