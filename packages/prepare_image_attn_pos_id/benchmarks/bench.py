"""Positions of image tokens, beside what a user of torch would write.

``python packages/prepare_image_attn_pos_id/benchmarks/bench.py --out FOLDER``
"""

from __future__ import annotations

import torch
from torch import Tensor

from tilevl.prepare_image_attn_pos_id import prepare_image_attn_pos_id
from tilevl.testing import same_bits
from tilevl.testing.benchmark import Row, interleaved, options, report


def image_by_image(grid_hw: Tensor, window: int) -> Tensor:
    """The usual way in vision-language models: expand, permute and stack for each image, then concatenate."""
    images = []
    for height, width in grid_hw.tolist():
        rows = torch.arange(height).unsqueeze(1).expand(height, width)
        columns = torch.arange(width).unsqueeze(0).expand(height, width)
        windows = (height // window, window, width // window, window)
        images.append(
            torch.stack([side.reshape(windows).permute(0, 2, 1, 3).flatten() for side in (rows, columns)], dim=-1)
        )
    return torch.cat(images).int()


def mixed(images: int, low: int, high: int, window: int) -> Tensor:
    """Grids with sides from ``low`` to below ``high``, times the window."""
    return torch.randint(low, high, (images, 2)) * window


SHAPES = {
    "64 images of 128x128, window 2": (torch.full((64, 2), 128), 2),
    "64 images of 64..158 a side, window 2": (mixed(64, 32, 80, 2), 2),
    "10,000 images of 2x2, window 2": (torch.full((10_000, 2), 2), 2),
    "10,000 images of 1..4 a side, window 1": (mixed(10_000, 1, 5, 1), 1),
    "1 image of 64x64, window 2": (torch.tensor([[64, 64]]), 2),
}


def main() -> None:
    """Verifies, then times."""
    given = options(__doc__, "cpu", "cuda", "ascend")
    if given.target == "cuda":
        import on_cuda

        on_cuda.main(given)
        return
    if given.target == "ascend":
        import on_ascend

        on_ascend.main(given)
        return
    rows = []
    for shape, (grid_hw, window) in SHAPES.items():
        sums = torch.nn.functional.pad(grid_hw.prod(1).cumsum(0), (1, 0))
        total = int(sums[-1])
        assert same_bits(prepare_image_attn_pos_id(grid_hw, sums, total, window), image_by_image(grid_hw, window))
        calls = {
            "prepare_image_attn_pos_id": lambda: prepare_image_attn_pos_id(grid_hw, sums, total, window),  # noqa: B023
            "image by image": lambda: image_by_image(grid_hw, window),  # noqa: B023
            "limit: one write of the result": lambda: torch.empty((total, 2), dtype=torch.int32).fill_(1),  # noqa: B023
        }
        times = interleaved(calls, rounds=given.rounds, inner=20 if total < 10_000 else 1)
        own = times["prepare_image_attn_pos_id"]
        rows += [Row(shape, name, time, f"op takes {own / time:.3g} of it") for name, time in times.items()]
    report("prepare_image_attn_pos_id_cpu", rows, given.out)


if __name__ == "__main__":
    main()
