"""The CUDA part of the benchmark: replays against the copy limit and torch's ways, and what a call costs at least."""

from __future__ import annotations

from argparse import Namespace

import torch
from torch import Tensor

from tilevl.bmp_to_patches import bmp_to_patches
from tilevl.testing import same_bits
from tilevl.testing.benchmark import Row, report
from tilevl.testing.cuda_benchmark import compared, copy_bandwidth, on_device, replayed, small_calls

OWN, BAR = "bmp_to_patches", 1.25  # of the limit
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)  # CLIP
LARGE = {  # images, side in pixels (a multiple of 4, so that rows have no padding), patch size, window, dtype
    "16 of 1024 x 1024, patch 16": (16, 1024, 16, 1, torch.bfloat16),
    "16 of 1008 x 1008, patch 14, window 2": (16, 1008, 14, 2, torch.bfloat16),
    "16 of 1024 x 1024, patch 16, float32": (16, 1024, 16, 1, torch.float32),
}
SMALL = {"1 of 1024 x 1024, patch 16": (1, 1024, 16, 1, torch.bfloat16)}
SETS = 4


class Inputs:
    """Bottom-up images, as they lie in their files."""

    def __init__(self, images: int, side: int, patch: int, window: int, dtype: torch.dtype) -> None:
        self.images, self.patch, self.window, self.dtype = images, patch, window, dtype
        self.pixels = torch.randint(0, 256, (images, side, side, 3), dtype=torch.uint8, device="cuda")
        size, stride = 3 * side * side, 3 * side
        self.crops = torch.tensor([[i * size + size - stride, -stride, side, side] for i in range(images)]).cuda()
        count = (side // patch) ** 2
        self.total, self.sums = images * count, (torch.arange(images + 1) * count).cuda()
        self.flat = self.pixels.view(-1)
        self.constants = [torch.tensor(values, device="cuda").view(3, 1, 1) for values in (MEAN, STD)]
        self.bytes = images * size + self.total * 3 * patch**2 * dtype.itemsize

    def own(self) -> Tensor:
        return bmp_to_patches(
            self.flat, self.crops, self.sums, self.total, self.patch, MEAN, STD, window=self.window,
            out_dtype=self.dtype,
        )  # fmt: skip

    def eager(self) -> Tensor:
        """Flip, to float, normalise, cast, permute: the whole batch in each step."""
        mean, std = self.constants
        images = self.pixels.flip(1, 3).permute(0, 3, 1, 2).float() / 255
        images = ((images - mean) / std).to(self.dtype)
        side, window = images.shape[-1] // (self.patch * self.window), self.window
        grid = images.reshape(self.images, 3, side, window, self.patch, side, window, self.patch)
        return grid.permute(0, 2, 5, 3, 6, 1, 4, 7).reshape(-1, 3 * self.patch**2)


def large(shape: str, bandwidth: float, rounds: int) -> list[Row]:
    """Replays over several sets of inputs."""
    sets = [Inputs(*LARGE[shape]) for _ in range(SETS)]
    for one in sets:
        if one.dtype == torch.bfloat16:
            assert same_bits(one.own(), one.eager())
    compiled = torch.compile(Inputs.eager, dynamic=False)  # else it compiles the second shape for all shapes
    times = replayed(
        {
            OWN: [one.own for one in sets],
            "torch.compile": [lambda one=one: compiled(one) for one in sets],
        },
        rounds=rounds,
    )
    times |= on_device({"eager": [one.eager for one in sets]}, rounds=rounds)
    times["limit"] = sets[0].bytes / bandwidth * 1e6
    return compared(shape, times, OWN, "limit", BAR)


def small(shape: str, rounds: int) -> list[Row]:
    """One page: what counts is what any kernel costs."""
    return small_calls(shape, {OWN: Inputs(*SMALL[shape]).own}, OWN, 4 * rounds)


def main(given: Namespace) -> None:
    """Verifies, then times."""
    bandwidth = copy_bandwidth()
    rows = [row for shape in LARGE for row in large(shape, bandwidth, given.rounds)]
    rows += [row for shape in SMALL for row in small(shape, given.rounds)]
    rows.append(Row("copy of 4 GiB", "bandwidth", bandwidth / 1e12, "TB/s, read and written"))
    report("bmp_to_patches_cuda", rows, given.out, limit="limit")
