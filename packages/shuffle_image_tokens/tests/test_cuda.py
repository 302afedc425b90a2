"""On CUDA: programs build without a GPU, images of any length are shuffled, captures serve fewer images."""

from __future__ import annotations

from importlib import import_module, util

import pytest
import torch

from tilevl.shuffle_image_tokens import shuffle_image_tokens
from tilevl.testing import Guarded, same_bits
from tilevl.testing.cuda_early_start import late_copy, need_early_starts
from tilevl.testing.cuda_suite import ARCHITECTURES, CudaSuite, build_without_gpu
from tilevl.testing.graphs import capture

from . import oracle
from .cases import CASES

PROGRAMS = {
    "small": ("shuffle_strips", 512, 1),
    "large": ("shuffle_strips", 1024, 1),
    "small_clusters": ("shuffle_strips", 512, 4),
    "large_clusters": ("shuffle_strips", 1024, 8),
    "copy": ("copy_rows",),
}
cuda_only = pytest.mark.targets("cuda")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_program_builds_without_a_gpu(name: str, architecture: str) -> None:
    if "clusters" in name and architecture == "sm_80":
        pytest.skip("no clusters before Hopper")
    function, *parameters = PROGRAMS[name]
    module = import_module("tilevl.shuffle_image_tokens.kernels.cuda") if util.find_spec("tilelang") else None
    build_without_gpu(module and getattr(module, str(function))(*parameters), architecture)


class TestShuffleImageTokens(CudaSuite):
    function = staticmethod(shuffle_image_tokens)
    cases = CASES
    written = 0
    oracle = staticmethod(oracle.shuffle_image_tokens)


@cuda_only
@pytest.mark.parametrize("groups", [2, 3, 8])
@pytest.mark.parametrize("count", [48, 504, 1008, 1032, 2064, 4080, 8160, 12000, 33600])
@pytest.mark.parametrize("shift", [0, 1, 4])
def test_images_of_any_length(
    count: int, groups: int, shift: int, target: str, device: torch.device, rng: torch.Generator
) -> None:
    embeds = torch.randn(count + 70, 40 + shift, generator=rng).bfloat16()[:, shift:]
    starts, counts = torch.tensor([count + 10, 5]), torch.tensor([48, count], dtype=torch.int32)
    guarded = Guarded((embeds, starts, counts), device, rng)
    shuffle_image_tokens(*guarded.args, count, groups)
    assert same_bits(guarded.args[0], oracle.shuffle_image_tokens(embeds.clone(), starts, counts, count, groups))
    assert guarded.changed_bytes((0,)) == []


@cuda_only
@pytest.mark.parametrize("longest", [40, 9000, 40000], ids=["strips", "clusters", "copy"])
def test_images_out_of_range_are_skipped_and_touch_nothing(
    longest: int, target: str, device: torch.device, rng: torch.Generator
) -> None:
    embeds = torch.randn(max(9100, longest), 16, generator=rng)
    starts = torch.tensor([0, len(embeds) - 10, 2**62, -5, 100, 200, 300, len(embeds), 400])
    counts = torch.tensor([20, 12, 10, 10, 7, 2**40, -(2**62), 2, 0])
    guarded = Guarded((embeds, starts, counts), device, rng)
    shuffle_image_tokens(*guarded.args, longest, 2)
    expected = embeds.clone()
    expected[:20] = embeds[:20].view(2, 10, 16).transpose(0, 1).reshape(20, 16)
    assert same_bits(guarded.args[0], expected)
    assert guarded.changed_bytes((0,)) == []


@cuda_only
@pytest.mark.parametrize("longest", [40, 9000, 40000], ids=["strips", "clusters", "copy"])
def test_capture_serves_fewer_images(longest: int, target: str, device: torch.device, rng: torch.Generator) -> None:
    embeds = torch.randn(max(9100, longest), 24, device=device)
    starts, counts = (torch.zeros(4, dtype=torch.int64, device=device) for _ in range(2))

    def call() -> torch.Tensor:
        shuffle_image_tokens(embeds, starts, counts, longest, 2)
        return embeds

    replay = capture(call)
    for images in (4, 1, 0, 3):
        before = torch.randn(len(embeds), 24, generator=rng)
        spans = torch.tensor([[3, 20], [40, 40], [100, 2], [8000, 12]])
        spans[images:] = torch.tensor([-1, 0])
        embeds.copy_(before)
        starts.copy_(spans[:, 0])
        counts.copy_(spans[:, 1])
        assert same_bits(replay(), oracle.shuffle_image_tokens(before.clone(), *spans.unbind(1), longest, 2))


@cuda_only
@pytest.mark.parametrize("count", [48, 1024, 4096, 16384, 40000])
def test_image_that_the_kernel_ahead_writes_late_is_waited_for(
    count: int, target: str, device: torch.device, rng: torch.Generator
) -> None:
    """TVM launches clusters so that they may start before that kernel has ended."""
    need_early_starts(device)
    before = torch.randn(count, 64, generator=rng).bfloat16()
    embeds = before.to(device)
    spans = torch.zeros(1, dtype=torch.int64, device=device), torch.tensor([count], device=device)
    shuffle_image_tokens(embeds, *spans, count, 2)
    expected = oracle.shuffle_image_tokens(before.clone(), torch.tensor([0]), torch.tensor([count]), count, 2)
    source = before.view(torch.uint8).to(device)
    for _ in range(5):
        embeds.zero_()
        torch.cuda.synchronize()
        late_copy(source, embeds.view(torch.uint8))
        shuffle_image_tokens(embeds, *spans, count, 2)
        assert same_bits(embeds, expected)


@cuda_only
def test_offsets_beyond_2_to_the_31(target: str, device: torch.device, rng: torch.Generator) -> None:
    width = 4096
    rows = 2**31 // width + 200  # 4.3 GB
    embeds = torch.zeros(rows, width, dtype=torch.bfloat16, device=device)
    first = rows - 300
    embeds[first:] = torch.randn(300, width, generator=rng).bfloat16().to(device)
    before = embeds[first:].cpu()
    shuffle_image_tokens(embeds, torch.tensor([first + 4], device=device), torch.tensor([290], device=device), 290, 2)
    expected = before.clone()
    expected[4:294] = before[4:294].view(2, 145, width).transpose(0, 1).reshape(290, width)
    assert same_bits(embeds[first:], expected)
    assert not bool(embeds[:first].any())
