"""The expected patches, pixel by pixel from the contract's words, values from exact rational arithmetic on float64."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

# bits of the significand, exponent of the smallest subnormal, largest finite value
FORMATS = {
    torch.bfloat16: (8, -133, Fraction(2) ** 127 * (2 - Fraction(1, 2**7))),
    torch.float16: (11, -24, Fraction(65504)),
    torch.float32: (24, -149, Fraction(2) ** 127 * (2 - Fraction(1, 2**23))),
}


def round_half_even(value: float, dtype: torch.dtype) -> float:
    """A float64 rounded once to a narrower format."""
    exact = Fraction(value)
    if exact == 0:
        return value
    bits, lowest, largest = FORMATS[dtype]
    exponent = 0
    while Fraction(2) ** exponent > abs(exact):
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= abs(exact):
        exponent += 1
    step = Fraction(2) ** max(exponent - bits + 1, lowest)
    rounded = round(exact / step) * step  # Python rounds a fraction's half to even
    if abs(rounded) > largest:
        return float("inf") if exact > 0 else float("-inf")
    return math.copysign(float(rounded), value)  # what rounds to 0 keeps its sign


@lru_cache
def values_of(mean: float, std: float, dtype: torch.dtype) -> tuple[float, ...]:
    """What each of the 256 codes of one channel becomes."""
    return tuple(round_half_even(float((np.float64(code) / 255 - mean) / std), dtype) for code in range(256))


def three(values: float | Sequence[float]) -> tuple[float, ...]:
    return (values,) * 3 if isinstance(values, float) else tuple(values)


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
    """The whole result."""
    content = pixels.tolist()
    values = [values_of(m, s, out_dtype) for m, s in zip(three(mean), three(std), strict=True)]
    rows: list[list[float]] = []
    for offset, stride, height, width in crops.tolist():
        for row, column in patch_order(height // patch_size, width // patch_size, window):
            patch = []
            for channel in range(3):
                for y in range(row * patch_size, (row + 1) * patch_size):
                    for x in range(column * patch_size, (column + 1) * patch_size):
                        blue_green_red = content[offset + y * stride + x * bytes_per_pixel :][:3]
                        patch.append(values[channel][blue_green_red[2 - channel]])
            rows.append(patch)
    width = 3 * patch_size**2
    rows += [[0.0] * width for _ in range(total_patches - len(rows))]
    return torch.from_numpy(np.array(rows, dtype=np.float64).reshape(-1, width)).float().to(out_dtype)


def patch_order(rows: int, columns: int, window: int) -> list[tuple[int, int]]:
    """Windows in raster order, and the patches of each in raster order."""
    order: list[tuple[int, int]] = []
    if not rows or not columns:
        return order
    for top in range(0, rows, window):
        for left in range(0, columns, window):
            order += [(top + y, left + x) for y in range(window) for x in range(window)]
    return order
