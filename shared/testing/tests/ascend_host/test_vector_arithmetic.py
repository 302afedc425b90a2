"""Arithmetic, logic and shifts of whole registers, each against one line of numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from .register_program import RegisterPrograms, bits_of

_TYPES = {
    "float": "f4", "half": "f2", "int8_t": "i1", "uint8_t": "u1", "int16_t": "i2", "uint16_t": "u2", "int32_t": "i4",
    "uint32_t": "u4",
}  # fmt: skip
_FLOATS = ("float", "half")
_INTEGERS = tuple(name for name in _TYPES if name not in _FLOATS)
Lanes = NDArray[Any]


def _maximum(a: Lanes, b: Lanes) -> Lanes:
    return np.where((a == b) & (a == 0), np.where(np.signbit(a), b, a), np.maximum(a, b))


def _minimum(a: Lanes, b: Lanes) -> Lanes:
    return np.where((a == b) & (a == 0), np.where(np.signbit(a), a, b), np.minimum(a, b))


def _magnitude_of_difference(a: Lanes, b: Lanes) -> Lanes:
    return np.abs(a - b) if a.dtype.kind == "f" else np.where(a > b, a - b, b - a)


_BINARY: dict[str, Callable[[Lanes, Lanes], Lanes]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "max": _maximum, "min": _minimum,
    "absdif": _magnitude_of_difference,
}  # fmt: skip
_SCALAR = {"adds": np.add, "muls": np.multiply, "maxs": _maximum, "mins": _minimum}
_UNARY: dict[str, Callable[[Lanes], Lanes]] = {
    "abs": np.abs, "neg": np.negative, "relu": lambda a: np.where(np.isnan(a) | (a > 0), a, a.dtype.type(0)),
}  # fmt: skip
_LOGIC = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}

_BODIES = {}
for _type in _TYPES:
    for _op in [*_BINARY, *_LOGIC]:
        _BODIES[f"{_op}:{_type}"] = f"D(simd_inst::v{_op}(A({_type}), B({_type}), M, MODE_ZEROING));"
    for _op in _SCALAR:
        _BODIES[f"{_op}:{_type}"] = f"D(simd_inst::v{_op}(A({_type}), {_type}(3), M, MODE_ZEROING));"
    for _op in [*_UNARY, "not"]:
        _BODIES[f"{_op}:{_type}"] = f"D(simd_inst::v{_op}(A({_type}), M, MODE_ZEROING));"
for _type in _INTEGERS:
    for _op in ("shl", "shr"):
        _BODIES[f"{_op}:{_type}"] = f"D(simd_inst::v{_op}(A({_type}), B({_type}), M, MODE_ZEROING));"
        _BODIES[f"{_op}s:{_type}"] = f"D(simd_inst::v{_op}s(A({_type}), int32_t(5), M, MODE_ZEROING));"
    _BODIES[f"div:{_type}"] = f"D(simd_inst::vdiv(A({_type}), B({_type}), M, MODE_ZEROING));"
_BODIES |= {
    "div:float": "D(simd_inst::vdiv(A(float), B(float), M, MODE_ZEROING));",
    "div:half": "D(simd_inst::vdiv(A(half), B(half), M, MODE_ZEROING));",
    "shift_by_minus_one": "D(simd_inst::vshls(A(int32_t), int32_t(-1), M, MODE_ZEROING));",
    "merge": "auto d = C(float); ::vadd(d, A(float), B(float), M, MODE_MERGING); D(d);",
    "merge_by_wrapper": "auto d = C(half); simd_inst::vmul(d, A(half), B(half), M, MODE_MERGING); D(d);",
    "lrelu": "D(simd_inst::vlrelu(A(float), 0.25f, M));",
    "prelu": "D(simd_inst::vprelu(A(float), B(float), M));",
    "addc": "auto r = simd_inst::vaddc(A(uint32_t), B(uint32_t), M); D(r.v1); P(r.v0);",
    "subc": "auto r = simd_inst::vsubc(A(int32_t), B(int32_t), M); D(r.v1); P(r.v0);",
    "addcs": "auto r = simd_inst::vaddcs(A(uint32_t), B(uint32_t), N, M); D(r.v1); P(r.v0);",
    "subcs": "auto r = simd_inst::vsubcs(A(uint32_t), B(uint32_t), N, M); D(r.v1); P(r.v0);",
    "mull:int32_t": "auto r = simd_inst::vmull(A(int32_t), B(int32_t), M); D(r.v0); E(r.v1);",
    "mull:uint32_t": "auto r = simd_inst::vmull(A(uint32_t), B(uint32_t), M); D(r.v0); E(r.v1);",
}


@pytest.fixture(scope="module")
def programs() -> RegisterPrograms:
    return RegisterPrograms(_BODIES)


def _lanes(generator: np.random.Generator, dtype: str, count: int = 2) -> list[Lanes]:
    """Random numbers, with the type's corners in the first lanes of each register, all pairs of them."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        corners = np.array([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan], dtype=dtype)
        values = generator.normal(scale=30, size=(count, 256 // kind.itemsize)).astype(dtype)
    else:
        limits = np.iinfo(kind)
        corners = np.array([0, 1, limits.min, limits.max], dtype=dtype)
        values = generator.integers(limits.min, limits.max, (count, 256 // kind.itemsize), dtype=dtype, endpoint=True)
    n = len(corners)
    values[0, : n * n] = np.repeat(corners, n)
    values[1, : n * n] = np.tile(corners, n)
    return list(values)


def _mask(generator: np.random.Generator, dtype: str) -> NDArray[np.bool_]:
    return generator.random(256 // np.dtype(dtype).itemsize) < 0.7


def _assert_same(got: Lanes, expected: Lanes) -> None:
    np.testing.assert_array_equal(got, expected)
    assert (np.signbit(got) == np.signbit(expected))[~np.isnan(expected)].all()


@pytest.mark.parametrize("name", _TYPES)
@pytest.mark.parametrize("op", _BINARY)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_binary_operations_work_lane_by_lane_and_zero_the_rest(
    programs: RegisterPrograms, generator: np.random.Generator, op: str, name: str
) -> None:
    dtype = _TYPES[name]
    (a, b), mask = _lanes(generator, dtype), _mask(generator, dtype)
    got = programs.run(f"{op}:{name}", a, b, m=bits_of(mask, a.itemsize)).d(dtype)
    _assert_same(got, np.where(mask, _BINARY[op](a, b), a.dtype.type(0)))


@pytest.mark.parametrize("name", _TYPES)
@pytest.mark.parametrize("op", _SCALAR)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_scalar_operand_goes_to_every_lane(
    programs: RegisterPrograms, generator: np.random.Generator, op: str, name: str
) -> None:
    dtype = _TYPES[name]
    (a, _), mask = _lanes(generator, dtype), _mask(generator, dtype)
    got = programs.run(f"{op}:{name}", a, m=bits_of(mask, a.itemsize)).d(dtype)
    _assert_same(got, np.where(mask, _SCALAR[op](a, np.full_like(a, 3)), a.dtype.type(0)))


@pytest.mark.parametrize("name", _TYPES)
@pytest.mark.parametrize("op", _UNARY)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_unary_operations(programs: RegisterPrograms, generator: np.random.Generator, op: str, name: str) -> None:
    dtype = _TYPES[name]
    (a, _), mask = _lanes(generator, dtype), _mask(generator, dtype)
    got = programs.run(f"{op}:{name}", a, m=bits_of(mask, a.itemsize)).d(dtype)
    _assert_same(got, np.where(mask, _UNARY[op](a), a.dtype.type(0)))


@pytest.mark.parametrize("name", _TYPES)
def test_logic_works_on_the_bits_of_any_type(
    programs: RegisterPrograms, generator: np.random.Generator, name: str
) -> None:
    dtype = _TYPES[name]
    words = f"u{np.dtype(dtype).itemsize}"
    a, b = _lanes(generator, words)
    mask = _mask(generator, words)
    for op, expected in _LOGIC.items():
        got = programs.run(f"{op}:{name}", a, b, m=bits_of(mask, a.itemsize)).d(words)
        assert (got == np.where(mask, expected(a, b), 0)).all()
    assert (programs.run(f"not:{name}", a, m=bits_of(mask, a.itemsize)).d(words) == np.where(mask, ~a, 0)).all()


@pytest.mark.parametrize("name", _INTEGERS)
def test_shifts_past_the_width_leave_zero_or_the_sign(
    programs: RegisterPrograms, generator: np.random.Generator, name: str
) -> None:
    dtype = _TYPES[name]
    (a, _), mask = _lanes(generator, dtype), _mask(generator, dtype)
    width = 8 * a.itemsize
    amounts = generator.integers(0, width + 3, len(a)).astype(dtype)
    for op, by in (("shl", amounts), ("shr", amounts), ("shls", None), ("shrs", None)):
        got = programs.run(f"{op}:{name}", a, by, m=bits_of(mask, a.itemsize)).d(dtype)
        shift = [5] * len(a) if by is None else by.tolist()
        whole = [x << s if "l" in op[:3] else x >> s for x, s in zip(a.tolist(), shift, strict=True)]
        expected = np.array([x % 2**width for x in whole], dtype=f"u{a.itemsize}").view(dtype)
        assert (got == np.where(mask, expected, 0)).all(), op


def test_a_negative_shift_is_refused(programs: RegisterPrograms) -> None:
    with pytest.raises(RuntimeError, match="shift: amount must be at least 0, got -1"):
        programs.run("shift_by_minus_one", np.ones(64, "i4"), m=bits_of(np.ones(64, bool), 4))


@pytest.mark.parametrize("name", _FLOATS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_float_division_is_ieee(programs: RegisterPrograms, generator: np.random.Generator, name: str) -> None:
    dtype = _TYPES[name]
    a, b = _lanes(generator, dtype)
    got = programs.run(f"div:{name}", a, b, m=bits_of(np.ones(len(a), bool), a.itemsize)).d(dtype)
    _assert_same(got, a / b)


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("name", _INTEGERS)
def test_integer_division_truncates_and_an_option_decides_about_zero(
    programs: RegisterPrograms, generator: np.random.Generator, name: str, zero: bool
) -> None:
    dtype = _TYPES[name]
    a, b = _lanes(generator, dtype)
    b[20:40] = generator.integers(1, 7, 20)
    got = programs.run(
        f"div:{name}", a, b, m=bits_of(np.ones(len(a), bool), a.itemsize),
        integer_division_by_zero_gives_zero="yes" if zero else "no",
    ).d(dtype)  # fmt: skip
    for x, y, quotient in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        whole = (0 if zero else -1) if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        assert (quotient - whole) % 2 ** (8 * a.itemsize) == 0, (x, y)


@pytest.mark.parametrize(("program", "dtype", "op"), [("merge", "f4", np.add), ("merge_by_wrapper", "f2", np.multiply)])
def test_merging_keeps_the_inactive_lanes(
    programs: RegisterPrograms, generator: np.random.Generator, program: str, dtype: str, op: Callable[..., Lanes]
) -> None:
    a, b, c = generator.normal(size=(3, 256 // np.dtype(dtype).itemsize)).astype(dtype)
    mask = _mask(generator, dtype)
    got = programs.run(program, a, b, c, m=bits_of(mask, a.itemsize)).d(dtype)
    assert (got == np.where(mask, op(a, b), c)).all()


def test_leaky_relus_scale_what_is_not_positive(programs: RegisterPrograms, generator: np.random.Generator) -> None:
    a, b = generator.normal(size=(2, 64)).astype("f4")
    mask = _mask(generator, "f4")
    m = bits_of(mask, 4)
    leaky = programs.run("lrelu", a, m=m).d("f4")
    assert (leaky == np.where(mask, np.where(a > 0, a, a * np.float32(0.25)), 0)).all()
    assert (programs.run("prelu", a, b, m=m).d("f4") == np.where(mask, np.where(a > 0, a, a * b), 0)).all()


@pytest.mark.parametrize(("program", "subtract"), [("addc", False), ("subc", True), ("addcs", False), ("subcs", True)])
def test_carry_means_no_borrow_when_subtracting(
    programs: RegisterPrograms, generator: np.random.Generator, program: str, subtract: bool
) -> None:
    a, b = _lanes(generator, "u4")
    mask, carries = _mask(generator, "u4"), generator.random(64) < 0.5
    outcome = programs.run(program, a, b, m=bits_of(mask, 4), n=bits_of(carries, 4))
    carry_in = carries.astype(object) if program.endswith("s") else int(subtract)
    total = a.astype(object) + (~b if subtract else b).astype(object) + carry_in
    assert (outcome.d("u4") == np.where(mask, total % 2**32, 0).astype("u4")).all()
    assert (outcome.p[::4] == (mask & (total >= 2**32))).all()
    assert not np.delete(outcome.p, np.arange(0, 256, 4)).any()


@pytest.mark.parametrize("name", ["int32_t", "uint32_t"])
def test_a_long_product_comes_in_two_registers(
    programs: RegisterPrograms, generator: np.random.Generator, name: str
) -> None:
    dtype = _TYPES[name]
    (a, b), mask = _lanes(generator, dtype), _mask(generator, dtype)
    outcome = programs.run(f"mull:{name}", a, b, m=bits_of(mask, 4))
    low, high = outcome.d("u4").astype(object), outcome.e(dtype).astype(object)
    assert (high * 2**32 + low == np.where(mask, a.astype(object) * b.astype(object), 0)).all()


def test_integer_saturation_is_an_option(programs: RegisterPrograms) -> None:
    a = np.tile(np.array([120, -120, 5, 100], dtype="i1"), 64)
    m = bits_of(np.ones(256, bool), 1)
    clamped = programs.run("add:int8_t", a, a, m=m, integer_arithmetic_saturates="yes").d("i1")
    assert clamped[:4].tolist() == [127, -128, 10, 127]
    assert programs.run("add:int8_t", a, a, m=m).d("i1")[:4].tolist() == [-16, 16, 10, -56]


def test_half_results_may_saturate_by_an_option(programs: RegisterPrograms) -> None:
    a = np.tile(np.array([60000, -60000, np.nan, 2], dtype="f2"), 32)
    m = bits_of(np.ones(128, bool), 2)
    got = programs.run("add:half", a, a, m=m, float16_results_saturate="yes").d("f2")
    assert got[:4].tolist() == [65504, -65504, 0, 4]
    assert np.isinf(programs.run("add:half", a, a, m=m).d("f2")[:2]).all()
