"""The rules of bmp_to_patches: every check and message, for fake and real calls alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from tilevl.core import checks, data_checks
from tilevl.core.checks import Size

OP = "bmp_to_patches"
SCHEMA = (
    f"{OP}(Tensor pixels, Tensor crops, Tensor cu_patches, SymInt total_patches, SymInt patch_size, float[3] mean, "
    "float[3] std, SymInt bytes_per_pixel=3, SymInt window=1, ScalarType out_dtype=bfloat16) -> Tensor"
)
MAX_PATCH_SIZE = 64


def check(
    pixels: Tensor,
    crops: Tensor,
    cu_patches: Tensor,
    total_patches: Size,
    patch_size: Size,
    mean: Sequence[float],
    std: Sequence[float],
    bytes_per_pixel: Size,
    window: Size,
    out_dtype: torch.dtype,
) -> tuple[tuple[Size, Size], torch.dtype]:
    """Raises ValueError or TypeError where metadata breaks the contract; returns shape and dtype of the result."""
    checks.check_rank(OP, "pixels", pixels, "[num_bytes]", 1)
    checks.check_dtype(OP, "pixels", pixels, (torch.uint8,))
    checks.check_contiguous(OP, "pixels", pixels)
    checks.check_device(OP, "crops", crops, "pixels", pixels)
    checks.check_index(OP, "crops", crops, "[num_crops, 4]", 2, (torch.int64,))
    checks.check_device(OP, "cu_patches", cu_patches, "pixels", pixels)
    checks.check_index(OP, "cu_patches", cu_patches, "[num_crops + 1]", 1)
    num_crops, columns = crops.shape
    checks.require(columns == 4, lambda: f"{OP}: crops must be [num_crops, 4], got shape {checks.shape_of(crops)}")
    checks.require(
        cu_patches.shape[0] == num_crops + 1,
        lambda: (
            f"{OP}: cu_patches must have one element more than crops has rows, {num_crops + 1}, "
            f"got {cu_patches.shape[0]}"
        ),
    )
    checks.require(total_patches >= 0, lambda: f"{OP}: total_patches must be at least 0, got {total_patches}")
    for bound in (patch_size >= 1, patch_size <= MAX_PATCH_SIZE):
        checks.require(bound, lambda: f"{OP}: patch_size must be in [1, {MAX_PATCH_SIZE}], got {patch_size}")
    for bound in (bytes_per_pixel >= 3, bytes_per_pixel <= 4):
        checks.require(bound, lambda: f"{OP}: bytes_per_pixel must be 3 or 4, got {bytes_per_pixel}")
    checks.require(window >= 1, lambda: f"{OP}: window must be at least 1, got {window}")
    check_constants(OP, mean, std)
    if out_dtype not in checks.FLOATS:
        checks.require_type(
            False,
            lambda: f"{OP}: out_dtype must be {checks.names(checks.FLOATS)}, got {checks.names([out_dtype])}",
        )
    return (total_patches, 3 * patch_size * patch_size), out_dtype


def check_constants(op: str, mean: Sequence[float], std: Sequence[float]) -> None:
    """Three finite floats each, R G B; ``std`` above 0."""
    if len(mean) == len(std) == 3 and all(map(math.isfinite, (*mean, *std))) and min(std) > 0:
        return
    _check_floats(op, "mean", mean, "finite", math.isfinite)
    _check_floats(op, "std", std, "finite", math.isfinite)
    _check_floats(op, "std", std, "greater than 0", lambda value: value > 0)


def _check_floats(op: str, name: str, values: Sequence[float], rule: str, holds: Callable[[float], bool]) -> None:
    checks.require(
        len(values) == 3, lambda: f"{op}: {name} must be 3 floats (R, G, B) or one for all, got {len(values)}"
    )
    bad = next((i for i, value in enumerate(values) if not holds(value)), None)
    if bad is not None:
        checks.require(False, lambda: f"{op}: {name} must be {rule}, got {values[bad]} for channel {'RGB'[bad]}")


def check_data(
    pixels: Tensor,
    crops: Tensor,
    cu_patches: Tensor,
    total_patches: int,
    patch_size: int,
    mean: Sequence[float],
    std: Sequence[float],
    bytes_per_pixel: int,
    window: int,
    out_dtype: torch.dtype,
) -> None:
    """Raises ValueError where a crop leaves ``pixels`` or its windows, or where ``cu_patches`` isn't the prefix sum."""
    num_bytes = pixels.numel()
    counts = []
    for i, (offset, stride, height, width) in enumerate(crops.tolist()):  # Python ints: hostile values can't overflow
        for column, size in ((2, height), (3, width)):
            if size < 0:
                raise ValueError(f"{OP}: crops[{i}, {column}] must be at least 0, got {size}")
        if height and width:
            reach = (height - 1) * stride
            first, stop = offset + min(reach, 0), offset + max(reach, 0) + width * bytes_per_pixel
            if first < 0 or stop > num_bytes:
                raise ValueError(
                    f"{OP}: crops[{i}] must lie in pixels, bytes [0, {num_bytes}), got bytes [{first}, {stop}) "
                    f"for offset {offset}, row stride {stride}, height {height}, width {width}"
                )
        rows, columns = height // patch_size, width // patch_size
        if rows * columns and (rows % window or columns % window):
            raise ValueError(
                f"{OP}: crops[{i}] must have a patch grid that is a multiple of window, {window}, "
                f"got {rows} x {columns} patches"
            )
        counts.append(rows * columns)
    data_checks.check_prefix_sums(OP, "cu_patches", cu_patches.tolist(), counts, total_patches, "total_patches")


def specialise(
    pixels: Tensor,
    crops: Tensor,
    cu_patches: Tensor,
    total_patches: int,
    patch_size: int,
    mean: Sequence[float],
    std: Sequence[float],
    bytes_per_pixel: int,
    window: int,
    out_dtype: torch.dtype,
) -> tuple[int, tuple[float, ...], tuple[float, ...], int, int, torch.dtype]:
    """The static key: all but the tensors and their sizes."""
    return patch_size, tuple(mean), tuple(std), bytes_per_pixel, window, out_dtype
