"""What a pixel code becomes: the exact value of all 256 codes, and multiply-add constants proven to give it.

The exact value is ``(code / 255 - mean) / std`` in float64, rounded once, to nearest with ties to even, to the dtype of
the result. A kernel looks it up in the table, or computes ``code * scale + bias`` in float32 where that is proven, for
every code and channel, to round to the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

CODES = 256


class MultiplyAdd(NamedTuple):
    """Constants of ``code * scale + bias``.

    Attributes:
        scale: float32 ``[3]``, R G B.
        bias: float32 ``[3]``, R G B.
    """

    scale: Tensor
    bias: Tensor


def exact_values(mean: Sequence[float], std: Sequence[float], dtype: torch.dtype) -> Tensor:
    """The table of exact values.

    Args:
        mean: 3 floats, R G B.
        std: 3 floats above 0, R G B.
        dtype: bfloat16, float16 or float32.

    Returns:
        ``[3, 256]``, CPU: the value of each code, R G B.
    """
    means, stds = (torch.tensor([*values], dtype=torch.float64, device="cpu")[:, None] for values in (mean, std))
    codes = torch.arange(CODES, dtype=torch.float64, device="cpu")
    return round_once((codes / 255 - means) / stds, dtype)


def round_once(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Rounds float64 to a narrower dtype in one step; torch goes by way of float32 and may round twice.

    The way by float32 is taken with rounding to odd (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums:
    proved algorithms using rounding to odd", 2008): what float32 can't hold is cut off and leaves its trace in the last
    bit, so that the second rounding can't meet a false tie.
    """
    nearest = values.to(torch.float32)
    if dtype == torch.float32:
        return nearest
    bits = nearest.view(torch.int32).clone()
    bits -= (nearest.double().abs() > values.abs()).int()  # one step towards 0 where rounding went away from it
    bits |= (nearest.double() != values).int()
    return bits.view(torch.float32).to(dtype)


def multiply_add(mean: Sequence[float], std: Sequence[float], dtype: torch.dtype) -> MultiplyAdd | None:
    """Float32 constants whose multiply-add gives the exact value of every code, proven by trying them all.

    A library may multiply and then add, fuse both, or add ``bias / scale`` first; constants count only if all three
    round to the exact bits. The plain ``1 / (255 * std)`` and ``-mean / std`` nearly always do; neighbours in float32
    are tried next (mean and std of 0.5 need one).

    Args:
        mean: 3 floats, R G B.
        std: 3 floats above 0, R G B.
        dtype: bfloat16 or float16; float32 has no spare bits, so there the answer is None.

    Returns:
        The constants, or None where a channel has none.
    """
    exact = exact_values(mean, std, dtype)[:, None, :]
    means, stds = (torch.tensor([*values], dtype=torch.float64, device="cpu")[:, None] for values in (mean, std))
    scales, biases = _neighbours(1 / (255 * stds)), _neighbours(-means / stds)
    scale = scales[:, :, None].expand(-1, -1, 3).reshape(3, 9, 1)
    bias = biases[:, None, :].expand(-1, 3, -1).reshape(3, 9, 1)
    proven = torch.ones(3, 9, dtype=torch.bool, device="cpu")
    for result in _orders_of_evaluation(scale, bias):
        normal = (result.abs() >= torch.finfo(torch.float32).tiny) | (result == 0)  # the rest may be flushed to 0
        proven &= (normal & (_bits(result.to(dtype)) == _bits(exact))).all(-1)
    if dtype == torch.float32 or not proven.any(1).all():
        return None
    first = proven.int().argmax(1)[:, None, None]
    return MultiplyAdd(scale.gather(1, first).flatten(), bias.gather(1, first).flatten())


def _neighbours(values: Tensor) -> Tensor:
    """Float64 ``[3, 1]`` to float32 ``[3, 3]``: the nearest float32 first, then the ones below and above it."""
    nearest = values.to(torch.float32)
    infinity = torch.full_like(nearest, torch.inf)
    return torch.cat([nearest, torch.nextafter(nearest, -infinity), torch.nextafter(nearest, infinity)], dim=1)


def _orders_of_evaluation(scale: Tensor, bias: Tensor) -> list[Tensor]:
    codes = torch.arange(CODES, dtype=torch.float32, device="cpu")
    product, addend = codes.double() * scale.double(), bias.double()  # 32 bits, so exact
    fused = product + addend
    part = fused - product
    lost = (product - (fused - part)) + (addend - part)  # what rounding to float64 lost (Knuth's TwoSum)
    return [
        codes * scale + bias,
        torch.where(lost == 0, fused.to(torch.float32), torch.nan),
        (codes + bias / scale) * scale,
    ]


def _bits(values: Tensor) -> Tensor:
    return values.view(torch.int32 if values.dtype == torch.float32 else torch.int16)
