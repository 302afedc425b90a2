"""On CUDA: the program builds without a GPU, data that disagrees is harmless, captures serve fewer images."""

from __future__ import annotations

from importlib import import_module, util

import pytest
import torch

from tilevl.prepare_image_attn_pos_id import prepare_image_attn_pos_id
from tilevl.testing import Guarded, same_bits
from tilevl.testing.cuda_suite import ARCHITECTURES, CudaSuite, build_without_gpu
from tilevl.testing.graphs import capture

from . import oracle
from .cases import CASES

cuda_only = pytest.mark.targets("cuda")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_program_builds_without_a_gpu(architecture: str) -> None:
    module = import_module("tilevl.prepare_image_attn_pos_id.kernels.cuda") if util.find_spec("tilelang") else None
    build_without_gpu(module and module.positions(), architecture)


class TestPrepareImageAttnPosId(CudaSuite):
    function = staticmethod(prepare_image_attn_pos_id)
    cases = CASES
    oracle = staticmethod(oracle.prepare_image_attn_pos_id)


@cuda_only
@pytest.mark.parametrize("images", [1, 255, 256, 257, 5000])
@pytest.mark.parametrize("window", [1, 2, 3])
def test_many_images(images: int, window: int, target: str, device: torch.device, rng: torch.Generator) -> None:
    grids = torch.randint(0, 5, (images, 2), generator=rng) * window
    sums = torch.nn.functional.pad(grids.prod(1).cumsum(0), (1, 0)).int()
    total = int(sums[-1]) + 37
    result = prepare_image_attn_pos_id(grids.to(device), sums.to(device), total, window)
    assert same_bits(result, oracle.prepare_image_attn_pos_id(grids, sums, total, window))


@cuda_only
def test_tokens_outside_of_all_grids_are_at_zero(target: str, device: torch.device, rng: torch.Generator) -> None:
    grids = torch.tensor([[2, 3], [-4, 5], [2**62, 2**62], [3, 0], [1, 4]])
    sums = torch.tensor([0, 8, 12, 2000, 2000, 2002])
    guarded = Guarded((grids, sums), device, rng)
    result = prepare_image_attn_pos_id(*guarded.args, 2100).cpu()
    rows, columns = result.unbind(1)
    assert rows[:8].tolist() == [0, 0, 0, 1, 1, 1, 0, 0] and columns[:8].tolist() == [0, 1, 2, 0, 1, 2, 0, 0]
    assert not bool(result[8:2000].any())
    assert result[2000:2002].tolist() == [[0, 0], [0, 1]]
    assert not bool(result[2002:].any())
    wild = torch.randint(-(2**62), 2**62, (6,), generator=rng).to(device)
    assert prepare_image_attn_pos_id(grids.to(device), wild, 2100).shape == (2100, 2)
    torch.cuda.synchronize()


@cuda_only
def test_capture_serves_fewer_images(target: str, device: torch.device, rng: torch.Generator) -> None:
    grids = torch.ones(6, 2, dtype=torch.int64, device=device)
    sums = torch.arange(7, device=device)
    replay = capture(lambda: prepare_image_attn_pos_id(grids, sums, 3000, 2))
    for images in (6, 2, 0, 5):
        drawn = torch.randint(1, 10, (6, 2), generator=rng) * 2
        drawn[images:] = 0
        prefix = torch.nn.functional.pad(drawn.prod(1).cumsum(0), (1, 0))
        grids.copy_(drawn)
        sums.copy_(prefix)
        assert same_bits(replay(), oracle.prepare_image_attn_pos_id(drawn, prefix, 3000, 2))


@cuda_only
def test_results_beyond_2_to_the_31_elements(target: str, device: torch.device) -> None:
    width = 2**15
    grids = torch.tensor([[2**15 + 8, width], [2, 3]], device=device)  # 8.6 GB of positions
    sums = torch.tensor([0, (2**15 + 8) * width, (2**15 + 8) * width + 6], device=device)
    total = int(sums[-1]) + 2
    result = prepare_image_attn_pos_id(grids, sums, total)
    assert result[-8:].tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2], [0, 0], [0, 0]]
    for row in (0, 5, 2**15 - 1, 2**15 + 7):
        part = result[row * width : (row + 1) * width]
        assert bool((part[:, 0] == row).all())
        assert torch.equal(part[:, 1], torch.arange(width, dtype=torch.int32, device=device))
