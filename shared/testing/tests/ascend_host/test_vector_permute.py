"""Rearranging lanes: interleaving, packing, squeezing, selecting, and gathering by register."""

from __future__ import annotations

import numpy as np
import pytest

from .register_program import RegisterPrograms, bits_of

_TYPES = {"uint8_t": "u1", "half": "u2", "float": "u4", "int64_t": "u8"}
_NARROW = {"int32_t": ("i4", "u2"), "uint16_t": ("u2", "u1")}
_WIDEN = {"int8_t": ("i1", "i2"), "uint8_t": ("u1", "u2"), "int16_t": ("i2", "i4"), "uint16_t": ("u2", "u4")}

_BODIES = {}
for _name in _TYPES:
    _BODIES[f"vintlv:{_name}"] = f"auto r = simd_inst::vintlv(A({_name}), B({_name})); D(r.v0); E(r.v1);"
    _BODIES[f"vdintlv:{_name}"] = f"auto r = simd_inst::vdintlv(A({_name}), B({_name})); D(r.v0); E(r.v1);"
    _BODIES[f"vsqz:{_name}"] = f"D(simd_inst::vsqz(A({_name}), M, MODE_ZEROING));"
    _BODIES[f"vsel:{_name}"] = f"D(simd_inst::vsel(A({_name}), B({_name}), M));"
for _name, (_, _to) in _NARROW.items():
    for _half in ("LOWER", "HIGHER"):
        _BODIES[f"vpack {_half}:{_name}"] = f"D(simd_inst::vpack<uint{8 * int(_to[1])}_t>(A({_name}), {_half}));"
for _name in _WIDEN:
    for _half in ("LOWER", "HIGHER"):
        _BODIES[f"vunpack {_half}:{_name}"] = f"D(simd_inst::vunpack(A({_name}), {_half}));"
_BODIES |= {
    "vusqz:int8_t": "D(simd_inst::vusqz<int8_t>(M));",
    "vusqz:uint16_t": "D(simd_inst::vusqz<uint16_t>(M));",
    "vusqz:int32_t": "D(simd_inst::vusqz<int32_t>(M));",
    "vselr:half": "D(simd_inst::vselr(A(half), B(uint16_t)));",
    "vselr:uint32_t": "D(simd_inst::vselr(A(uint32_t), B(uint32_t)));",
    "vselr:uint8_t": "D(simd_inst::vselr(A(uint8_t), B(uint8_t)));",
    "in_place": "auto a = A(float); auto b = B(float); asc_intlv(a, b, a, b); D(a); E(b);",
}


@pytest.fixture(scope="module")
def programs() -> RegisterPrograms:
    return RegisterPrograms(_BODIES)


def _two(generator: np.random.Generator, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    a, b = generator.integers(0, 256, (2, 256), dtype=np.uint8).view(dtype)
    return a, b


@pytest.mark.parametrize("name", _TYPES)
def test_interleaving_and_its_inverse(programs: RegisterPrograms, generator: np.random.Generator, name: str) -> None:
    dtype = _TYPES[name]
    a, b = _two(generator, dtype)
    woven = np.stack([a, b], axis=1).reshape(-1)
    outcome = programs.run(f"vintlv:{name}", a, b)
    assert (np.concatenate([outcome.d(dtype), outcome.e(dtype)]) == woven).all()
    outcome = programs.run(f"vdintlv:{name}", a, b)
    assert (outcome.d(dtype) == np.concatenate([a[::2], b[::2]])).all()
    assert (outcome.e(dtype) == np.concatenate([a[1::2], b[1::2]])).all()


def test_results_may_overwrite_the_operands(programs: RegisterPrograms, generator: np.random.Generator) -> None:
    a, b = _two(generator, "u4")
    outcome = programs.run("in_place", a, b)
    assert (np.concatenate([outcome.d("u4"), outcome.e("u4")]) == np.stack([a, b], axis=1).reshape(-1)).all()


@pytest.mark.parametrize("name", _TYPES)
def test_squeezing_compacts_the_active_lanes(
    programs: RegisterPrograms, generator: np.random.Generator, name: str
) -> None:
    dtype = _TYPES[name]
    a, b = _two(generator, dtype)
    mask = generator.random(len(a)) < 0.4
    squeezed = np.zeros_like(a)
    squeezed[: mask.sum()] = a[mask]
    m = bits_of(mask, a.itemsize)
    assert (programs.run(f"vsqz:{name}", a, m=m).d(dtype) == squeezed).all()
    assert (programs.run(f"vsel:{name}", a, b, m=m).d(dtype) == np.where(mask, a, b)).all()


@pytest.mark.parametrize(("name", "dtype"), [("int8_t", "i1"), ("uint16_t", "u2"), ("int32_t", "i4")])
def test_unsqueezing_counts_the_active_lanes_before(
    programs: RegisterPrograms, generator: np.random.Generator, name: str, dtype: str
) -> None:
    size = np.dtype(dtype).itemsize
    mask = generator.random(256 // size) < 0.6
    before = (np.cumsum(mask) - mask).astype(dtype)
    assert (programs.run(f"vusqz:{name}", m=bits_of(mask, size)).d(dtype) == before).all()


@pytest.mark.parametrize("half", ["LOWER", "HIGHER"])
@pytest.mark.parametrize("name", _NARROW)
def test_packing_keeps_the_low_half_of_each_element(
    programs: RegisterPrograms, generator: np.random.Generator, name: str, half: str
) -> None:
    wide, narrow = _NARROW[name]
    a, _ = _two(generator, wide)
    zero = np.zeros(len(a), narrow)
    parts = [a.astype(narrow), zero] if half == "LOWER" else [zero, a.astype(narrow)]
    assert (programs.run(f"vpack {half}:{name}", a).d(narrow) == np.concatenate(parts)).all()


@pytest.mark.parametrize("half", ["LOWER", "HIGHER"])
@pytest.mark.parametrize("name", _WIDEN)
def test_unpacking_extends_by_the_types_sign(
    programs: RegisterPrograms, generator: np.random.Generator, name: str, half: str
) -> None:
    narrow, wide = _WIDEN[name]
    a, _ = _two(generator, narrow)
    part = a[: len(a) // 2] if half == "LOWER" else a[len(a) // 2 :]
    assert (programs.run(f"vunpack {half}:{name}", a).d(wide) == part.astype(wide)).all()


@pytest.mark.parametrize(("name", "dtype"), [("half", "u2"), ("uint32_t", "u4"), ("uint8_t", "u1")])
def test_lanes_are_picked_by_index_modulo_their_number(
    programs: RegisterPrograms, generator: np.random.Generator, name: str, dtype: str
) -> None:
    a, index = _two(generator, dtype)
    assert (programs.run(f"vselr:{name}", a, index).d(dtype) == a[index.astype(int) % len(a)]).all()
