"""The Ascend kernel on the host model: real sizes, orders of the pipes, rows that must be done again, what it moves."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Generator, Tensor

from tilevl.attn_rel_h_rel_w import attn_rel_h_rel_w
from tilevl.testing import relative_error, same_bits
from tilevl.testing.guards import Guarded
from tilevl.testing.simulated_npu import SimulatedNpu

from . import oracle
from .cases import BF16, FP16, tensors
from .test_standard import BOUNDS, compare

pytestmark = pytest.mark.targets("ascend")

INF, NAN = float("inf"), float("nan")
ORDERS = [{"order": "lazy"}, *({"order": "random", "seed": seed} for seed in range(3))]
GRID = (13, 16)  # two blocks of keys, the second one short
ODD = (19, 11)  # the same, where the row bias is gathered for even and odd keys apart

LONG = (32, 64)  # tiles take turns with the same keys


def run(device: torch.device, args: tuple[Any, ...]) -> Tensor:
    moved = [arg.to(device) if isinstance(arg, Tensor) else arg for arg in args]
    result: Tensor = attn_rel_h_rel_w(*moved)
    return result.cpu()


def products(simulated: SimulatedNpu) -> int:
    """Multiply-adds of the last launch."""
    return simulated.launches[-1].counters.macs


@pytest.mark.parametrize(
    ("grid", "batch", "heads", "head_dim", "dtype"),
    [
        ((14, 14), 2, 3, 64, BF16),
        ((14, 14), 1, 2, 80, FP16),
        ((21, 21), 1, 1, 64, FP16),
        ((40, 40), 1, 1, 64, BF16),
        ((48, 48), 1, 1, 64, BF16),
        ((64, 64), 1, 1, 64, BF16),
        ((30, 67), 1, 1, 112, BF16),
        ((3, 300), 1, 1, 32, BF16),
        ((1400, 1), 1, 1, 16, FP16),
        ((301, 8), 1, 1, 128, BF16),
    ],
    ids=str,
)
def test_real_sizes(
    grid: tuple[int, int], batch: int, heads: int, head_dim: int, dtype: torch.dtype, device: torch.device,
    rng: Generator,
) -> None:  # fmt: skip
    """Against float64 and the CPU op; the packed qkv and the padding of the tables are the model's own."""
    tokens = grid[0] * grid[1]
    tables = tensors(rng, *grid, batch=batch, heads=heads, head_dim=16, dtype=dtype, padding=(2, 5))[3:]
    qkv = torch.randn(batch, tokens, 3, heads, head_dim, generator=rng).to(dtype)
    result = run(device, (*qkv.unbind(2), *tables, *grid))
    on_cpu = attn_rel_h_rel_w(*qkv.unbind(2), *tables, *grid)
    assert relative_error(result, on_cpu.double()) < 2 * BOUNDS[dtype]
    assert relative_error(result, exact(*qkv.unbind(2), *tables, *grid)) < BOUNDS[dtype]


def exact(query: Tensor, key: Tensor, value: Tensor, rel_h: Tensor, rel_w: Tensor, rows: int, columns: int) -> Tensor:
    """In float64, by whole matrices: the oracle takes minutes for this."""
    q, k, v = (tensor.double().transpose(1, 2) for tensor in (query, key, value))
    h, w = (table.double().transpose(1, 2) for table in (rel_h[..., :rows], rel_w[..., :columns]))
    scores = q @ k.mT / query.shape[-1] ** 0.5 + (h.unsqueeze(-1) + w.unsqueeze(-2)).flatten(-2)
    return (scores.softmax(-1) @ v).transpose(1, 2)


@pytest.mark.parametrize("again", [False, True], ids=["in_one_go", "and_again"])
@pytest.mark.parametrize(
    "grid",
    [GRID, ODD, (2, 160), LONG, (3, 5), (1, 1)],
    ids=["grouped", "gathered", "streamed", "twins", "small", "one"],
)
def test_any_order_of_the_pipes_gives_the_same_bits(
    grid: tuple[int, int], again: bool, simulated: SimulatedNpu, device: torch.device, rng: Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("TILEVL_NUM_VECTOR_CORES", "4")  # several tasks a group, so that both places of a buffer serve
    batch, heads = {LONG: (1, 1), (3, 5): (3, 4), (1, 1): (2, 5)}.get(grid, (1, 2))
    args = (*tensors(rng, *grid, batch=batch, heads=heads, head_dim=64, padding=(1, 3)), *grid)
    if again:
        args[3][:, ::70, :, grid[0] - 1] += 200
    simulated.options = {"order": "eager"}
    expected = run(device, args)
    compare(expected, oracle.attn_rel_h_rel_w(*args))
    for options in ORDERS:
        simulated.options = options
        guarded = Guarded(args, device, rng)
        assert same_bits(attn_rel_h_rel_w(*guarded.args), expected)
        assert guarded.changed_bytes() == []


def growing(args: tuple[Any, ...], step: float) -> None:
    """The last row of keys is ahead of all others by a step, for some queries."""
    args[3][:, 3::50, :, args[5] - 1] += step


def first_block_masked(args: tuple[Any, ...], _: float) -> None:
    args[3][:, 5::40, :, : args[5] - 2] = -INF


def all_masked(args: tuple[Any, ...], _: float) -> None:
    args[4][:, 5::40, :, : args[6]] = -INF
    args[3][:, 100:140, :, : args[5]] = -INF


def one_infinite(args: tuple[Any, ...], number: float) -> None:
    args[3][:, 7, :, args[5] - 1] = number
    args[4][:, 90, :, 3] = number


def all_far_below(args: tuple[Any, ...], number: float) -> None:
    """As some mask: for some queries the whole row, for others the first block."""
    args[4][:, 5::40, :, : args[6]] = number
    args[3][:, 8::40, :, : args[5] - 2] = number


def large_values(args: tuple[Any, ...], number: float) -> None:
    args[2][:, 150:] *= number
    args[3][:, 20::50, :, args[5] - 1] += 60


def large_scores(args: tuple[Any, ...], number: float) -> None:
    args[0].mul_(number)


@pytest.mark.parametrize("grid", [GRID, ODD], ids=["grouped", "gathered"])
@pytest.mark.parametrize(
    ("spoil", "number", "dtype"),
    [
        (growing, 8, FP16),
        (growing, 14, FP16),
        (growing, 40, BF16),
        (growing, 150, BF16),
        (growing, 9000, BF16),
        (first_block_masked, 0, BF16),
        (first_block_masked, 0, FP16),
        (all_masked, 0, BF16),
        (all_masked, 0, FP16),
        (one_infinite, INF, BF16),
        (one_infinite, NAN, BF16),
        (all_far_below, -1e30, BF16),
        (all_far_below, -3e38, BF16),
        (all_far_below, -6e4, FP16),
        (large_values, 1e37, BF16),
        (large_scores, 300, BF16),
        (large_scores, -40, FP16),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)).removeprefix("torch."),
)
def test_no_scores_give_a_wrong_row(
    spoil: Any, number: float, dtype: torch.dtype, grid: tuple[int, int], device: torch.device, rng: Generator
) -> None:
    args = (*tensors(rng, *grid, batch=1, heads=1, head_dim=64, dtype=dtype, padding=(3, 2)), *grid)
    spoil(args, number)
    compare(run(device, args), oracle.attn_rel_h_rel_w(*args))


def test_only_tiles_that_need_it_are_done_again(simulated: SimulatedNpu, device: torch.device, rng: Generator) -> None:
    args = (*tensors(rng, *GRID, batch=1, heads=2, head_dim=64), *GRID)
    run(device, args)
    once = products(simulated)
    args[3][0, 9, 1, GRID[0] - 1] += 200
    run(device, args)
    tiles = 2 * import_module("tilevl.attn_rel_h_rel_w.kernels.ascend_plan").plan_of("bfloat16", 64, *GRID, True).tiles
    assert once < products(simulated) < once * (1 + 2 / tiles)  # of its three products one is the first sweep's


@pytest.mark.parametrize("scale", [0.125, -0.25, 1.0, 2.0, 0.37, 0.0, 3e-39])
def test_any_scale(scale: float, device: torch.device, rng: Generator) -> None:
    args = (*tensors(rng, *GRID, batch=1, heads=1, head_dim=16), *GRID, scale)
    compare(run(device, args), oracle.attn_rel_h_rel_w(*args))


def test_tokens_heads_and_batch_in_any_order_and_expanded(device: torch.device, rng: Generator) -> None:
    heads, batch, tokens = 3, 2, GRID[0] * GRID[1]
    memory = torch.randn(heads, tokens, batch, 40, generator=rng).bfloat16()
    query = memory.permute(2, 1, 0, 3)[..., 5:21]
    key = torch.randn(tokens, 1, 1, 17, generator=rng).bfloat16().permute(1, 0, 2, 3)[..., 1:].expand(2, -1, 3, -1)
    value = torch.randn(2, 1, 3, 16, generator=rng).bfloat16().expand(2, tokens, 3, 16)
    rel_h = torch.randn(1, tokens, 3, 13, generator=rng).bfloat16().expand(2, -1, -1, -1)
    rel_w = torch.randn(2, 1, 1, 19, generator=rng).bfloat16()[..., 2:].expand(2, tokens, 3, 17)
    args = (query, key, value, rel_h, rel_w, *GRID)
    compare(run(device, args), oracle.attn_rel_h_rel_w(*args))


def test_a_second_batch_and_other_strides_compile_nothing(
    simulated: SimulatedNpu, device: torch.device, rng: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(device, (*tensors(rng, *ODD, batch=1, heads=1, head_dim=16), *ODD))
    monkeypatch.setattr("tilevl.testing.ascend_host.compile", None)
    args = (*tensors(rng, *ODD, batch=3, heads=4, head_dim=16, padding=(2, 2)), *ODD)
    compare(run(device, args), oracle.attn_rel_h_rel_w(*args))
    assert len({launch.grid for launch in simulated.launches}) == 1


def test_a_block_takes_few_vector_instructions(
    simulated: SimulatedNpu, device: torch.device, rng: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64 queries by 128 keys, with what comes once for a tile; 32 blocks of a 64 x 64 grid each bear less of that."""
    monkeypatch.setenv("TILEVL_NUM_VECTOR_CORES", "2")
    args = (*tensors(rng, *LONG, batch=1, heads=1, head_dim=64), *LONG)
    result = run(device, args)
    assert relative_error(result, exact(*args)) < BOUNDS[BF16]
    counters = simulated.launches[-1].counters
    instructions = sum(count for kind, count in counters.vector.items() if kind != "mask")
    blocks = 2048 * 2048 / (64 * 128)
    assert instructions < 1050 * blocks
    assert counters.simt["threads"] == 0
