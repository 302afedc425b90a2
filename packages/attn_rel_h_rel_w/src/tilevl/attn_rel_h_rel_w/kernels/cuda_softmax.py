# mypy: disable-error-code="misc,valid-type,no-untyped-def,untyped-decorator"
"""Bias and softmax of a tile of scores in registers, for the Hopper program."""

from typing import Any

import tilelang.language as T

from tilevl.attn_rel_h_rel_w.kernels.cuda_plans import Plan
from tilevl.attn_rel_h_rel_w.kernels.cuda_tables import LOG2E


def in_layout_of_scores(queries: int, width: int) -> Any:
    """Where WGMMA leaves ``[queries, width]``: (thread, register)."""
    return T.Fragment(
        (queries, width),
        forward_fn=lambda i, c: (
            i // 64 * 128 + i % 64 // 16 * 32 + i % 8 * 4 + c % 8 // 2,
            c // 8 * 4 + i // 8 % 2 * 2 + c % 2,
        ),
    )


def softmax_of(plan: Plan) -> tuple[Any, Any, Any]:
    """What takes the bias of a part of the columns, weighs a tile of scores, and rescales results."""
    rows, columns, queries, keys = plan.rows, plan.columns, plan.queries, plan.keys
    infinity = T.infinity("float32")

    @T.macro
    def take_columns(part, s, w_tile, w_bias):
        for i, c in T.Parallel(queries, columns):
            w_bias[i, c] = T.Cast("float32", w_tile[s, part, i, c])
        if plan.parts * columns != plan.grid_w:
            for i, c in T.Parallel(queries, columns):
                w_bias[i, c] = T.if_then_else(part * columns + c < plan.grid_w, w_bias[i, c], -infinity)

    @T.macro
    def take_rows(j, s, h_tile, h_bias):
        for r, i in T.Parallel(rows, queries):
            row = j % plan.down * rows + r
            h_bias[r, i] = T.Cast("float32", h_tile[s, row // plan.h_width, i, row % plan.h_width])
        if plan.down * rows != plan.grid_h:
            for r, i in T.Parallel(rows, queries):
                h_bias[r, i] = T.if_then_else(j % plan.down * rows + r < plan.grid_h, h_bias[r, i], -infinity)

    @T.macro
    def weigh(j, s, h_tile, scores, state, scale):
        """Turns scores into weights.

        A difference to the maximum may become -inf when it is multiplied by log2(e), which changes no weight; a bias
        multiplied alone could.
        """
        w_bias, h_bias, tops, base, top, factor, sums = state
        take_rows(j, s, h_tile, h_bias)
        for i, r, c in T.Parallel(queries, rows, columns):
            scores[i, r * columns + c] = scores[i, r * columns + c] * scale + w_bias[i, c]
        for i, r, c in T.Parallel(queries, rows, 8):
            tops[i, r * 8 + c] = scores[i, r * columns + c]
        for g in T.unroll(1, columns // 8):
            for i, r, c in T.Parallel(queries, rows, 8):
                tops[i, r * 8 + c] = T.max(tops[i, r * 8 + c], scores[i, r * columns + g * 8 + c])
        for i, r, c in T.Parallel(queries, rows, 8):
            tops[i, r * 8 + c] = tops[i, r * 8 + c] + h_bias[r, i]
        T.reduce_max(tops, base, dim=1, clear=True)
        for i in T.Parallel(queries):
            base[i] = T.max(base[i], top[i])
            factor[i] = top[i]
            top[i] = base[i]
            base[i] = T.if_then_else(base[i] == -infinity, T.float32(0), base[i])
            factor[i] = T.exp2((factor[i] - base[i]) * LOG2E)
        for r, i in T.Parallel(rows, queries):
            h_bias[r, i] = (h_bias[r, i] - base[i]) * LOG2E
        for i, r, c in T.Parallel(queries, rows, columns):
            scores[i, r * columns + c] = T.exp2(scores[i, r * columns + c] * LOG2E + h_bias[r, i])
        for i, c in T.Parallel(queries, 8):
            sums[i, c] = sums[i, c] * factor[i]
        for g in T.unroll(keys // 8):
            for i, c in T.Parallel(queries, 8):
                sums[i, c] += scores[i, g * 8 + c]

    @T.macro
    def rescale(results, factor):
        for result, (_, width) in zip(results, plan.pieces):
            for i, d in T.Parallel(queries, width):
                result[i, d] = result[i, d] * factor[i]

    return take_columns, weigh, rescale
