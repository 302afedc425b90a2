"""A Triton kernel of the same op, as inference engines have it: tiles of 64 queries and 64 keys, bias by gathers.

Each tile of scores gathers its bias from both tables, one pointer per score. bfloat16 or float16, a head dim that is a
power of two.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_TILE, _WARPS, _STAGES = 64, 4, 2
_LOG2E = 1.4426950408889634


@triton.jit
def _attend(  # type: ignore[no-untyped-def]
    query, key, value, rel_h, rel_w, out,
    query_batch, query_token, query_head, key_batch, key_token, key_head, value_batch, value_token, value_head,
    rel_h_batch, rel_h_token, rel_h_head, rel_w_batch, rel_w_token, rel_w_head, out_batch, out_token, out_head,
    heads, tokens, grid_w, scale, log2e: tl.constexpr, head_dim: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    batch = (tl.program_id(1) // heads).to(tl.int64)
    head = (tl.program_id(1) % heads).to(tl.int64)
    i = tl.program_id(0) * tile + tl.arange(0, tile)
    d = tl.arange(0, head_dim)
    real = i[:, None] < tokens
    query += batch * query_batch + head * query_head
    key += batch * key_batch + head * key_head
    value += batch * value_batch + head * value_head
    rel_h += batch * rel_h_batch + head * rel_h_head + i[:, None] * rel_h_token
    rel_w += batch * rel_w_batch + head * rel_w_head + i[:, None] * rel_w_token
    q = tl.load(query + i[:, None] * query_token + d[None, :], mask=real, other=0.0)
    top = tl.full((tile,), -float("inf"), tl.float32)
    total = tl.zeros((tile,), tl.float32)
    result = tl.zeros((tile, head_dim), tl.float32)
    for start in range(0, tokens, tile):
        j = start + tl.arange(0, tile)
        there = j < tokens
        k = tl.load(key + j[None, :] * key_token + d[:, None], mask=there[None, :], other=0.0)
        scores = tl.dot(q, k) * (scale * log2e)
        inside = real & there[None, :]
        bias = tl.load(rel_h + (j // grid_w)[None, :], mask=inside, other=0.0).to(tl.float32)
        bias += tl.load(rel_w + (j % grid_w)[None, :], mask=inside, other=0.0).to(tl.float32)
        scores = tl.where(there[None, :], scores + bias * log2e, -float("inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        factor = tl.exp2(top - higher)
        total = total * factor + tl.sum(weights, 1)
        v = tl.load(value + j[:, None] * value_token + d[None, :], mask=there[:, None], other=0.0)
        result = tl.dot(weights.to(v.dtype), v, result * factor[:, None])
        top = higher
    out += batch * out_batch + head * out_head
    result = (result / total[:, None]).to(out.dtype.element_ty)
    tl.store(out + i[:, None] * out_token + d[None, :], result, mask=real)


def attend(query: Tensor, key: Tensor, value: Tensor, rel_h: Tensor, rel_w: Tensor, grid_w: int) -> Tensor:
    """The op with its default scale; arguments and result as those of ``attn_rel_h_rel_w``."""
    batch, tokens, heads, head_dim = query.shape
    out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    strides = [s for tensor in (query, key, value, rel_h, rel_w, out) for s in tensor.stride()[:3]]
    _attend[(triton.cdiv(tokens, _TILE), batch * heads)](
        query, key, value, rel_h, rel_w, out, *strides, heads, tokens, grid_w, head_dim**-0.5,
        log2e=_LOG2E, head_dim=head_dim, tile=_TILE, num_warps=_WARPS, num_stages=_STAGES,
    )  # fmt: skip
    return out
