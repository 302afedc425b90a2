"""CPU: blocks of queries against all keys, so that no bias larger than a block ever exists.

Two ways. The general one builds a block's bias in float32 and hands it to torch's fused attention. The other takes long
bfloat16 sequences where the processor multiplies bfloat16 natively but has no matrix unit: torch's fused attention then
multiplies bfloat16 at the pace of float32, while ``torch.mm`` is twice as fast. There the scores are one float32
product, added on top of the bias, and the second product is bfloat16.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tilevl.attn_rel_h_rel_w import contract
from tilevl.core.cache import Kernel

_FUSED_BLOCK = 2**20  # elements of the bias at a time, 4 MiB
_SCORES_BLOCK = 2**20  # elements of the scores at a time, 4 MiB and half as much again as bfloat16
_LONG = 1024  # tokens from which on the second way is the faster one
_TINY = 2.0**-80  # a sum of probabilities below this may have lost some to underflow


def build(dtype: torch.dtype) -> Kernel:
    """The kernel of a dtype."""
    split = dtype == torch.bfloat16 and _bfloat16_is_native_in_mm_only()

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
        tokens, head_dim = query.shape[1], query.shape[3]
        rows, columns = contract.grid(tokens, grid_h, grid_w)
        factor = head_dim**-0.5 if scale is None else scale
        tables = rel_h[..., :rows], rel_w[..., :columns]
        by_head = [tensor.transpose(1, 2) for tensor in (query, key, value, *tables, out)]
        if split and tokens >= _LONG:
            _split_attention(*by_head, factor)
        else:
            _fused_attention(*by_head, factor)

    return kernel


def _bfloat16_is_native_in_mm_only() -> bool:
    capabilities = getattr(torch.cpu, "get_capabilities", dict)()  # in torch from 2.11 on
    native = capabilities.get("avx512_bf16", False) and not capabilities.get("amx_bf16", False)
    return native and torch.backends.mkldnn.is_available()


def _fused_attention(
    query: Tensor, key: Tensor, value: Tensor, rel_h: Tensor, rel_w: Tensor, out: Tensor, scale: float
) -> None:
    """Attention by torch's fused kernel, block by block; all tensors are ``[B, N, queries or keys, ...]``."""
    batch, heads, queries, _ = query.shape
    per_head = queries * key.shape[2]
    batch_step = max(_FUSED_BLOCK // (heads * per_head), 1)
    head_step = max(_FUSED_BLOCK // per_head, 1)
    query_step = queries if head_step > 1 else max(_FUSED_BLOCK // key.shape[2], 1)
    for b in range(0, batch, batch_step):
        for n in range(0, heads, head_step):
            part = slice(b, b + batch_step), slice(n, n + head_step)
            keys, values = key[part], value[part]
            if query_step < queries:
                keys, values = keys.contiguous(), values.contiguous()
            for s in range(0, queries, query_step):
                block = (*part, slice(s, s + query_step))
                bias = rel_h[block].float().unsqueeze(-1) + rel_w[block].float().unsqueeze(-2)
                result, _ = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
                    query[block], keys, values, attn_mask=bias.flatten(-2), scale=scale
                )
                out[block] = result


def _split_attention(
    query: Tensor, key: Tensor, value: Tensor, rel_h: Tensor, rel_w: Tensor, out: Tensor, scale: float
) -> None:
    """Attention of bfloat16 tensors ``[B, N, S, ...]`` as two products, head by head.

    Scores are in units of ln 2, so that a probability is ``2 ** (score - bound)``. The bound is no smaller than the
    row's largest score (Cauchy-Schwarz on keys less their mean) and stands in for it: one pass over the scores less.
    Where it lies so far above that probabilities underflow, and where there is a NaN or an infinity, a block goes the
    general way.
    """
    batch, heads, tokens, head_dim = query.shape
    step = min(max(_SCORES_BLOCK // tokens, 1), tokens)
    scores = torch.empty(step, tokens, dtype=torch.float32, device=query.device)
    rounded = torch.empty(step, tokens, dtype=query.dtype, device=query.device)
    product = torch.empty(step, head_dim, dtype=query.dtype, device=query.device)
    for b in range(batch):
        for n in range(heads):
            q = query[b, n].float().mul_(scale * math.log2(math.e))
            k = key[b, n].float()
            v = value[b, n].contiguous()
            h = rel_h[b, n].float().mul_(math.log2(math.e))
            w = rel_w[b, n].float().mul_(math.log2(math.e))
            mean = k.mean(0)
            reach = torch.linalg.vector_norm(k - mean, dim=1).amax()
            bound = torch.linalg.vector_norm(q, dim=1).mul_(reach).addmv_(q, mean)
            h.sub_(bound.add_(h.amax(1)).add_(w.amax(1)).unsqueeze(1))
            k_columns = k.T.contiguous()
            for s in range(0, tokens, step):
                block = slice(s, min(s + step, tokens))
                count = block.stop - s
                p, p_rounded, o = scores[:count], rounded[:count], product[:count]
                torch.add(h[block].unsqueeze(2), w[block].unsqueeze(1), out=p.view(count, h.shape[1], w.shape[1]))
                torch.addmm(p, q[block], k_columns, out=p)
                torch.exp2(p, out=p)
                total = p.sum(1, keepdim=True)
                if total.amin() > _TINY:  # false for NaN
                    p_rounded.copy_(p)
                    torch.mm(p_rounded, v, out=o)
                    torch.div(o, total, out=out[b, n, block])
                else:
                    one = slice(b, b + 1), slice(n, n + 1)
                    part = (*one, block)
                    _fused_attention(query[part], key[one], value[one], rel_h[part], rel_w[part], out[part], scale)
