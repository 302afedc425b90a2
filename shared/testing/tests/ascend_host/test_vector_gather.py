"""Gathers and scatters between UB and registers, by element and by 32-byte block."""

from __future__ import annotations

import numpy as np
import pytest

from tilevl.testing.ascend_host import KernelFaultError

from .register_program import RegisterPrograms, bits_of

_BODIES = {
    "b32": "D(simd_inst::vgather2(MEMORY(float), A(uint32_t), M));",
    "b16": "D(simd_inst::vgather2(MEMORY(half), A(uint16_t), M));",
    "b16_by_32": "D(simd_inst::vgather2(MEMORY(int16_t), A(uint32_t), M));",
    "u8": "D(simd_inst::vgather2(MEMORY(uint8_t), A(uint16_t), M));",
    "s8": "D(simd_inst::vgather2(MEMORY(int8_t), A(uint16_t), M));",
    "same_width_8": "vector_u8 d; asc_gather(d, MEMORY(uint8_t), A(uint16_t), M); D(d);",
    "blocks": "D(simd_inst::vgatherb(MEMORY(half), A(uint32_t)));",
    "masked_blocks": "auto d = B(half); asc_gather_datablock(d, MEMORY(half), A(uint32_t), M); D(d);",
    "scatter_b32": "simd_inst::vscatter(B(float), STORED(float), A(uint32_t), M);",
    "scatter_b16": "simd_inst::vscatter(B(half), STORED(half), A(uint16_t), M);",
    "scatter_b8": "simd_inst::vscatter(B(uint8_t), STORED(uint8_t), A(uint16_t), M);",
    "unaligned_base": "D(simd_inst::vgather2(MEMORY(float) + 1, A(uint32_t), M));",
}


@pytest.fixture(scope="module")
def programs() -> RegisterPrograms:
    return RegisterPrograms(_BODIES)


def _memory(generator: np.random.Generator) -> np.ndarray:
    return generator.integers(0, 256, 1024, dtype=np.uint8)


@pytest.mark.parametrize(("name", "data", "index"), [("b32", "u4", "u4"), ("b16", "u2", "u2")])
def test_elements_are_gathered_by_element_index(
    programs: RegisterPrograms, generator: np.random.Generator, name: str, data: str, index: str
) -> None:
    memory, lanes = _memory(generator), 256 // np.dtype(data).itemsize
    source = memory.view(data)
    picks = generator.integers(0, len(source), lanes).astype(index)
    mask = generator.random(lanes) < 0.7
    picks[~mask] = 2**15  # far outside: an inactive lane reads nothing
    got = programs.run(name, picks, m=bits_of(mask, source.itemsize), memory=memory).d(data)
    assert (got == np.where(mask, source[np.where(mask, picks, 0)], 0)).all()


def test_16_bit_elements_by_32_bit_indices_lie_in_even_lanes(
    programs: RegisterPrograms, generator: np.random.Generator
) -> None:
    memory = _memory(generator)
    source = memory.view("i2")
    picks = generator.integers(0, len(source), 64).astype("u4")
    mask = generator.random(128) < 0.7
    expected = np.zeros(128, "i2")
    expected[::2] = np.where(mask[::2], source[picks], 0)
    assert (programs.run("b16_by_32", picks, m=bits_of(mask, 2), memory=memory).d("i2") == expected).all()


@pytest.mark.parametrize("name", ["u8", "s8"])
def test_bytes_are_extended_with_zeros_whatever_their_sign(
    programs: RegisterPrograms, generator: np.random.Generator, name: str
) -> None:
    memory = _memory(generator)
    picks = generator.integers(0, 1024, 128).astype("u2")
    mask = generator.random(128) < 0.7
    got = programs.run(name, picks, m=bits_of(mask, 2), memory=memory).d("u2")
    assert (got == np.where(mask, memory[picks].astype("u2"), 0)).all()


def test_bytes_gathered_as_bytes_lie_in_even_lanes(programs: RegisterPrograms, generator: np.random.Generator) -> None:
    memory = _memory(generator)
    picks = generator.integers(0, 1024, 128).astype("u2")
    mask = generator.random(256) < 0.7
    expected = np.zeros(256, "u1")
    expected[::2] = np.where(mask[::2], memory[picks], 0)
    assert (programs.run("same_width_8", picks, m=bits_of(mask, 1), memory=memory).d("u1") == expected).all()


@pytest.mark.parametrize("keeps", ["no", "yes"])
def test_blocks_are_gathered_by_byte_offset(
    programs: RegisterPrograms, generator: np.random.Generator, keeps: str
) -> None:
    memory, old = _memory(generator), generator.integers(0, 256, 256, dtype=np.uint8)
    offsets = np.zeros(64, "u4")
    offsets[:8] = generator.integers(0, 32, 8) * 32
    blocks = np.concatenate([memory[at : at + 32] for at in offsets[:8]])
    assert (programs.run("blocks", offsets, memory=memory).d("u1") == blocks).all()
    mask = generator.random(64) < 0.5
    on = np.repeat(mask[:8], 32)
    got = programs.run(
        "masked_blocks", offsets, old, m=bits_of(mask, 4), memory=memory, block_gather_keeps_inactive=keeps
    )
    assert (got.d("u1") == np.where(on, blocks, old if keeps == "yes" else 0)).all()


@pytest.mark.parametrize(
    ("name", "data", "index", "step"),
    [("scatter_b32", "u4", "u4", 1), ("scatter_b16", "u2", "u2", 1), ("scatter_b8", "u1", "u2", 2)],
)
def test_scatters_write_active_lanes_only(
    programs: RegisterPrograms, generator: np.random.Generator, name: str, data: str, index: str, step: int
) -> None:
    target = np.full(1024, 0xA5, np.uint8).view(data)
    lanes = 256 // np.dtype(data).itemsize
    values = generator.integers(0, 256, 256, dtype=np.uint8).view(data)
    picks = generator.permutation(len(target))[: lanes // step].astype(index)
    mask = generator.random(lanes) < 0.7
    used = mask[::step]
    target[picks[used]] = values[::step][used]
    got = programs.run(name, picks, values, m=bits_of(mask, np.dtype(data).itemsize)).memory(data)
    assert (got == target).all()


def test_lanes_that_disagree_about_an_element_are_reported(programs: RegisterPrograms) -> None:
    picks, values = np.arange(64, dtype="u4"), np.arange(64, dtype="u4")
    picks[9] = 3
    everything = bits_of(np.ones(64, bool), 4)
    with pytest.raises(KernelFaultError, match="lanes 3 and 9 write different values to element 3"):
        programs.run("scatter_b32", picks, values, m=everything)
    values[9] = 3
    assert programs.run("scatter_b32", picks, values, m=everything).memory("u4")[3] == 3


@pytest.mark.parametrize(
    ("name", "picks", "kind", "message"),
    [
        ("unaligned_base", np.zeros(64, "u4"), "alignment", "base must be a multiple of 32 bytes"),
        ("b32", np.full(64, 2**18, "u4"), "bounds", "read by V at line"),
        ("scatter_b32", np.full(64, 2**20, "u4"), "bounds", "written by V at line"),
        ("blocks", np.full(64, 16, "u4"), "alignment", "offset 0 must be a multiple of 32 bytes, got 16"),
    ],
)
def test_bad_indices_and_bases_are_faults(
    programs: RegisterPrograms, name: str, picks: np.ndarray, kind: str, message: str
) -> None:
    with pytest.raises(KernelFaultError, match=message) as raised:
        programs.run(name, picks, m=bits_of(np.ones(64, bool), 4))
    assert kind in {fault.kind for fault in raised.value.faults}
