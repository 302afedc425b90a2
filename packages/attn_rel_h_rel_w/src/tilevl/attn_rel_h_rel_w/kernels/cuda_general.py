# mypy: disable-error-code="misc,valid-type,no-untyped-def,untyped-decorator"
"""CUDA, for any grid, head dim, stride and alignment, on sm_80 and later: tiles pass through registers.

A tile of keys is a rectangle of the grid, so that a tile of ``rel_h`` and one of ``rel_w`` hold all its bias. Softmax
is base 2, with the running maximum and sum of flash attention.
"""

from __future__ import annotations

from typing import Any

import tilelang.language as T

from tilevl.attn_rel_h_rel_w.kernels.cuda_tables import LOG2E, base_2
from tilevl.core.cuda import view

_QUERIES, _THREADS = 64, 128
_KEYS = 64  # of a tile, at most
ALIGNED = 8  # elements of a load of 16 bytes


def attend_tiles(dtype: str, head_dim: int, grid_h: int, grid_w: int, unit: int) -> Any:
    """The program.

    Args:
        dtype: ``bfloat16`` or ``float16``.
        head_dim: D, a multiple of 16.
        grid_h: rows of the grid.
        grid_w: columns of the grid.
        unit: elements of a load of query, key and value: 8, where their addresses and strides allow it, or 1. Their
            strides are given in units, those of the tables in elements.
    """
    tokens = grid_h * grid_w
    columns = min(-(-grid_w // 8) * 8, _KEYS)
    rows = max(min(_KEYS // columns, grid_h), 1)
    if rows * columns % 16:
        columns += 8
    keys = rows * columns
    down, across = -(-grid_h // rows), -(-grid_w // columns)
    blocks = -(-tokens // _QUERIES)
    infinity = T.infinity("float32")

    @T.macro
    def load_tile(into, source, batch, token, head, b, n, row, column):
        for i, d in T.Parallel(keys, head_dim):
            if row + i // columns < grid_h and column + i % columns < grid_w:
                at = b * batch + ((row + i // columns) * grid_w + column + i % columns) * token + n * head
                into[i, d] = source[at * unit + d]
            else:
                into[i, d] = T.Cast(dtype, 0)

    @T.prim_func
    def attn_general(
        anchor: T.Tensor((1,), "uint8"),
        query: T.int64,
        query_batch: T.int64,
        query_token: T.int64,
        query_head: T.int64,
        key: T.int64,
        key_batch: T.int64,
        key_token: T.int64,
        key_head: T.int64,
        value: T.int64,
        value_batch: T.int64,
        value_token: T.int64,
        value_head: T.int64,
        rel_h: T.int64,
        rel_h_batch: T.int64,
        rel_h_token: T.int64,
        rel_h_head: T.int64,
        rel_w: T.int64,
        rel_w_batch: T.int64,
        rel_w_token: T.int64,
        rel_w_head: T.int64,
        out: T.int64,
        batch: T.int64,
        heads: T.int64,
        scale: T.float32,
    ):
        with T.Kernel(batch * heads * blocks, threads=_THREADS) as block:
            first = T.int64(T.truncmod(block, blocks)) * _QUERIES
            n = T.truncmod(T.int64(T.truncdiv(block, blocks)), heads)
            b = T.truncdiv(T.int64(T.truncdiv(block, blocks)), heads)
            q, k, v, o = view(query, dtype), view(key, dtype), view(value, dtype), view(out, dtype)
            h, w = view(rel_h, dtype), view(rel_w, dtype)
            q_tile = T.alloc_shared((_QUERIES, head_dim), dtype)
            k_tile = T.alloc_shared((keys, head_dim), dtype)
            v_tile = T.alloc_shared((keys, head_dim), dtype)
            h_tile = T.alloc_shared((_QUERIES, rows), "float32")
            w_tile = T.alloc_shared((_QUERIES, columns), "float32")
            scores = T.alloc_fragment((_QUERIES, keys), "float32")
            weights = T.alloc_fragment((_QUERIES, keys), dtype)
            result = T.alloc_fragment((_QUERIES, head_dim), "float32")
            top = T.alloc_fragment((_QUERIES,), "float32")
            before = T.alloc_fragment((_QUERIES,), "float32")
            base = T.alloc_fragment((_QUERIES,), "float32")
            factor = T.alloc_fragment((_QUERIES,), "float32")
            part = T.alloc_fragment((_QUERIES,), "float32")
            total = T.alloc_fragment((_QUERIES,), "float32")
            for i, d in T.Parallel(_QUERIES, head_dim):  # rows past the last repeat it, and are never stored
                q_tile[i, d] = q[
                    (b * query_batch + T.min(first + i, tokens - 1) * query_token + n * query_head) * unit + d
                ]
            T.fill(result, 0)
            T.fill(total, 0)
            T.fill(top, -infinity)
            for j in T.serial(across * down):
                row, column = T.truncmod(j, down) * rows, T.truncdiv(j, down) * columns
                if T.truncmod(j, down) == 0:
                    for i, c in T.Parallel(_QUERIES, columns):
                        w_tile[i, c] = -infinity
                        if column + c < grid_w:
                            at = b * rel_w_batch + T.min(first + i, tokens - 1) * rel_w_token + n * rel_w_head
                            w_tile[i, c] = base_2(T.Cast("float32", w[at + column + c]))
                for i, r in T.Parallel(_QUERIES, rows):
                    h_tile[i, r] = -infinity
                    if row + r < grid_h:
                        at = b * rel_h_batch + T.min(first + i, tokens - 1) * rel_h_token + n * rel_h_head
                        h_tile[i, r] = base_2(T.Cast("float32", h[at + row + r]))
                load_tile(k_tile, k, key_batch, key_token, key_head, b, n, row, column)
                load_tile(v_tile, v, value_batch, value_token, value_head, b, n, row, column)
                T.gemm(q_tile, k_tile, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow, clear_accum=True)
                for i, c in T.Parallel(_QUERIES, keys):
                    scores[i, c] = scores[i, c] * (scale * LOG2E) + (w_tile[i, c % columns] + h_tile[i, c // columns])
                T.copy(top, before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(_QUERIES):
                    base[i] = T.if_then_else(top[i] == -infinity, T.float32(0), top[i])
                    factor[i] = T.exp2(before[i] - base[i])
                for i, c in T.Parallel(_QUERIES, keys):
                    scores[i, c] = T.exp2(scores[i, c] - base[i])
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(_QUERIES):
                    total[i] = total[i] * factor[i] + part[i]
                for i, d in T.Parallel(_QUERIES, head_dim):
                    result[i, d] = result[i, d] * factor[i]
                T.copy(scores, weights)
                T.gemm(weights, v_tile, result, policy=T.GemmWarpPolicy.FullRow)
            for i in T.Parallel(_QUERIES):
                total[i] = T.if_then_else(total[i] == 0, T.float32(0), 1 / total[i])
            for i, d in T.Parallel(_QUERIES, head_dim):
                if first + i < tokens:
                    o[((b * tokens + first + i) * heads + n) * head_dim + d] = T.Cast(dtype, result[i, d] * total[i])

    return attn_general
