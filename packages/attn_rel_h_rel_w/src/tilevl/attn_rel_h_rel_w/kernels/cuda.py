"""CUDA: programs for Hopper where their conditions hold, and others for everything else.

All are built for a dtype, a head dim and a grid when a call first needs them; batch, heads, strides and scale are read
at run time. No bias larger than a tile ever exists.
"""

from __future__ import annotations

from ctypes import c_void_p
from functools import lru_cache
from typing import Any, cast

import torch
from torch import Tensor

from tilevl.attn_rel_h_rel_w import contract
from tilevl.attn_rel_h_rel_w.kernels.cuda_general import ALIGNED, attend_tiles
from tilevl.attn_rel_h_rel_w.kernels.cuda_loads import TMA_UNIT
from tilevl.attn_rel_h_rel_w.kernels.cuda_plans import plan_of
from tilevl.attn_rel_h_rel_w.kernels.cuda_wgmma import attend_grid
from tilevl.core.cache import Kernel
from tilevl.core.cuda import CudaProgram, arch_of, widest_unit

OP = "attn_rel_h_rel_w"
PASS_CONFIGS = {"tl.enable_fast_math": True}  # exp2 is one instruction
HOPPER_UNITS = {"tables_by_tma": TMA_UNIT, "tables_by_pairs": 2, "tables_by_element": 1}
TABLES_BY_TMA, TABLES_BY_PAIRS, TABLES_BY_ELEMENT = HOPPER_UNITS
UNITS, ELEMENTS = "units", "elements"
KINDS = (*HOPPER_UNITS, UNITS, ELEMENTS)
_HOPPER = "sm_90a"
_SIZE = 2  # bytes of an element
_TMA_BYTES = 16  # addresses and strides of TMA are multiples of it
_MOST_STRIDE = 2**24  # elements from token to token of a table, so that a block's offsets fit into 32 bits
_MOST_COLUMNS = 2**30  # from a token's first head to its last in a table
_MOST_TURNS = 2**30

Numbers = tuple[Any, ...]  # what a program takes: addresses and strides


def trace(kind: str, dtype: str, head_dim: int, rows: int, columns: int) -> Any:
    """A program.

    Args:
        kind: one of ``HOPPER_UNITS``, for Hopper; ``units`` or ``elements``, for any device.
        dtype: ``bfloat16`` or ``float16``.
        head_dim: D.
        rows: of the grid.
        columns: of the grid.
    """
    if kind in (UNITS, ELEMENTS):
        return attend_tiles(dtype, head_dim, rows, columns, ALIGNED if kind == UNITS else 1)
    plan = plan_of(head_dim, rows, columns)
    assert plan is not None
    return attend_grid(dtype, plan, HOPPER_UNITS[kind])


def build(dtype: torch.dtype, head_dim: int, grid_h: int, grid_w: int) -> Kernel:
    """The kernel of a dtype, a head dim and a grid."""
    name = str(dtype).removeprefix("torch.")
    flat = grid_w == 1  # a column is a row whose tables have changed places
    rows, columns = (grid_w, grid_h) if flat else (grid_h, grid_w)
    plan = plan_of(head_dim, rows, columns)
    turns_of_head = plan.blocks if plan is not None else 0  # 0 where there is no program for Hopper
    programs = {
        kind: cast(Any, CudaProgram(OP, lambda kind=kind: trace(kind, name, head_dim, rows, columns), PASS_CONFIGS))
        for kind in KINDS
    }
    at_once: dict[int, int] = {}  # blocks of a device; 0 where it isn't Hopper

    def kernel(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        rel_h: Tensor,
        rel_w: Tensor,
        grid_h: int | None,
        grid_w: int | None,
        scale: float | None,
        out: Tensor,
    ) -> None:
        if flat:
            rel_h, rel_w = rel_w, rel_h
        device = query.get_device()
        batch, _, heads, _ = query.shape
        factor = contract.factor(head_dim, scale)
        if turns_of_head:
            blocks = at_once.get(device)
            if blocks is None:
                blocks = at_once[device] = _multiprocessors_of_hopper(device)
            turns = batch * heads * turns_of_head
            if blocks and turns < _MOST_TURNS:
                kind, numbers = for_hopper(query, key, value, rel_h, rel_w, rows | columns)
                if kind is not None:
                    programs[kind](device, *numbers, out.data_ptr(), batch, heads, min(turns, blocks), factor)
                    return
        kind, numbers = for_any(query, key, value, rel_h, rel_w)
        programs[kind](device, *numbers, out.data_ptr(), batch, heads, factor)

    return kernel


def _multiprocessors_of_hopper(device: int) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if arch_of(device) == _HOPPER else 0


def for_hopper(
    query: Tensor, key: Tensor, value: Tensor, rel_h: Tensor, rel_w: Tensor, sides: int
) -> tuple[str | None, Numbers]:
    """The kind of program that suits on Hopper, and its numbers; None where TMA can't take query, key and value.

    ``sides`` is the bitwise or of the grid's rows and columns.
    """
    q, k, v, h, w = query.data_ptr(), key.data_ptr(), value.data_ptr(), rel_h.data_ptr(), rel_w.data_ptr()
    kind, of_q, of_k, of_v, of_h, of_w = _strides(
        query.shape, query.stride(), key.stride(), value.stride(), rel_h.stride(), rel_w.stride()
    )
    if kind is None or (q | k | v) % _TMA_BYTES:
        return None, ()
    p = c_void_p
    if kind is TABLES_BY_TMA and (h | w) % _TMA_BYTES == 0:
        return kind, (p(q), *of_q, p(k), *of_k, p(v), *of_v, p(h), *of_h, p(w), *of_w)
    in_pairs = kind is not TABLES_BY_ELEMENT and sides % 2 == 0 and (h | w) % (2 * _SIZE) == 0
    kind = TABLES_BY_PAIRS if in_pairs else TABLES_BY_ELEMENT
    return kind, (p(q), *of_q, p(k), *of_k, p(v), *of_v, h, *of_h, w, *of_w)


@lru_cache(maxsize=256)
def _strides(shape: torch.Size, *given: tuple[int, ...]) -> tuple[Any, ...]:
    """What the strides of all five tensors allow on Hopper, and those of batch, tokens and heads.

    One batch, token or head has a number that suits as its stride. TMA takes positive multiples of 16 bytes, and a box
    that begins at no such column stops the kernel as an illegal instruction.
    """
    strides = [
        tuple(stride if size > 1 else shape[3] for size, stride in zip(shape[:3], of_tensor[:3], strict=True))
        for of_tensor in given
    ]
    suit = [all(stride > 0 and stride * _SIZE % _TMA_BYTES == 0 for stride in of_tensor) for of_tensor in strides]
    in_a_row = all(shape[2] * of_table[2] < _MOST_COLUMNS for of_table in strides[3:])
    even = all(stride % 2 == 0 for of_table in strides[3:] for stride in of_table)
    kind = TABLES_BY_TMA if in_a_row and all(suit[3:]) else TABLES_BY_PAIRS if even else TABLES_BY_ELEMENT
    fits = max(of_table[1] for of_table in strides[3:]) < _MOST_STRIDE
    return (kind if all(suit[:3]) and fits else None, *strides)


def for_any(query: Tensor, key: Tensor, value: Tensor, rel_h: Tensor, rel_w: Tensor) -> tuple[str, Numbers]:
    """The kind of program that suits on any device, and its numbers."""
    places = [(tensor.data_ptr(), *tensor.stride()[:3]) for tensor in (query, key, value)]
    bits = 0
    for address, *strides in places:
        bits |= address | (strides[0] | strides[1] | strides[2]) * _SIZE
    kind, unit = (UNITS, ALIGNED) if widest_unit(bits) == ALIGNED * _SIZE else (ELEMENTS, 1)
    numbers = [number for address, *strides in places for number in (address, *(s // unit for s in strides))]
    for table in (rel_h, rel_w):
        numbers += [table.data_ptr(), *table.stride()[:3]]
    return kind, tuple(numbers)
