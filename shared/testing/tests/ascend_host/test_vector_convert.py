"""`vcvt`: where source lanes land, what the mask means, and that each conversion takes its documented controls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilevl.testing import ascend_host

from .number_formats import BF16, E4M3, E5M2, FP16, Format, float32_probes
from .register_program import RegisterPrograms, bits_of

_DTYPES = {
    "float": "f4", "half": "f2", "bfloat16_t": "u2", "float8_e4m3_t": "u1", "float8_e5m2_t": "u1", "int8_t": "i1",
    "uint8_t": "u1", "int16_t": "i2", "uint16_t": "u2", "int32_t": "i4", "uint32_t": "u4", "int64_t": "i8",
}  # fmt: skip
_SMALL: dict[str, Format] = {"bfloat16_t": BF16, "float8_e4m3_t": E4M3, "float8_e5m2_t": E5M2, "half": FP16}
_TAILS = {
    "rsp": [("float", "bfloat16_t"), ("float", "half"), ("float", "int16_t"), ("float", "int64_t"), ("half", "int8_t"),
            ("half", "uint8_t"), ("bfloat16_t", "int32_t"), ("half", "float8_e4m3_t"), ("bfloat16_t", "float8_e5m2_t")],
    "rsq": [("float", "float8_e4m3_t"), ("float", "float8_e5m2_t")],
    "rs": [("float", "int32_t"), ("half", "int16_t")],
    "rp": [("half", "int32_t"), ("int64_t", "float")],
    "r": [("half", "bfloat16_t"), ("int16_t", "half"), ("int32_t", "float")],
    "sr": [("bfloat16_t", "half")],
    "p": [("half", "float"), ("bfloat16_t", "float"), ("int8_t", "half"), ("uint8_t", "half"), ("int16_t", "float"),
          ("uint8_t", "uint16_t"), ("uint16_t", "uint32_t"), ("int16_t", "int32_t"), ("int16_t", "uint32_t"),
          ("int32_t", "int64_t"), ("int8_t", "int16_t")],
    "q": [("uint8_t", "uint32_t"), ("int8_t", "int32_t"), ("float8_e4m3_t", "float"), ("float8_e5m2_t", "float")],
    "sp": [("int64_t", "int32_t"), ("int32_t", "int16_t"), ("int32_t", "uint16_t"), ("uint32_t", "uint16_t"),
           ("uint32_t", "int16_t"), ("int16_t", "uint8_t"), ("uint16_t", "uint8_t")],
    "sq": [("int32_t", "uint8_t"), ("uint32_t", "uint8_t")],
}  # fmt: skip
_PAIRS = {pair: tail for tail, pairs in _TAILS.items() for pair in pairs}
_PARTS = {"p": ("PART_EVEN", "PART_ODD"), "q": ("PART_P0", "PART_P1", "PART_P2", "PART_P3")}


def _controls(tail: str, rounding: str, saturation: str, part: str) -> str:
    words = {"r": rounding, "s": saturation, "p": part, "q": part}
    return "".join(f"{words[letter]}, " for letter in tail)


def _parts(tail: str) -> tuple[str, ...]:
    return _PARTS["q"] if "q" in tail else _PARTS["p"] if "p" in tail else ("",)


_BODIES = {}
for (_from, _to), _tail in _PAIRS.items():
    for _part in _parts(_tail):
        for _saturation in ("RS_DISABLE", "RS_ENABLE") if "s" in _tail else ("",):
            _BODIES[f"{_from}->{_to} {_part} {_saturation}"] = (
                f"D(simd_inst::vcvt<{_to}>(A({_from}), M, "
                f"{_controls(_tail, 'ROUND_R', _saturation, _part)}MODE_ZEROING));"
            )
for _mode in "RAFCZO":
    _BODIES[f"ROUND_{_mode}"] = f"D(simd_inst::vcvt<int32_t>(A(float), M, ROUND_{_mode}, RS_DISABLE, MODE_ZEROING));"
    _BODIES[f"half ROUND_{_mode}"] = (
        f"D(simd_inst::vcvt<half>(A(float), M, ROUND_{_mode}, RS_DISABLE, PART_EVEN, MODE_ZEROING));"
    )
_BODIES["merging"] = "auto d = B(half); ::vcvt(d, A(float), M, ROUND_R, RS_DISABLE, PART_ODD, MODE_MERGING); D(d);"


@pytest.fixture(scope="module")
def programs() -> RegisterPrograms:
    return RegisterPrograms(_BODIES)


def _values_of(name: str, raw: NDArray[Any]) -> NDArray[Any]:
    """Lanes as numbers: float64, or Python integers for the integer types."""
    if name in _SMALL:
        return _SMALL[name].values()[raw.view(f"u{raw.itemsize}")]
    return raw.astype(np.float64) if name == "float" else raw.astype(object)


def _source(generator: np.random.Generator, name: str, target: str) -> NDArray[Any]:
    lanes = 256 // np.dtype(_DTYPES[name]).itemsize
    if name == "float" and target in _SMALL:
        with np.errstate(invalid="ignore"):
            return generator.choice(float32_probes(generator, _SMALL[target]), lanes)
    if name == "float":
        return (generator.normal(size=lanes) * np.exp2(generator.integers(-2, 40, lanes))).astype("f4")
    raw = generator.integers(0, 256, 256, dtype=np.uint8).view(_DTYPES[name])
    if np.dtype(_DTYPES[name]).kind == "i" and raw.itemsize > 1:
        return (raw >> generator.integers(0, 8 * raw.itemsize - 1, lanes)).astype(raw.dtype)
    return raw


def _bits(name: str, value: Any, saturate: bool) -> int | None:
    """The code of one converted number; None where the sign of NaN is open."""
    dtype = np.dtype(_DTYPES[name])
    if name == "float":
        return int(np.array(float(value), "f4").view("u4")) if isinstance(value, float) else _float_bits(int(value))
    if name in _SMALL:
        return _small_bits(_SMALL[name], float(value), saturate)
    limits = np.iinfo(dtype)
    if isinstance(value, float) and not np.isfinite(value):
        whole = 0 if np.isnan(value) else limits.max if value > 0 else limits.min
    else:
        whole = round(value)  # Python's is to nearest even
    if saturate:
        whole = min(max(whole, limits.min), limits.max)
    return whole % 2**limits.bits


def _float_bits(value: int) -> int:
    return int(np.array(value, dtype=np.int64).astype("f4").view("u4"))


def _small_bits(target: Format, value: float, saturate: bool) -> int | None:
    largest = target.magnitudes[-1]
    if np.isnan(value):
        return 0 if saturate else None
    rounded = abs(float(target.rounded(np.array([value]), "even")[0])) if np.isfinite(value) else np.inf
    sign = target.sign if np.signbit(value) else 0
    if rounded > largest and not saturate and not target.infinities:
        return None
    place = len(target.magnitudes) - saturate if rounded > largest else np.searchsorted(target.magnitudes, rounded)
    return sign | int(place)


def _matches(name: str, code: int, expected: int | None) -> bool:
    if expected is not None and not (name == "float" and np.isnan(np.array(expected, "u4").view("f4"))):
        return code == expected
    if name == "float":
        return bool(np.isnan(np.array(code, "u4").view("f4")))
    return bool(np.isnan(_SMALL[name].values()[code]))


@pytest.mark.parametrize("program", [name for name in _BODIES if "->" in name])
def test_lanes_land_where_the_part_says_and_values_are_converted(
    programs: RegisterPrograms, generator: np.random.Generator, program: str
) -> None:
    pair, part, saturation = program.split(" ")
    source, target = pair.split("->")
    a = _source(generator, source, target)
    size_in, size_out = a.itemsize, np.dtype(_DTYPES[target]).itemsize
    narrowing, widening = max(1, size_in // size_out), max(1, size_out // size_in)
    offset = _PARTS["q" if part[5:6] == "P" else "p"].index(part) if part else 0
    mask = generator.random(len(a)) < 0.8
    got = programs.run(program, a, m=bits_of(mask, size_in)).d(f"u{size_out}")

    numbers = _values_of(source, a)
    used = np.zeros(len(got), dtype=bool)
    for i in range(len(a) // widening):
        origin = widening * i + (offset if widening > 1 else 0)
        place = narrowing * i + (offset if narrowing > 1 else 0)
        used[place] = True
        value = numbers[origin] if isinstance(numbers[origin], int) else float(numbers[origin])
        expected = _bits(target, value, saturation == "RS_ENABLE") if mask[origin] else 0
        assert _matches(target, int(got[place]), expected), (origin, numbers[origin])
    assert (got[~used] == 0).all()


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("R", [2, 4, -2, 0, 1, -1]),
        ("A", [3, 4, -3, 1, 1, -1]),
        ("F", [2, 3, -3, 0, 1, -2]),
        ("C", [3, 4, -2, 1, 2, -1]),
        ("Z", [2, 3, -2, 0, 1, -1]),
        ("O", [3, 3, -3, 1, 1, -1]),
    ],
)
def test_rounding_tags_mean_what_is_documented(programs: RegisterPrograms, mode: str, expected: list[int]) -> None:
    a = np.resize(np.array([2.5, 3.5, -2.5, 0.5, 1.25, -1.25], "f4"), 64)
    everything = bits_of(np.ones(64, bool), 4)
    assert programs.run(f"ROUND_{mode}", a, m=everything).d("i4")[:6].tolist() == expected
    words = {"R": "even", "A": "away", "F": "floor", "C": "ceil", "Z": "zero", "O": "odd_ties"}
    halves = a * np.float32(1 + 2**-12)
    got = programs.run(f"half ROUND_{mode}", halves, m=everything).d("f2")[::2]
    assert (got == FP16.rounded(halves, words[mode])).all()


def test_the_sticky_odd_rounding_is_an_option(programs: RegisterPrograms) -> None:
    a = np.full(64, 2.25, "f4")
    everything = bits_of(np.ones(64, bool), 4)
    assert (programs.run("ROUND_O", a, m=everything).d("i4") == 2).all()
    assert (programs.run("ROUND_O", a, m=everything, round_odd_sticky="yes").d("i4") == 3).all()


@pytest.mark.parametrize(("choice", "expected"), [("always", 65504.0), ("never", np.inf)])
def test_a_control_bit_may_decide_saturation_for_every_cast(
    programs: RegisterPrograms, choice: str, expected: float
) -> None:
    a = np.full(64, 1e6, "f4")
    for saturation in ("RS_DISABLE", "RS_ENABLE"):
        outcome = programs.run(
            f"float->half PART_EVEN {saturation}", a, m=bits_of(np.ones(64, bool), 4), cast_saturation=choice
        )
        assert (outcome.d("f2")[::2] == expected).all()


def test_merging_keeps_every_lane_that_no_active_one_reaches(
    programs: RegisterPrograms, generator: np.random.Generator
) -> None:
    a, b = generator.normal(size=64).astype("f4"), generator.normal(size=128).astype("f2")
    mask = generator.random(64) < 0.5
    expected = b.copy()
    expected[1::2][mask] = a.astype("f2")[mask]
    assert (programs.run("merging", a, b, m=bits_of(mask, 4)).d("f2") == expected).all()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("D(simd_inst::vcvt<float>(A(uint8_t), M, PART_P0, MODE_ZEROING));", "no such conversion"),
        ("D(simd_inst::vcvt<half>(A(float), M, RS_ENABLE, ROUND_R, PART_EVEN, MODE_ZEROING));", "in its order"),
        ("D(simd_inst::vcvt<int32_t>(A(float), M, ROUND_R, RS_ENABLE, PART_EVEN, MODE_ZEROING));", "in its order"),
    ],
)
def test_undocumented_conversions_do_not_compile(body: str, message: str) -> None:
    with pytest.raises(ascend_host.CompilationError, match=message):
        _ = RegisterPrograms({"wrong": body}).kernel
