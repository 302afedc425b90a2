"""Warp operations: shuffles, reductions, ballots, and who takes part; and TileLang's reductions built on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilevl.testing.ascend_host import KernelFaultError

from .simt_program import SimtPrograms

_SHUFFLED = {"int32_t": "i4", "uint32_t": "u4", "int64_t": "i8", "uint64_t": "u8", "float": "f4", "half": "f2"}
_ALL_REDUCE = {
    "sum float 32": ("SumOp", 32, 1, "float"), "sum int 16": ("SumOp", 16, 1, "int32_t"),
    "max uint 8": ("MaxOp", 8, 1, "uint32_t"), "min float 16 of 4": ("MinOp", 16, 4, "float"),
    "sum long 8": ("SumOp", 8, 1, "int64_t"), "max int 24": ("MaxOp", 24, 1, "int32_t"),
    "sum int 128": ("SumOp", 128, 1, "int32_t"), "sum int 64 of 2": ("SumOp", 64, 2, "int32_t"),
    "min half 64": ("MinOp", 64, 1, "half"), "max int 96 of 3": ("MaxOp", 96, 3, "int32_t"),
}  # fmt: skip

_BODIES = {
    "divergent_reduce": (
        "int32_t v = 0;\n  if (THREAD % 3 == 0) { v = asc_reduce_add(IN(int32_t)[THREAD]); }\n"
        "  else { v = asc_reduce_max(IN(int32_t)[THREAD]); }\n  OUT(int32_t)[THREAD] = v;"
    ),
    "catch_up": (
        "int32_t v = 1;\n  if (THREAD % 2 == 0) { v = asc_reduce_add(v); }\n  OUT(int32_t)[THREAD] = asc_reduce_add(v);"
    ),
    "loop": (
        "int32_t v = 0;\n  for (int i = 0; i <= THREAD % 4; ++i) v = asc_reduce_add(1);\n  OUT(int32_t)[THREAD] = v;"
    ),
    "ballot": "OUT(uint32_t)[THREAD] = asc_ballot(IN(int32_t)[THREAD]);",
    "activemask": "if (THREAD % 5 == 0) OUT(uint32_t)[THREAD] = asc_activemask();",
    "shfl": "OUT(int32_t)[THREAD] = asc_shfl(IN(int32_t)[THREAD], IN(int32_t)[1024 + THREAD], IN(int32_t)[2048]);",
    "xor": "OUT(int32_t)[THREAD] = asc_shfl_xor(IN(int32_t)[THREAD], IN(int32_t)[1024], IN(int32_t)[2048]);",
    "inactive_lane": "if (THREAD < 16) OUT(int32_t)[THREAD] = asc_shfl_xor(THREAD, 16);",
    "packed": (
        "half2 h = make_half2(half(THREAD), half(-THREAD));\n"
        "  bfloat16x2_t b = make_bfloat16x2_t(bfloat16_t(THREAD), bfloat16_t(1));\n"
        "  h = asc_shfl_xor(h, 1);\n  b = asc_shfl_xor(b, 1);\n"
        "  OUT(float)[4 * THREAD] = h.x;\n  OUT(float)[4 * THREAD + 1] = h.y;\n  OUT(float)[4 * THREAD + 2] = b.x;"
    ),
}
for _name in _SHUFFLED:
    _BODIES[f"xor5 {_name}"] = f"OUT({_name})[THREAD] = asc_shfl_xor(IN({_name})[THREAD], 5);"
for _name in ("int32_t", "uint32_t", "float", "half"):
    for _op in ("add", "max", "min"):
        _BODIES[f"{_op} {_name}"] = f"OUT({_name})[THREAD] = asc_reduce_{_op}(IN({_name})[THREAD]);"
for _label, (_reducer, _threads, _scale, _name) in _ALL_REDUCE.items():
    _BODIES[_label] = (
        f"OUT({_name})[THREAD] = tl::AscendAllReduce<tl::{_reducer}, {_threads}, {_scale}, 0>::run("
        f"IN({_name})[THREAD], (__ubuf__ {_name}*)(ub + 8192));"
    )


@pytest.fixture(scope="module")
def programs() -> SimtPrograms:
    return SimtPrograms(_BODIES)


def _given(generator: np.random.Generator, dtype: str, count: int = 96) -> NDArray[Any]:
    if np.dtype(dtype).kind == "f":
        return generator.normal(size=count).astype(dtype)
    return generator.integers(0 if dtype[0] == "u" else -1000, 1000, count).astype(dtype)


@pytest.mark.parametrize("name", _SHUFFLED)
def test_an_xor_shuffle_swaps_lanes(programs: SimtPrograms, generator: np.random.Generator, name: str) -> None:
    given = _given(generator, _SHUFFLED[name])
    got = programs.run(f"xor5 {name}", given, threads=96, dtype=_SHUFFLED[name])
    assert (got[:96] == given[np.arange(96) ^ 5]).all()


def test_packed_pairs_shuffle_whole(programs: SimtPrograms) -> None:
    got = programs.run("packed", threads=32, dtype="f4")[:128].reshape(32, 4)
    partner = np.arange(32) ^ 1
    assert (got[:, 0] == partner).all() and (got[:, 1] == -partner).all() and (got[:, 2] == partner).all()


def _indexed(generator: np.random.Generator, lanes: NDArray[Any], width: int) -> tuple[NDArray[Any], NDArray[Any]]:
    values = generator.integers(-1000, 1000, 64).astype("i4")
    given = np.zeros(2049, "i4")
    given[:64], given[1024 : 1024 + len(lanes)], given[2048] = values, lanes, width
    return values, given


@pytest.mark.parametrize("width", [1, 2, 8, 32])
def test_a_shuffle_stays_in_its_group(programs: SimtPrograms, generator: np.random.Generator, width: int) -> None:
    lanes = generator.integers(0, 64, 64)
    values, given = _indexed(generator, lanes, width)
    lane = np.arange(64)
    assert (programs.run("shfl", given)[:64] == values[lane // width * width + lanes % width]).all()


@pytest.mark.parametrize("width", [4, 16, 32])
def test_an_xor_shuffle_never_reads_above_its_group(
    programs: SimtPrograms, generator: np.random.Generator, width: int
) -> None:
    mask = int(generator.integers(1, width))
    values, given = _indexed(generator, np.array([mask]), width)
    target = np.arange(64) ^ mask
    own = target // width > np.arange(64) // width
    assert (programs.run("xor", given)[:64] == values[np.where(own, np.arange(64), target)]).all()


@pytest.mark.parametrize(
    ("mask", "width", "message"), [(4, 4, "less than 4, got 4"), (1, 3, "power of two"), (1, 64, "up to 32")]
)
def test_shuffle_arguments_are_checked(programs: SimtPrograms, mask: int, width: int, message: str) -> None:
    given = np.zeros(2049, "i4")
    given[1024], given[2048] = mask, width
    with pytest.raises(KernelFaultError, match=message):
        programs.run("xor", given)


def test_reading_a_lane_that_takes_no_part_is_reported(programs: SimtPrograms) -> None:
    with pytest.raises(KernelFaultError, match="lane 0 of warp 0 reads lane 16, which takes no part"):
        programs.run("inactive_lane", threads=32)


@pytest.mark.parametrize("threads", [32, 50])
@pytest.mark.parametrize("name", ["int32_t", "uint32_t", "float", "half"])
def test_reductions_cover_the_lanes_of_each_warp(
    programs: SimtPrograms, generator: np.random.Generator, name: str, threads: int
) -> None:
    dtype = _SHUFFLED[name]
    given = _given(generator, dtype, threads)
    for op, reference in (("max", np.max), ("min", np.min)):
        expected = np.concatenate([np.full(len(w), reference(w)) for w in np.split(given, range(32, threads, 32))])
        assert (programs.run(f"{op} {name}", given, threads=threads, dtype=dtype)[:threads] == expected).all()
    sums = [_tree(warp, neighbours=True) for warp in np.split(given, range(32, threads, 32))]
    got = programs.run(f"add {name}", given, threads=threads, dtype=dtype)[:threads]
    assert (got == np.repeat(np.array(sums, dtype), [len(w) for w in np.split(given, range(32, threads, 32))])).all()


def _tree(values: NDArray[Any], *, neighbours: bool) -> Any:
    level: list[Any] = [*values, *[None] * (32 - len(values))]
    while len(level) > 1:
        half = len(level) // 2
        pairs = (
            zip(level[::2], level[1::2], strict=True) if neighbours else zip(level[:half], level[half:], strict=True)
        )
        level = [b if a is None else a if b is None else a + b for a, b in pairs]
    return level[0]


@pytest.mark.parametrize("neighbours", ["yes", "no"])
def test_the_pairing_of_a_float_sum_is_an_option(
    programs: SimtPrograms, generator: np.random.Generator, neighbours: str
) -> None:
    given = (generator.normal(size=32) * np.exp2(generator.integers(0, 12, 32))).astype("f4")
    given[:4] = [2.0**30, 1.5, -(2.0**30), 1.5]
    got = programs.run("add float", given, threads=32, dtype="f4", warp_sum_pairs_neighbours=neighbours)[:32]
    assert (got == _tree(given, neighbours=neighbours == "yes")).all()
    assert _tree(given, neighbours=True) != _tree(given, neighbours=False)


def test_lanes_on_two_branches_reduce_apart(programs: SimtPrograms, generator: np.random.Generator) -> None:
    given = _given(generator, "i4", 64)
    third = np.arange(64) % 3 == 0
    expected = np.empty(64, "i4")
    for warp in (slice(0, 32), slice(32, 64)):
        expected[warp] = np.where(third[warp], given[warp][third[warp]].sum(), given[warp][~third[warp]].max())
    assert (programs.run("divergent_reduce", given)[:64] == expected).all()


def test_lanes_that_took_a_branch_catch_up_with_the_others(programs: SimtPrograms) -> None:
    assert (programs.run("catch_up", threads=32)[:32] == 16 * 16 + 16).all()
    rounds = programs.run("loop", threads=32)[:32]
    assert (rounds == np.array([32, 24, 16, 8] * 8)).all()


def test_ballots_and_active_masks(programs: SimtPrograms, generator: np.random.Generator) -> None:
    given = generator.integers(-1, 2, 40).astype("i4")
    got = programs.run("ballot", given, threads=40, dtype="u4")
    bits = [sum(int(v != 0) << i for i, v in enumerate(warp)) for warp in (given[:32], given[32:])]
    assert (got[:40] == np.repeat(np.array(bits, "u4"), [32, 8])).all()
    active = programs.run("activemask", threads=32, dtype="u4")
    assert (active[:32:5] == sum(1 << i for i in range(0, 32, 5))).all()
    assert active[1] == 0xA5A5A5A5


@pytest.mark.parametrize("label", _ALL_REDUCE)
def test_tilelangs_reductions_reduce_each_row(
    programs: SimtPrograms, generator: np.random.Generator, label: str
) -> None:
    reducer, threads, scale, name = _ALL_REDUCE[label]
    dtype = _SHUFFLED[name]
    rows = 2 if threads <= 32 else 1  # more rows at once are wrong in TileLang itself past a warp
    count = rows * threads
    given = generator.integers(0, 100, count).astype(dtype)
    got = programs.run(label, given, threads=count, dtype=dtype)[:count].reshape(rows, -1, scale)
    operation = {"SumOp": np.sum, "MaxOp": np.max, "MinOp": np.min}[reducer]
    expected = operation(given.reshape(rows, -1, scale), axis=1, keepdims=True)
    assert (got == expected).all()


def test_tilelangs_reduction_of_two_rows_past_a_warp_is_wrong_in_the_known_way(
    programs: SimtPrograms, generator: np.random.Generator
) -> None:
    given = generator.integers(0, 100, 256).astype("i4")
    got = programs.run("sum int 128", given, threads=256)[:256]
    assert (got == given[:128].sum()).all()  # the second row gets the first one's sum too
    assert given[:128].sum() != given[128:].sum()
