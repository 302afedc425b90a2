"""The CPU kernel's two ways, each alone, over blocks of many sizes."""

from __future__ import annotations

import pytest
import torch
from torch import Generator, Tensor

from tilevl.attn_rel_h_rel_w import one_hot
from tilevl.attn_rel_h_rel_w.kernels import cpu
from tilevl.testing import Case, skip_unless

from . import oracle
from .cases import BF16, CASES, masked, tensors
from .test_standard import compare

pytestmark = pytest.mark.targets("cpu")
WORKING = [case for case in CASES if not case.name.startswith("no_")]
Calls = list[tuple[int, ...]]


def attend(args: tuple, dtype: torch.dtype) -> Tensor:
    """The kernel alone, into poisoned storage."""
    out = torch.full(args[0].shape, torch.nan, dtype=dtype)
    cpu.build(dtype)(*(*args, None, None, None)[:8], out)
    return out


@pytest.fixture
def left_over(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Sends every bfloat16 call the faster way; collects the shapes of queries that it leaves to the general one."""
    skip_unless(one_hot.is_fast(), "cpu", "the faster way needs AVX512-BF16 without AMX, and a torch that reports both")
    calls: Calls = []
    general = cpu._attend

    def counted(query: Tensor, *rest: object) -> None:
        calls.append(tuple(query.shape))
        general(query, *rest)

    monkeypatch.setattr(cpu, "_LONG", 0)
    monkeypatch.setattr(cpu, "_WIDE", 0)
    monkeypatch.setattr(cpu, "_attend", counted)
    return calls


@pytest.mark.parametrize("case", WORKING, ids=lambda case: case.name)
def test_faster_way_alone(case: Case, rng: Generator, left_over: Calls) -> None:
    args = case.make(rng)
    args = tuple(arg.bfloat16() if isinstance(arg, Tensor) else arg for arg in args)
    compare(attend(args, BF16), oracle.attn_rel_h_rel_w(*args))
    finite = all(arg.isfinite().all() for arg in args if isinstance(arg, Tensor))
    if finite and case.name not in ("large_norms", "lowest_number_as_mask", "whole_number_as_scale"):
        assert left_over == []


@pytest.mark.parametrize("side", [1, 2, 3, 5, 7, 16])
@pytest.mark.parametrize("parts", [1, 34, 105, 2**16])
def test_tiles_and_blocks_meet_without_a_seam(
    side: int, parts: int, rng: Generator, left_over: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_hot, "_SIDE", side)
    monkeypatch.setattr(one_hot, "_PARTS", parts)
    for head_dim in (16, 48):  # scaled by a power of two, and not
        args = (*tensors(rng, 5, 7, head_dim=head_dim, padding=(1, 0)), 5, 7)
        compare(attend(args, BF16), oracle.attn_rel_h_rel_w(*args))
    assert left_over == []


@pytest.mark.parametrize("shift", [-3e4, -300.0, 300.0, 3e4])
def test_a_shift_of_all_scores_of_a_query_changes_nothing(shift: float, rng: Generator, left_over: Calls) -> None:
    """The columns that hold the level cancel it, however large it is."""
    inputs = tensors(rng, 4, 6)
    rel_w = torch.zeros_like(inputs[4])
    expected = oracle.attn_rel_h_rel_w(*inputs[:4], rel_w, 4, 6)
    rel_w[:, ::2] = shift
    compare(attend((*inputs[:4], rel_w, 4, 6), BF16), expected)
    assert left_over == []


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("block", [1, 34, 36, 200, 35 * 35, 2 * 35 * 35 + 1, 3 * 35 * 35, 7 * 35 * 35, 2**24])
def test_blocks_of_bias_meet_without_a_seam(
    block: int, dtype: torch.dtype, rng: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "_BLOCK", block)
    args = (*tensors(rng, 7, 5, batch=3, dtype=dtype, padding=(0, 2)), 7, 5)
    compare(attend(args, dtype), oracle.attn_rel_h_rel_w(*args))


def test_underflow_leaves_a_head_to_the_general_way(rng: Generator, left_over: Calls) -> None:
    query, key, *rest = tensors(rng, 4, 4, head_dim=64)
    query[:, :, 1] *= 40
    args = (query, key, *rest)
    compare(attend(args, BF16), oracle.attn_rel_h_rel_w(*args))
    assert left_over == [(1, 1, 16, 64), (1, 1, 16, 64)]  # head 1 of both batches


def test_sums_near_underflow_lose_nothing(rng: Generator, left_over: Calls) -> None:
    """A key far away on the other side lifts the level, in steps up to where all probabilities vanish."""
    query, key, *rest = tensors(rng, 4, 4, batch=1, heads=1, head_dim=64)
    query[..., 0] = 4
    general = []
    for distance in range(0, 130, 5):
        key[0, 5] = 0
        key[0, 5, :, 0] = -distance
        args = (query, key, *rest)
        compare(attend(args, BF16), oracle.attn_rel_h_rel_w(*args))
        general.append(len(left_over))
    assert general[8] == 0 and general[-1] > general[-2]


def test_a_query_without_a_key_gives_zeros_whatever_its_other_table_holds(rng: Generator, left_over: Calls) -> None:
    for other in (-60.0, -20.0, 0.0, 60.0):
        inputs = tensors(rng, 4, 4, batch=1)
        inputs[3][0, 3, 1] = -torch.inf
        inputs[4][0, 3, 1] = other
        args = (*inputs, 4, 4)
        compare(attend(args, BF16), oracle.attn_rel_h_rel_w(*args))
    assert left_over == [(1, 1, 16, 16)] * 4


def test_a_level_below_the_scores_leaves_a_head_to_the_general_way(rng: Generator, left_over: Calls) -> None:
    """One key lies where a query points, so that a score reaches what Cauchy-Schwarz allows."""
    query, key, *rest = tensors(rng, 4, 4, batch=1, head_dim=64)
    key[0, :, 2] = 0
    key[0, 5, 2] = 30 * query[0, 9, 2]
    args = (query, key, *rest)
    compare(attend(args, BF16), oracle.attn_rel_h_rel_w(*args))
    assert left_over == [(1, 1, 16, 64)]


def test_a_masked_row_of_keys_needs_no_general_way(rng: Generator, left_over: Calls) -> None:
    inputs = tensors(rng, 4, 5)
    inputs[3][..., 1] = -torch.inf
    args = (*inputs, 4, 5)
    compare(attend(args, BF16), oracle.attn_rel_h_rel_w(*args))
    assert left_over == []


def test_a_query_without_a_key_leaves_its_head_to_the_general_way(rng: Generator, left_over: Calls) -> None:
    args = masked(rng)
    compare(attend(args, BF16), oracle.attn_rel_h_rel_w(*args))
    assert left_over == [(1, 1, 12, 16), (1, 1, 12, 16)]  # of head 1 and of head 2


def test_long_inputs_go_the_faster_way(rng: Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_unless(one_hot.is_fast(), "cpu", "the faster way needs AVX512-BF16 without AMX, and a torch that reports both")
    monkeypatch.setattr(cpu, "_attend", None)
    rows, columns = cpu._LONG // cpu._WIDE, cpu._WIDE
    args = (*tensors(rng, rows, columns, batch=1, heads=1), rows, columns)
    compare(attend(args, BF16), oracle.attn_rel_h_rel_w(*args))


@pytest.mark.parametrize(
    "capabilities", [{}, {"avx512_bf16": False}, {"avx512_bf16": True, "amx_bf16": True}], ids=["none", "old", "amx"]
)
def test_other_processors_go_the_general_way(capabilities: dict[str, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    assert not one_hot.is_fast()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=["fp16", "fp32"])
def test_other_dtypes_go_the_general_way(dtype: torch.dtype, rng: Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_LONG", 0)
    monkeypatch.setattr(cpu, "_WIDE", 0)
    monkeypatch.setattr(one_hot, "attend", None)
    args = tensors(rng, 3, 3, dtype=dtype)
    compare(attend(args, dtype), oracle.attn_rel_h_rel_w(*args))


def test_a_linear_layer_with_other_parameters_isn_t_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_hot, "_LINEAR_TAKES", ("X", "W"))
    assert not one_hot.is_fast()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bf16", "fp32"])
def test_extra_memory_stays_far_below_a_dense_bias(dtype: torch.dtype, rng: Generator) -> None:
    """A 48 x 48 grid, 12 heads: a dense bias takes 121 or 243 MiB; the contract's 100 MiB for 64 x 64 are 32 here."""
    args = tensors(rng, 48, 48, batch=1, heads=12, head_dim=64, dtype=dtype)
    out = torch.empty_like(args[0])
    kernel = cpu.build(dtype)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        kernel(*args, None, None, None, out)
    total = peak = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            total += event.nbytes()
            peak = max(peak, total)
    assert 0 < peak < 40 * 2**20
