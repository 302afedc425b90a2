"""What the contract promises beyond single calls: orientation, padding, order, bounds, defaults."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor

from tilevl.bmp_to_patches import bmp_to_patches
from tilevl.testing import Guarded, same_bits

from . import oracle
from .cases import BF16, CLIP, FP32, images

# 2 x 2: red and green over blue and white
BOTTOM_UP = [0xFF, 0, 0, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0xFF, 0, 0xFF, 0, 0, 0]
PLANES = [1.0, -1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, -1.0, 1.0, 1.0]


def patches_of(content: list[int], crops: list[list[int]], device: torch.device, patch_size: int = 2) -> Tensor:
    counts = [(height // patch_size) * (width // patch_size) for _, _, height, width in crops]
    sums = torch.tensor([sum(counts[:i]) for i in range(len(counts) + 1)], device=device)
    pixels = torch.tensor(content, dtype=torch.uint8, device=device)
    return bmp_to_patches(pixels, torch.tensor(crops, device=device), sums, sum(counts), patch_size, 0.5, 0.5).cpu()


def test_worked_value(device: torch.device) -> None:
    pixels = torch.tensor([255, 0, 0, 0, 0, 102, 0, 0, 51, 0, 255, 0, 255, 0, 0, 0], dtype=torch.uint8, device=device)
    crops, sums = torch.tensor([[8, -8, 2, 2]], device=device), torch.tensor([0, 1], device=device)
    result = bmp_to_patches(pixels, crops, sums, 1, 2, 0.0, 1.0, out_dtype=FP32)
    planes = [1, 0, 0, 0.4, 0, 1, 0, 0, 0.2, 0, 1, 0]
    assert same_bits(result.cpu(), torch.tensor([planes]))


def test_bottom_up_and_top_down_give_one_image(device: torch.device) -> None:
    content = BOTTOM_UP + BOTTOM_UP[8:] + BOTTOM_UP[:8]
    assert patches_of(content, [[8, -8, 2, 2], [16, 8, 2, 2]], device).tolist() == [PLANES, PLANES]


@pytest.mark.parametrize("width", range(1, 9))
def test_padding_never_shows(width: int, device: torch.device, rng: Generator) -> None:
    stride = [4, 8, 12, 12, 16, 20, 24, 24][width - 1]
    rows = torch.randint(0, 256, (width, stride), generator=rng, dtype=torch.uint8)
    other = rows.clone()
    other[:, 3 * width :] = 0xEE
    crop = [[(width - 1) * stride, -stride, width, width]]
    first, second = (patches_of(content.flatten().tolist(), crop, device, width) for content in (rows, other))
    assert same_bits(first, second)
    assert first.unique().numel() > 1


def test_fourth_byte_never_shows(device: torch.device, rng: Generator) -> None:
    args = list(images(rng, (8, 12), bytes_per_pixel=4))
    first = bmp_to_patches(*(arg.to(device) if isinstance(arg, Tensor) else arg for arg in args))
    args[0] = args[0].clone()
    args[0][5 + 3 :: 4] ^= 0xFF
    second = bmp_to_patches(*(arg.to(device) if isinstance(arg, Tensor) else arg for arg in args))
    assert same_bits(first, second)


@pytest.mark.parametrize("window", [1, 2, 4])
def test_windows_follow_the_order_of_position_ids(window: int, device: torch.device) -> None:
    rows, columns = 4, 8
    content = [channel for y in range(rows) for x in range(columns) for channel in (x, y, 0)]
    pixels = torch.tensor(content, dtype=torch.uint8, device=device)
    crops = torch.tensor([[0, 3 * columns, rows, columns]], device=device)
    sums = torch.tensor([0, rows * columns], device=device)
    result = bmp_to_patches(pixels, crops, sums, rows * columns, 1, 0.0, 1.0, window=window, out_dtype=FP32)
    seen = (result[:, [1, 2]] * 255).round().int().cpu()
    grid = torch.arange(rows * columns).view(rows // window, window, columns // window, window)
    order = grid.transpose(1, 2).flatten()  # Qwen2-VL's merger takes its positions so
    assert seen.tolist() == torch.stack([order // columns, order % columns], 1).tolist()


def test_two_by_four_grid_with_window_two(device: torch.device) -> None:
    content = [value for y in range(2) for x in range(4) for value in (x, y, 0)]
    pixels = torch.tensor(content, dtype=torch.uint8, device=device)
    crops, sums = torch.tensor([[0, 12, 2, 4]], device=device), torch.tensor([0, 8], device=device)
    result = bmp_to_patches(pixels, crops, sums, 8, 1, 0.0, 1.0, window=2, out_dtype=FP32)
    assert [tuple(row) for row in (result[:, [1, 2]] * 255).round().int().tolist()] == [
        (0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3),
    ]  # fmt: skip


def test_rows_past_the_last_patch_are_zero(device: torch.device, rng: Generator) -> None:
    args = images(rng, (8, 8), spare=7, constants=((3.0,) * 3, (1.0,) * 3))  # no pixel becomes 0
    result = bmp_to_patches(*(arg.to(device) if isinstance(arg, Tensor) else arg for arg in args)).cpu()
    assert bool((result[:4] != 0).all()) and bool((result[4:].view(torch.int16) == 0).all())


def test_bfloat16_is_the_default(device: torch.device, rng: Generator) -> None:
    args = [arg.to(device) if isinstance(arg, Tensor) else arg for arg in images(rng, (8, 8))]
    plain = bmp_to_patches(*args[:7])
    assert plain.dtype == BF16 and same_bits(plain, bmp_to_patches(*args))
    assert same_bits(plain, torch.ops.tilevl.bmp_to_patches(*args[:7]))


def test_default_device_and_dtype_of_torch_change_nothing(device: torch.device, rng: Generator) -> None:
    args = images(rng, (15, 25), patch_size=5, constants=((0.11, 0.3, 0.2), (0.7, 0.6, 0.5)))  # a key of its own
    args = tuple(arg.to(device) if isinstance(arg, Tensor) else arg for arg in args)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            result = bmp_to_patches(*args)
    finally:
        torch.set_default_dtype(torch.float32)
    assert same_bits(result.cpu(), oracle.bmp_to_patches(*(a.cpu() if isinstance(a, Tensor) else a for a in args)))


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, lambda: torch.autocast("cpu", torch.float16)])
def test_a_kernel_built_in_one_mode_serves_all(mode: Callable, device: torch.device, rng: Generator) -> None:
    mean = float(torch.rand(1, generator=rng))  # a key of its own
    args = images(rng, (15, 25), patch_size=5, constants=((mean, 0.3, 0.2), (0.7, 0.6, 0.5)))
    expected = oracle.bmp_to_patches(*args)
    args = tuple(arg.to(device) if isinstance(arg, Tensor) else arg for arg in args)
    with mode():
        assert same_bits(bmp_to_patches(*args).cpu(), expected)
    assert same_bits(bmp_to_patches(*args).cpu(), expected)
    with torch.inference_mode():
        assert same_bits(bmp_to_patches(*args).cpu(), expected)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(
    crop=st.tuples(
        st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 90),
        st.integers(-(2**63), 2**63 - 1) | st.integers(-30, 30),
        st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9),
        st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9),
    ),
    bytes_per_pixel=st.sampled_from([3, 4]),
)
def test_a_hostile_crop_is_refused_or_read_within_bounds(crop: tuple[int, ...], bytes_per_pixel: int) -> None:
    offset, stride, height, width = crop
    rng = torch.Generator().manual_seed(1)
    pixels = torch.randint(0, 256, (80,), generator=rng, dtype=torch.uint8)
    inside = height >= 0 and width >= 0
    if inside and height * width:
        ends = (offset, offset + (height - 1) * stride)
        inside = min(ends) >= 0 and max(ends) + width * bytes_per_pixel <= 80
    count = (height // 2) * (width // 2) if inside else 0
    few = min(count, 64)  # a stride of 0 lets any height lie within bounds
    args = (pixels, torch.tensor([crop]), torch.tensor([0, few]), few, 2, *CLIP, bytes_per_pixel)
    guarded = Guarded(args, "cpu", rng)
    if inside and few == count:
        assert same_bits(bmp_to_patches(*guarded.args), oracle.bmp_to_patches(*args))
    else:
        with pytest.raises(ValueError, match=r"bmp_to_patches: (cu_patches\[1\]|crops\[0)"):
            bmp_to_patches(*guarded.args)
    assert guarded.changed_bytes() == []


def test_int64_ends_are_no_way_around_the_bounds(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEVL_CHECK_DATA", "1")
    pixels = torch.zeros(64, dtype=torch.uint8, device=device)
    for crop in (
        [2**63 - 1, 1, 2, 2],
        [0, -(2**63), 2, 2],
        [0, 2**62, 4, 2],
        [2**62, -(2**62), 2, 2],
        [32, 2**32, 2, 2],
    ):
        with pytest.raises(ValueError, match="must lie in pixels, bytes"):
            bmp_to_patches(
                pixels, torch.tensor([crop], device=device), torch.tensor([0, 1], device=device), 1, 2, 0.5, 0.5
            )
