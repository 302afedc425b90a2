"""CPU: blocks of queries against all keys, so that no bias larger than a block ever exists.

Two ways. The general one builds a block's bias in float32 and hands it to torch's fused attention. The faster one,
``one_hot``, takes long bfloat16 inputs where the processor suits it, and leaves what it can't do to the general one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tilevl.attn_rel_h_rel_w import contract, one_hot
from tilevl.core.cache import Kernel

_BLOCK = 2**22  # elements of the bias at a time, 16 MiB
_LONG = 1024  # tokens from which on the faster way is the faster one
_WIDE = 16  # rows and columns of the grid from which on it is


def build(dtype: torch.dtype, *_sizes: int) -> Kernel:
    """The kernel of a dtype; sizes are read at run time."""
    fast = dtype == torch.bfloat16 and one_hot.is_fast()

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
        factor = contract.factor(head_dim, scale)
        q, k, v, o = (tensor.transpose(1, 2) for tensor in (query, key, value, out))
        h, w = rel_h[..., :rows].transpose(1, 2), rel_w[..., :columns].transpose(1, 2)
        if not (fast and tokens >= _LONG and min(rows, columns) >= _WIDE):
            _attend(q, k, v, h, w, o, factor)
            return
        for b, n, block in one_hot.attend(q, k, v, h, w, o, factor):
            head = slice(b, b + 1), slice(n, n + 1)
            part = (*head, block)
            _attend(q[part], k[head], v[head], h[part], w[part], o[part], factor)

    return kernel


def _attend(query: Tensor, key: Tensor, value: Tensor, rel_h: Tensor, rel_w: Tensor, out: Tensor, scale: float) -> None:
    """Attention by torch's fused kernel, block by block; all tensors are ``[B, N, queries or keys, ...]``."""
    batch, heads, queries, _ = query.shape
    per_head = queries * key.shape[2]
    batch_step = max(_BLOCK // (heads * per_head), 1)
    head_step = max(_BLOCK // per_head, 1)
    query_step = queries if head_step > 1 else max(_BLOCK // key.shape[2], 1)
    for b in range(0, batch, batch_step):
        for n in range(0, heads, head_step):
            part = slice(b, b + batch_step), slice(n, n + head_step)
            keys, values = key[part], value[part]
            if query_step < queries:
                keys, values = keys.contiguous(), values.contiguous()
            for s in range(0, queries, query_step):
                block = (*part, slice(s, s + query_step))
                bias = rel_h[block].float().unsqueeze(-1) + rel_w[block].float().unsqueeze(-2)
                result, logarithm_of_sum = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
                    query[block], keys, values, attn_mask=bias.flatten(-2), scale=scale
                )
                if query.dtype != torch.float32:  # there torch gives 0, not NaN, for some rows with a score of +inf
                    result.masked_fill_((logarithm_of_sum == torch.inf).unsqueeze(-1), torch.nan)
                out[block] = result
