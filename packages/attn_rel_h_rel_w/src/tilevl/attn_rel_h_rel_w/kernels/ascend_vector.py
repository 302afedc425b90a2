# mypy: disable-error-code="misc,valid-type,no-untyped-def,untyped-decorator"
"""Ascend, a vector core: tables in, softmax for each block of keys, results out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import tilelang.ascend.language as T

from tilevl.attn_rel_h_rel_w.kernels.ascend_cube import (
    RESULT_FREE,
    RESULT_READY,
    SCORES_FREE,
    SCORES_READY,
    WEIGHTS_FREE,
    WEIGHTS_READY,
    first_column,
    first_key,
    key_count,
)
from tilevl.attn_rel_h_rel_w.kernels.ascend_plan import KEYS, Plan
from tilevl.attn_rel_h_rel_w.kernels.ascend_softmax import softmax_macros

TYPES = {"bfloat16": "bfloat16_t", "float16": "half"}


def vector_macros(plan: Plan, cores: int) -> Any:
    """``begin``, ``sweep`` and ``end`` of a vector core."""
    half, queries, blocks, head_dim, tokens = plan.half, plan.queries, plan.blocks, plan.head_dim, plan.tokens
    softmax = SimpleNamespace(**softmax_macros(plan))
    late = min(1, blocks - 1)  # the block after which the result of the task before is taken

    @T.macro
    def arrive(pipe, flag):
        T.ascend_cross_core_set_flag(4, pipe, flag)

    @T.macro
    def wait(pipe, flag):
        T.ascend_cross_core_wait_flag(4, pipe, flag)

    @T.macro
    def begin(weights):
        softmax.clear(weights)
        for place in T.unroll(2, explicit=True):
            arrive("PIPE_V", SCORES_FREE + place)
            T.ascend_set_flag("MTE3_V", place)
        arrive("PIPE_V", RESULT_FREE)
        T.ascend_set_flag("V_MTE2", 0)

    @T.macro
    def end():
        for place in T.unroll(2, explicit=True):
            wait("PIPE_MTE3", WEIGHTS_FREE + place)
            T.ascend_wait_flag("MTE3_V", place)
        T.ascend_wait_flag("V_MTE2", 0)

    @T.macro
    def stage(rel_h, rel_w, staged_h, staged_w, task, sid, h_at, h_count, w_at, w_count, heads, batch):
        """A piece of both tables for the queries of this core."""
        which = T.alloc_var("int32", init=T.truncdiv(task, plan.tiles))
        b = T.alloc_var("int64", init=T.int64(T.truncdiv(which, T.int32(heads))))
        n = T.alloc_var("int64", init=T.int64(T.truncmod(which, T.int32(heads))))
        first = T.alloc_var("int32", init=T.truncmod(task, plan.tiles) * queries + sid * half)
        count = T.alloc_var("int32", init=T.min(tokens - first, half))
        T.ascend_wait_flag("V_MTE2", 0)
        if count > 0:
            T.assume(b >= 0)
            T.assume(b < batch)
            T.assume(n >= 0)
            T.assume(n < heads)
            T.assume(first >= 0)
            T.assume(count <= half)
            T.assume(first + count <= tokens)
            T.copy(rel_h[b, first : first + count, n, h_at : h_at + h_count], staged_h[0:count, 0:h_count])
            T.copy(rel_w[b, first : first + count, n, w_at : w_at + w_count], staged_w[0:count, 0:w_count])
        T.ascend_set_flag("MTE2_V", 0)
        T.ascend_wait_flag("MTE2_V", 0)

    @T.macro
    def stage_block(rel_h, rel_w, staged_h, staged_w, wide, task, sid, block, rows, heads, batch):
        """The tables' piece for a block, where they aren't resident."""
        if plan.pieces > 1:
            at = T.alloc_var("int32", init=T.truncmod(block, plan.pieces) * KEYS)
            width = T.alloc_var("int32", init=T.min(plan.grid_w - at, KEYS))
            stage(
                rel_h, rel_w, staged_h, staged_w, task, sid, T.truncdiv(block, plan.pieces), 1, at, width, heads, batch
            )
        else:
            high = T.alloc_var("int32", init=T.min(plan.grid_h - block * plan.rows, plan.rows))
            stage(
                rel_h, rel_w, staged_h, staged_w, task, sid, block * plan.rows, high, 0, plan.grid_w, heads, batch
            )
        softmax.widen(rows, staged_w, wide)

    @T.macro
    def send(weights, p_l1, step, sid):
        """The weights of a block to the cube core."""
        T.ascend_set_flag("V_MTE3", step & 1)
        T.ascend_wait_flag("V_MTE3", step & 1)
        wait("PIPE_MTE3", WEIGHTS_FREE + (step & 1))
        T.evaluate(
            T.ascend_nd2nz_post_copy(
                p_l1[step & 1, sid * half, 0], weights[step & 1, 0], half, KEYS, queries, TYPES[plan.dtype]
            )
        )
        T.ascend_set_flag("MTE3_V", step & 1)
        arrive("PIPE_MTE3", WEIGHTS_READY + (step & 1))

    @T.macro
    def finish(out, totals, result, packed, task, turn, sid, heads, batch):
        """Divides and stores the result of a task."""
        which = T.alloc_var("int32", init=T.truncdiv(task, plan.tiles))
        b = T.alloc_var("int64", init=T.int64(T.truncdiv(which, T.int32(heads))))
        n = T.alloc_var("int64", init=T.int64(T.truncmod(which, T.int32(heads))))
        first = T.alloc_var("int32", init=T.truncmod(task, plan.tiles) * queries + sid * half)
        count = T.alloc_var("int32", init=T.min(tokens - first, half))
        wait("PIPE_V", RESULT_READY)
        if count > 0:
            softmax.divide(count, totals, turn, result, packed)
            T.ascend_set_flag("V_MTE3", 2)
            T.ascend_wait_flag("V_MTE3", 2)
            T.assume(b >= 0)
            T.assume(b < batch)
            T.assume(n >= 0)
            T.assume(n < heads)
            T.assume(first >= 0)
            T.assume(count <= half)
            T.assume(first + count <= tokens)
            T.copy(packed[0:count, 0:head_dim], out[b, first : first + count, n, 0:head_dim])
        arrive("PIPE_MTE3", RESULT_FREE)

    @T.macro
    def sweep(
        rel_h, rel_w, out, scores, weights, wide, tall, staged_h, staged_w, sums, tops, totals, result, packed, p_l1,
        first, count, sid, scale, heads, batch,
    ):  # fmt: skip
        """Exact softmax of tasks ``first``, ``first + cores`` and so on: all scores twice."""
        step = T.alloc_var("int32", init=0)
        for turn in T.serial(count):
            task = T.alloc_var("int32", init=first + turn * cores)
            rows = T.alloc_var(
                "int32", init=T.max(T.min(tokens - T.truncmod(task, plan.tiles) * queries - sid * half, half), 0)
            )
            if plan.resident:
                stage(
                    rel_h, rel_w, staged_h, staged_w, task, sid, 0, plan.grid_h, 0, plan.grid_w, heads, batch
                )
                softmax.widen(rows, staged_w, wide)
                if plan.grouped:
                    softmax.spread_rows(rows, staged_h, tall)
            softmax.begin_maximum(tops)
            softmax.clear_sums(rows, sums)
            for block in T.serial(blocks):
                if not plan.resident:
                    stage_block(rel_h, rel_w, staged_h, staged_w, wide, task, sid, block, rows, heads, batch)
                wait("PIPE_V", SCORES_READY + (step & 1))
                softmax.maximum(
                    rows, step & 1, block, first_key(plan, block), key_count(plan, block), first_column(plan, block), scale, scores,
                    wide, tall, staged_h, tops,
                )  # fmt: skip
                arrive("PIPE_V", SCORES_FREE + (step & 1))
                if not plan.resident:
                    T.ascend_set_flag("V_MTE2", 0)
                step = step + 1
            softmax.end_maximum(tops)
            for block in T.serial(blocks):
                if not plan.resident:
                    stage_block(rel_h, rel_w, staged_h, staged_w, wide, task, sid, block, rows, heads, batch)
                wait("PIPE_V", SCORES_READY + (step & 1))
                T.ascend_wait_flag("MTE3_V", step & 1)
                softmax.weigh_exactly(
                    rows, step & 1, block, first_key(plan, block), key_count(plan, block), first_column(plan, block), scale, scores,
                    wide, tall, staged_h, tops, sums, weights,
                )  # fmt: skip
                arrive("PIPE_V", SCORES_FREE + (step & 1))
                if not plan.resident:
                    T.ascend_set_flag("V_MTE2", 0)
                send(weights, p_l1, step, sid)
                step = step + 1
            if plan.resident:
                T.ascend_set_flag("V_MTE2", 0)
            softmax.add_up(rows, sums, totals, turn & 1)
            finish(out, totals, result, packed, task, turn & 1, sid, heads, batch)

    return begin, sweep, end
