"""CUDA: a program for Hopper where its conditions hold, and one for everything else.

Both are built for a dtype, a head dim and a grid when a call first needs them; batch, heads, strides and scale are read
at run time. No bias larger than a tile ever exists.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from tilevl.attn_rel_h_rel_w.kernels.cuda_general import ALIGNED, attend_tiles
from tilevl.attn_rel_h_rel_w.kernels.cuda_wgmma import HEAD_DIMS, attend_grid, plan_of
from tilevl.core.cache import Kernel
from tilevl.core.cuda import CudaProgram, arch_of, widest_unit

OP = "attn_rel_h_rel_w"
_PASS_CONFIGS = {"tl.enable_fast_math": True}  # exp2 is one instruction
_HOPPER = "sm_90a"
_SIZE = 2  # bytes of an element
_MOST_STRIDE = 2**22  # elements from token to token of a table, so that a block's offsets fit into 32 bits
_MOST = 2**31


def build(dtype: torch.dtype, head_dim: int, grid_h: int, grid_w: int) -> Kernel:
    """The kernel of a dtype, a head dim and a grid."""
    name = str(dtype).removeprefix("torch.")
    flat = grid_w == 1  # a column is a row whose tables have changed places
    rows, columns = (grid_w, grid_h) if flat else (grid_h, grid_w)
    general = {
        unit: CudaProgram(OP, lambda unit=unit: attend_tiles(name, head_dim, rows, columns, unit), _PASS_CONFIGS)
        for unit in (ALIGNED, 1)
    }
    plan = plan_of(rows, columns) if head_dim in HEAD_DIMS else None
    hopper = cast(Any, CudaProgram(OP, lambda: attend_grid(name, head_dim, rows, columns, plan), _PASS_CONFIGS))  # type: ignore[arg-type]
    is_hopper: dict[int, bool] = {}

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
        device = query.get_device()
        batch, _, heads, _ = query.shape
        if flat:
            rel_h, rel_w = rel_w, rel_h
        factor = head_dim**-0.5 if scale is None else scale
        if plan is not None:
            if device not in is_hopper:
                is_hopper[device] = arch_of(device) == _HOPPER
            if is_hopper[device] and _suits(query, key, value, rel_h, rel_w, rows * columns, batch * heads):
                h, w = rel_h.stride(), rel_w.stride()
                hopper(
                    device, _with_strides(query), *(_on_grid(tensor, rows, columns) for tensor in (key, value)),
                    rel_h.data_ptr(), h[0], h[1], h[2], rel_w.data_ptr(), w[0], w[1], w[2], out.data_ptr(), factor,
                )  # fmt: skip
                return
        places = [(tensor.data_ptr(), *tensor.stride()[:3]) for tensor in (query, key, value)]
        bits = 0
        for address, *strides in places:
            bits |= address | (strides[0] | strides[1] | strides[2]) * _SIZE
        unit = ALIGNED if widest_unit(bits) == ALIGNED * _SIZE else 1
        numbers = [number for address, *strides in places for number in (address, *(s // unit for s in strides))]
        for table in (rel_h, rel_w):
            numbers += [table.data_ptr(), *table.stride()[:3]]
        general[unit](device, *numbers, out.data_ptr(), batch, heads, factor)

    return kernel


def _suits(query: Tensor, key: Tensor, value: Tensor, rel_h: Tensor, rel_w: Tensor, tokens: int, heads: int) -> bool:
    """Whether TMA can take query, key and value: aligned to 16 bytes, no shared rows, 32-bit offsets."""
    for tensor in (query, key, value):
        strides = _strides(tensor)
        bits = tensor.data_ptr() | (strides[0] | strides[1] | strides[2]) * _SIZE
        extent = sum((size - 1) * stride for size, stride in zip(tensor.shape, strides, strict=False))
        if bits % 16 or min(strides) < 1 or extent >= _MOST:
            return False
    return max(rel_h.stride(1), rel_w.stride(1)) < _MOST_STRIDE and heads * tokens < _MOST


def _strides(tensor: Tensor) -> tuple[int, int, int]:
    """Strides of batch, tokens and heads; where there is one of them, a number that suits."""
    batch, tokens, heads, head_dim = tensor.shape
    given = tensor.stride()
    return (
        given[0] if batch > 1 else head_dim,
        given[1] if tokens > 1 else head_dim,
        given[2] if heads > 1 else head_dim,
    )


def _with_strides(tensor: Tensor) -> Tensor:
    return tensor.as_strided(tensor.shape, (*_strides(tensor), 1))


def _on_grid(tensor: Tensor, rows: int, columns: int) -> Tensor:
    """``[B, rows * columns, N, D]`` as ``[B, rows, columns, N, D]``."""
    batch, _, heads, head_dim = tensor.shape
    of_batch, of_token, of_head = _strides(tensor)
    return tensor.as_strided(
        (batch, rows, columns, heads, head_dim), (of_batch, of_token * columns, of_token, of_head, 1)
    )
