"""Loads and stores of registers and masks in every distribution, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from tilevl.testing.ascend_host import KernelFaultError

from .register_program import RegisterPrograms, bits_of

_TYPES = {"uint8_t": "u1", "int16_t": "i2", "half": "f2", "float": "f4", "uint32_t": "u4"}
_LOADS = {
    "norm": list(_TYPES),
    "brc_elem": list(_TYPES),
    "brc_datablock": list(_TYPES),
    "brc_elem2datablock": ["int16_t", "half", "float", "uint32_t"],
    "upsample": ["uint8_t", "int16_t", "half"],
    "downsample": ["uint8_t", "int16_t", "half"],
    "unpack": list(_TYPES),
    "unpack4": ["uint8_t"],
}
_PAIRS = [(load, name) for load, names in _LOADS.items() for name in names]

_BODIES = {}
for _load, _name in _PAIRS:
    _step = 32 // np.dtype(_TYPES[_name]).itemsize
    _BODIES[f"{_load}:{_name}"] = f"D(simd_inst::vlds_{_load}(MEMORY({_name}), {_step}));"
    _BODIES[f"{_load}_postupdate:{_name}"] = (
        f"auto p = MEMORY({_name}) + {_step}; auto r = simd_inst::vlds_{_load}_postupdate(p, 7); D(r.v0); "
        "E(simd_inst::vdup<uint32_t>(uint32_t((__ubuf__ uint8_t*)r.v1 - (__ubuf__ uint8_t*)p), M, MODE_ZEROING));"
    )
for _name in _TYPES:
    _BODIES[f"deintlv:{_name}"] = f"auto r = simd_inst::vld_x2(MEMORY({_name}), DINTLV_B16); D(r.v0); E(r.v1);"
    _BODIES[f"store:{_name}"] = f"simd_inst::vsts_norm(A({_name}), STORED({_name}), 0, M);"
    _BODIES[f"first:{_name}"] = f"simd_inst::vsts_1st(A({_name}), STORED({_name}), 5, M);"
    _BODIES[f"interleave:{_name}"] = f"asc_storealign_intlv(STORED({_name}), A({_name}), B({_name}), 0, M);"
    _BODIES[f"blocks:{_name}"] = f"simd_inst::vsstb(A({_name}), STORED({_name}), (3 << 16) | 2, M);"
    _BODIES[f"blocks_postupdate:{_name}"] = (
        f"auto p = simd_inst::vsstb(A({_name}), STORED({_name}), (3 << 16) | 2, M, POST_UPDATE); "
        f"E(simd_inst::vdup<uint32_t>(uint32_t((__ubuf__ uint8_t*)p - (__ubuf__ uint8_t*)STORED({_name})), "
        "asc_create_mask_b32(PAT_ALL), MODE_ZEROING));"
    )
    _BODIES[f"store_postupdate:{_name}"] = (
        f"auto p = STORED({_name}); asc_storealign_postupdate(p, A({_name}), 64, M); "
        f"asc_storealign(p, B({_name}), 0, M);"
    )
_BODIES |= {
    "pack:b16": "simd_inst::vsts_pack_b16(A(half), STORED(half), 0, M);",
    "pack:b32": "simd_inst::vsts_pack_b32(A(bfloat16_t), STORED(bfloat16_t), 0, M);",
    "pack:quarter": "simd_inst::vsts_pack_quarter(A(int32_t), STORED(int32_t), 0, M);",
    "mask": "P(simd_inst::plds_norm(MEMORY(uint32_t), 32));",
    "mask_upsample": "P(simd_inst::plds_upsample(MEMORY(uint32_t), 16));",
    "mask_downsample": "P(simd_inst::plds_downsample(MEMORY(uint32_t), 32));",
    "mask_pack": "simd_inst::psts_pack(M, STORED(uint32_t), 16);",
    "misaligned_load": "D(simd_inst::vlds_norm(MEMORY(float), 1));",
    "misaligned_store": "simd_inst::vsts_norm(A(float), STORED(float), 3, M);",
    "misaligned_element": "D(simd_inst::vlds_brc_elem((__ubuf__ float*)(MEMORY(uint8_t) + 2), 0));",
    "past_the_end": "D(simd_inst::vlds_norm((__ubuf__ float*)(buf + 248 * 1024 - 32), 0));",
    "unwritten": "D(simd_inst::vlds_norm((__ubuf__ float*)(buf + 8192), 0));",
    "address_register": "auto r = simd_inst::vld_x2(MEMORY(float), asc_update_addr_reg_b32(64), DINTLV_B32); D(r.v0);",
    "thread_index": "D(simd_inst::vdup<uint32_t>(threadIdx.x, M, MODE_ZEROING));",
    "read_after_write": (
        "simd_inst::vsts_norm(A(float), STORED(float), 0, M);\n  D(simd_inst::vlds_norm(STORED(float), 0));"
    ),
    "read_after_barrier": (
        "simd_inst::vsts_norm(A(float), STORED(float), 0, M); simd_inst::mem_bar(VST_VLD); "
        "D(simd_inst::vlds_norm(STORED(float), 0));"
    ),
    "read_after_other_barrier": (
        "simd_inst::vsts_norm(A(float), STORED(float), 0, M); simd_inst::mem_bar(VLD_VST);\n"
        "D(simd_inst::vlds_norm(STORED(float), 0));"
    ),
    "read_beside_write": (
        "simd_inst::vsts_norm(A(float), STORED(float), 0, M); D(simd_inst::vlds_norm(STORED(float), 64));"
    ),
    "scalar_after_first": (
        "simd_inst::vsts_1st(A(float), STORED(float), 0, M);\n  D(simd_inst::vlds_brc_elem(STORED(float), 0));"
    ),
}


@pytest.fixture(scope="module")
def programs() -> RegisterPrograms:
    return RegisterPrograms(_BODIES)


def _memory(generator: np.random.Generator) -> np.ndarray:
    return generator.integers(0, 256, 1024, dtype=np.uint8)


def _loaded(load: str, source: np.ndarray) -> np.ndarray:
    lanes, block = 256 // source.itemsize, 32 // source.itemsize
    if load == "norm":
        return source[:lanes]
    if load == "brc_elem":
        return np.full(lanes, source[0])
    if load == "brc_datablock":
        return np.tile(source[:block], 8)
    if load == "brc_elem2datablock":
        return np.repeat(source[:8], block)
    if load == "upsample":
        return np.repeat(source[: lanes // 2], 2)
    if load == "downsample":
        return source[: 2 * lanes : 2]
    factor = 4 if load == "unpack4" else 2
    widened = np.zeros(lanes, source.dtype)
    widened[::factor] = source[: lanes // factor]
    return widened


@pytest.mark.parametrize(("load", "name"), _PAIRS)
def test_loads_spread_memory_over_the_lanes(
    programs: RegisterPrograms, generator: np.random.Generator, load: str, name: str
) -> None:
    words = f"u{np.dtype(_TYPES[name]).itemsize}"
    memory = _memory(generator)
    expected = _loaded(load, memory.view(words)[32 // np.dtype(words).itemsize :])
    assert (programs.run(f"{load}:{name}", memory=memory).d(words) == expected).all()
    outcome = programs.run(f"{load}_postupdate:{name}", memory=memory, m=bits_of(np.ones(64, bool), 4))
    assert (outcome.d(words) == expected).all()  # from the old pointer
    assert (outcome.e("u4") == 7 * np.dtype(words).itemsize).all()


@pytest.mark.parametrize("name", _TYPES)
def test_the_two_register_load_separates_even_and_odd(
    programs: RegisterPrograms, generator: np.random.Generator, name: str
) -> None:
    words = f"u{np.dtype(_TYPES[name]).itemsize}"
    memory = _memory(generator)
    outcome = programs.run(f"deintlv:{name}", memory=memory)
    source = memory.view(words)[: 512 // np.dtype(words).itemsize]
    assert (outcome.d(words) == source[::2]).all()
    assert (outcome.e(words) == source[1::2]).all()


@pytest.mark.parametrize("name", _TYPES)
def test_stores_leave_inactive_lanes_alone(
    programs: RegisterPrograms, generator: np.random.Generator, name: str
) -> None:
    words = f"u{np.dtype(_TYPES[name]).itemsize}"
    size, lanes = np.dtype(words).itemsize, 256 // np.dtype(words).itemsize
    a, b = generator.integers(0, 256, (2, 256), dtype=np.uint8).view(words)
    mask = generator.random(lanes) < 0.6
    m, before = bits_of(mask, size), np.full(1024, 0xA5, np.uint8).view(words)

    expected = before.copy()
    expected[:lanes][mask] = a[mask]
    assert (programs.run(f"store:{name}", a, m=m).memory(words) == expected).all()
    expected[64 : 64 + lanes][mask] = b[mask]
    assert (programs.run(f"store_postupdate:{name}", a, b, m=m).memory(words) == expected).all()

    first = before.copy()
    first[5] = a[0]
    assert (programs.run(f"first:{name}", a, m=bits_of(np.zeros(lanes, bool), size)).memory(words) == first).all()

    woven, where = np.stack([a, b], axis=1).reshape(-1), np.repeat(mask, 2)
    both = before.copy()
    both[: 2 * lanes][where] = woven[where]
    assert (programs.run(f"interleave:{name}", a, b, m=m).memory(words) == both).all()


@pytest.mark.parametrize("adds", ["yes", "no"])
@pytest.mark.parametrize("name", _TYPES)
def test_block_stores_put_blocks_a_stride_apart(
    programs: RegisterPrograms, generator: np.random.Generator, name: str, adds: str
) -> None:
    words = f"u{np.dtype(_TYPES[name]).itemsize}"
    size, block = np.dtype(words).itemsize, 32 // np.dtype(words).itemsize
    a = generator.integers(0, 256, 256, dtype=np.uint8).view(words)
    mask = generator.random(len(a)) < 0.6

    def expected(start: int) -> np.ndarray:
        memory = np.full(1024, 0xA5, np.uint8).view(words)
        for b in range(8):
            target, lanes = memory[(start + 3 * b) * block :][:block], slice(b * block, (b + 1) * block)
            target[mask[lanes]] = a[lanes][mask[lanes]]
        return memory

    m = bits_of(mask, size)
    plain = programs.run(f"blocks:{name}", a, m=m, block_store_adds_repeat=adds).memory(words)
    assert (plain == expected(2 if adds == "yes" else 0)).all()
    updated = programs.run(f"blocks_postupdate:{name}", a, m=m)
    assert (updated.memory(words) == expected(0)).all()
    assert (updated.e("u4") == 64).all()


@pytest.mark.parametrize(
    ("program", "wide", "narrow"), [("b16", "u2", "u1"), ("b32", "u4", "u2"), ("quarter", "u4", "u1")]
)
def test_packing_stores_keep_the_low_part(
    programs: RegisterPrograms, generator: np.random.Generator, program: str, wide: str, narrow: str
) -> None:
    a = generator.integers(0, 256, 256, dtype=np.uint8).view(wide)
    mask = generator.random(len(a)) < 0.6
    expected = np.full(1024, 0xA5, np.uint8).view(narrow)
    expected[: len(a)][mask] = a.astype(narrow)[mask]
    got = programs.run(f"pack:{program}", a, m=bits_of(mask, a.itemsize)).memory(narrow)
    assert (got == expected).all()


def test_masks_load_and_store_their_bits(programs: RegisterPrograms, generator: np.random.Generator) -> None:
    memory = _memory(generator)
    bits = np.unpackbits(memory, bitorder="little").astype(bool)
    assert (programs.run("mask", memory=memory).p == bits[256:512]).all()
    assert (programs.run("mask_upsample", memory=memory).p == np.repeat(bits[128:256], 2)).all()
    assert (programs.run("mask_downsample", memory=memory).p == bits[256:768:2]).all()
    stored = programs.run("mask_pack", m=memory[:32]).memory("u1")
    assert (stored[16:32] == np.packbits(bits[:256:2], bitorder="little")).all()
    assert (stored[:16] == 0xA5).all() and (stored[32:] == 0xA5).all()


@pytest.mark.parametrize(
    ("program", "kind", "message"),
    [
        ("misaligned_load", "alignment", "must be a multiple of 32 bytes, got one that is 4 off"),
        ("misaligned_store", "alignment", "must be a multiple of 32 bytes, got one that is 12 off"),
        ("misaligned_element", "alignment", "must be a multiple of 4 bytes, got one that is 2 off"),
        ("past_the_end", "bounds", "bytes 253920 to 254176 read by V at line"),
        ("unwritten", "unwritten", "byte 8192 read by V at line"),
        ("address_register", "range", "hardware loop"),
        ("thread_index", "simt", "a SIMT builtin must be used inside a SIMT function"),
    ],
)
def test_bad_accesses_are_faults(programs: RegisterPrograms, program: str, kind: str, message: str) -> None:
    with pytest.raises(KernelFaultError, match=message) as raised:
        programs.run(program, np.ones(64, "f4"), m=bits_of(np.ones(64, bool), 4))
    assert [fault.kind for fault in raised.value.faults] == [kind]


@pytest.mark.parametrize("program", ["read_after_write", "read_after_other_barrier", "scalar_after_first"])
def test_reading_what_the_function_stored_needs_a_barrier(programs: RegisterPrograms, program: str) -> None:
    with pytest.raises(KernelFaultError, match="with no asc_mem_bar") as raised:
        programs.run(program, np.ones(64, "f4"), m=bits_of(np.ones(64, bool), 4))
    (fault,) = raised.value.faults
    assert fault.kind == "vector_order"
    load, store = fault.lines
    assert load == store + 1


@pytest.mark.parametrize("program", ["read_after_barrier", "read_beside_write"])
def test_a_barrier_or_other_bytes_are_fine(
    programs: RegisterPrograms, generator: np.random.Generator, program: str
) -> None:
    a = generator.normal(size=64).astype("f4")
    got = programs.run(program, a, m=bits_of(np.ones(64, bool), 4)).d("u4")
    assert (got == (a.view("u4") if program == "read_after_barrier" else 0xA5A5A5A5)).all()
