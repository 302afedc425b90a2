"""Comparisons, broadcasts, ramps and histograms."""

from __future__ import annotations

import operator

import numpy as np
import pytest

from .register_program import RegisterPrograms, bits_of

_TYPES = {"float": "f4", "half": "f2", "int8_t": "i1", "uint16_t": "u2", "int32_t": "i4", "uint32_t": "u4"}
_RELATIONS = {
    "eq": operator.eq, "ne": operator.ne, "gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le,
}  # fmt: skip

_BODIES = {}
for _name in _TYPES:
    for _op in _RELATIONS:
        _BODIES[f"{_op}:{_name}"] = f"P(simd_inst::vcmp_{_op}(A({_name}), B({_name}), M));"
        _BODIES[f"{_op}s:{_name}"] = f"P(simd_inst::vcmps_{_op}(A({_name}), {_name}(3), M));"
    _BODIES[f"vdup:{_name}"] = f"D(simd_inst::vdup<{_name}>({_name}(5), M, MODE_ZEROING));"
    _BODIES[f"vdup_merging:{_name}"] = f"auto d = A({_name}); ::vdup(d, {_name}(5), M, MODE_MERGING); D(d);"
    _BODIES[f"lowest:{_name}"] = f"D(simd_inst::vdupv(A({_name}), M, POS_LOWEST, MODE_ZEROING));"
    _BODIES[f"highest:{_name}"] = f"auto d = B({_name}); ::vdup(d, A({_name}), M, POS_HIGHEST, MODE_MERGING); D(d);"
    _BODIES[f"ramp:{_name}"] = f"D(simd_inst::vci<{_name}>({_name}(100), INC_ORDER));"
    _BODIES[f"falling:{_name}"] = f"D(simd_inst::vci<{_name}>({_name}(100), DEC_ORDER));"
for _bin in (0, 1):
    _BODIES[f"frequency:{_bin}"] = f"auto d = B(uint16_t); simd_inst::dhistv2(&d, A(uint8_t), M, Bin_N{_bin}); D(d);"
    _BODIES[f"cumulative:{_bin}"] = f"auto d = B(uint16_t); simd_inst::chistv2(&d, A(uint8_t), M, Bin_N{_bin}); D(d);"


@pytest.fixture(scope="module")
def programs() -> RegisterPrograms:
    return RegisterPrograms(_BODIES)


def _two(generator: np.random.Generator, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    a, b = generator.integers(0, 7, (2, 256 // np.dtype(dtype).itemsize)).astype(dtype)
    if np.dtype(dtype).kind != "u":
        a, b = a - a.dtype.type(3), b - b.dtype.type(3)
    if np.dtype(dtype).kind == "f":
        a[:6], b[:6] = [0.0, -0.0, np.nan, 1.0, np.inf, np.nan], [-0.0, 0.0, 1.0, np.nan, np.inf, np.nan]
    return a, b


@pytest.mark.parametrize("name", _TYPES)
@pytest.mark.parametrize("op", _RELATIONS)
def test_relations_set_the_lowest_bit_of_a_lanes_group(
    programs: RegisterPrograms, generator: np.random.Generator, op: str, name: str
) -> None:
    a, b = _two(generator, _TYPES[name])
    mask = generator.random(len(a)) < 0.7
    m = bits_of(mask, a.itemsize)
    for program, other in ((op, b), (f"{op}s", a.dtype.type(3))):
        bits = programs.run(f"{program}:{name}", a, b, m=m).p
        assert (bits[:: a.itemsize] == (_RELATIONS[op](a, other) & mask)).all()
        assert (np.packbits(bits, bitorder="little") & ~bits_of(np.ones(len(a), bool), a.itemsize) == 0).all()


def test_not_equal_with_nan_is_an_option(programs: RegisterPrograms) -> None:
    a, m = np.full(64, np.nan, "f4"), bits_of(np.ones(64, bool), 4)
    assert programs.run("ne:float", a, a, m=m).p[::4].all()
    assert not programs.run("ne:float", a, a, m=m, not_equal_holds_for_nan="no").p.any()


@pytest.mark.parametrize("name", _TYPES)
def test_broadcasts_fill_active_lanes(programs: RegisterPrograms, generator: np.random.Generator, name: str) -> None:
    dtype = _TYPES[name]
    a, b = (np.nan_to_num(x) for x in _two(generator, dtype))
    mask = generator.random(len(a)) < 0.7
    mask[0] = mask[-1] = False  # the lane that is spread may be off itself
    m = bits_of(mask, a.itemsize)
    assert (programs.run(f"vdup:{name}", m=m).d(dtype) == np.where(mask, 5, 0)).all()
    assert (programs.run(f"vdup_merging:{name}", a, m=m).d(dtype) == np.where(mask, 5, a)).all()
    assert (programs.run(f"lowest:{name}", a, m=m).d(dtype) == np.where(mask, a[0], 0)).all()
    assert (programs.run(f"highest:{name}", a, b, m=m).d(dtype) == np.where(mask, a[-1], b)).all()


@pytest.mark.parametrize("name", _TYPES)
def test_ramps_count_lanes_and_wrap(programs: RegisterPrograms, name: str) -> None:
    dtype = _TYPES[name]
    index = np.arange(256 // np.dtype(dtype).itemsize)
    rising = (100 + index).astype(dtype)
    assert (programs.run(f"ramp:{name}").d(dtype) == rising).all()
    assert (programs.run(f"falling:{name}").d(dtype) == rising[::-1]).all()  # the last lane holds the value
    from_value = programs.run(f"falling:{name}", arange_descends_from_value="yes").d(dtype)
    assert (from_value == (100 - index).astype(dtype)).all()


@pytest.mark.parametrize("half", [0, 1])
def test_histograms_add_to_their_register(
    programs: RegisterPrograms, generator: np.random.Generator, half: int
) -> None:
    a = generator.integers(0, 256, 256, dtype=np.uint8)
    old = generator.integers(0, 2**16, 128).astype("u2")
    mask = generator.random(256) < 0.8
    m = bits_of(mask, 1)
    counts = np.bincount(a[mask], minlength=256)
    lanes = slice(128 * half, 128 * half + 128)
    assert (programs.run(f"frequency:{half}", a, old, m=m).d("u2") == (old + counts[lanes]).astype("u2")).all()
    below = np.cumsum(counts)[lanes]
    assert (programs.run(f"cumulative:{half}", a, old, m=m).d("u2") == (old + below).astype("u2")).all()
