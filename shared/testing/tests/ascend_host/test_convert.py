"""The number formats of the host model, code by code and at every kind of tie."""

from __future__ import annotations

import ctypes
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tilevl.testing.ascend_host import compiler

from .number_formats import BF16, E4M3, E5M2, FP16, Format, float32_probes

_ROUNDINGS = ("even", "away", "floor", "ceil", "zero", "odd_ties", "odd_sticky")
_FORMATS = {"fp16": FP16, "bf16": BF16, "e4m3": E4M3, "e5m2": E5M2}

_SOURCE = """\
#include "tilevl_host/half.h"
using namespace tilevl_host;
#define FORMAT(NAME)                                                                                   \\
  extern "C" void decode_##NAME(const uint32_t* bits, double* out, int64_t n) {                        \\
    for (int64_t i = 0; i < n; ++i) out[i] = decode(NAME##_format, bits[i]);                           \\
  }                                                                                                    \\
  extern "C" void encode_##NAME(const double* x, uint32_t* out, int64_t n, int mode, int saturate) {   \\
    for (int64_t i = 0; i < n; ++i) out[i] = encode(NAME##_format, x[i], rounding(mode), saturate);    \\
  }
FORMAT(fp16)
FORMAT(bf16)
FORMAT(e4m3)
FORMAT(e5m2)
#define INTEGER(TYPE)                                                                                  \\
  extern "C" void to_##TYPE(const double* x, TYPE* out, int64_t n, int mode, int saturate) {           \\
    for (int64_t i = 0; i < n; ++i) out[i] = to_integer<TYPE>(x[i], rounding(mode), saturate);         \\
  }
INTEGER(int8_t)
INTEGER(uint8_t)
INTEGER(int16_t)
INTEGER(int32_t)
INTEGER(int64_t)
#define TYPED(NAME, TYPE)                                                                              \\
  extern "C" void from_float_##NAME(const float* x, uint16_t* out, int64_t n) {                        \\
    for (int64_t i = 0; i < n; ++i) out[i] = TYPE(x[i]).bits;                                          \\
  }                                                                                                    \\
  extern "C" void arithmetic_##NAME(const uint16_t* a, const uint16_t* b, uint16_t* out, int64_t n, int op) { \\
    for (int64_t i = 0; i < n; ++i) {                                                                  \\
      const TYPE x = TYPE::from_bits(a[i]), y = TYPE::from_bits(b[i]);                                 \\
      out[i] = (op == 0 ? x + y : op == 1 ? x - y : op == 2 ? x * y : x / y).bits;                     \\
    }                                                                                                  \\
  }                                                                                                    \\
  extern "C" void fused_##NAME(const uint16_t* a, const uint16_t* b, const uint16_t* c, uint16_t* out, int64_t n) { \\
    const auto x = [](uint16_t bits) { return double(float(TYPE::from_bits(bits))); };                 \\
    for (int64_t i = 0; i < n; ++i)                                                                    \\
      out[i] = encode(TYPE::format, fused_for_rounding(x(a[i]), x(b[i]), x(c[i])));                    \\
  }
TYPED(fp16, half)
TYPED(bf16, bfloat16_t)
extern "C" void from_int64(const int64_t* x, uint32_t* out, int64_t n, int mode) {
  for (int64_t i = 0; i < n; ++i) out[i] = encode(fp32_format, split_integer(x[i]), rounding(mode), false);
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder: Path = tmp_path_factory.mktemp("conversions")
    (folder / "conversions.cpp").write_text(_SOURCE)
    command = [str(compiler.compiler()), "-std=c++20", "-O1", "-fPIC", "-shared", f"-I{compiler.INCLUDE}"]
    subprocess.run([*command, "-o", str(folder / "c.so"), str(folder / "conversions.cpp")], check=True)
    return ctypes.CDLL(str(folder / "c.so"))


def _call(
    library: ctypes.CDLL, name: str, *arrays: NDArray[np.generic], out: str, extra: tuple[int, ...] = ()
) -> NDArray[np.generic]:
    held = [np.ascontiguousarray(array) for array in arrays]
    result = np.empty(held[0].size, dtype=out)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in [*held, result]]
    getattr(library, name)(*pointers, ctypes.c_int64(result.size), *map(ctypes.c_int, extra))
    return result


def _same_bits(a: NDArray[np.generic], b: NDArray[np.generic]) -> bool:
    return bool(((a == b) & (np.signbit(a) == np.signbit(b)) | (np.isnan(a) & np.isnan(b))).all())


@pytest.mark.parametrize("name", _FORMATS)
def test_every_code_decodes_to_its_value(library: ctypes.CDLL, name: str) -> None:
    values = _FORMATS[name].values()
    got = _call(library, f"decode_{name}", np.arange(len(values), dtype=np.uint32), out="f8")
    assert _same_bits(got, values)


@pytest.mark.parametrize("mode", range(7), ids=_ROUNDINGS)
@pytest.mark.parametrize("name", _FORMATS)
def test_every_finite_value_survives_encoding_in_every_rounding(library: ctypes.CDLL, name: str, mode: int) -> None:
    target = _FORMATS[name]
    codes = np.arange(len(target.magnitudes), dtype=np.uint32)
    codes = np.concatenate([codes, codes | target.sign])
    got = _call(library, f"encode_{name}", target.values()[codes], out="u4", extra=(mode, 0))
    assert (got == codes).all()


def _expected(x: NDArray[np.float64], target: Format, mode: str, saturate: bool) -> NDArray[np.float64]:
    largest = target.magnitudes[-1]
    with np.errstate(invalid="ignore"):
        rounded = target.rounded(np.where(np.isfinite(x), x, 0.0), mode)
    if saturate:
        clamped = np.clip(rounded, -largest, largest)
        return np.where(np.isnan(x), 0.0, np.where(np.isinf(x), np.copysign(largest, x), clamped))
    past = np.inf if target.infinities else np.nan
    kept = np.where(np.abs(rounded) > largest, np.copysign(past, x), rounded)
    return np.where(np.isnan(x), np.nan, np.where(np.isinf(x), np.copysign(past, x), kept))


@pytest.mark.parametrize("saturate", [False, True], ids=["keep_infinity", "saturate"])
@pytest.mark.parametrize("mode", range(7), ids=_ROUNDINGS)
@pytest.mark.parametrize("name", _FORMATS)
def test_values_between_codes_round_as_the_mode_says(
    library: ctypes.CDLL, generator: np.random.Generator, name: str, mode: int, saturate: bool
) -> None:
    target = _FORMATS[name]
    with np.errstate(invalid="ignore"):  # signalling NaNs among the random bits
        x = float32_probes(generator, target).astype(np.float64)
    codes = _call(library, f"encode_{name}", x, out="u4", extra=(mode, int(saturate)))
    got, expected = target.values()[codes], _expected(x, target, _ROUNDINGS[mode], saturate)
    keep = ~np.isnan(x) if saturate else np.ones(len(x), dtype=bool)  # a NaN becomes +0 whatever its sign
    assert _same_bits(got[keep], expected[keep])
    assert (codes[~keep] == 0).all()


@pytest.mark.parametrize("name", ["fp16", "bf16"])
def test_the_types_round_float32_to_nearest_even(
    library: ctypes.CDLL, generator: np.random.Generator, name: str
) -> None:
    x = float32_probes(generator, _FORMATS[name])
    got = _call(library, f"from_float_{name}", x, out="u2")
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}[name]
    expected = torch.from_numpy(x).to(dtype).to(torch.float64).numpy()
    assert _same_bits(_FORMATS[name].values()[got], expected)


@pytest.mark.parametrize("op", range(4), ids=["add", "subtract", "multiply", "divide"])
@pytest.mark.parametrize("name", ["fp16", "bf16"])
def test_arithmetic_of_two_rounds_once(
    library: ctypes.CDLL, generator: np.random.Generator, name: str, op: int
) -> None:
    a, b = generator.integers(0, 2**16, (2, 20000), dtype=np.uint16)
    got = _call(library, f"arithmetic_{name}", a, b, out="u2", extra=(op,))
    values = _FORMATS[name].values()
    x, y = values[a], values[b]
    with np.errstate(all="ignore"):
        # float64 holds 53 bits, enough not to round twice
        exact = (np.add, np.subtract, np.multiply, np.divide)[op](x, y)
    assert _same_bits(values[got], _expected(exact, _FORMATS[name], "even", saturate=False))


@pytest.mark.parametrize("name", ["fp16", "bf16"])
def test_multiply_add_rounds_the_exact_value_once(
    library: ctypes.CDLL, generator: np.random.Generator, name: str
) -> None:
    target = _FORMATS[name]
    a, b, c = generator.integers(0, target.sign - (target.sign >> 3), (3, 1500), dtype=np.uint16)
    c[::3] = generator.integers(0, 4, len(c[::3]))  # a tiny addend decides a tie
    got = _call(library, f"fused_{name}", a, b, c, out="u2")
    values = target.values()
    for code, x, y, z in zip(got, values[a], values[b], values[c], strict=True):
        if not np.isfinite([x, y, z]).all():
            continue
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        if exact >= Fraction(target.magnitudes[-1]):
            continue
        low = int(np.searchsorted(target.magnitudes, float(exact), side="right"))
        near = range(max(low - 2, 0), min(low + 2, len(target.magnitudes)))
        best = min(near, key=lambda i: (abs(Fraction(target.magnitudes[i]) - exact), i % 2))
        assert values[code] == target.magnitudes[best], (x, y, z)


@pytest.mark.parametrize("saturate", [False, True], ids=["low_bits", "clamp"])
@pytest.mark.parametrize("mode", range(7), ids=_ROUNDINGS)
@pytest.mark.parametrize("name", ["int8_t", "uint8_t", "int16_t", "int32_t", "int64_t"])
def test_floats_become_integers_by_rule(
    library: ctypes.CDLL, generator: np.random.Generator, name: str, mode: int, saturate: bool
) -> None:
    dtype = np.dtype(name[:-2])
    limits = np.iinfo(dtype)
    scale = np.ldexp(1.0, generator.integers(-3, limits.bits + 12, 500))
    x = np.concatenate([generator.normal(size=500) * scale, np.arange(-40, 41) / 8, [1e300, -1e300, 5e-324]])
    got = _call(library, f"to_{name}", x, out=str(dtype), extra=(mode, int(saturate)))
    for value, result in zip(x, got, strict=True):
        whole = _whole(value, _ROUNDINGS[mode])
        low_bits = (whole - limits.min) % 2**limits.bits + limits.min
        assert int(result) == (min(max(whole, limits.min), limits.max) if saturate else low_bits), value


def _whole(value: float, mode: str) -> int:
    numerator, denominator = value.as_integer_ratio()
    floor, rest = divmod(numerator, denominator)
    ceiling, twice = floor + (rest != 0), 2 * rest
    nearest = floor if twice < denominator else ceiling
    if mode == "floor" or rest == 0:
        return floor
    if mode == "ceil":
        return ceiling
    if mode == "zero":
        return floor if value > 0 else ceiling
    if mode == "odd_sticky":
        return floor if floor % 2 else ceiling
    if twice != denominator:
        return nearest
    if mode == "away":
        return ceiling if value > 0 else floor
    wanted = 0 if mode == "even" else 1
    return floor if floor % 2 == wanted else ceiling


@pytest.mark.parametrize("saturate", [0, 1])
def test_infinities_become_the_extremes_and_nan_becomes_zero(library: ctypes.CDLL, saturate: int) -> None:
    got = _call(library, "to_int16_t", np.array([np.inf, -np.inf, np.nan]), out="i2", extra=(0, saturate))
    assert got.tolist() == [32767, -32768, 0]
    assert _call(library, "to_uint8_t", np.array([-np.inf]), out="u1", extra=(0, saturate)).tolist() == [0]


@pytest.mark.parametrize(("mode", "expected"), [(5, [3, 3, -3, -3, 2]), (6, [3, 3, -3, -3, 3])], ids=["ties", "sticky"])
def test_round_to_odd_gives_the_documented_values(library: ctypes.CDLL, mode: int, expected: list[int]) -> None:
    got = _call(library, "to_int32_t", np.array([2.5, 3.5, -2.5, -3.5, 2.25]), out="i4", extra=(mode, 0))
    assert got.tolist() == expected


def test_wide_integers_round_to_float32_without_a_detour(library: ctypes.CDLL, generator: np.random.Generator) -> None:
    x = generator.integers(-(2**63), 2**63, 2000)
    x[:3] = [2**53 + 1, 2**62 + 2**38 + 1, -(2**62 + 2**38)]  # rounded through float64, the second would end elsewhere
    got = _call(library, "from_int64", x, out="u4", extra=(0,)).view(np.float32)
    assert (got == torch.from_numpy(x).to(torch.float32).numpy()).all()


def test_the_oracle_agrees_with_numpy_on_float16() -> None:
    codes = np.arange(2**16, dtype=np.uint16)
    assert _same_bits(FP16.values(), codes.view(np.float16).astype(np.float64))
