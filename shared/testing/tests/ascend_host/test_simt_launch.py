"""Launching SIMT threads: who they are, barriers, and two threads on one byte."""

from __future__ import annotations

import numpy as np
import pytest

from tilevl.testing.ascend_host import KernelFaultError

from .simt_program import SimtPrograms

_BODIES = {
    "index": "OUT(int32_t)[THREAD] = int32_t(threadIdx.x) + 100 * int32_t(threadIdx.y) + 10000 * int32_t(threadIdx.z);",
    "extent": "OUT(int32_t)[THREAD] = int32_t(blockDim.x) + 100 * int32_t(blockDim.y) + 10000 * int32_t(blockDim.z);",
    "place": (
        "OUT(int32_t)[THREAD] = int32_t(blockIdx.x) * 1000 + int32_t(gridDim.x) * 100 + int32_t(laneid()) + warpSize;"
    ),
    "reverse": (
        "int32_t v = IN(int32_t)[THREAD];\n  asc_syncthreads();\n  OUT(int32_t)[int32_t(blockDim.x) - 1 - THREAD] = v;"
    ),
    "exchange": (
        "OUT(int32_t)[THREAD] = IN(int32_t)[THREAD];\n  asc_syncthreads();\n"
        "  int32_t v = OUT(int32_t)[(THREAD + 1) % int32_t(blockDim.x)];\n  asc_syncthreads();\n"
        "  OUT(int32_t)[THREAD] = v;"
    ),
    "exchange_without_first": (
        "OUT(int32_t)[THREAD] = IN(int32_t)[THREAD];\n"
        "  int32_t v = OUT(int32_t)[(THREAD + 1) % int32_t(blockDim.x)];\n  asc_syncthreads();\n"
        "  OUT(int32_t)[THREAD] = v;"
    ),
    "exchange_without_second": (
        "OUT(int32_t)[THREAD] = IN(int32_t)[THREAD];\n  asc_syncthreads();\n"
        "  int32_t v = OUT(int32_t)[(THREAD + 1) % int32_t(blockDim.x)];\n  OUT(int32_t)[THREAD] = v;"
    ),
    "loop_of_barriers": (
        "for (int r = 0; r < 5; ++r) {\n    OUT(int32_t)[(THREAD + r) % int32_t(blockDim.x)] = THREAD + r;\n"
        "    asc_syncthreads();\n  }"
    ),
    "half_at_the_barrier": "if (THREAD < 40) asc_syncthreads();\n  OUT(int32_t)[THREAD] = 1;",
    "same_word": "OUT(int32_t)[0] = THREAD;",
    "neighbour_bytes": "OUT(uint8_t)[THREAD] = uint8_t(THREAD);",
    "overlapping_words": "*(__ubuf__ uint16_t*)(OUT(uint8_t) + (THREAD / 2) * 2) = 1;",
    "gm_race": "if (THREAD < 2) PLACE(int32_t)[0] = THREAD;",
    "read_shared": "OUT(int32_t)[THREAD] = IN(int32_t)[0] + GIVEN(int32_t)[1];",
    "reads_then_write": (
        "int32_t v = IN(int32_t)[0];\n  if (THREAD == 5) IN(int32_t)[0] = v + 1;\n  OUT(int32_t)[THREAD] = v;"
    ),
    "within_a_warp": (
        "OUT(int32_t)[THREAD] = IN(int32_t)[THREAD];\n  cooperative_groups::coalesced_threads().sync();\n"
        "  int32_t v = OUT(int32_t)[THREAD ^ 1];\n  cooperative_groups::coalesced_threads().sync();\n"
        "  OUT(int32_t)[THREAD] = v;"
    ),
    "across_warps": (
        "OUT(int32_t)[THREAD] = IN(int32_t)[THREAD];\n  cooperative_groups::coalesced_threads().sync();\n"
        "  int32_t v = OUT(int32_t)[THREAD ^ 32];\n  OUT(int32_t)[THREAD + 64] = v;"
    ),
    "out_of_ub": "OUT(int32_t)[THREAD] = IN(int32_t)[60000 + THREAD];",
    "out_of_gm": "OUT(int32_t)[THREAD] = GIVEN(int32_t)[THREAD - 1];",
    "vectors": (
        "float2 v = *(__ubuf__ float2*)(IN(float) + 2 * THREAD);\n"
        "  *(__ubuf__ float2*)(OUT(float) + 2 * THREAD) = v + make_float2(1.0f, 2.0f) * v;"
    ),
    "fence": "OUT(int32_t)[THREAD] = 7;\n  asc_threadfence();",
}


@pytest.fixture(scope="module")
def programs() -> SimtPrograms:
    return SimtPrograms(_BODIES)


@pytest.mark.parametrize("threads", [1, 33, 2048, (8, 4, 2), (3, 5, 7)], ids=str)
def test_every_thread_runs_and_knows_its_place(programs: SimtPrograms, threads: int | tuple[int, int, int]) -> None:
    x, y, z = (threads, 1, 1) if isinstance(threads, int) else threads
    k, j, i = np.meshgrid(range(z), range(y), range(x), indexing="ij")
    count = x * y * z
    got = programs.run("index", threads=threads)
    assert (got[:count] == (i + 100 * j + 10000 * k).reshape(-1)).all()
    assert (got[count:] == np.array(0xA5A5A5A5, "u4").view("i4")).all()
    assert (programs.run("extent", threads=threads)[:count] == x + 100 * y + 10000 * z).all()


def test_threads_know_their_block_and_lane(programs: SimtPrograms) -> None:
    got = programs.run("place", threads=70, grid=3).reshape(3, -1)[:, :70]
    assert (got == np.arange(3)[:, None] * 1000 + 300 + np.arange(70) % 32 + 32).all()


@pytest.mark.parametrize("threads", [2049, 0, (64, 64, 1), (1, 0, 1)], ids=str)
def test_a_launch_holds_1_to_2048_threads(programs: SimtPrograms, threads: int | tuple[int, int, int]) -> None:
    with pytest.raises(KernelFaultError, match="asc_vf_call: threads must be 1 to 2048, got"):
        programs.run("index", threads=threads)


@pytest.mark.parametrize(("bound", "limit"), [("__launch_bounds__(96) ", 96), ("", 1024)])
def test_a_functions_launch_bound_holds(bound: str, limit: int) -> None:
    programs = SimtPrograms({"fill": "OUT(uint8_t)[THREAD] = 1;"}, bound=bound)
    assert programs.run("fill", threads=limit, dtype="u1")[:limit].all()
    with pytest.raises(KernelFaultError, match=f"threads must be 1 to {limit}, got {limit + 1} x 1 x 1"):
        programs.run("fill", threads=limit + 1)


@pytest.mark.parametrize("threads", [2, 64, 100, 1024])
def test_barriers_separate_what_threads_write_and_read(
    programs: SimtPrograms, generator: np.random.Generator, threads: int
) -> None:
    given = generator.integers(-1000, 1000, threads).astype("i4")
    assert (programs.run("reverse", given, threads=threads)[:threads] == given[::-1]).all()
    assert (programs.run("exchange", given, threads=threads)[:threads] == np.roll(given, -1)).all()
    rounds = programs.run("loop_of_barriers", threads=threads)[:threads]
    assert (np.sort(rounds) == np.arange(4, threads + 4)).all()


@pytest.mark.parametrize(
    "program",
    [
        "exchange_without_first",
        "exchange_without_second",
        "same_word",
        "overlapping_words",
        "gm_race",
        "reads_then_write",
    ],
)
def test_two_threads_on_one_byte_are_a_race(
    programs: SimtPrograms, generator: np.random.Generator, program: str
) -> None:
    given = generator.integers(-1000, 1000, 64).astype("i4")
    with pytest.raises(
        KernelFaultError, match=r"threads \d+ and \d+ of a SIMT function touch the same byte of (UB|GM)"
    ) as raised:
        programs.run(program, given)
    assert {fault.kind for fault in raised.value.faults} == {"race"}
    assert raised.value.faults[0].lines


@pytest.mark.parametrize("program", ["neighbour_bytes", "read_shared", "fence"])
def test_other_bytes_and_reads_of_one_byte_are_no_race(programs: SimtPrograms, program: str) -> None:
    given = np.array([3, 4], "i4")
    dtype, expected = {
        "neighbour_bytes": ("u1", np.arange(64)),
        "read_shared": ("i4", np.full(64, 7)),
        "fence": ("i4", np.full(64, 7)),
    }[program]
    assert (programs.run(program, given, dtype=dtype)[:64] == expected).all()


def test_a_warps_own_synchronisation_orders_its_lanes_only(
    programs: SimtPrograms, generator: np.random.Generator
) -> None:
    given = generator.integers(-1000, 1000, 64).astype("i4")
    assert (programs.run("within_a_warp", given)[:64] == given.reshape(32, 2)[:, ::-1].reshape(-1)).all()
    with pytest.raises(KernelFaultError, match="no barrier between"):
        programs.run("across_warps", given)


def test_a_barrier_that_some_threads_miss_is_an_error(programs: SimtPrograms) -> None:
    with pytest.raises(KernelFaultError, match=r"24 of 64 threads returned \(thread 40 first\) while thread 0 waits"):
        programs.run("half_at_the_barrier")
    assert (programs.run("half_at_the_barrier", threads=40)[:40] == 1).all()


@pytest.mark.parametrize(("program", "space"), [("out_of_ub", "UB"), ("out_of_gm", "given")])
def test_a_thread_that_leaves_memory_is_stopped(programs: SimtPrograms, program: str, space: str) -> None:
    with pytest.raises(KernelFaultError, match=space) as raised:
        programs.run(program)
    assert raised.value.faults[0].kind in ("bounds", "memory")


def test_small_vectors_load_store_and_compute(programs: SimtPrograms, generator: np.random.Generator) -> None:
    given = generator.normal(size=128).astype("f4")
    expected = given + np.tile(np.float32([1, 2]), 64) * given
    assert (programs.run("vectors", given, dtype="f4")[:128] == expected).all()


def test_launches_are_counted(programs: SimtPrograms, generator: np.random.Generator) -> None:
    programs.run("exchange", generator.integers(0, 9, 100).astype("i4"), threads=100)
    (core,) = programs.counters.cores
    simt = core.simt
    assert (simt["launches"], simt["threads"], simt["warps"], simt["barriers"]) == (1, 100, 4, 2)
    assert (simt["loads"], simt["stores"]) == (200, 200)


def test_the_model_recovers_from_a_fault_inside_a_thread(programs: SimtPrograms) -> None:
    with pytest.raises(KernelFaultError):
        programs.run("out_of_ub")
    assert (programs.run("index")[:64] == np.arange(64)).all()
