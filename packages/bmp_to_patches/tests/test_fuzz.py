"""Any call of bmp_to_patches: the right value or a documented error, and no other byte."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tilevl.bmp_to_patches.op import OP
from tilevl.testing import same_bits
from tilevl.testing.fuzz import FuzzedOp, is_contiguous
from tilevl.testing.fuzz_strategies import INDICES, NUMBERS, Args, contents, hostile, indices, spoiled

from . import oracle
from .cases import BF16, CLIP, FP16, FP32
from .errors import TABLES


def constants_hold(mean: float | Sequence[float], std: float | Sequence[float]) -> bool:
    means, stds = ((values,) * 3 if isinstance(values, float) else values for values in (mean, std))
    return len(means) == len(stds) == 3 and all(map(math.isfinite, (*means, *stds))) and all(x > 0 for x in stds)


def metadata_holds(
    pixels: Tensor,
    crops: Tensor,
    sums: Tensor,
    total: int,
    patch_size: int,
    mean: float | Sequence[float],
    std: float | Sequence[float],
    bytes_per_pixel: int,
    window: int,
    dtype: torch.dtype,
) -> bool:
    return (
        (pixels.dim(), crops.dim(), sums.dim()) == (1, 2, 1)
        and crops.shape[1] == 4
        and sums.shape[0] == crops.shape[0] + 1
        and pixels.device == crops.device == sums.device
        and (pixels.dtype, crops.dtype) == (torch.uint8, torch.int64)
        and sums.dtype in (torch.int32, torch.int64)
        and all(is_contiguous(tensor) for tensor in (pixels, crops, sums))
        and total >= 0
        and 1 <= patch_size <= 64
        and constants_hold(mean, std)
        and bytes_per_pixel in (3, 4)
        and window >= 1
        and dtype in (BF16, FP16, FP32)
    )


def data_holds(pixels: Tensor, crops: Tensor, sums: Tensor, total: int, patch_size: int, *rest: object) -> bool:
    _, _, bytes_per_pixel, window, _ = rest
    expected = [0]
    for offset, stride, height, width in crops.tolist():
        if height < 0 or width < 0:
            return False
        ends = (offset, offset + (height - 1) * stride)
        if height and width and not (min(ends) >= 0 and max(ends) + width * bytes_per_pixel <= pixels.numel()):
            return False
        rows, columns = height // patch_size, width // patch_size
        if rows * columns and (rows % window or columns % window):
            return False
        expected.append(expected[-1] + rows * columns)
    return sums.tolist() == expected and expected[-1] <= total


def patches_are_right(result: Tensor, args: Args) -> None:
    assert same_bits(result, oracle.bmp_to_patches(*args))


FUZZED = FuzzedOp(TABLES[0], OP, metadata_holds, data_holds, patches_are_right)
NO_MEAN = st.sampled_from([math.nan, math.inf, -math.inf, (0.5, math.nan, 0.5), (0.5, 0.5), (0.5,) * 4])
NO_STD = NO_MEAN | st.sampled_from([0.0, -0.5, (0.5, 0.5, 0.0), ()])
OTHERS = {  # of what a kernel is built for, only what no kernel is built for
    3: st.integers(0, 60) | st.sampled_from([-(2**63), -1]),  # no result that memory can't hold
    4: st.sampled_from([-(2**63), -1, 0, 65, 2**31, 2**63 - 1]),
    5: NO_MEAN,
    6: NO_STD,
    7: st.sampled_from([-(2**63), -1, 0, 2, 5, 2**31, 2**63 - 1]),
    8: NUMBERS,
    9: st.sampled_from([BF16, torch.float64, torch.uint8]),
}
KINDS = st.sampled_from([(2, 3, BF16), (4, 3, BF16), (2, 3, FP16), (4, 4, FP32)])  # each is a kernel of its own


@st.composite
def calls(draw: st.DrawFn, bad_contents: bool = False) -> Args:
    patch_size, bytes_per_pixel, dtype = draw(KINDS)
    window = draw(st.integers(1, 2))
    crops, sums, position = [], [0], draw(st.integers(0, 5))
    side = st.integers(0, 4).map(lambda n: n * patch_size * window) | st.integers(0, patch_size * window - 1)
    for height, width in draw(st.lists(st.tuples(side, side), max_size=3)):
        stride = width * bytes_per_pixel + draw(st.integers(0, 4))
        upwards = height > 0 and draw(st.booleans())
        first = position + (height - 1) * stride if upwards else position
        crops.append([first, -stride if upwards else stride, height, width])
        sums.append(sums[-1] + (height // patch_size) * (width // patch_size))
        position += height * stride + draw(st.integers(0, 3))
    total = sums[-1] + draw(st.integers(0, 5))
    if bad_contents:
        numbers = [number for crop in crops for number in crop]
        for values in draw(st.sampled_from([[numbers], [sums], [numbers, sums]])):
            for _ in range(draw(st.integers(1, 3)) if values else 0):
                values[draw(st.integers(0, len(values) - 1))] = draw(hostile(position))
        crops = [numbers[i : i + 4] for i in range(0, len(numbers), 4)]
        position = draw(st.integers(max(0, position - 9), position))
        window = draw(st.sampled_from([window, window, 2**31, 2**63 - 1]))
    boxes = torch.tensor(crops, dtype=torch.int64).view(-1, 4)
    pixels = contents(draw, (position,), torch.uint8)
    prefix = indices(sums, draw(INDICES), draw(st.integers(0, 2)))
    return pixels, boxes, prefix, total, patch_size, *CLIP, bytes_per_pixel, window, dtype


@given(args=calls().flatmap(lambda args: spoiled(args, OTHERS)))
def test_any_metadata_gives_the_right_value_or_its_error(args: Args, target: str, device: torch.device) -> None:
    FUZZED.check(args, device)


@given(args=calls(bad_contents=True))
def test_any_contents_give_the_right_value_or_their_error(args: Args, target: str, device: torch.device) -> None:
    FUZZED.check(args, device)


@pytest.mark.targets("ascend", "cuda")
@given(args=calls(bad_contents=True))
def test_contents_that_nobody_checks_touch_nothing_else(args: Args, target: str, device: torch.device) -> None:
    FUZZED.check_unchecked(args, device)
