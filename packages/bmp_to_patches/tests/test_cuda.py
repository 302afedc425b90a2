"""On CUDA: programs build without a GPU, any first byte works, bad crops are harmless, captures serve fewer crops."""

from __future__ import annotations

from importlib import import_module, util

import pytest
import torch

from tilevl.bmp_to_patches import bmp_to_patches
from tilevl.testing import Guarded, same_bits
from tilevl.testing.cuda_suite import ARCHITECTURES, CudaSuite, build_without_gpu
from tilevl.testing.graphs import capture

from . import oracle
from .cases import BF16, CASES, CLIP, FP32, images

PROGRAMS = [
    (16, 3, "bfloat16", False),
    (14, 3, "float16", False),
    (16, 4, "float32", True),
    (1, 3, "bfloat16", True),
    (64, 4, "float16", False),
]
cuda_only = pytest.mark.targets("cuda")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("parameters", PROGRAMS, ids=lambda p: f"{p[0]}-{p[1]}-{p[2]}-{'table' if p[3] else 'fma'}")
def test_program_builds_without_a_gpu(parameters: tuple[int, int, str, bool], architecture: str) -> None:
    module = import_module("tilevl.bmp_to_patches.kernels.cuda") if util.find_spec("tilelang") else None
    build_without_gpu(module and module.patches(*parameters), architecture, module and module.PASS_CONFIGS)


class TestBmpToPatches(CudaSuite):
    function = staticmethod(bmp_to_patches)
    cases = CASES
    oracle = staticmethod(oracle.bmp_to_patches)


@cuda_only
@pytest.mark.parametrize("dtype", [BF16, FP32], ids=["bf16", "fp32"])
@pytest.mark.parametrize("patch_size", [4, 16])
def test_first_byte_anywhere(
    patch_size: int, dtype: torch.dtype, target: str, device: torch.device, rng: torch.Generator
) -> None:
    for lead in range(17):
        pixels, *rest = images(rng, (2 * patch_size, 3 * patch_size + 1), patch_size=patch_size, dtype=dtype)
        around = torch.randint(0, 256, (pixels.numel() + 40,), generator=rng, dtype=torch.uint8)
        part = around[lead : lead + pixels.numel()]
        guarded = Guarded((part, *rest), device, rng)
        assert same_bits(bmp_to_patches(*guarded.args), oracle.bmp_to_patches(part, *rest))


@cuda_only
@pytest.mark.parametrize(("num_crops", "patch_size"), [(31, 2), (32, 2), (33, 2), (700, 2), (32, 14), (33, 14)])
def test_many_crops(num_crops: int, patch_size: int, target: str, device: torch.device, rng: torch.Generator) -> None:
    sizes = torch.randint(0, 4 * patch_size + 1, (num_crops, 2), generator=rng).tolist()
    args = images(
        rng,
        *((h, w) for h, w in sizes),
        patch_size=patch_size,
        spare=3,
        index=[torch.int32, torch.int64][num_crops % 2],
    )
    on_device = (arg.to(device) if isinstance(arg, torch.Tensor) else arg for arg in args)
    assert same_bits(bmp_to_patches(*on_device), oracle.bmp_to_patches(*args))


@cuda_only
def test_crops_that_leave_the_pixels_give_zeros(target: str, device: torch.device, rng: torch.Generator) -> None:
    pixels = torch.randint(1, 256, (4096,), generator=rng, dtype=torch.uint8)
    good = [16, 48, 16, 16]
    bad = [[4000, 48, 16, 16], [-1, 48, 16, 16], [16, 2**62, 16, 16], [2**62, -(2**62), 16, 16], [3400, -400, 16, 16]]
    crops = torch.tensor([*bad, good, [0, 48, -16, 16], [0, 48, 16, -(2**62)]])
    sums = torch.tensor([0, 1, 2, 3, 4, 5, 6, 7, 8])
    guarded = Guarded((pixels, crops, sums), device, rng)
    result = bmp_to_patches(*guarded.args, 10, 16, *CLIP).cpu()
    expected = oracle.bmp_to_patches(pixels, crops[5:6], torch.tensor([0, 1]), 1, 16, *CLIP)
    assert same_bits(result[5:6], expected)
    assert not bool(result[[0, 1, 2, 3, 4, 6, 7, 8, 9]].any())
    wild = torch.randint(-(2**62), 2**62, (8, 4), generator=rng)
    assert bmp_to_patches(guarded.args[0], wild.to(device), wild.view(-1)[:9].to(device), 10, 16, *CLIP).shape[0] == 10
    torch.cuda.synchronize()


@cuda_only
def test_capture_serves_fewer_crops(target: str, device: torch.device, rng: torch.Generator) -> None:
    capacity = images(rng, (16, 16), (16, 16), (16, 16), spare=4)
    fixed = tuple(arg.to(device) if isinstance(arg, torch.Tensor) else arg for arg in capacity)
    replay = capture(lambda: bmp_to_patches(*fixed))
    for sizes in ([(16, 16)] * 3, [(8, 20)], [], [(4, 4), (16, 12)]):
        pixels, crops, sums, *_ = images(rng, *sizes)
        fixed[0][: pixels.numel()] = pixels.to(device)
        fixed[1].zero_()
        fixed[1][: len(sizes)] = crops.to(device)
        fixed[2].fill_(int(sums[-1]))
        fixed[2][: len(sizes) + 1] = sums.to(device)
        assert same_bits(replay(), oracle.bmp_to_patches(pixels, crops, sums, *capacity[3:]))


@cuda_only
def test_offsets_beyond_2_to_the_32(target: str, device: torch.device, rng: torch.Generator) -> None:
    first, side, patch_size = 2**32 + 5, 32, 16
    content = torch.randint(0, 256, (side * side * 3,), generator=rng, dtype=torch.uint8)
    pixels = torch.zeros(first + content.numel(), dtype=torch.uint8, device=device)
    pixels[first:] = content.to(device)
    crops = torch.tensor([[first, side * 3, side, side]])
    sums = torch.tensor([0, 4])
    result = bmp_to_patches(pixels, crops.to(device), sums.to(device), 4, patch_size, *CLIP)
    crops[0, 0] = 0
    assert same_bits(result, oracle.bmp_to_patches(content, crops, sums, 4, patch_size, *CLIP))


@cuda_only
def test_results_beyond_2_to_the_31_elements(target: str, device: torch.device, rng: torch.Generator) -> None:
    side, patch_size = 16, 16
    total = 2**31 // 768 + 10  # 4.3 GB
    content = torch.randint(0, 256, (side * side * 3,), generator=rng, dtype=torch.uint8)
    crops = torch.tensor(
        [[0, 0, side * (total - 1), side], [0, side * 3, side, side]]
    )  # one row of pixels, again and again
    sums = torch.tensor([0, total - 1, total])
    result = bmp_to_patches(content.to(device), crops.to(device), sums.to(device), total, patch_size, *CLIP)
    expected = oracle.bmp_to_patches(content, crops[1:], torch.tensor([0, 1]), 1, patch_size, *CLIP)
    assert same_bits(result[-1:], expected)
    assert bool((result[:-1] == result[0]).all())
