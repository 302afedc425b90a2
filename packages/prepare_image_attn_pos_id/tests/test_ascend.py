"""The Ascend kernel on the host model: orders of the pipes, each way through it, bad data, and what it moves."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Generator, Tensor

from tilevl.prepare_image_attn_pos_id import prepare_image_attn_pos_id
from tilevl.testing import same_bits
from tilevl.testing.guards import Guarded
from tilevl.testing.simulated_npu import SimulatedNpu

from . import oracle

pytestmark = pytest.mark.targets("ascend")

ORDERS = [{"order": "eager"}, {"order": "lazy"}, *({"order": "random", "seed": seed} for seed in range(3))]
CALLS = {  # grids, window, spare rows
    "one_image": ([(64, 64)], 1, 0),
    "one_image_in_windows": ([(48, 64)], 2, 5),
    "one_image_of_odd_width": ([(70, 131)], 1, 3),
    "few_images": ([(3, 5), (40, 31), (2, 3)], 1, 9),
    "few_images_in_windows_of_3": ([(60, 63), (3, 6), (9, 30)], 3, 0),
    "wider_than_a_period": ([(3, 2049), (1, 9000), (2, 2048)], 1, 1),
    "many_images": ([(2, 2)] * 1500 + [(4, 2)] * 300, 2, 40),
    "more_images_than_are_searched_at_once": ([(1, 1)] * 3000 + [(0, 7)] * 1500 + [(1, 2)] * 9, 1, 2),
    "spare_rows_only": ([(0, 4)] * 3, 2, 5000),
    "no_images": ([], 1, 33),
}


def sums_of(grids: Tensor) -> Tensor:
    return torch.nn.functional.pad(grids.prod(1).cumsum(0), (1, 0))


def call(grids: Sequence[tuple[int, int]], window: int, spare: int) -> tuple[Tensor, Tensor, int, int]:
    grid_hw = torch.tensor(grids, dtype=torch.int64).view(-1, 2)
    sums = sums_of(grid_hw)
    return grid_hw, sums, int(sums[-1]) + spare, window


@pytest.mark.parametrize("cores", ["3", "72"])
@pytest.mark.parametrize("name", CALLS)
def test_any_order_of_the_pipes_gives_the_same_positions(
    name: str,
    cores: str,
    simulated: SimulatedNpu,
    device: torch.device,
    rng: Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TILEVL_NUM_VECTOR_CORES", cores)
    args = call(*CALLS[name])
    expected = oracle.prepare_image_attn_pos_id(*args)
    for options in ORDERS:
        simulated.options = options
        guarded = Guarded(args, device, rng)
        assert same_bits(prepare_image_attn_pos_id(*guarded.args), expected)
        assert guarded.changed_bytes() == []
        assert simulated.launches[-1].grid == int(cores)


@pytest.mark.parametrize("sums_dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("grid_dtype", [torch.int32, torch.int64])
def test_index_dtypes_may_differ(
    grid_dtype: torch.dtype, sums_dtype: torch.dtype, simulated: SimulatedNpu, device: torch.device, rng: Generator
) -> None:
    grids = torch.randint(0, 6, (400, 2), generator=rng)
    grids[137] = torch.tensor([70, 50])
    args = grids, sums_of(grids), int(grids.prod(1).sum()) + 7, 1
    on_device = args[0].to(grid_dtype).to(device), args[1].to(sums_dtype).to(device), *args[2:]
    assert same_bits(prepare_image_attn_pos_id(*on_device), oracle.prepare_image_attn_pos_id(*args))


def test_long_images_take_additions_and_short_ones_a_search(simulated: SimulatedNpu, device: torch.device) -> None:
    def counts(grids: Sequence[tuple[int, int]]) -> tuple[int, int]:
        grid_hw, sums, total, window = call(grids, 1, 0)
        prepare_image_attn_pos_id(grid_hw.to(device), sums.to(device), total, window)
        counters = simulated.launches[-1].counters
        return counters.vector["arithmetic"], counters.descriptors["gm_ub"]

    additions, searched = counts([(512, 512)])
    assert additions > 512 * 512 // 32 and searched == 0
    additions, searched = counts([(2, 3)] * 2000)
    assert additions == 0 and searched > 0


@pytest.mark.parametrize(
    ("grids", "window"),
    [([(128, 128)] * 16, 1), ([(128, 128)] * 16, 2), ([(2, 2)] * 10_000, 2), ([(96, 130), (64, 34)] * 8, 2)],
    ids=["raster", "windows", "many", "mixed"],
)
def test_bytes_moved_are_close_to_the_least_possible(
    grids: Sequence[tuple[int, int]], window: int, simulated: SimulatedNpu, device: torch.device
) -> None:
    grid_hw, sums, total, _ = call(grids, window, 0)
    result = prepare_image_attn_pos_id(grid_hw.to(device), sums.to(device), total, window)
    assert same_bits(result, oracle.prepare_image_attn_pos_id(grid_hw, sums, total, window))
    (launch,) = simulated.launches
    assert launch.counters.bytes["ub_gm"] == 8 * total
    assert launch.counters.global_bytes <= 1.15 * (8 * total + grid_hw.nbytes + sums.nbytes)


def test_cores_share_the_tokens_evenly(simulated: SimulatedNpu, device: torch.device) -> None:
    grid_hw, sums, total, window = call([(100, 100)], 1, 0)
    prepare_image_attn_pos_id(grid_hw.to(device), sums.to(device), total, window)
    (launch,) = simulated.launches
    tokens = [core.bytes["ub_gm"] // 8 for core in launch.counters.cores]
    assert sum(tokens) == 10_000 and max(tokens) == 144  # 10,000 / 72 in steps of 16


def test_tokens_outside_of_all_grids_are_at_zero(simulated: SimulatedNpu, device: torch.device, rng: Generator) -> None:
    grids = torch.tensor([[2, 3], [-4, 5], [2**62, 2**62], [3, 0], [1, 4]])
    sums = torch.tensor([0, 8, 12, 2000, 2000, 2002])
    for options in ORDERS:
        simulated.options = options
        result = prepare_image_attn_pos_id(*Guarded((grids, sums), device, rng).args, 2100).cpu()
        assert result[:8].tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2], [0, 0], [0, 0]]
        assert not bool(result[8:2000].any())
        assert result[2000:2002].tolist() == [[0, 0], [0, 1]]
        assert not bool(result[2002:].any())


@pytest.mark.parametrize("window", [1, 2, 2**40])
@pytest.mark.parametrize("reach", [40, 3000, 2**31, 2**62])
def test_hostile_data_touches_nothing_else(
    reach: int, window: int, simulated: SimulatedNpu, device: torch.device, rng: Generator
) -> None:
    for seed in range(4):
        simulated.options = {"order": "random", "seed": seed}
        grids = torch.randint(-reach, reach, (30, 2), generator=rng)
        sums = torch.randint(-reach, reach, (31,), generator=rng)
        guarded = Guarded((grids, sums), device, rng)
        assert prepare_image_attn_pos_id(*guarded.args, 1500, window).shape == (1500, 2)
        assert guarded.changed_bytes() == []


def test_positions_far_inside_a_huge_image(simulated: SimulatedNpu, device: torch.device) -> None:
    """A sum far below 0, which no valid call has, stands for tokens that no memory here could hold."""
    for width, first in ((2**31, 2**33 + 5), (1000, 2**40 + 3), (5000, 2**42)):
        grids, sums = torch.tensor([[2**31, width]]), torch.tensor([-first, 4000])
        result = prepare_image_attn_pos_id(grids.to(device), sums.to(device), 4000).cpu().long()
        local = first + torch.arange(4000)
        assert torch.equal(result[:, 0], local // width) and torch.equal(result[:, 1], local % width)
