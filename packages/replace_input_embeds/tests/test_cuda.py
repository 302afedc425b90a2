"""On CUDA: programs build without a GPU, rows of any alignment move, captures serve fewer rows."""

from __future__ import annotations

from importlib import import_module, util

import pytest
import torch

from tilevl.replace_input_embeds import image_token_index, replace_input_embeds
from tilevl.testing import Guarded, same_bits
from tilevl.testing.cuda_suite import ARCHITECTURES, CudaSuite, build_without_gpu
from tilevl.testing.graphs import capture

from . import oracle
from .cases import CASES, INDEX_CASES

PACKAGE = "tilevl.replace_input_embeds"
PROGRAMS = (
    ("kernels.cuda", "move_rows"),
    ("kernels.cuda", "claim_rows"),
    ("kernels.cuda_bulk", "stream_rows"),
    ("token_index.kernels.cuda", "find_marked"),
)
cuda_only = pytest.mark.targets("cuda")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(("module", "name"), PROGRAMS, ids=[name for _, name in PROGRAMS])
def test_program_builds_without_a_gpu(module: str, name: str, architecture: str) -> None:
    if name == "stream_rows" and architecture == "sm_80":
        pytest.skip("no bulk copies before Hopper")
    program = getattr(import_module(f"{PACKAGE}.{module}"), name)() if util.find_spec("tilelang") else None
    build_without_gpu(program, architecture)


class TestReplaceInputEmbeds(CudaSuite):
    function = staticmethod(replace_input_embeds)
    cases = CASES
    written = 0
    oracle = staticmethod(oracle.replace_input_embeds)


class TestImageTokenIndex(CudaSuite):
    function = staticmethod(image_token_index)
    cases = INDEX_CASES
    oracle = staticmethod(oracle.image_token_index)


@cuda_only
@pytest.mark.parametrize("count", [60, 9000], ids=["looking", "claiming"])
def test_of_equal_indices_one_row_wins_whole(
    count: int, target: str, device: torch.device, rng: torch.Generator
) -> None:
    rows = count // 3
    embeds = torch.zeros(rows, 2048, device=device)
    image = torch.arange(1.0, count + 1, device=device)[:, None].repeat(1, 2048)
    index = torch.randint(0, rows, (count,), generator=rng)
    replace_input_embeds(embeds, image, index.to(device))
    result = embeds.cpu()
    assert bool((result == result[:, :1]).all())
    for row in range(rows):
        takers = torch.nonzero(index == row).flatten() + 1
        assert result[row, 0] in (takers if len(takers) else torch.zeros(1))


@cuda_only
@pytest.mark.parametrize("count", [60, 9000], ids=["looking", "claiming"])
def test_indices_out_of_range_are_skipped_and_touch_nothing(
    count: int, target: str, device: torch.device, rng: torch.Generator
) -> None:
    embeds, image = torch.randn(count, 8, generator=rng), torch.randn(count, 8, generator=rng)
    index = torch.randperm(count, generator=rng)
    bad = torch.tensor([count, count + 1, 2**31, 2**40, 2**62, -(2**62), -1])
    index[: bad.numel()] = bad
    guarded = Guarded((embeds, image, index), device, rng)
    replace_input_embeds(*guarded.args)
    expected = embeds.clone()
    expected[index[bad.numel() :]] = image[bad.numel() :]
    assert same_bits(guarded.args[0], expected)
    assert guarded.changed_bytes((0,)) == []


@cuda_only
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bf16", "fp32"])
@pytest.mark.parametrize("shift", range(9))
@pytest.mark.parametrize("width", [1, 24, 1031, 4352])
def test_any_alignment(
    width: int, shift: int, dtype: torch.dtype, target: str, device: torch.device, rng: torch.Generator
) -> None:
    embeds = torch.randn(40, width + 2 * shift, generator=rng).to(dtype)[:, shift : shift + width]
    image = torch.randn(11, width + shift, generator=rng).to(dtype)[:, shift:]
    index = torch.randperm(40, generator=rng)[:11].int()
    guarded = Guarded((embeds, image, index), device, rng)
    replace_input_embeds(*guarded.args)
    expected = embeds.clone()
    expected[index.long()] = image
    assert same_bits(guarded.args[0], expected)
    assert guarded.changed_bytes((0,)) == []


@cuda_only
@pytest.mark.parametrize("count", [1, 33, 700])
@pytest.mark.parametrize("width", [1024, 1288, 4088, 4096, 4104, 9000, 16384, 16392, 20488, 41000])
def test_long_rows_of_any_width(
    width: int, count: int, target: str, device: torch.device, rng: torch.Generator
) -> None:
    embeds, image = (torch.randn(rows, width, generator=rng).bfloat16() for rows in (count + 20, count))
    index = torch.randint(-5, count + 20, (count,), generator=rng)
    guarded = Guarded((embeds, image, index), device, rng)
    replace_input_embeds(*guarded.args)
    assert same_bits(guarded.args[0], oracle.replace_input_embeds(embeds, image, index))
    assert guarded.changed_bytes((0,)) == []


@cuda_only
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("distance", [1, 3, 4, 16, 127, 128, 1024, 1025, 7000])
def test_last_of_two_equal_indices_wins_at_any_distance(
    distance: int, dtype: torch.dtype, target: str, device: torch.device, rng: torch.Generator
) -> None:
    count = 8192
    for first in (0, 3, 500, count - 1 - distance):
        index = torch.randperm(count + 50, generator=rng)[:count].to(dtype)
        index[first + distance] = index[first]
        embeds, image = torch.zeros(count + 50, 1024), torch.arange(1.0, count + 1)[:, None].repeat(1, 1024)
        expected = oracle.replace_input_embeds(embeds, image, index)
        embeds = embeds.to(device)
        replace_input_embeds(embeds, image.to(device), index.to(device))
        assert same_bits(embeds, expected)


@cuda_only
def test_capture_serves_fewer_rows(target: str, device: torch.device, rng: torch.Generator) -> None:
    embeds, image = torch.randn(64, 40, device=device), torch.randn(24, 40, device=device)
    index = torch.arange(24, device=device)

    def call() -> torch.Tensor:
        replace_input_embeds(embeds, image, index)
        return embeds

    replay = capture(call)
    for count in (24, 5, 0, 17):
        before = torch.randn(64, 40, generator=rng)
        rows = torch.randperm(64, generator=rng)[:24]
        rows[count:] = -1
        embeds.copy_(before)
        index.copy_(rows)
        before[rows[:count]] = image[:count].cpu()
        assert same_bits(replay(), before)


@cuda_only
def test_offsets_beyond_2_to_the_31(target: str, device: torch.device, rng: torch.Generator) -> None:
    rows, width = 2**31 // 4096 + 40, 4096  # 4.3 GB
    embeds = torch.zeros(rows, width, dtype=torch.bfloat16, device=device)
    image = torch.randn(6, width, generator=rng).bfloat16().to(device)
    index = torch.tensor([rows - 1, 0, rows - 39, 2**31 // width, 5, 2**30 // width], device=device)
    replace_input_embeds(embeds, image, index)
    assert same_bits(embeds[index], image)
    assert int(embeds.any(1).count_nonzero()) == 6


@cuda_only
@pytest.mark.parametrize("tokens", [1, 16384, 16385, 200_001])
def test_marks_are_found_in_long_sequences(
    tokens: int, target: str, device: torch.device, rng: torch.Generator
) -> None:
    mask = torch.rand(tokens + 1, generator=rng) < 0.3
    for part in (mask[:tokens], mask[1:]):  # aligned and not
        marked = torch.nonzero(part).flatten()
        result = image_token_index(Guarded((part,), device, rng).args[0], tokens // 2 + 3).cpu()
        shown = min(len(marked), tokens // 2 + 3)
        assert torch.equal(result[:shown], marked[:shown])
        assert bool((result[shown:] == -1).all())
