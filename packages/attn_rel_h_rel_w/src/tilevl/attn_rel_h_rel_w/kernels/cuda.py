"""CUDA: programs for Hopper where their conditions hold, and others for everything else.

All are built for a dtype, a head dim and a grid when a call first needs them; batch, heads, strides and scale are read
at run time. No bias larger than a tile ever exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from ctypes import c_void_p
from typing import Any, cast

import torch
from torch import Tensor

from tilevl.attn_rel_h_rel_w import contract
from tilevl.attn_rel_h_rel_w.kernels.cuda_general import ALIGNED, attend_tiles
from tilevl.attn_rel_h_rel_w.kernels.cuda_plans import plan_of
from tilevl.attn_rel_h_rel_w.kernels.cuda_wgmma import attend_grid
from tilevl.core.cuda import CudaProgram, arch_of, widest_unit
from tilevl.core.plans import Launch, PlannedKernel

OP = "attn_rel_h_rel_w"
PASS_CONFIGS = {"tl.enable_fast_math": True}  # exp2 is one instruction
TOGETHER = {"tables_by_tma": 1, "tables_by_four_tokens": 4, "tables_by_element": 0}  # tokens in one row to TMA
TABLES_BY_TMA, TABLES_BY_FOUR_TOKENS, TABLES_BY_ELEMENT = TOGETHER
UNITS, ELEMENTS = "units", "elements"
KINDS = (*TOGETHER, UNITS, ELEMENTS)
_HOPPER = "sm_90a"
_SIZE = 2  # bytes of an element
_TMA_BYTES = 16  # addresses and strides of TMA, and where a box begins, are multiples of it
_MOST_STRIDE = 2**24  # elements from token to token of a table, so that a block's offsets fit into 32 bits
_MOST_COLUMNS = 2**30  # from a token's first head to its last in a table
_MOST_TURNS = 2**30

Numbers = tuple[Any, ...]  # what a program takes: addresses and strides
Choose = Callable[[int, int, int, int, int], "tuple[str, Numbers] | None"]
"""From the addresses of query, key, value, rel_h and rel_w: the kind of program, and its numbers."""


def trace(kind: str, dtype: str, head_dim: int, rows: int, columns: int) -> Any:
    """A program.

    Args:
        kind: one of ``TOGETHER``, for Hopper; ``units`` or ``elements``, for any device.
        dtype: ``bfloat16`` or ``float16``.
        head_dim: D.
        rows: of the grid.
        columns: of the grid.
    """
    if kind in (UNITS, ELEMENTS):
        return attend_tiles(dtype, head_dim, rows, columns, ALIGNED if kind == UNITS else 1)
    plan = plan_of(head_dim, rows, columns)
    assert plan is not None
    return attend_grid(dtype, plan, TOGETHER[kind])


def build(dtype: torch.dtype, head_dim: int, grid_h: int, grid_w: int) -> PlannedKernel:
    """The kernel of a dtype, a head dim and a grid."""
    name = str(dtype).removeprefix("torch.")
    flat = grid_w == 1  # a column is a row whose tables have changed places
    rows, columns = (grid_w, grid_h) if flat else (grid_h, grid_w)
    hopper = plan_of(head_dim, rows, columns)
    programs = {
        kind: cast(Any, CudaProgram(OP, lambda kind=kind: trace(kind, name, head_dim, rows, columns), PASS_CONFIGS))
        for kind in KINDS
    }

    def plan(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        rel_h: Tensor,
        rel_w: Tensor,
        grid_h: int | None,
        grid_w: int | None,
        scale: float | None,
        out: Tensor,
    ) -> Launch:
        if flat:
            rel_h, rel_w = rel_w, rel_h
        device = query.get_device()
        batch, _, heads, _ = query.shape
        factor = contract.factor(head_dim, scale)
        turns = batch * heads * hopper.blocks if hopper is not None else 0
        blocks = min(turns, _multiprocessors_of_hopper(device))
        choose = for_hopper(query, key, value, rel_h, rel_w) if blocks and turns < _MOST_TURNS else None
        choose_any = for_any(query, key, value, rel_h, rel_w)

        def launch(q: int, k: int, v: int, h: int, w: int, result: int) -> None:
            if flat:
                h, w = w, h
            chosen = choose(q, k, v, h, w) if choose is not None else None
            if chosen is not None:
                kind, numbers = chosen
                programs[kind](device, *numbers, result, batch, heads, blocks, factor)
            else:
                kind, numbers = choose_any(q, k, v, h, w)
                programs[kind](device, *numbers, result, batch, heads, factor)

        return launch

    return PlannedKernel(plan)


def _multiprocessors_of_hopper(device: int) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if arch_of(device) == _HOPPER else 0


def for_hopper(query: Tensor, key: Tensor, value: Tensor, rel_h: Tensor, rel_w: Tensor) -> Choose | None:
    """What chooses a program for Hopper; None where strides keep TMA from query, key or value.

    One batch, token or head has a number that suits as its stride. TMA takes positive multiples of 16 bytes, and what
    it brings begins at one. So where heads of a table don't, it brings up to 7 columns before them too; and where
    tokens don't, four of them are one row to it. What chooses gives None where an address keeps it from query, key or
    value.
    """
    shape = query.shape
    of_q, of_k, of_v, of_h, of_w = strides = [
        tuple(stride if size > 1 else shape[3] for size, stride in zip(shape[:3], tensor.stride()[:3], strict=True))
        for tensor in (query, key, value, rel_h, rel_w)
    ]
    tables = strides[3:]
    if not _suit_tma(strides[:3]) or max(of_token for _, of_token, _ in tables) >= _MOST_STRIDE:
        return None
    near = max(of_head for _, _, of_head in tables) * shape[2] < _MOST_COLUMNS
    in_fours = shape[1] % 4 == 0 and _suit_tma((of_batch, 4 * of_token) for of_batch, of_token, _ in tables)
    otherwise = TABLES_BY_FOUR_TOKENS if near and in_fours else TABLES_BY_ELEMENT
    aligned = TABLES_BY_TMA if near and _suit_tma(tables) else otherwise

    def choose(q: int, k: int, v: int, h: int, w: int) -> tuple[str, Numbers] | None:
        if (q | k | v) % _TMA_BYTES:
            return None
        past_h, past_w = h % _TMA_BYTES, w % _TMA_BYTES
        kind = otherwise if past_h or past_w else aligned
        tiles = c_void_p(q), *of_q, c_void_p(k), *of_k, c_void_p(v), *of_v
        if kind is TABLES_BY_ELEMENT:
            return kind, (*tiles, h, *of_h, 0, w, *of_w, 0)
        places = c_void_p(h - past_h), *of_h, past_h // _SIZE, c_void_p(w - past_w), *of_w, past_w // _SIZE
        return kind, (*tiles, *places)

    return choose


def _suit_tma(strides: Iterable[tuple[int, ...]]) -> bool:
    return all(stride > 0 and stride * _SIZE % _TMA_BYTES == 0 for of_tensor in strides for stride in of_tensor)


def for_any(
    query: Tensor, key: Tensor, value: Tensor, rel_h: Tensor, rel_w: Tensor
) -> Callable[..., tuple[str, Numbers]]:
    """What chooses a program for any device."""
    tensors = (query, key, value)
    of_tensors = [tensor.stride()[:3] for tensor in tensors]
    of_tables = [table.stride()[:3] for table in (rel_h, rel_w)]
    bits = 0
    for strides in of_tensors:
        bits |= (strides[0] | strides[1] | strides[2]) * _SIZE

    def choose(q: int, k: int, v: int, h: int, w: int) -> tuple[str, Numbers]:
        whole = widest_unit(bits | q | k | v) == ALIGNED * _SIZE
        unit = ALIGNED if whole else 1
        numbers: list[int] = []
        for address, strides in zip((q, k, v), of_tensors, strict=True):
            numbers += [address, *(stride // unit for stride in strides)]
        for address, strides in zip((h, w), of_tables, strict=True):
            numbers += [address, *strides]
        return UNITS if whole else ELEMENTS, tuple(numbers)

    return choose
