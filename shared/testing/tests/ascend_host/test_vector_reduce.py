"""Reductions across lanes, comparisons, broadcasts, ramps and histograms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from .register_program import RegisterPrograms, bits_of

_TYPES = {"float": "f4", "half": "f2", "int16_t": "i2", "uint16_t": "u2", "int32_t": "i4", "uint32_t": "u4"}
_SUMS = {"float": "f4", "half": "f2", "int16_t": "i4", "uint16_t": "u4", "int32_t": "i4", "uint32_t": "u4"}
_BODIES = {}
for _name in _TYPES:
    for _op in ("vcadd", "vcmax", "vcmin", "vcgadd", "vcgmax", "vcgmin"):
        _BODIES[f"{_op}:{_name}"] = f"D(simd_inst::{_op}(A({_name}), M, MODE_ZEROING));"
_BODIES |= {
    "vcpadd:float": "D(simd_inst::vcpadd(A(float), M, MODE_ZEROING));",
    "vcpadd:half": "D(simd_inst::vcpadd(A(half), M, MODE_ZEROING));",
    "vcadd_merging": "auto d = B(float); ::vcadd(d, A(float), M, MODE_MERGING); D(d);",
    "vcadd_merging_wrapper": "auto d = B(int32_t); simd_inst::vcadd(d, A(int16_t), M, MODE_MERGING); D(d);",
    "vcmax_merging": "auto d = B(float); ::vcmax(d, A(float), M, MODE_MERGING); D(d);",
    "vcmin_merging_wrapper": "auto d = B(half); simd_inst::vcmin(d, A(half), M, MODE_MERGING); D(d);",
}


@pytest.fixture(scope="module")
def programs() -> RegisterPrograms:
    return RegisterPrograms(_BODIES)


def _values(generator: np.random.Generator, dtype: str) -> NDArray[Any]:
    lanes = 256 // np.dtype(dtype).itemsize
    if np.dtype(dtype).kind == "f":
        return (generator.normal(size=lanes) * np.exp2(generator.integers(-4, 5, lanes))).astype(dtype)
    limits = np.iinfo(dtype)
    return generator.integers(limits.min, limits.max, lanes, dtype=dtype, endpoint=True)


def _pair_tree(values: NDArray[Any]) -> Any:
    while len(values) > 1:
        values = values[::2] + values[1::2]
    return values[0]


@pytest.mark.parametrize("name", _TYPES)
def test_a_sum_adds_neighbours_level_by_level(
    programs: RegisterPrograms, generator: np.random.Generator, name: str
) -> None:
    dtype, wide = _TYPES[name], _SUMS[name]
    a = _values(generator, dtype)
    mask = generator.random(len(a)) < 0.8
    expected = np.zeros(256 // np.dtype(wide).itemsize, wide)
    expected[0] = _pair_tree(np.where(mask, a, a.dtype.type(0)).astype(wide))
    got = programs.run(f"vcadd:{name}", a, m=bits_of(mask, a.itemsize)).d(wide)
    assert (got == expected).all()


@pytest.mark.parametrize(("name", "dtype", "big"), [("float", "f4", 2.0**25), ("half", "f2", 2.0**12)])
def test_a_float_sum_loses_what_its_tree_loses(programs: RegisterPrograms, name: str, dtype: str, big: float) -> None:
    a = np.resize(np.array([big, 1, -big, 1], dtype=dtype), 256 // np.dtype(dtype).itemsize)
    m = bits_of(np.ones(len(a), bool), a.itemsize)
    assert programs.run(f"vcadd:{name}", a, m=m).d(dtype)[0] == 0  # one by one it would keep half of the ones


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("name", _TYPES)
def test_an_extreme_comes_with_its_first_index(
    programs: RegisterPrograms, generator: np.random.Generator, name: str, largest: bool
) -> None:
    dtype = _TYPES[name]
    a = _values(generator, dtype)
    mask = generator.random(len(a)) < 0.8
    on = np.flatnonzero(mask)
    place = on[np.argmax(a[on]) if largest else np.argmin(a[on])]
    a[on[-1]] = a[place]  # a tie
    got = programs.run(f"vc{'max' if largest else 'min'}:{name}", a, m=bits_of(mask, a.itemsize))
    assert got.d(dtype)[0] == a[place]
    assert got.d(f"u{a.itemsize}")[1] == place
    assert (got.d(f"u{a.itemsize}")[2:] == 0).all()


def test_nan_wins_and_plus_zero_is_above_minus_zero(programs: RegisterPrograms) -> None:
    m = bits_of(np.ones(64, bool), 4)
    a = np.full(64, -0.0, "f4")
    a[7], a[9] = 0.0, 0.0
    outcome = programs.run("vcmax:float", a, m=m)
    assert not np.signbit(outcome.d("f4")[0])
    assert outcome.d("u4")[1] == 7
    outcome = programs.run("vcmin:float", -a, m=m)
    assert np.signbit(outcome.d("f4")[0])
    assert outcome.d("u4")[1] == 7
    a[[20, 30]], a[40] = np.nan, np.inf
    for op in ("vcmax", "vcmin"):
        outcome = programs.run(f"{op}:float", a, m=m)
        assert np.isnan(outcome.d("f4")[0])
        assert outcome.d("u4")[1] == 20


def test_reductions_of_no_lane_give_the_neutral_value(programs: RegisterPrograms) -> None:
    none = np.zeros(32, np.uint8)
    a = np.full(64, 5.0, "f4")
    total = programs.run("vcadd:float", a, m=none).d("f4")
    assert (total == 0).all() and not np.signbit(total[0])
    assert programs.run("vcmax:float", a, m=none).d("f4")[0] == -np.inf
    assert programs.run("vcmin:half", a, m=none).d("f2")[0] == np.inf
    assert programs.run("vcmax:int32_t", a, m=none).d("i4")[0] == -(2**31)
    assert programs.run("vcgmin:uint16_t", a, m=none).d("u2")[:8].tolist() == [65535] * 8


@pytest.mark.parametrize("name", _TYPES)
def test_reductions_by_block_fill_eight_lanes(
    programs: RegisterPrograms, generator: np.random.Generator, name: str
) -> None:
    dtype = _TYPES[name]
    a = _values(generator, dtype)
    mask = generator.random(len(a)) < 0.8
    m = bits_of(mask, a.itemsize)
    blocks, on = a.reshape(8, -1), mask.reshape(8, -1)
    for op, best, bare in (("vcgmax", np.max, np.min), ("vcgmin", np.min, np.max)):
        filled = np.where(on, blocks, bare(a))
        expected = np.zeros_like(a)
        expected[:8] = best(filled, axis=1)
        assert (programs.run(f"{op}:{name}", a, m=m).d(dtype) == expected).all(), op
    sums = np.zeros_like(a)
    sums[:8] = [_pair_tree(np.where(o, b, a.dtype.type(0))) for o, b in zip(on, blocks, strict=True)]
    assert (programs.run(f"vcgadd:{name}", a, m=m).d(dtype) == sums).all()


def test_block_sums_of_16_bit_integers_may_widen_by_an_option(
    programs: RegisterPrograms, generator: np.random.Generator
) -> None:
    a = _values(generator, "i2")
    m = bits_of(np.ones(128, bool), 2)
    wide = programs.run("vcgadd:int16_t", a, m=m, block_sum_of_16_bit_widens="yes").d("i4")
    assert (wide[:8] == a.reshape(8, 16).astype("i4").sum(axis=1)).all()
    assert (wide[8:] == 0).all()


@pytest.mark.parametrize(("name", "dtype"), [("float", "f4"), ("half", "f2")])
def test_pair_sums_fill_the_lower_half(
    programs: RegisterPrograms, generator: np.random.Generator, name: str, dtype: str
) -> None:
    a = _values(generator, dtype)
    mask = generator.random(len(a)) < 0.7
    kept = np.where(mask, a, a.dtype.type(0))
    expected = np.zeros_like(a)
    expected[: len(a) // 2] = kept[::2] + kept[1::2]
    assert (programs.run(f"vcpadd:{name}", a, m=bits_of(mask, a.itemsize)).d(dtype) == expected).all()


def test_merging_keeps_all_but_the_result_lanes(programs: RegisterPrograms, generator: np.random.Generator) -> None:
    a, b = generator.normal(size=(2, 64)).astype("f4")
    m = bits_of(np.ones(64, bool), 4)
    got = programs.run("vcadd_merging", a, b, m=m).d("f4")
    assert got[0] == _pair_tree(a)
    assert (got[1:] == b[1:]).all()
    outcome = programs.run("vcmax_merging", a, b, m=m)
    assert outcome.d("f4")[0] == a.max()
    assert outcome.d("u4")[1] == a.argmax()
    assert (outcome.d("f4")[2:] == b[2:]).all()
    halves, old = generator.normal(size=(2, 128)).astype("f2")
    m = bits_of(np.ones(128, bool), 2)
    outcome = programs.run("vcmin_merging_wrapper", halves, old, m=m)
    assert outcome.d("f2")[0] == halves.min()
    assert (outcome.d("f2")[2:] == old[2:]).all()
    words, wide = _values(generator, "i2"), _values(generator, "i4")
    got = programs.run("vcadd_merging_wrapper", words, wide, m=m).d("i4")
    assert got[0] == words.astype("i4").sum()
    assert (got[1:] == wide[1:]).all()
