"""The Ascend kernels on the host model: orders of the pipes, each way through them, bad data, and what they move."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Generator, Tensor

from tilevl.replace_input_embeds import image_token_index, replace_input_embeds
from tilevl.testing import ascend_host, same_bits
from tilevl.testing.guards import Guarded
from tilevl.testing.simulated_launch import named_arguments
from tilevl.testing.simulated_npu import SimulatedNpu

from . import oracle

pytestmark = pytest.mark.targets("ascend")

ORDERS = [{"order": "eager"}, {"order": "lazy"}, *({"order": "random", "seed": seed} for seed in range(3))]
WIDTHS = {"whole_blocks": 128, "odd": 51, "one_piece": 16384, "two_pieces": 16387}


def draw(g: Generator, *shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.randn(shape, generator=g).to(dtype)


def runs(g: Generator) -> Tensor:
    """Rising, with runs longer than a copy takes, single rows, and rows that are skipped at the end."""
    index = torch.cat([torch.arange(3, 150), torch.arange(155, 200, 3), torch.arange(210, 230)])
    return torch.cat([index, torch.full((9,), -1)])


def rising_from_below(g: Generator) -> Tensor:
    return torch.arange(-20, 120)


def shuffled(g: Generator) -> Tensor:
    return torch.randperm(240, generator=g)[:150]


def repeated(g: Generator) -> Tensor:
    return torch.randint(-2, 30, (150,), generator=g)


def one_row_only(g: Generator) -> Tensor:
    return torch.full((100,), 7)


def hostile(g: Generator) -> Tensor:
    """Far outside on both sides, just outside, and a few rows that are right."""
    far = torch.tensor([-(2**63), 2**63 - 1, -(2**31), 2**31, 2**32 + 3, -1, 240, 241, 480, -240])
    return torch.cat([far, torch.arange(236, 246), far, torch.arange(5)])


INDICES = [runs, rising_from_below, shuffled, repeated, one_row_only, hostile]


def last_of_equal_wins(embeds: Tensor, rows: Tensor, index: Tensor) -> Tensor:
    expected = embeds.clone()
    for row, to in zip(rows, index.tolist(), strict=True):
        if 0 <= to < len(expected):
            expected[to] = row
    return expected


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS.keys())
@pytest.mark.parametrize("make", INDICES)
def test_any_order_of_the_pipes_gives_the_same_rows(
    make: object, width: int, simulated: SimulatedNpu, device: torch.device, rng: Generator
) -> None:
    if width > 1000 and make not in (runs, repeated):
        pytest.skip("rows of several pieces take the same ways with other indices")
    index = make(rng)  # type: ignore[operator]
    embeds, rows = draw(rng, 240, width), draw(rng, index.numel(), width)
    expected = last_of_equal_wins(embeds, rows, index)
    for options in ORDERS if width < 1000 else ORDERS[:3]:
        simulated.options = options
        guarded = Guarded((embeds, rows, index), device, rng)
        replace_input_embeds(*guarded.args)
        assert same_bits(guarded.args[0], expected)
        assert guarded.changed_bytes((0,)) == []


@pytest.mark.parametrize("cores", ["1", "5", "72", "1000"])
def test_any_number_of_cores_gives_the_same_rows(
    cores: str, simulated: SimulatedNpu, device: torch.device, rng: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEVL_NUM_VECTOR_CORES", cores)
    for index in (runs(rng), repeated(rng)):
        embeds, rows = draw(rng, 240, 40), draw(rng, index.numel(), 40)
        result = embeds.to(device)
        replace_input_embeds(result, rows.to(device), index.to(device))
        assert simulated.launches[-1].grid == min(int(cores), 72)
        assert same_bits(result, last_of_equal_wins(embeds, rows, index))


@pytest.mark.parametrize("cores", ["0", "-1", "many", ""])
def test_a_number_of_cores_that_is_none_is_refused(
    cores: str, simulated: SimulatedNpu, device: torch.device, rng: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEVL_NUM_VECTOR_CORES", cores)
    embeds = draw(rng, 9, 8).to(device)
    with pytest.raises(ValueError, match="TILEVL_NUM_VECTOR_CORES must be a positive number"):
        replace_input_embeds(embeds, embeds[:2].clone(), torch.tensor([4, 5]).to(device))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("count", [8191, 8192, 8193])
def test_indices_in_any_order_may_be_just_more_than_a_core_keeps(
    count: int, dtype: torch.dtype, device: torch.device, rng: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEVL_NUM_VECTOR_CORES", "2")  # each walks over all indices, which takes the model long
    index = torch.randint(0, 9000, (count,), generator=rng).to(dtype)
    embeds, rows = draw(rng, 9000, 8), draw(rng, count, 8)
    result = embeds.to(device)
    replace_input_embeds(result, rows.to(device), index.to(device))
    assert same_bits(result, last_of_equal_wins(embeds, rows, index))


def test_bytes_of_indices_in_any_order_are_read_once_by_each_core(
    simulated: SimulatedNpu, device: torch.device, rng: Generator
) -> None:
    embeds, rows, index = draw(rng, 4096, 128), draw(rng, 2048, 128), torch.randperm(4096, generator=rng)[:2048]
    result = embeds.to(device)
    replace_input_embeds(result, rows.to(device), index.to(device))
    (launch,) = simulated.launches
    moved = launch.counters.global_bytes - 2 * rows.nbytes
    assert moved <= 1.01 * launch.grid * index.nbytes


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize(("rows", "width"), [(576, 2048), (1024, 1024)])
def test_bytes_moved_are_close_to_the_least_possible(
    rows: int, width: int, dtype: torch.dtype, simulated: SimulatedNpu, device: torch.device, rng: Generator
) -> None:
    embeds, image, index = draw(rng, 2 * rows, width), draw(rng, rows, width), torch.arange(rows, dtype=dtype) + 33
    result = embeds.to(device)
    replace_input_embeds(result, image.to(device), index.to(device))
    assert same_bits(result, oracle.replace_input_embeds(embeds, image, index))
    (launch,) = simulated.launches
    moved = launch.counters.bytes
    assert moved["ub_gm"] == image.nbytes
    assert launch.counters.global_bytes <= 1.15 * (2 * image.nbytes + index.nbytes)


def test_neighbouring_rows_move_as_one_copy(simulated: SimulatedNpu, device: torch.device, rng: Generator) -> None:
    """72 cores, 16 rows each, 8 KiB a row: 4 rows fit a copy."""
    embeds, image = draw(rng, 2000, 4096), draw(rng, 72 * 16, 4096)
    for index, copies in ((torch.arange(72 * 16), 72 * 4), (torch.arange(72 * 16).flip(0), 72 * 16)):
        simulated.launches.clear()
        replace_input_embeds(embeds.to(device), image.to(device), index.to(device))
        (launch,) = simulated.launches
        assert launch.counters.descriptors["ub_gm"] == copies


def test_cores_share_the_rows_evenly(simulated: SimulatedNpu, device: torch.device, rng: Generator) -> None:
    embeds, image = draw(rng, 500, 64), draw(rng, 300, 64)
    replace_input_embeds(embeds.to(device), image.to(device), torch.arange(300).to(device))
    (launch,) = simulated.launches
    rows = [core.bytes["ub_gm"] // 128 for core in launch.counters.cores]
    assert sum(rows) == 300 and set(rows) == {4, 5}


@pytest.mark.parametrize("tokens", [5, 8192, 8193, 40000])
@pytest.mark.parametrize("layout", ["dense", "strided"])
def test_positions_are_found_in_any_order_of_the_pipes(
    tokens: int, layout: str, simulated: SimulatedNpu, device: torch.device, rng: Generator
) -> None:
    whole = torch.rand((tokens, 2), generator=rng) < 0.3
    mask = whole[:, 0].clone() if layout == "dense" else whole[:, 0]
    marked = torch.nonzero(mask).flatten()
    for options in ORDERS[:3]:
        simulated.options = options
        for length in (len(marked) - 2, len(marked) + 8300):  # what is marked past the length is left out
            result = image_token_index(Guarded((mask,), device, rng).args[0], max(0, length)).cpu()
            kept = marked[: max(0, length)]
            assert torch.equal(result[: len(kept)], kept) and bool((result[len(kept) :] == -1).all())


def test_cores_that_did_not_look_would_meet_in_a_row(simulated: SimulatedNpu, rng: Generator) -> None:
    from tilevl.replace_input_embeds.kernels import ascend

    program = ascend.move_rows(8, "bfloat16", "int64", 128)
    source, changed = re.subn(r"(\[\d+\] <) 2\)", r"\1 1000000)", ascend_host.lower(program))
    assert changed == 1
    kernel = ascend_host.compile(source)
    names = [parameter.name for parameter in kernel.signature.parameters]
    tensors = draw(rng, 1, 240, 40), draw(rng, 100, 40), one_row_only(rng)
    with pytest.raises(ascend_host.KernelFaultError, match="nothing orders the blocks"):
        kernel(8, **named_arguments(program, tensors, names))
