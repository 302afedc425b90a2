"""The Ascend kernels on the host model: orders of the pipes, each way through them, bad crops, and what they move."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Generator

from tilevl.bmp_to_patches import bmp_to_patches
from tilevl.testing import same_bits
from tilevl.testing.guards import Guarded
from tilevl.testing.simulated_npu import SimulatedNpu

from . import oracle
from .cases import CLIP, FP16, FP32, NOT_PROVEN, images

pytestmark = pytest.mark.targets("ascend")

ORDERS = [{"order": "eager"}, {"order": "lazy"}, *({"order": "random", "seed": seed} for seed in range(3))]
SIZES: dict[str, tuple[list[tuple[int, int]], dict[str, Any]]] = {
    "grouped_rows": ([(48, 96), (32, 50)], {"patch_size": 16, "spare": 3}),
    "grouped_windows": ([(64, 128), (64, 32)], {"patch_size": 16, "window": 2, "bytes_per_pixel": 4}),
    "rows_of_no_whole_blocks": ([(42, 85), (28, 14)], {"patch_size": 14, "constants": NOT_PROVEN, "dtype": FP16}),
    "float32": ([(26, 39), (13, 52)], {"patch_size": 13, "dtype": FP32, "spare": 40}),
    "small_patches": ([(8, 40), (9, 7)], {"patch_size": 3, "spare": 2}),
    "small_patches_in_windows": ([(8, 24), (16, 8)], {"patch_size": 4, "window": 2, "dtype": FP32}),
    "window_wider_than_the_buffer": ([(96, 48)], {"patch_size": 2, "window": 24}),
    "largest_patch": ([(64, 130)], {"patch_size": 64, "bytes_per_pixel": 4, "dtype": FP32}),
}


@pytest.mark.parametrize("name", SIZES)
def test_any_order_of_the_pipes_gives_the_same_patches(
    name: str, simulated: SimulatedNpu, device: torch.device, rng: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEVL_NUM_VECTOR_CORES", "3")  # several groups a core, so that both places of a buffer serve
    sizes, kinds = SIZES[name]
    args = images(rng, *sizes, **kinds)
    expected = oracle.bmp_to_patches(*args)
    for options in ORDERS:
        simulated.options = options
        guarded = Guarded(args, device, rng)
        assert same_bits(bmp_to_patches(*guarded.args), expected)
        assert guarded.changed_bytes() == []


def test_neighbouring_patches_come_as_whole_rows(
    simulated: SimulatedNpu, device: torch.device, rng: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEVL_NUM_VECTOR_CORES", "1")
    for window, copies in ((1, 2 * 16), (2, 32), (8, 64 * 16)):  # a window of 8 x 8 patches fits no buffer
        pixels, crops, sums, *rest = images(rng, (32 * max(1, window // 2), 128), patch_size=16, window=window)
        bmp_to_patches(pixels.to(device), crops.to(device), sums.to(device), *rest)
        counters = simulated.launches[-1].counters
        assert counters.descriptors["gm_ub"] == copies + 1  # and the table of values


@pytest.mark.parametrize("lead", [1, 7, 31])
def test_first_byte_anywhere(lead: int, simulated: SimulatedNpu, device: torch.device, rng: Generator) -> None:
    for patch_size in (4, 16):
        pixels, *rest = images(rng, (2 * patch_size, 3 * patch_size + 1), patch_size=patch_size)
        around = torch.cat([torch.zeros(lead, dtype=torch.uint8), pixels, pixels])
        part = around[lead : lead + pixels.numel()]
        guarded = Guarded((part, *rest), device, rng)
        assert same_bits(bmp_to_patches(*guarded.args), oracle.bmp_to_patches(part, *rest))


@pytest.mark.parametrize("patch_size", [2, 16])
def test_many_crops(patch_size: int, simulated: SimulatedNpu, device: torch.device, rng: Generator) -> None:
    sizes = torch.randint(0, 2 * patch_size + 9, (60, 2), generator=rng).tolist()
    args = images(rng, *((h, w) for h, w in sizes), patch_size=patch_size, spare=3, index=torch.int32)
    on_device = (arg.to(device) if isinstance(arg, torch.Tensor) else arg for arg in args)
    assert same_bits(bmp_to_patches(*on_device), oracle.bmp_to_patches(*args))


@pytest.mark.parametrize(
    ("images_", "side", "patch_size", "window"), [(2, 448, 16, 1), (2, 448, 16, 2), (2, 448, 14, 2)]
)
def test_bytes_moved_are_close_to_the_least_possible(
    images_: int, side: int, patch_size: int, window: int, simulated: SimulatedNpu, device: torch.device, rng: Generator
) -> None:
    args = images(rng, *[(side, side)] * images_, patch_size=patch_size, window=window)
    on_device = [arg.to(device) if isinstance(arg, torch.Tensor) else arg for arg in args]
    result = bmp_to_patches(*on_device)
    (launch,) = simulated.launches
    assert launch.counters.bytes["ub_gm"] == result.nbytes
    assert launch.counters.global_bytes <= 1.15 * (result.nbytes + 3 * images_ * side * side)


def test_cores_share_the_patches_evenly(simulated: SimulatedNpu, device: torch.device, rng: Generator) -> None:
    pixels, crops, sums, *rest = images(rng, (160, 240), patch_size=16)
    bmp_to_patches(pixels.to(device), crops.to(device), sums.to(device), *rest)
    (launch,) = simulated.launches
    patches = [core.bytes["ub_gm"] // 1536 for core in launch.counters.cores]
    assert sum(patches) == 150 and max(patches) == 3


def test_crops_that_leave_the_pixels_give_zeros(simulated: SimulatedNpu, device: torch.device, rng: Generator) -> None:
    pixels = torch.randint(1, 256, (4096,), generator=rng, dtype=torch.uint8)
    good = [16, 48, 16, 16]
    bad = [[4000, 48, 16, 16], [-1, 48, 16, 16], [16, 2**62, 16, 16], [2**62, -(2**62), 16, 16], [3400, -400, 16, 16]]
    crops = torch.tensor([*bad, good, [0, 48, -16, 16], [0, 48, 16, -(2**62)]])
    expected = oracle.bmp_to_patches(pixels, crops[5:6], torch.tensor([0, 1]), 1, 16, *CLIP)
    for options in ORDERS:
        simulated.options = options
        guarded = Guarded((pixels, crops, torch.arange(9)), device, rng)
        result = bmp_to_patches(*guarded.args, 10, 16, *CLIP).cpu()
        assert same_bits(result[5:6], expected)
        assert not bool(result[[0, 1, 2, 3, 4, 6, 7, 8, 9]].any())


def test_patches_inside_survive_those_outside(simulated: SimulatedNpu, device: torch.device, rng: Generator) -> None:
    """Of a crop that leaves ``pixels`` at its end, the patches before that are right."""
    pixels = torch.randint(1, 256, (40 * 192,), generator=rng, dtype=torch.uint8)
    crops, sums = torch.tensor([[0, 192, 48, 64]]), torch.tensor([0, 12])
    result = bmp_to_patches(pixels.to(device), crops.to(device), sums.to(device), 12, 16, *CLIP).cpu()
    crops[0, 2] = 32
    expected = oracle.bmp_to_patches(pixels, crops, torch.tensor([0, 8]), 8, 16, *CLIP)
    assert same_bits(result[:8], expected) and not bool(result[8:].any())


@pytest.mark.parametrize("window", [1, 2, 2**40])
@pytest.mark.parametrize("patch_size", [4, 16])
@pytest.mark.parametrize("reach", [300, 2**31, 2**62])
def test_hostile_data_touches_nothing_else(
    reach: int, patch_size: int, window: int, simulated: SimulatedNpu, device: torch.device, rng: Generator
) -> None:
    pixels = torch.randint(0, 256, (3000,), generator=rng, dtype=torch.uint8)
    for seed in range(4):
        simulated.options = {"order": "random", "seed": seed}
        crops = torch.randint(-reach, reach, (20, 4), generator=rng)
        sums = torch.randint(-min(reach, 100), min(reach, 100), (21,), generator=rng)
        guarded = Guarded((pixels, crops, sums), device, rng)
        result = bmp_to_patches(*guarded.args, 60, patch_size, *CLIP, 3, window)
        assert result.shape == (60, 3 * patch_size**2) and guarded.changed_bytes() == []
