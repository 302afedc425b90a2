"""Exponential, logarithm, root, exact division and multiply-add: specials, subnormals, and how often they round."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from .register_program import RegisterPrograms, bits_of

_ALL = bits_of(np.ones(64, bool), 4)
_SUBNORMAL = np.float32(1e-40)

_BODIES = {
    "exp": "D(simd_inst::vexp(A(float), M, MODE_ZEROING));",
    "ln": "D(simd_inst::vln(A(float), M, MODE_ZEROING));",
    "sqrt": "D(simd_inst::vsqrt(A(float), M, MODE_ZEROING));",
    "exp:half": "D(simd_inst::vexp(A(half), M, MODE_ZEROING));",
    "ln:half": "D(simd_inst::vln(A(half), M, MODE_ZEROING));",
    "sqrt:half": "D(simd_inst::vsqrt(A(half), M, MODE_ZEROING));",
    "div": "D(simd_inst::vdiv(A(float), B(float), M, MODE_ZEROING));",
    "exact_div": "D(simd_inst::vdiv_0ulp_ftz_true(A(float), B(float), M, MODE_ZEROING));",
    "exact_exp": "D(simd_inst::vexp_1ulp_ftz_false(A(float), M, MODE_ZEROING));",
    "exact_ln": "D(simd_inst::vln_1ulp_ftz_false(A(float), M, MODE_ZEROING));",
    "exact_sqrt": "D(simd_inst::vsqrt_0ulp_ftz_false(A(float), M, MODE_ZEROING));",
    "expdif": "D(simd_inst::vexpdif(A(float), B(float), M));",
    "vmula": "auto d = C(float); simd_inst::vmula(&d, A(float), B(float), M, MODE_ZEROING); D(d);",
    "vmula_merging": "auto d = C(float); ::vmula(d, A(float), B(float), M, MODE_MERGING); D(d);",
    "vmadd": "auto d = C(float); simd_inst::vmadd(&d, A(float), B(float), M, MODE_ZEROING); D(d);",
    "madd": "auto d = C(float); asc_madd(d, A(float), B(float), M); D(d);",
    "axpy": "auto d = C(float); simd_inst::vaxpy(&d, A(float), 0.3f, M, MODE_ZEROING); D(d);",
    "axpy_merging": "auto d = C(float); simd_inst::vaxpy(d, A(float), 0.3f, M, MODE_MERGING); D(d);",
    "vmula:half": "auto d = C(half); simd_inst::vmula(&d, A(half), B(half), M, MODE_ZEROING); D(d);",
    "vmula:int32_t": "auto d = C(int32_t); simd_inst::vmula(&d, A(int32_t), B(int32_t), M, MODE_ZEROING); D(d);",
}


@pytest.fixture(scope="module")
def programs() -> RegisterPrograms:
    return RegisterPrograms(_BODIES)


def _register(values: list[float], dtype: str = "f4") -> np.ndarray:
    lanes = 256 // np.dtype(dtype).itemsize
    return np.resize(np.array(values, dtype=dtype), lanes)


@pytest.mark.parametrize(
    ("op", "given", "expected"),
    [
        ("exp", [-np.inf, np.inf, 0.0, -0.0, np.nan], [0.0, np.inf, 1.0, 1.0, np.nan]),
        ("ln", [0.0, -0.0, 1.0, np.inf, -1.0, np.nan], [-np.inf, -np.inf, 0.0, np.inf, np.nan, np.nan]),
        ("sqrt", [0.0, -0.0, 4.0, np.inf, -1.0, np.nan], [0.0, -0.0, 2.0, np.inf, np.nan, np.nan]),
        ("exp:half", [-np.inf, 12.0, 0.0], [0.0, np.inf, 1.0]),
        ("ln:half", [0.0, 1.0, -1.0], [-np.inf, 0.0, np.nan]),
        ("sqrt:half", [-0.0, 9.0], [-0.0, 3.0]),
    ],
)
def test_special_values_are_the_documented_ones(
    programs: RegisterPrograms, op: str, given: list[float], expected: list[float]
) -> None:
    dtype = "f2" if op.endswith("half") else "f4"
    a = _register(given, dtype)
    got = programs.run(op, a, m=bits_of(np.ones(len(a), bool), a.itemsize)).d(dtype)[: len(given)]
    np.testing.assert_array_equal(got, np.array(expected, dtype))
    keep = ~np.isnan(got)
    assert (np.signbit(got) == np.signbit(expected))[keep].all()


@pytest.mark.parametrize(("op", "reference"), [("exp", np.exp), ("ln", np.log), ("sqrt", np.sqrt)])
def test_results_are_within_one_unit_of_the_exact_ones(
    programs: RegisterPrograms, generator: np.random.Generator, op: str, reference: np.ufunc
) -> None:
    a = (np.abs(generator.normal(scale=20, size=64)) + 1e-3).astype("f4")
    got = programs.run(op, a, m=_ALL).d("f4").astype(np.float64)
    exact = reference(a.astype(np.float64))
    assert (np.abs(got - exact) <= np.spacing(exact.astype("f4")).astype(np.float64).__abs__()).all()


def test_subnormals_flush_in_these_units_unless_an_option_says_no(programs: RegisterPrograms) -> None:
    tiny, ones = _register([_SUBNORMAL]), _register([1.0])
    assert (programs.run("sqrt", tiny, m=_ALL).d("f4") == 0).all()
    assert (programs.run("sqrt", tiny, m=_ALL, flush_subnormals="no").d("f4") == np.sqrt(_SUBNORMAL)).all()
    assert (programs.run("ln", tiny, m=_ALL).d("f4") == -np.inf).all()
    assert (programs.run("div", tiny, ones, m=_ALL).d("f4") == 0).all()
    assert (programs.run("div", tiny, ones, m=_ALL, flush_subnormals="no").d("f4") == _SUBNORMAL).all()
    assert (programs.run("exp", _register([-95.0]), m=_ALL).d("f4") == 0).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_subnormal_wrappers_see_subnormals_all_the_same(programs: RegisterPrograms) -> None:
    near = {"rtol": 3e-3, "atol": 2e-45}  # a subnormal has few bits
    tiny = _register([_SUBNORMAL, np.float32(0.5), np.float32(np.inf), np.float32(0.0)])
    np.testing.assert_allclose(programs.run("exact_ln", tiny, m=_ALL).d("f4"), np.log(tiny), rtol=3e-7)
    np.testing.assert_array_equal(programs.run("exact_sqrt", tiny, m=_ALL).d("f4"), np.sqrt(tiny))
    low = _register([-95.0, 1.0])
    np.testing.assert_allclose(programs.run("exact_exp", low, m=_ALL).d("f4"), np.exp(low), **near)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_exact_division_is_ieee_division(programs: RegisterPrograms, generator: np.random.Generator) -> None:
    a, b = generator.normal(size=(2, 64)).astype("f4") * np.ldexp(1, generator.integers(-20, 20, (2, 64))).astype("f4")
    a[:3], b[:3] = [1, 0, -3], [0, 0, np.inf]
    np.testing.assert_array_equal(programs.run("exact_div", a, b, m=_ALL).d("f4"), a / b)


@pytest.mark.parametrize("rounds", ["yes", "no"])
def test_exp_sub_rounds_the_difference_by_an_option(programs: RegisterPrograms, rounds: str) -> None:
    a, b = _register([20.0]), _register([1e-7])  # the difference is a tie's neighbour away from 20
    got = programs.run("expdif", a, b, m=_ALL, exp_sub_rounds_difference=rounds).d("f4")[0]
    difference = a[0] - b[0] if rounds == "yes" else float(a[0]) - float(b[0])
    assert got == np.float32(np.exp(np.float64(difference)))
    assert np.float32(np.exp(np.float64(a[0] - b[0]))) != np.float32(np.exp(float(a[0]) - float(b[0])))


def _fused(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    exact = [Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)) for a, b, c in zip(x, y, z, strict=True)]
    return np.array([_to_float32(value) for value in exact], dtype="f4")


def _to_float32(value: Fraction) -> np.float32:
    near = np.float32(float(value))
    return min(
        (near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))),
        key=lambda v: (abs(Fraction(float(v)) - value), int(np.float32(v).view("u4")) & 1),
    )


@pytest.mark.parametrize("op", ["vmula", "vmula_merging", "vmadd", "madd", "axpy", "axpy_merging"])
def test_multiply_add_rounds_once_by_default_and_twice_by_option(
    programs: RegisterPrograms, generator: np.random.Generator, op: str
) -> None:
    a, b, c = generator.normal(size=(3, 64)).astype("f4")
    c[:32] = -(a * b)[:32]  # what is left is the rounding of the product
    scalar = np.full_like(a, 0.3)
    first, second, third = {"vmula": (a, b, c), "vmadd": (c, a, b), "madd": (c, a, b), "axpy": (a, scalar, c)}[
        op.removesuffix("_merging")
    ]
    mask = generator.random(64) < 0.7
    rest = c if op.endswith("merging") else np.zeros_like(c)
    once = programs.run(op, a, b, c, m=bits_of(mask, 4)).d("f4")
    np.testing.assert_array_equal(once, np.where(mask, _fused(first, second, third), rest))
    twice = programs.run(op, a, b, c, m=bits_of(mask, 4), fused_multiply_add="no").d("f4")
    np.testing.assert_array_equal(twice, np.where(mask, first * second + third, rest))
    assert (once != twice).any()


def test_multiply_add_of_halves_and_integers(programs: RegisterPrograms, generator: np.random.Generator) -> None:
    x, y, z = generator.normal(size=(3, 128)).astype("f2")
    got = programs.run("vmula:half", x, y, z, m=bits_of(np.ones(128, bool), 2)).d("f2")
    exact = x.astype("f8") * y.astype("f8") + z.astype("f8")  # 22 bits and 11 of near size fit 53
    np.testing.assert_array_equal(got, exact.astype("f2"))
    a, b, c = generator.integers(-(2**31), 2**31, (3, 64)).astype("i4")
    whole = programs.run("vmula:int32_t", a, b, c, m=_ALL).d("i4")
    assert (whole == (a.astype("i8") * b + c).astype("i4")).all()
