# mypy: disable-error-code="misc,valid-type,no-untyped-def,untyped-decorator"
"""Bias and softmax of a tile of scores in registers, for the Hopper program.

Weights are powers of two of the differences to a reference, one for each query. The fast way takes the first tile's
maximum and keeps it: what cancels in the end may have any size, so that no later tile looks for maxima and nothing is
rescaled. A verdict tells the turns where some sum or result has left its bounds; they are done again, exactly, with
a reference that rises with the maximum.
"""

from dataclasses import dataclass
from typing import Any

import tilelang.language as T

from tilevl.attn_rel_h_rel_w.kernels.cuda_plans import Plan
from tilevl.attn_rel_h_rel_w.kernels.cuda_tables import LARGEST, LOG2E

_LEAST, _MOST = 0.5, 2.0**60  # of a row's weights in sum; the first tile's largest is about 1


def in_layout_of_scores(queries: int, width: int) -> Any:
    """Where WGMMA leaves ``[queries, width]``: (thread, register)."""
    return T.Fragment(
        (queries, width),
        forward_fn=lambda i, c: (
            i // 64 * 128 + i % 64 // 16 * 32 + i % 8 * 4 + c % 8 // 2,
            c // 8 * 4 + i // 8 % 2 * 2 + c % 2,
        ),
    )


def held(table: Any, s: Any, part: Any, query: Any, column: Any) -> Any:
    """An element of a table in shared memory, which comes with what tells the column of a token's first one."""
    tile, begin = table
    together = tile.shape[2]
    return tile[s, part, query % together, query // together, begin(query % together) + column]


@dataclass(frozen=True)
class Softmax:
    """The steps, as macros.

    Attributes:
        take_columns: reads the bias of a part of the columns.
        refer: makes the first tile's maximum the reference.
        raise_reference: raises it to a tile's maximum, and rescales sums and results.
        weigh: turns a tile's scores into weights, and adds them up.
        judge: leaves a verdict other than zero, and the turn's bit in a query's doubts, where a result isn't right.
    """

    take_columns: Any
    refer: Any
    raise_reference: Any
    weigh: Any
    judge: Any


def softmax_of(plan: Plan) -> Softmax:
    """The steps for a plan."""
    rows, columns, queries, keys = plan.rows, plan.columns, plan.queries, plan.keys
    infinity = T.infinity("float32")

    @T.macro
    def take_columns(part, s, w_tile, w_bias):
        for i, c in T.Parallel(queries, columns):
            w_bias[i, c] = T.Cast("float32", held(w_tile, s, part, i, c))
        if plan.parts * columns != plan.grid_w:
            for i, c in T.Parallel(queries, columns):
                w_bias[i, c] = T.if_then_else(part * columns + c < plan.grid_w, w_bias[i, c], -infinity)

    @T.macro
    def add_bias(j, s, h_tile, scores, state, scale):
        """Adds the columns' bias to scores; the rows' is left in ``h_bias``."""
        w_bias, h_bias = state[:2]
        for r, i in T.Parallel(rows, queries):
            row = j % plan.down * rows + r
            h_bias[r, i] = T.Cast("float32", held(h_tile, s, row // plan.h_columns, i, row % plan.h_columns))
        if plan.down * rows != plan.grid_h:
            for r, i in T.Parallel(rows, queries):
                h_bias[r, i] = T.if_then_else(j % plan.down * rows + r < plan.grid_h, h_bias[r, i], -infinity)
        for i, r, c in T.Parallel(queries, rows, columns):
            scores[i, r * columns + c] = scores[i, r * columns + c] * scale + w_bias[i, c]

    @T.macro
    def find_tops(scores, state):
        """The tile's maxima, into ``base``."""
        _, h_bias, tops, base, _, _, _ = state
        for i, r, c in T.Parallel(queries, rows, 8):
            tops[i, r * 8 + c] = scores[i, r * columns + c]
        for g in T.unroll(1, columns // 8):
            for i, r, c in T.Parallel(queries, rows, 8):
                tops[i, r * 8 + c] = T.max(tops[i, r * 8 + c], scores[i, r * columns + g * 8 + c])
        for i, r, c in T.Parallel(queries, rows, 8):
            tops[i, r * 8 + c] = tops[i, r * 8 + c] + h_bias[r, i]
        T.reduce_max(tops, base, dim=1, clear=True)

    @T.macro
    def to_weights(exact, scores, state):
        """Needs ``add_bias``, and a reference in ``base``.

        The fast way takes one instruction less for a score. There a product with log2(e) may overflow: to infinite
        weights, which the verdict sees, or to -inf for a row whose scores are as large, so that -inf is made finite.
        Exactly, the difference to the maximum comes first. It may become -inf, which changes no weight.
        """
        _, h_bias, _, base, _, _, sums = state
        for r, i in T.Parallel(rows, queries):
            h_bias[r, i] = h_bias[r, i] - base[i]
        if exact:
            for i, r, c in T.Parallel(queries, rows, columns):
                scores[i, r * columns + c] = T.exp2((scores[i, r * columns + c] + h_bias[r, i]) * LOG2E)
        else:
            for r, i in T.Parallel(rows, queries):
                h_bias[r, i] = h_bias[r, i] * LOG2E
                h_bias[r, i] = T.if_then_else(h_bias[r, i] < -LARGEST, T.float32(-LARGEST), h_bias[r, i])
            for i, r, c in T.Parallel(queries, rows, columns):
                scores[i, r * columns + c] = T.exp2(scores[i, r * columns + c] * LOG2E + h_bias[r, i])
        for g in T.unroll(keys // 8):
            for i, c in T.Parallel(queries, 8):
                sums[i, c] += scores[i, g * 8 + c]

    @T.macro
    def refer(s, h_tile, scores, state, scale):
        base = state[3]
        add_bias(0, s, h_tile, scores, state, scale)
        find_tops(scores, state)
        for i in T.Parallel(queries):
            base[i] = T.if_then_else(base[i] == -infinity, T.float32(0), base[i])
        to_weights(False, scores, state)

    @T.macro
    def raise_reference(j, s, h_tile, scores, results, state, scale):
        _, _, _, base, top, factor, sums = state
        add_bias(j, s, h_tile, scores, state, scale)
        find_tops(scores, state)
        for i in T.Parallel(queries):
            base[i] = T.max(base[i], top[i])
            factor[i] = top[i]
            top[i] = base[i]
            base[i] = T.if_then_else(base[i] == -infinity, T.float32(0), base[i])
            factor[i] = T.exp2((factor[i] - base[i]) * LOG2E)
        for i, c in T.Parallel(queries, 8):
            sums[i, c] = sums[i, c] * factor[i]
        for result, (_, width) in zip(results, plan.pieces):
            for i, d in T.Parallel(queries, width):
                result[i, d] = result[i, d] * factor[i]
        to_weights(True, scores, state)

    @T.macro
    def weigh(j, s, h_tile, scores, state, scale):
        add_bias(j, s, h_tile, scores, state, scale)
        to_weights(False, scores, state)

    @T.macro
    def judge(results, total, spoiled, worst, doubts, t, verdict, rows_left):
        for i, c in T.Parallel(queries, 8):
            spoiled[i, c] = T.float32(0)
        for result, (_, width) in zip(results, plan.pieces):
            for g in T.unroll(width // 8):
                for i, c in T.Parallel(queries, 8):  # NaN is not smaller either
                    spoiled[i, c] += T.if_then_else(T.abs(result[i, g * 8 + c]) <= LARGEST, T.float32(0), T.float32(1))
        T.reduce_max(spoiled, worst, dim=1)
        for i in T.Parallel(queries):
            worst[i] += T.if_then_else(total[i] >= _LEAST, T.float32(0), T.float32(1))
            worst[i] += T.if_then_else(total[i] <= _MOST, T.float32(0), T.float32(1))
        for i in T.Parallel(queries):
            if i < rows_left:
                if worst[i] != 0:
                    T.atomic_max(verdict, 1)
                    doubts[i] = doubts[i] | (1 << t)

    return Softmax(take_columns, refer, raise_reference, weigh, judge)
