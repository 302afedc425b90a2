"""Masks: creating, counting down, combining and rearranging them."""

from __future__ import annotations

import numpy as np
import pytest

from .register_program import RegisterPrograms, bits_of

_WIDTHS = {"b8": 1, "b16": 2, "b32": 4}
_COUNTS = (1, 2, 3, 4, 8, 16, 32, 64, 128)
_PATTERNS = ["ALL", "ALLF", "H", "Q", "M3", "M4", *(f"VL{n}" for n in _COUNTS)]

_BODIES = {f"{p}:{w}": f"P(asc_create_mask_{w}(PAT_{p}));" for p in _PATTERNS for w in _WIDTHS}
for _width in _WIDTHS:
    _BODIES[f"update:{_width}"] = (
        f"uint32_t left = *MEMORY(uint32_t); P(asc_update_mask_{_width}(left)); "
        "D(simd_inst::vdup<uint32_t>(left, asc_create_mask_b32(PAT_ALL), MODE_ZEROING));"
    )
    _BODIES[f"update_wrapper:{_width}"] = (
        f"uint32_t left = *MEMORY(uint32_t); P(simd_inst::update_mask_{_width}(left)); "
        "D(simd_inst::vdup<uint32_t>(left, asc_create_mask_b32(PAT_ALL), MODE_ZEROING));"
    )
    for _op in ("pintlv", "pdintlv"):
        for _half in ("v0", "v1"):
            _BODIES[f"{_op}.{_half}:{_width}"] = f"P(simd_inst::{_op}_{_width}(M, N).{_half});"
_BODIES |= {
    "pand": "P(simd_inst::pand(M, N, simd_inst::plds_norm(MEMORY(uint32_t), 0)));",
    "por": "P(simd_inst::por(M, N, simd_inst::plds_norm(MEMORY(uint32_t), 0)));",
    "pxor": "P(simd_inst::pxor(M, N, simd_inst::plds_norm(MEMORY(uint32_t), 0)));",
    "pnot": "P(simd_inst::pnot(M, simd_inst::plds_norm(MEMORY(uint32_t), 0)));",
    "psel": "P(simd_inst::psel(M, N, simd_inst::plds_norm(MEMORY(uint32_t), 0)));",
    "ppack_lower": "P(simd_inst::ppack(M, LOWER));",
    "ppack_higher": "P(simd_inst::ppack(M, HIGHER));",
    "punpack_lower": "P(simd_inst::punpack(M, LOWER));",
    "punpack_higher": "P(simd_inst::punpack(M, HIGHER));",
    "wide_mask_on_narrow_lanes": "D(simd_inst::vdup<uint16_t>(7, asc_create_mask_b32(PAT_ALL), MODE_ZEROING));",
    "narrow_mask_on_wide_lanes": "D(simd_inst::vdup<uint32_t>(7, asc_create_mask_b8(PAT_M3), MODE_ZEROING));",
}


@pytest.fixture(scope="module")
def programs() -> RegisterPrograms:
    return RegisterPrograms(_BODIES)


def _lanes_on(pattern: str, lanes: int) -> np.ndarray:
    index = np.arange(lanes)
    if pattern.startswith("VL"):
        return index < int(pattern[2:])
    return {
        "ALL": index >= 0, "ALLF": index < 0, "H": index < lanes // 2, "Q": index < lanes // 4, "M3": index % 3 == 0,
        "M4": index % 4 == 0,
    }[pattern]  # fmt: skip


def _spread(lanes: np.ndarray, size: int, *, filled: bool = False) -> np.ndarray:
    return np.repeat(lanes, size) if filled else np.unpackbits(bits_of(lanes, size), bitorder="little").astype(bool)


@pytest.mark.parametrize("width", _WIDTHS)
@pytest.mark.parametrize("pattern", _PATTERNS)
def test_patterns_turn_on_the_lanes_they_name(programs: RegisterPrograms, pattern: str, width: str) -> None:
    size = _WIDTHS[width]
    lanes = _lanes_on(pattern, 256 // size)
    assert (programs.run(f"{pattern}:{width}").p == _spread(lanes, size)).all()
    filled = programs.run(f"{pattern}:{width}", mask_fills_group="yes").p
    assert (filled == _spread(lanes, size, filled=True)).all()


@pytest.mark.parametrize("width", _WIDTHS)
def test_a_counting_mask_takes_a_register_at_a_time(programs: RegisterPrograms, width: str) -> None:
    size = _WIDTHS[width]
    lanes = 256 // size
    for left in (0, 1, lanes - 1, lanes, lanes + 5, 2**32 - 1):
        count = np.array([left], dtype="u4")
        outcome = programs.run(f"update:{width}", memory=count)
        assert (outcome.p == _spread(np.arange(lanes) < left, size)).all()
        assert outcome.d("u4")[0] == max(0, left - lanes)
        wrapper = programs.run(f"update_wrapper:{width}", memory=count)
        assert (wrapper.p == outcome.p).all()
        assert wrapper.d("u4")[0] == left  # it takes the counter by value


def _random_masks(generator: np.random.Generator, count: int) -> list[np.ndarray]:
    return list(generator.random((count, 256)) < 0.5)


def test_logic_of_masks_clears_what_the_third_turns_off(
    programs: RegisterPrograms, generator: np.random.Generator
) -> None:
    m, n, k = _random_masks(generator, 3)
    given = {"m": np.packbits(m, bitorder="little"), "n": np.packbits(n, bitorder="little")}
    memory = np.packbits(k, bitorder="little")
    expected = {"pand": m & n & k, "por": (m | n) & k, "pxor": (m ^ n) & k, "pnot": ~m & k, "psel": np.where(k, m, n)}
    for name, bits in expected.items():
        assert (programs.run(name, memory=memory, **given).p == bits).all(), name


@pytest.mark.parametrize("width", _WIDTHS)
def test_interleaving_masks_moves_groups_of_bits(
    programs: RegisterPrograms, generator: np.random.Generator, width: str
) -> None:
    m, n = _random_masks(generator, 2)
    given = {"m": np.packbits(m, bitorder="little"), "n": np.packbits(n, bitorder="little")}
    groups = [mask.reshape(-1, _WIDTHS[width]) for mask in (m, n)]
    woven = np.stack(groups, axis=1).reshape(512)
    both = np.concatenate([m, n]).reshape(-1, 2, _WIDTHS[width])
    expected = {
        "pintlv.v0": woven[:256], "pintlv.v1": woven[256:],
        "pdintlv.v0": both[:, 0].reshape(256), "pdintlv.v1": both[:, 1].reshape(256),
    }  # fmt: skip
    for name, bits in expected.items():
        assert (programs.run(f"{name}:{width}", **given).p == bits).all(), name


def test_packing_and_unpacking_masks(programs: RegisterPrograms, generator: np.random.Generator) -> None:
    (m,) = _random_masks(generator, 1)
    given = np.packbits(m, bitorder="little")
    none = np.zeros(128, bool)
    assert (programs.run("ppack_lower", m=given).p == np.concatenate([m[::2], none])).all()
    assert (programs.run("ppack_higher", m=given).p == np.concatenate([none, m[::2]])).all()
    for name, half in (("punpack_lower", m[:128]), ("punpack_higher", m[128:])):
        assert (programs.run(name, m=given).p == np.stack([half, none], axis=1).reshape(256)).all()


def test_a_mask_of_another_width_is_read_bit_by_bit(programs: RegisterPrograms) -> None:
    wide = programs.run("wide_mask_on_narrow_lanes").d("u2")
    assert (wide == np.where(np.arange(128) % 2 == 0, 7, 0)).all()
    assert (programs.run("wide_mask_on_narrow_lanes", mask_fills_group="yes").d("u2") == 7).all()
    narrow = programs.run("narrow_mask_on_wide_lanes").d("u4")
    assert (narrow == np.where(np.arange(64) * 4 % 3 == 0, 7, 0)).all()
