"""Registers bmp_to_patches and gives its public function."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tilevl.bmp_to_patches import contract
from tilevl.bmp_to_patches._version import __version__
from tilevl.core.registration import direct, register

OP = register(
    "tilevl.bmp_to_patches",
    contract.SCHEMA,
    version=__version__,
    check=contract.check,
    check_data=contract.check_data,
    specialise=contract.specialise,
)
_call = direct(OP)


def bmp_to_patches(
    pixels: Tensor,
    crops: Tensor,
    cu_patches: Tensor,
    total_patches: int,
    patch_size: int,
    mean: float | Sequence[float],
    std: float | Sequence[float],
    bytes_per_pixel: int = 3,
    window: int = 1,
    out_dtype: torch.dtype = torch.bfloat16,
) -> Tensor:
    """Turns raw BMP pixel rows into normalised ViT patches, for many images or crops at once.

    ``out = (pixel / 255 - mean) / std``, in float64 and rounded once (nearest, ties to even) to ``out_dtype``.
    ``read_bmp`` makes the first four arguments from BMP files.

    Args:
        pixels: uint8 ``[num_bytes]``, contiguous: the pixel arrays of all images, one after another, as they lie in the
            files: B, G, R, and with ``bytes_per_pixel=4`` a fourth byte that is ignored.
        crops: int64 ``[num_crops, 4]``, contiguous, on the device of ``pixels``. Per crop: byte offset of its top-left
            pixel as displayed, signed byte stride from a displayed row to the one below it, height and width in pixels.
            Any stride will do, 0 too, as long as the whole height x width lies in ``pixels``.
        cu_patches: int32 or int64 ``[num_crops + 1]``, contiguous, on the device of ``pixels``: prefix sums, from 0, of
            the crops' patch counts ``(height // patch_size) * (width // patch_size)``. What is left at the right and at
            the bottom is dropped.
        total_patches: rows of the result, at least ``cu_patches[-1]``; rows past the last patch are zeros.
        patch_size: side of a patch in pixels, 1 to 64.
        mean: 3 floats, R G B, or one for all.
        std: 3 floats above 0, R G B, or one for all.
        bytes_per_pixel: 3 or 4.
        window: 1 for a crop's patches in raster order. w > 1 for windows of w x w patches in raster order, with the
            patches in raster order inside each (Qwen2-VL); the patch grid must then be a multiple of w.
        out_dtype: bfloat16, float16 or float32.

    Returns:
        ``[total_patches, 3 * patch_size * patch_size]``, contiguous: each row is a patch flattened as (channel R G B,
        row, column), the order of a Conv2d weight.

    Raises:
        TypeError: a dtype or device is wrong.
        ValueError: a rank, shape, stride or scalar is wrong; a crop leaves ``pixels`` or its patch grid is no multiple
            of ``window``; ``cu_patches`` isn't the prefix sum (data is checked on a device only with
            ``TILEVL_CHECK_DATA=1``; else what would read outside ``pixels`` is skipped there).
        tilevl.core.TargetUnavailableError: the device can't run the op.

    Example:
        >>> pixels = torch.tensor([255, 0, 0, 0, 0, 102, 0, 0, 51, 0, 255, 0, 255, 0, 0, 0], dtype=torch.uint8)
        >>> crops = torch.tensor([[8, -8, 2, 2]])  # bottom-up: the top row lies last
        >>> bmp_to_patches(pixels, crops, torch.tensor([0, 1]), 1, 2, 0.0, 1.0, out_dtype=torch.float32)[0, :4]
        tensor([1.0000, 0.0000, 0.0000, 0.4000])
    """
    if isinstance(mean, int | float):  # the schema would take it too, but not once torch.compile has made it symbolic
        mean = (mean, mean, mean)
    if isinstance(std, int | float):
        std = (std, std, std)
    result: Tensor = _call(
        pixels, crops, cu_patches, total_patches, patch_size, mean, std, bytes_per_pixel, window, out_dtype
    )
    return result
