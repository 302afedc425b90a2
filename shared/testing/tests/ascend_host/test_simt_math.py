"""What a single SIMT thread computes: functions, conversions, operators, atomics."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tilevl.testing.ascend_host import KernelFaultError

from .simt_program import SimtPrograms

_FUNCTIONS = {
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "exp": np.exp, "exp2": np.exp2, "exp10": lambda x: 10.0**x,
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "tanh": np.tanh, "tan": np.tan, "sin": np.sin,
    "cos": np.cos, "atan": np.arctan, "erf": np.vectorize(math.erf), "floor": np.floor, "ceil": np.ceil, "fabs": np.abs,
    "round": lambda x: np.trunc(x + np.copysign(0.5, x)), "trunc": np.trunc,
}  # fmt: skip
_ATOMIC = {
    "int32_t": "i4", "uint32_t": "u4", "float": "f4", "half": "f2", "int64_t": "i8", "uint64_t": "u8",
}  # fmt: skip

_BODIES = {
    "atan2": "OUT(float)[THREAD] = atan2f(IN(float)[THREAD], IN(float)[THREAD + 64]);",
    "fdividef": "OUT(float)[THREAD] = fdividef(IN(float)[THREAD], IN(float)[THREAD + 64]);",
    "max": "OUT(float)[THREAD] = max(IN(float)[THREAD], IN(float)[THREAD + 64]);",
    "min": "OUT(float)[THREAD] = min(IN(float)[THREAD], IN(float)[THREAD + 64]);",
    "half_max": "OUT(half)[THREAD] = max(IN(half)[THREAD], half(0.5f));",
    "half_pair": (
        "*(__ubuf__ half2*)(OUT(half) + 2 * THREAD) = __float22half2_rn(*(__ubuf__ float2*)(IN(float) + 2 * THREAD));"
    ),
    "half_wide": (
        "*(__ubuf__ float2*)(OUT(float) + 2 * THREAD) = __half22float2(*(__ubuf__ half2*)(IN(half) + 2 * THREAD));"
    ),
    "bf16_pair": (
        "*(__ubuf__ bfloat16x2_t*)(OUT(bfloat16_t) + 2 * THREAD) = "
        "__float22bfloat162_rn(*(__ubuf__ float2*)(IN(float) + 2 * THREAD));"
    ),
    "bf16_wide": "OUT(float)[THREAD] = __bfloat162float(IN(bfloat16_t)[THREAD]);",
    "bf16_one": "OUT(bfloat16_t)[THREAD] = __float2bfloat16_rn(IN(float)[THREAD]);",
    "e4m3": "OUT(uint8_t)[THREAD] = tl::float_e4m3_t(IN(float)[THREAD]).data;",
    "e5m2": "OUT(uint8_t)[THREAD] = tl::float_e5m2_t(IN(float)[THREAD]).data;",
    "e4m3_wide": "OUT(float)[THREAD] = tl::float_e4m3_t::from_bits(IN(uint8_t)[THREAD]);",
    "e5m2_wide": "OUT(float)[THREAD] = tl::float_e5m2_t::from_bits(IN(uint8_t)[THREAD]);",
    "fp8_pairs": (
        "half2 h = make_half2(half(IN(float)[2 * THREAD]), half(IN(float)[2 * THREAD + 1]));\n"
        "  uint16_t bits = tl::detail::cast_half2_to_fp8_e4m3x2(h);\n"
        "  OUT(uint16_t)[THREAD] = bits;\n"
        "  half2 back = tl::detail::cast_fp8_e4m3x2_to_half2(*(float8_e4m3x2_t*)&bits);\n"
        "  *(__ubuf__ half2*)(OUT(half) + 1024 + 2 * THREAD) = back;"
    ),
    "bf16_fp8_pairs": (
        "bfloat16x2_t b = make_bfloat16x2_t(bfloat16_t(IN(float)[2 * THREAD]),\n"
        "    bfloat16_t(IN(float)[2 * THREAD + 1]));\n"
        "  uint16_t bits = tl::detail::cast_bfloat162_to_fp8_e5m2x2(b);\n  OUT(uint16_t)[THREAD] = bits;"
    ),
    "mixed": "OUT(float)[THREAD] = IN(half)[THREAD] * 0.1f + 2 * IN(half)[THREAD];",
    "relations": (
        "half h = IN(half)[THREAD];\n  bfloat16_t b = IN(bfloat16_t)[THREAD + 64];\n"
        "  OUT(int32_t)[THREAD] = (h < 1) + 2 * (0.5f < h) + 4 * (h == -1.0f) + 8 * (b >= 0)\n"
        "    + 16 * (b != bfloat16_t(2.0f)) + 32 * (-h > h) + 64 * (h != h);"
    ),
    "wrapped": (
        "half h = IN(half)[THREAD];\n  h += 1;\n  h *= half(3.0f);\n  h -= 0.5f;\n  h /= 2;\n  OUT(half)[THREAD] = h;"
    ),
    "uniform": (
        "tl::AscendPhiloxState state;\n  tl::philox_init(&state, 42, THREAD, 0);\n"
        "  OUT(float)[THREAD] = tl::philox_rand_uniform(&state);"
    ),
    "normal": (
        "tl::AscendPhiloxState state;\n  tl::philox_init(&state, 42, THREAD, 0);\n"
        "  OUT(float)[THREAD] = tl::philox_rand_normal(&state);"
    ),
    "packed_atomic": "asc_atomic_add(OUT(half2), make_half2(half(1), half(2)));",
    "wide_atomic_in_ub": "asc_atomic_add(OUT(int64_t), int64_t(1));",
    "plain_and_atomic": "if (THREAD == 3) OUT(int32_t)[0] = 1; else asc_atomic_add(OUT(int32_t), 1);",
    "old_values": "OUT(int32_t)[THREAD + 1] = asc_atomic_add(OUT(int32_t), 1);",
    "old_half": "OUT(uint16_t)[THREAD + 1] = asc_atomic_add(OUT(half), half(1)).bits;",
}
for _name in _FUNCTIONS:
    _BODIES[f"{_name}f"] = f"OUT(float)[THREAD] = {_name}f(IN(float)[THREAD]);"
    _BODIES[f"h{_name}"] = f"OUT(half)[THREAD] = h{_name}(IN(half)[THREAD]);"
for _name in _ATOMIC:
    for _op in ("add", "max", "min"):
        _BODIES[f"atomic {_op} {_name}"] = f"asc_atomic_{_op}(PLACE({_name}) + THREAD % 3, IN({_name})[THREAD]);"


@pytest.fixture(scope="module")
def programs() -> SimtPrograms:
    return SimtPrograms(_BODIES)


@pytest.mark.parametrize("name", _FUNCTIONS)
def test_functions_of_floats_and_halves(programs: SimtPrograms, generator: np.random.Generator, name: str) -> None:
    given = (np.abs(generator.normal(size=64)) + 0.1).astype("f4")
    if name in ("floor", "ceil", "round", "trunc", "fabs"):
        given *= generator.choice(np.float32([-1, 1]), 64)
        given[:4] = [2.5, -2.5, -0.0, 1e30]
    expected = _FUNCTIONS[name](given.astype("f8"))
    np.testing.assert_allclose(programs.run(f"{name}f", given, dtype="f4")[:64], expected, rtol=4e-7)
    halves = np.minimum(given, np.float32(2)).astype("f2")
    exact = _FUNCTIONS[name](halves.astype("f8"))
    np.testing.assert_allclose(programs.run(f"h{name}", halves, dtype="f2")[:64], exact, rtol=2**-11, atol=1e-7)


def test_functions_of_two_operands(programs: SimtPrograms, generator: np.random.Generator) -> None:
    a, b = generator.normal(size=(2, 64)).astype("f4")
    both = np.concatenate([a, b])
    np.testing.assert_allclose(programs.run("atan2", both, dtype="f4")[:64], np.arctan2(a, b), rtol=4e-7)
    assert (programs.run("fdividef", both, dtype="f4")[:64] == a / b).all()
    assert (programs.run("max", both, dtype="f4")[:64] == np.maximum(a, b)).all()
    assert (programs.run("min", both, dtype="f4")[:64] == np.minimum(a, b)).all()
    halves = a.astype("f2")
    assert (programs.run("half_max", halves, dtype="f2")[:64] == np.maximum(halves, np.float16(0.5))).all()


@pytest.mark.parametrize("op", ["max", "min"])
def test_nan_in_an_extreme_is_an_option(programs: SimtPrograms, op: str) -> None:
    a, b = np.full(64, np.nan, "f4"), np.full(64, 2.0, "f4")
    for both in (np.concatenate([a, b]), np.concatenate([b, a])):
        assert (programs.run(op, both, dtype="f4")[:64] == 2).all()
        assert np.isnan(programs.run(op, both, dtype="f4", simt_extremes_propagate_nan="yes")[:64]).all()


def test_flushing_of_subnormals_is_an_option_and_ends_with_the_launch(programs: SimtPrograms) -> None:
    both = np.concatenate([np.full(64, 1e-38, "f4"), np.full(64, 10.0, "f4")])
    assert (programs.run("fdividef", both, dtype="f4")[:64] > 0).all()
    assert (programs.run("fdividef", both, dtype="f4", simt_flush_subnormals="yes")[:64] == 0).all()
    assert torch.tensor(1e-38).div(10).item() > 0


def test_conversions_round_to_nearest_even(programs: SimtPrograms, generator: np.random.Generator) -> None:
    given = (generator.normal(size=128) * np.exp2(generator.integers(-10, 10, 128))).astype("f4")
    given[:4] = [65519.9, 65520.0, 1 + 2.0**-11, 1 + 3 * 2.0**-11]
    with np.errstate(over="ignore"):
        halves = given.astype("f2")
    assert (programs.run("half_pair", given, dtype="f2")[:128] == halves).all()
    assert (programs.run("half_wide", halves, dtype="f4")[:128] == halves.astype("f4")).all()
    bf16 = torch.from_numpy(given).bfloat16()
    bits = bf16.view(torch.int16).numpy()
    assert (programs.run("bf16_pair", given, dtype="i2")[:128] == bits).all()
    assert (programs.run("bf16_one", given, dtype="i2", threads=128)[:128] == bits).all()
    assert (programs.run("bf16_wide", bits, dtype="f4", threads=128)[:128] == bf16.float().numpy()).all()
    small = given[4:68].astype("f2") / 8
    exact = small.astype("f4") * np.float32(0.1) + (2 * small).astype("f4")
    assert (programs.run("mixed", small, dtype="f4")[:64] == exact).all()


def test_halves_compare_and_accumulate_like_numbers(programs: SimtPrograms, generator: np.random.Generator) -> None:
    h = generator.choice(np.array([-1, -0.0, 0.5, 0.75, 1, 2, np.inf, np.nan], "f2"), 64)
    b = torch.from_numpy(generator.choice(np.array([-2, -0.0, 2, 3], "f4"), 64)).bfloat16()
    x = b.float().numpy()
    given = np.concatenate([h.view("i2"), b.view(torch.int16).numpy()])
    expected = (h < 1) + 2 * (h > 0.5) + 4 * (h == -1) + 8 * (x >= 0) + 16 * (x != 2) + 32 * (-h > h) + 64 * np.isnan(h)
    assert (programs.run("relations", given)[:64] == expected).all()
    start = generator.normal(size=64).astype("f2")
    tripled = ((start + np.float16(1)) * np.float16(3)).astype("f4") - np.float32(0.5)
    got = programs.run("wrapped", start, dtype="f2")[:64]
    assert (got == tripled.astype("f2") / np.float16(2)).all()


@pytest.mark.parametrize(
    ("name", "dtype", "largest"), [("e4m3", torch.float8_e4m3fn, 448.0), ("e5m2", torch.float8_e5m2, 57344.0)]
)
def test_8_bit_floats_saturate_and_keep_nan(
    programs: SimtPrograms, generator: np.random.Generator, name: str, dtype: torch.dtype, largest: float
) -> None:
    given = (generator.normal(size=64) * np.exp2(generator.integers(-12, 9, 64))).astype("f4")
    given[:5] = [1e6, -1e6, np.inf, -np.inf, largest]
    given[5] = np.nan
    got = torch.from_numpy(programs.run(name, given, dtype="u1")[:64]).view(dtype).float()
    expected = torch.from_numpy(given).clamp(-largest, largest).to(dtype).float()
    assert torch.equal(got.nan_to_num(nan=-1), expected.nan_to_num(nan=-1))
    codes = np.arange(256, dtype=np.uint8)
    wide = torch.from_numpy(programs.run(f"{name}_wide", codes, dtype="f4", threads=256)[:256].copy())
    assert torch.equal(
        wide.nan_to_num(1e9, 2e9, -2e9), torch.from_numpy(codes).view(dtype).float().nan_to_num(1e9, 2e9, -2e9)
    )


def test_8_bit_floats_convert_in_pairs(programs: SimtPrograms, generator: np.random.Generator) -> None:
    given = generator.normal(size=128).astype("f4")
    expected = torch.from_numpy(given).half().float().to(torch.float8_e4m3fn)
    got = programs.run("fp8_pairs", given, dtype="u1")
    assert (got[:128] == expected.view(torch.uint8).numpy()).all()
    assert (got[2048:].view("f2")[:128] == expected.half().numpy()).all()
    brain = torch.from_numpy(given).bfloat16().float().to(torch.float8_e5m2)
    assert (programs.run("bf16_fp8_pairs", given, dtype="u1")[:128] == brain.view(torch.uint8).numpy()).all()


def test_tilelangs_random_numbers_are_uniform_and_normal(programs: SimtPrograms) -> None:
    uniform = programs.run("uniform", threads=2048, dtype="f4")[:2048]
    assert uniform.min() > 0 and uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.03 and len(np.unique(uniform)) > 2000
    normal = programs.run("normal", threads=2048, dtype="f4")[:2048]
    assert abs(normal.mean()) < 0.1 and abs(normal.std() - 1) < 0.1


@pytest.mark.parametrize("op", ["add", "max", "min"])
@pytest.mark.parametrize("name", _ATOMIC)
def test_atomics_of_threads_on_one_element_combine(
    programs: SimtPrograms, generator: np.random.Generator, op: str, name: str
) -> None:
    dtype = np.dtype(_ATOMIC[name])
    given = generator.integers(1, 9, 60).astype(dtype)
    place = np.array([3, 20, 5, 99], dtype=dtype)
    rows = given.reshape(20, 3)
    expected = {"add": place[:3] + rows.sum(axis=0), "max": np.maximum(place[:3], rows.max(axis=0)),
                "min": np.minimum(place[:3], rows.min(axis=0))}[op]  # fmt: skip
    programs.run(f"atomic {op} {name}", given, threads=60, place=place)
    assert (place == [*expected, 99]).all()
    assert programs.counters.cores[0].simt["atomics"] == 60


def test_atomics_in_ub_return_the_old_value(programs: SimtPrograms) -> None:
    got = programs.run("old_values", threads=50)
    start = np.array(0xA5A5A5A5, "u4").view("i4")
    assert got[0] == start + 50
    assert sorted(got[1:51]) == [start + i for i in range(50)]
    halves = programs.run("old_half", threads=8, dtype="u2")
    assert np.isnan(halves[1:9].view("f2")).all()  # the device's is not reliable


def test_packed_atomics_add_both_halves(programs: SimtPrograms) -> None:
    start = np.array([0xA5A5, 0xA5A5], "u2").view("f2").astype("f4")
    got = programs.run("packed_atomic", threads=4, dtype="f2")[:2]
    expected = start.copy()
    for _ in range(4):
        expected = (expected + np.float32([1, 2])).astype("f2").astype("f4")
    assert (got == expected).all()


def test_64_bit_atomics_are_for_gm(programs: SimtPrograms) -> None:
    with pytest.raises(KernelFaultError, match="asc_atomic_add: a 64-bit atomic must be in GM"):
        programs.run("wide_atomic_in_ub")


def test_an_atomic_and_a_plain_store_race(programs: SimtPrograms) -> None:
    with pytest.raises(KernelFaultError, match="no barrier between"):
        programs.run("plain_and_atomic")
