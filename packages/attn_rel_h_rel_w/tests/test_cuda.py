"""On CUDA: programs build without a GPU; large grids, alignments, captures; no hidden synchronisation or build."""

from __future__ import annotations

import itertools
from importlib import import_module, util
from typing import Any

import pytest
import torch
from torch import Generator, Tensor

from tilevl.attn_rel_h_rel_w import attn_rel_h_rel_w, contract
from tilevl.core import cuda
from tilevl.testing import relative_error
from tilevl.testing.cuda_suite import build_without_gpu
from tilevl.testing.graphs import capture
from tilevl.testing.require import required

from . import oracle
from .cases import BF16, CASES, FP16, tensors
from .test_standard import compare

KERNELS = "tilevl.attn_rel_h_rel_w.kernels"
GRIDS = [(64, 64), (48, 48), (40, 40), (14, 14), (7, 41), (1, 160), (3, 300), (37, 29), (2, 67), (19, 13)]
HEAD_DIMS = [48, 80, 128]
PADDINGS = {"aligned_tables": 16, "tables_of_even_width": 14, "tables_of_odd_width": 17}  # widths are a multiple of it
KINDS = [(grid, BF16) for grid in GRIDS] + [(grid, FP16) for grid in ((64, 64), (14, 14), (7, 41))]
BENCHMARKED = [(64, 64), (48, 48), (40, 40), (14, 14)]
MASKED_GRID = (22, 26)  # its last tile of keys goes beyond both sides
IN_FOURS = [MASKED_GRID, (26, 38), (3, 300), (300, 2)]  # three warpgroups, columns in parts, rows in parts
ALWAYS = 2  # programs of Hopper that are built wherever there is a compiler; the rest take minutes
cuda_only = pytest.mark.targets("cuda")

Program = tuple[str, str, int, int, int]


def on(device: torch.device, args: tuple) -> list:
    return [arg.to(device) if isinstance(arg, Tensor) else arg for arg in args]


def padded(rng: Generator, grid: tuple[int, int], width: int, **rest: Any) -> tuple:
    """Inputs whose tables have a multiple of a width as columns."""
    return *tensors(rng, *grid, padding=(-grid[0] % width, -grid[1] % width), **rest), *grid


def kind_of(*tensors: Tensor, on_hopper: bool = True) -> str:
    """The kind of program that runs for query, key, value, rel_h and rel_w."""
    kernels = import_module(f"{KERNELS}.cuda")
    addresses = [tensor.data_ptr() for tensor in tensors]
    q, k, v = addresses[:3]
    found = kernels.kind_at(kernels.for_hopper(*tensors) if on_hopper else None, *addresses)
    return found or kernels.kind_of_any(q | k | v, *(tensor.stride()[:3] for tensor in tensors[:3]))[0]


def programs_of_the_suite() -> list[Program]:
    """Kind, dtype, head dim, rows and columns of what Hopper runs in these tests and in the benchmark."""
    kernels = import_module(f"{KERNELS}.cuda")
    rng = torch.Generator().manual_seed(0)
    calls = [case.make(rng) for case in CASES if not case.targets or "cuda" in case.targets]
    few = {"batch": 1, "heads": 1}
    calls += [padded(rng, grid, 16, head_dim=64, **few) for grid in (*BENCHMARKED, MASKED_GRID)]
    calls += [padded(rng, grid, 2, head_dim=64, **few) for grid in IN_FOURS]
    calls += [(*tensors(rng, *grid, head_dim=64, dtype=t, padding=(3, 5), **few), *grid) for grid, t in KINDS]
    calls += [
        (*tensors(rng, *grid, heads=2, head_dim=d, dtype=t, batch=1), *grid)
        for grid, d, t in itertools.product((*BENCHMARKED, (3, 300), (300, 2)), (16, 64), (BF16, FP16))
        if d == 64 or (t == BF16 and grid in ((14, 14), (40, 40)))
    ]
    calls += [padded(rng, (14, 14), width, head_dim=d, **few) for width in PADDINGS.values() for d in (64, *HEAD_DIMS)]
    found = {}
    for call in calls:
        args = (*call, None, None, None)[:8]
        dtype, head_dim, rows, columns = contract.specialise(*args)
        if all(tensor.numel() for tensor in args[:5]):
            tables = args[3:5] if columns > 1 else (args[4], args[3])
            rows, columns = (rows, columns) if columns > 1 else (columns, rows)
            kind = kind_of(*args[:3], *tables, on_hopper=kernels.plan_of(head_dim, rows, columns) is not None)
            found[kind, str(dtype).removeprefix("torch."), head_dim, rows, columns] = None
    return list(found)


def test_every_program_of_the_suite_builds_without_a_gpu() -> None:
    """Two of them everywhere, all where TILEVL_REQUIRE asks for a compiler."""
    if not util.find_spec("tilelang"):
        build_without_gpu(None, "sm_90a")
    kernels = import_module(f"{KERNELS}.cuda")
    programs = programs_of_the_suite()
    assert {kind for kind, *_ in programs} >= {*kernels.TOGETHER}
    for program in programs if "cuda_compiler" in required() else programs[:ALWAYS]:
        build_without_gpu(kernels.trace(*program), "sm_90a", kernels.PASS_CONFIGS)


@pytest.mark.parametrize("architecture", ["sm_90a", "sm_80"])
@pytest.mark.parametrize("kind", ["units", "elements"])
def test_general_programs_build_without_a_gpu(kind: str, architecture: str) -> None:
    program = None
    if util.find_spec("tilelang"):
        program = import_module(f"{KERNELS}.cuda").trace(kind, "float16", 80, 14, 14)
    build_without_gpu(program, architecture)


@pytest.mark.parametrize("head_dim", range(16, 129, 16))
def test_every_plan_covers_the_grid_and_fits(head_dim: int) -> None:
    plan_of = import_module(f"{KERNELS}.cuda_plans").plan_of
    for grid_h, grid_w in itertools.product(
        [1, 2, 7, 14, 37, 40, 48, 64, 65, 128, 300], [2, 8, 13, 14, 40, 48, 64, 129]
    ):
        plan = plan_of(head_dim, grid_h, grid_w)
        if plan is not None:
            assert plan.down * plan.rows >= grid_h and plan.parts * plan.columns >= grid_w
            assert plan.keys % 16 == 0 and plan.columns % 8 == 0 and plan.keys <= 256
            assert sum(width for _, width in plan.pieces) == head_dim
            assert plan.h_width * plan.h_chunks >= plan.down * plan.rows and plan.h_width <= 256
            assert plan.shared_bytes <= 227 * 1024
    assert plan_of(head_dim, 64, 64) is not None


@cuda_only
@pytest.mark.parametrize(("grid", "dtype"), KINDS, ids=str)
def test_grids_of_every_plan(
    grid: tuple[int, int], dtype: torch.dtype, target: str, device: torch.device, rng: Generator
) -> None:
    args = (*tensors(rng, *grid, batch=2, heads=3, head_dim=64, dtype=dtype, padding=(3, 5)), *grid)
    compare(attn_rel_h_rel_w(*on(device, args)), oracle.attn_rel_h_rel_w(*args))


@cuda_only
@pytest.mark.parametrize("width", PADDINGS.values(), ids=PADDINGS)
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_head_dims_with_tables_of_any_width(
    head_dim: int, width: int, target: str, device: torch.device, rng: Generator
) -> None:
    args = padded(rng, (14, 14), width, batch=2, heads=3, head_dim=head_dim)
    compare(attn_rel_h_rel_w(*on(device, args)), oracle.attn_rel_h_rel_w(*args))


@cuda_only
@pytest.mark.parametrize("width", PADDINGS.values(), ids=PADDINGS)
def test_more_heads_than_blocks_at_once(width: int, target: str, device: torch.device, rng: Generator) -> None:
    """Each block takes several turns, and loads the next one's tables while it works on the last."""
    args = padded(rng, (14, 14), width, batch=30, heads=13, head_dim=64)
    compare(attn_rel_h_rel_w(*on(device, args)), oracle.attn_rel_h_rel_w(*args))


@cuda_only
@pytest.mark.parametrize("head_dim", [64, 80])
@pytest.mark.parametrize("shift", [1, 2, 4, 8])
def test_any_alignment(shift: int, head_dim: int, target: str, device: torch.device, rng: Generator) -> None:
    qkv = torch.randn(2, 54, 3, 2, head_dim + 2 * shift, generator=rng).bfloat16()
    query, key, value = qkv[..., shift : shift + head_dim].unbind(2)
    rel_h, rel_w = (torch.randn(2, 54, 2, side + shift, generator=rng).bfloat16()[..., shift:] for side in (6, 9))
    memory = qkv.to(device)
    moved = memory[..., shift : shift + head_dim].unbind(2)
    tables = [
        table.to(device).as_strided(table.shape, table.stride(), 0) if table.is_contiguous() else table.to(device)
        for table in (rel_h, rel_w)
    ]
    result = attn_rel_h_rel_w(*moved, *tables, 6, 9)
    compare(result, oracle.attn_rel_h_rel_w(query, key, value, rel_h, rel_w, 6, 9))


@cuda_only
@pytest.mark.parametrize("grid", [(16, 16), (14, 14)], ids=str)
def test_minus_infinity_and_nan_stay_in_their_rows(
    grid: tuple[int, int], target: str, device: torch.device, rng: Generator
) -> None:
    args = (*tensors(rng, *grid, head_dim=64, padding=(2, 2)), *grid)
    args[3][0, 5, 1] = -torch.inf
    args[3][1, :, 2, 3] = -torch.inf
    args[4][0, 70, 0, : grid[1]] = -torch.inf
    args[0][1, 9, 0, 7] = torch.nan
    args[4][1, 100, 1, 2] = torch.nan
    compare(attn_rel_h_rel_w(*on(device, args)), oracle.attn_rel_h_rel_w(*args))


@cuda_only
@pytest.mark.parametrize("grid", [(14, 14), (16, 16), (5, 3)], ids=str)
def test_second_call_neither_synchronises_nor_compiles_for_another_batch(
    grid: tuple[int, int], target: str, device: torch.device, rng: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = on(device, (*tensors(rng, *grid, batch=1, heads=2, head_dim=64, padding=(2, 2)), *grid))
    attn_rel_h_rel_w(*first)
    args = (*tensors(rng, *grid, batch=3, heads=4, head_dim=64, padding=(2, 2)), *grid)
    moved = on(device, args)
    assert kind_of(*first[:5]) == kind_of(*moved[:5])  # else another program, for another layout, would be no fault
    monkeypatch.setattr(cuda, "compiled", None)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        result = attn_rel_h_rel_w(*moved)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    compare(result, oracle.attn_rel_h_rel_w(*args))


@cuda_only
def test_replay_sees_new_contents(target: str, device: torch.device, rng: Generator) -> None:
    args = (*tensors(rng, 16, 16, head_dim=64), 16, 16)
    moved = on(device, args)
    replay = capture(lambda: attn_rel_h_rel_w(*moved))
    for _ in range(3):
        args = (*tensors(rng, 16, 16, head_dim=64), 16, 16)
        for old, new in zip(moved[:5], args[:5], strict=True):
            old.copy_(new)
        compare(replay(), oracle.attn_rel_h_rel_w(*args))


@cuda_only
def test_two_streams_at_once_give_what_one_gives(target: str, device: torch.device, rng: Generator) -> None:
    args = on(device, (*tensors(rng, 16, 16, heads=12, head_dim=64), 16, 16))
    expected = attn_rel_h_rel_w(*args)
    torch.cuda.synchronize()
    streams, results = [torch.cuda.Stream() for _ in range(2)], []
    for turn in range(100):
        with torch.cuda.stream(streams[turn % 2]):
            results.append(attn_rel_h_rel_w(*args))
    torch.cuda.synchronize()
    assert all(torch.equal(result, expected) for result in results)


@cuda_only
def test_reduce_overhead_is_eager(target: str, device: torch.device, rng: Generator) -> None:
    compiled = torch.compile(attn_rel_h_rel_w, fullgraph=True, mode="reduce-overhead")
    for _ in range(4):
        args = (*tensors(rng, 16, 16, head_dim=64), 16, 16)
        compare(compiled(*on(device, args)).clone(), oracle.attn_rel_h_rel_w(*args))


@cuda_only
@pytest.mark.parametrize("head_dim", [64, 80])
def test_offsets_beyond_2_to_the_31(head_dim: int, target: str, device: torch.device, rng: Generator) -> None:
    """The last batch gives what it gives alone; a dense bias would take 73 GB."""
    batch, grid = 2**31 // (1600 * 12 * head_dim) + 3, (40, 40)
    one = [torch.randn(1, 1600, 12, width, generator=rng).bfloat16() for width in (head_dim,) * 3 + grid]
    moved = [tensor.to(device) for tensor in one]
    many = [tensor.repeat(batch, 1, 1, 1) for tensor in moved]
    for tensor in many:
        tensor[1:-1].mul_(0.5)
    result = attn_rel_h_rel_w(*many, *grid)
    assert torch.equal(result[-1], attn_rel_h_rel_w(*moved, *grid)[0])
    assert torch.equal(result[0], result[-1])
    assert relative_error(result[-1].cpu(), oracle.attn_rel_h_rel_w(*one, *grid)[0]) < 4e-3


@cuda_only
def test_extra_memory_is_the_result(target: str, device: torch.device, rng: Generator) -> None:
    args = on(device, (*tensors(rng, 64, 64, batch=1, heads=12, head_dim=64), 64, 64))
    attn_rel_h_rel_w(*args)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = attn_rel_h_rel_w(*args)
    assert torch.cuda.max_memory_allocated() - before <= result.nbytes + 2**20
