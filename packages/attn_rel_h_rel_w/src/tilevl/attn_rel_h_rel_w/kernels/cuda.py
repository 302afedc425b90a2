"""CUDA: programs for Hopper where their conditions hold, and others for everything else.

All are built for a dtype, a head dim and a grid when a call first needs them; batch, heads, strides and scale are read
at run time. No bias larger than a tile ever exists.
"""

from __future__ import annotations

from collections.abc import Iterable
from ctypes import c_void_p
from typing import Any, NamedTuple, cast

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

Strides = tuple[int, ...]


class OnHopper(NamedTuple):
    """What strides allow on Hopper.

    Attributes:
        kinds: of program, where both tables begin at multiples of 16 bytes, and where they don't.
        strides: of batch, tokens and heads, for query, key, value, rel_h and rel_w.
    """

    kinds: tuple[str, str]
    strides: tuple[Strides, ...]


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
        suited = for_hopper(query, key, value, rel_h, rel_w) if blocks and turns < _MOST_TURNS else None
        if suited is None:
            of_q, of_k, of_v, of_h, of_w = (tensor.stride()[:3] for tensor in (query, key, value, rel_h, rel_w))
        else:
            of_q, of_k, of_v, of_h, of_w = suited.strides
        pointer: Any = c_void_p

        def launch_any(q: int, k: int, v: int, h: int, w: int, result: int) -> None:
            kind, unit = kind_of_any(q | k | v, of_q, of_k, of_v)
            tiles = (
                n for at, of in ((q, of_q), (k, of_k), (v, of_v)) for n in (at, *(stride // unit for stride in of))
            )
            programs[kind](device, *tiles, h, *of_h, w, *of_w, result, batch, heads, factor)

        def launch(q: int, k: int, v: int, h: int, w: int, result: int) -> None:
            if flat:
                h, w = w, h
            kind = kind_at(suited, q, k, v, h, w)
            if kind is None:
                launch_any(q, k, v, h, w, result)
                return
            past_h, past_w = h % _TMA_BYTES, w % _TMA_BYTES
            if kind is not TABLES_BY_ELEMENT:
                h, w = pointer(h - past_h), pointer(w - past_w)
            programs[kind](
                device, pointer(q), *of_q, pointer(k), *of_k, pointer(v), *of_v,
                h, *of_h, past_h // _SIZE, w, *of_w, past_w // _SIZE, result, batch, heads, blocks, factor,
            )  # fmt: skip

        return launch

    return PlannedKernel(plan)


def _multiprocessors_of_hopper(device: int) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if arch_of(device) == _HOPPER else 0


def for_hopper(query: Tensor, key: Tensor, value: Tensor, rel_h: Tensor, rel_w: Tensor) -> OnHopper | None:
    """What strides allow on Hopper; None where they keep TMA from query, key or value.

    One batch, token or head has a number that suits as its stride. TMA takes positive multiples of 16 bytes, and what
    it brings begins at one. So where heads of a table don't, it brings up to 7 columns before them too; and where
    tokens don't, four of them are one row to it.
    """
    shape = query.shape
    strides = tuple(
        tuple(stride if size > 1 else shape[3] for size, stride in zip(shape[:3], tensor.stride()[:3], strict=True))
        for tensor in (query, key, value, rel_h, rel_w)
    )
    tables = strides[3:]
    if not _suit_tma(strides[:3]) or max(of_token for _, of_token, _ in tables) >= _MOST_STRIDE:
        return None
    near = max(of_head for _, _, of_head in tables) * shape[2] < _MOST_COLUMNS
    in_fours = shape[1] % 4 == 0 and _suit_tma((of_batch, 4 * of_token) for of_batch, of_token, _ in tables)
    otherwise = TABLES_BY_FOUR_TOKENS if near and in_fours else TABLES_BY_ELEMENT
    return OnHopper((TABLES_BY_TMA if near and _suit_tma(tables) else otherwise, otherwise), strides)


def kind_at(suited: OnHopper | None, q: int, k: int, v: int, h: int, w: int) -> str | None:
    """The kind of program for Hopper at addresses; None where they or strides keep TMA from query, key or value."""
    if suited is None or (q | k | v) % _TMA_BYTES:
        return None
    return suited.kinds[(h | w) % _TMA_BYTES != 0]


def _suit_tma(strides: Iterable[Strides]) -> bool:
    return all(stride > 0 and stride * _SIZE % _TMA_BYTES == 0 for of_tensor in strides for stride in of_tensor)


def kind_of_any(addresses: int, *strides: Strides) -> tuple[str, int]:
    """The kind of program for any device, and the elements of a load.

    Args:
        addresses: of query, key and value, their bitwise or.
        strides: of each.
    """
    bits = addresses
    for of_batch, of_token, of_head in strides:
        bits |= (of_batch | of_token | of_head) * _SIZE
    return (UNITS, ALIGNED) if widest_unit(bits) == ALIGNED * _SIZE else (ELEMENTS, 1)
