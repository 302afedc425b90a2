"""Patches of BMP images, beside what a user of torch would write.

``python packages/bmp_to_patches/benchmarks/bench.py --out packages/bmp_to_patches/benchmarks/results``
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tilevl.bmp_to_patches import bmp_to_patches
from tilevl.testing import same_bits
from tilevl.testing.benchmark import Row, interleaved, options, report

MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)  # CLIP
SHAPES = {  # images, side in pixels (a multiple of 4, so that rows have no padding), patch size
    "4 of 1024 x 1024, patch 16": (4, 1024, 16),
    "1 of 448 x 448, patch 14": (1, 448, 14),
    "32 of 224 x 224, patch 14": (32, 224, 14),
}


def one_by_one(pixels: Tensor, patch_size: int, dtype: torch.dtype) -> Tensor:
    """A pipeline of float images, as most image processors have it: flip, to float, normalise, cast, permute.

    Args:
        pixels: uint8 ``[images, height, width, 3]``: bottom row first, B G R.
        patch_size: side of a patch in pixels.
        dtype: of the result.
    """
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))
    parts = []
    for rows in pixels:
        image = rows.flip(0, 2).permute(2, 0, 1).float() / 255
        image = ((image - mean) / std).to(dtype)
        _, height, width = image.shape
        grid = image.reshape(3, height // patch_size, patch_size, width // patch_size, patch_size)
        parts.append(grid.permute(1, 3, 0, 2, 4).reshape(-1, 3 * patch_size**2))
    return torch.cat(parts)


def all_at_once(pixels: Tensor, patch_size: int, dtype: torch.dtype) -> Tensor:
    """The same for the whole batch in each step."""
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))
    images = pixels.flip(1, 3).permute(0, 3, 1, 2).float() / 255
    images = ((images - mean) / std).to(dtype)
    count, _, height, width = images.shape
    grid = images.reshape(count, 3, height // patch_size, patch_size, width // patch_size, patch_size)
    return grid.permute(0, 2, 4, 1, 3, 5).reshape(-1, 3 * patch_size**2)


def tuned(pixels: Tensor, patch_size: int, dtype: torch.dtype) -> Tensor:
    """One by one, by someone who counts passes: one conversion, then in place with the constants folded."""
    scale = torch.tensor([1 / (255 * std) for std in STD]).view(3, 1, 1)
    bias = torch.tensor([-mean / std for mean, std in zip(MEAN, STD, strict=True)]).view(3, 1, 1)
    parts = []
    for rows in pixels:
        planes = rows.flip(0, 2).permute(2, 0, 1)
        image = planes.to(torch.float32, memory_format=torch.contiguous_format).mul_(scale).add_(bias).to(dtype)
        _, height, width = image.shape
        grid = image.view(3, height // patch_size, patch_size, width // patch_size, patch_size)
        parts.append(grid.permute(1, 3, 0, 2, 4).reshape(-1, 3 * patch_size**2))
    return torch.cat(parts)


def measure(shape: str, dtype: torch.dtype, compiled: bool, rounds: int) -> list[Row]:
    """Verifies, then times the op beside its peers."""
    images, side, patch_size = SHAPES[shape]
    pixels = torch.randint(0, 256, (images, side, side, 3), dtype=torch.uint8)
    size, stride = 3 * side * side, 3 * side
    crops = torch.tensor([[i * size + size - stride, -stride, side, side] for i in range(images)])
    count = (side // patch_size) ** 2
    sums, flat = torch.arange(images + 1) * count, pixels.view(-1)

    def own() -> Tensor:
        return bmp_to_patches(flat, crops, sums, images * count, patch_size, MEAN, STD, out_dtype=dtype)

    calls: dict[str, Callable[[], Tensor]] = {
        "bmp_to_patches": own,
        "eager, one by one": lambda: one_by_one(pixels, patch_size, dtype),
        "eager, all at once": lambda: all_at_once(pixels, patch_size, dtype),
        "eager, in place and folded": lambda: tuned(pixels, patch_size, dtype),
    }
    if compiled:
        program = torch.compile(one_by_one, fullgraph=True)
        calls["torch.compile of one by one"] = lambda: program(pixels, patch_size, dtype)
    result = own()
    exact = all_at_once(pixels, patch_size, torch.float32).double()
    assert float((result.double() - exact).abs().max()) <= float(torch.finfo(dtype).eps) * float(exact.abs().max())
    if dtype == torch.bfloat16:
        assert same_bits(result, calls["eager, one by one"]())
    target = torch.empty_like(result)
    calls["limit: write the result"] = lambda: target.fill_(1)
    times = interleaved(calls, rounds=rounds)
    mine, where = times["bmp_to_patches"], f"{shape}, {str(dtype).removeprefix('torch.')}"
    return [Row(where, name, time, f"op takes {mine / time:.2f} of it") for name, time in times.items()]


def main() -> None:
    """All shapes in bfloat16, the first in the other dtypes too."""
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
    for shape in SHAPES:
        rows += measure(shape, torch.bfloat16, compiled=True, rounds=given.rounds)
    for dtype in (torch.float16, torch.float32):
        rows += measure(next(iter(SHAPES)), dtype, compiled=False, rounds=given.rounds)
    report("bmp_to_patches_cpu", rows, given.out)


if __name__ == "__main__":
    main()
