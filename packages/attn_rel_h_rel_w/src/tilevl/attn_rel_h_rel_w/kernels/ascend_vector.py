# mypy: disable-error-code="misc,valid-type,no-untyped-def,untyped-decorator"
"""Ascend, a vector core: tables in, softmax for each block of keys, results out."""

from __future__ import annotations

from types import SimpleNamespace

import tilelang.ascend.language as T

from tilevl.attn_rel_h_rel_w.kernels.ascend_cube import (
    CHECKED,
    QUERY_FREE,
    QUERY_READY,
    RESULT_FREE,
    RESULT_READY,
    SCORES_FREE,
    SCORES_READY,
    WEIGHTS_FREE,
    WEIGHTS_READY,
    first_column,
    first_key,
    first_query,
    key_count,
)
from tilevl.attn_rel_h_rel_w.kernels.ascend_plan import GROUPS, KEYS, Plan
from tilevl.attn_rel_h_rel_w.kernels.ascend_softmax import softmax_macros

TYPES = {"bfloat16": "bfloat16_t", "float16": "half"}


def vector_macros(plan: Plan, cores: int) -> SimpleNamespace:
    """What a vector core does: ``begin``, ``sweep``, ``check``, ``exact_sweep`` and ``end``."""
    half, queries, blocks, head_dim, tokens = plan.half, plan.queries, plan.blocks, plan.head_dim, plan.tokens
    softmax = softmax_macros(plan)
    late = min(1, blocks - 1)  # the block after which the result of the task before is there

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
        T.ascend_set_flag("V_MTE2", 0)

    @T.macro
    def end():
        for place in T.unroll(2, explicit=True):
            wait("PIPE_MTE3", WEIGHTS_FREE + place)
            T.ascend_wait_flag("MTE3_V", place)
        if plan.folded:
            wait("PIPE_MTE3", QUERY_FREE)
        T.ascend_wait_flag("V_MTE2", 0)

    @T.macro
    def rows_here(task, sid):
        """Queries of this core in a task; 0 or less where it has none."""
        return T.min(tokens - first_query(plan, task, sid), plan.share)

    @T.macro
    def load_rows(source, into, task, sid, at, width, heads, batch):
        """Columns of the rows of this core's queries, from global memory."""
        which = T.alloc_var("int32", init=T.truncdiv(task, plan.tiles))
        b = T.alloc_var("int64", init=T.int64(T.truncdiv(which, T.int32(heads))))
        n = T.alloc_var("int64", init=T.int64(T.truncmod(which, T.int32(heads))))
        first = T.alloc_var("int32", init=first_query(plan, task, sid))
        count = T.alloc_var("int32", init=T.min(tokens - first, plan.share))
        if count > 0:
            T.assume(b >= 0)
            T.assume(b < batch)
            T.assume(n >= 0)
            T.assume(n < heads)
            T.assume(first >= 0)
            T.assume(count <= plan.share)
            T.assume(first + count <= tokens)
            T.copy(source[b, first : first + count, n, at : at + width], into[0:count, 0:width])

    @T.macro
    def store_rows(source, into, task, sid, heads, batch):
        which = T.alloc_var("int32", init=T.truncdiv(task, plan.tiles))
        b = T.alloc_var("int64", init=T.int64(T.truncdiv(which, T.int32(heads))))
        n = T.alloc_var("int64", init=T.int64(T.truncmod(which, T.int32(heads))))
        first = T.alloc_var("int32", init=first_query(plan, task, sid))
        count = T.alloc_var("int32", init=T.min(tokens - first, plan.share))
        if count > 0:
            T.assume(b >= 0)
            T.assume(b < batch)
            T.assume(n >= 0)
            T.assume(n < heads)
            T.assume(first >= 0)
            T.assume(count <= plan.share)
            T.assume(first + count <= tokens)
            T.copy(source[0:count, 0:head_dim], into[b, first : first + count, n, 0:head_dim])

    @T.macro
    def stage(rel_h, rel_w, staged_h, staged_w, task, sid, h_at, h_count, w_at, w_count, heads, batch):
        """A piece of both tables for the queries of this core."""
        T.ascend_wait_flag("V_MTE2", 0)
        load_rows(rel_h, staged_h, task, sid, h_at, h_count, heads, batch)
        load_rows(rel_w, staged_w, task, sid, w_at, w_count, heads, batch)
        T.ascend_set_flag("MTE2_V", 0)
        T.ascend_wait_flag("MTE2_V", 0)

    @T.macro
    def stage_block(rel_h, rel_w, staged_h, staged_w, wide, task, sid, block, rows, heads, batch):
        """The tables' piece for a block, where they aren't resident."""
        if plan.pieces > 1:
            at = T.alloc_var("int32", init=T.truncmod(block, plan.pieces) * KEYS)
            width = T.alloc_var("int32", init=T.min(plan.grid_w - at, KEYS))
            row = T.alloc_var("int32", init=T.truncdiv(block, plan.pieces))
            stage(rel_h, rel_w, staged_h, staged_w, task, sid, row, 1, at, width, heads, batch)
        else:
            first = T.alloc_var("int32", init=block * plan.rows)
            high = T.alloc_var("int32", init=T.min(plan.grid_h - first, plan.rows))
            stage(rel_h, rel_w, staged_h, staged_w, task, sid, first, high, 0, plan.grid_w, heads, batch)
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
    def send_query(query, result, packed, weights, q_l1, task, step, sid, scale, heads, batch):
        """The queries of a task to the cube core, by way of the place of results and the next place of weights."""
        rows = T.alloc_var("int32", init=rows_here(task, sid))
        T.ascend_set_flag("MTE3_MTE2", 0)
        T.ascend_wait_flag("MTE3_MTE2", 0)
        load_rows(query, packed, task, sid, 0, head_dim, heads, batch)
        T.ascend_set_flag("MTE2_V", 1)
        T.ascend_wait_flag("MTE2_V", 1)
        T.ascend_wait_flag("MTE3_V", step & 1)
        softmax.fold(rows, scale, packed, weights, step & 1)
        T.ascend_set_flag("V_MTE3", step & 1)
        T.ascend_wait_flag("V_MTE3", step & 1)
        wait("PIPE_MTE3", QUERY_FREE)
        T.evaluate(
            T.ascend_nd2nz_post_copy(
                q_l1[sid * half, 0], weights[step & 1, 0], half, head_dim, queries, TYPES[plan.dtype]
            )
        )
        T.ascend_set_flag("MTE3_V", step & 1)
        arrive("PIPE_MTE3", QUERY_READY)

    @T.macro
    def finish(out, totals, result, packed, verdicts, task, turn, sid, heads, batch):
        """Divides and stores the result of a task."""
        rows = T.alloc_var("int32", init=rows_here(task, sid))
        wait("PIPE_V", RESULT_READY)
        softmax.divide(rows, totals, turn, result, packed, verdicts)
        T.ascend_set_flag("V_MTE3", 2)
        T.ascend_wait_flag("V_MTE3", 2)
        store_rows(packed, out, task, sid, heads, batch)

    @T.macro
    def report(status, verdicts, task, turn, sid):
        """Whether a task must be done again, for all cores of the group."""
        which = T.alloc_var("int32", init=2 * task + sid)
        T.copy(verdicts[turn * GROUPS : turn * GROUPS + GROUPS], status[which, 0:GROUPS])

    @T.macro
    def sweep(
        query, rel_h, rel_w, out, status, scores, weights, wide, tall, staged_h, staged_w, sums, tops, totals,
        verdicts, result, packed, p_l1, q_l1, first, count, sid, scale, heads, batch,
    ):  # fmt: skip
        """Tasks ``first``, ``first + cores`` and so on, with references from their first blocks."""
        if plan.folded:
            if count > 0:
                send_query(query, result, packed, weights, q_l1, first, 0, sid, scale, heads, batch)
        for turn in T.serial(count):
            task = T.alloc_var("int32", init=first + turn * cores)
            rows = T.alloc_var("int32", init=rows_here(task, sid))
            stage(rel_h, rel_w, staged_h, staged_w, task, sid, 0, plan.grid_h, 0, plan.grid_w, heads, batch)
            if plan.grouped:
                softmax.spread(rows, staged_h, tall)
            for block in T.serial(blocks):
                step = T.alloc_var("int32", init=turn * blocks + block)
                wait("PIPE_V", SCORES_READY + (step & 1))
                T.ascend_wait_flag("MTE3_V", step & 1)
                if block == 0:
                    softmax.first_block(
                        rows, step & 1, key_count(plan, 0), scale, scores, wide, tall, staged_h, staged_w, tops, sums,
                        weights,
                    )  # fmt: skip
                    if plan.width > KEYS:
                        softmax.subtract(rows, staged_w, wide, tops)
                    if plan.grouped:
                        T.ascend_set_flag("V_MTE2", 0)
                else:
                    softmax.next_block(
                        rows, step & 1, block, first_key(plan, block), key_count(plan, block),
                        first_column(plan, block), scale, scores, wide, tall, staged_h, sums, weights,
                    )  # fmt: skip
                arrive("PIPE_V", SCORES_FREE + (step & 1))
                send(weights, p_l1, step, sid)
                if block == late:
                    if turn > 0:
                        before = T.alloc_var("int32", init=task - cores)
                        finish(out, totals, result, packed, verdicts, before, (turn - 1) & 1, sid, heads, batch)
                        report(status, verdicts, before, (turn - 1) & 1, sid)
                    if plan.folded and turn + 1 < count:
                        send_query(
                            query, result, packed, weights, q_l1, task + cores, step + 1, sid, scale, heads, batch
                        )
                    arrive("PIPE_MTE3", RESULT_FREE)
            if not plan.grouped:
                T.ascend_set_flag("V_MTE2", 0)
            softmax.add_up(rows, sums, totals, turn & 1)
            softmax.judge(rows, totals, turn & 1, tops, verdicts)
            softmax.settle(totals, turn & 1)
        if count > 0:
            last = T.alloc_var("int32", init=first + (count - 1) * cores)
            finish(out, totals, result, packed, verdicts, last, (count - 1) & 1, sid, heads, batch)
            report(status, verdicts, last, (count - 1) & 1, sid)

    @T.macro
    def check():
        """Waits until both vector cores have reported, and says so to the cube core."""
        arrive("PIPE_MTE3", CHECKED)
        T.ascend_cross_core_set_flag(1, "PIPE_MTE3", CHECKED)
        T.ascend_cross_core_wait_flag(1, "PIPE_S", CHECKED)
        T.ascend_set_flag("MTE3_S", 0)
        T.ascend_wait_flag("MTE3_S", 0)

    @T.macro
    def exact_sweep(
        query, rel_h, rel_w, out, scores, weights, wide, tall, staged_h, staged_w, sums, tops, totals, verdicts,
        result, packed, p_l1, q_l1, first, count, sid, scale, heads, batch,
    ):  # fmt: skip
        """Tasks ``first``, ``first + cores`` and so on, with the maxima over all blocks; computes all scores twice."""
        for turn in T.serial(count):
            task = T.alloc_var("int32", init=first + turn * cores)
            rows = T.alloc_var("int32", init=rows_here(task, sid))
            at_first = T.alloc_var("int32", init=2 * turn * blocks)
            if plan.folded:
                send_query(query, result, packed, weights, q_l1, task, at_first, sid, scale, heads, batch)
            arrive("PIPE_MTE3", RESULT_FREE)
            if plan.resident:
                stage(rel_h, rel_w, staged_h, staged_w, task, sid, 0, plan.grid_h, 0, plan.grid_w, heads, batch)
                softmax.widen(rows, staged_w, wide)
                if plan.grouped:
                    softmax.spread(rows, staged_h, tall)
            softmax.begin_maximum(rows, tops, sums)
            for block in T.serial(blocks):
                step = T.alloc_var("int32", init=at_first + block)
                if not plan.resident:
                    stage_block(rel_h, rel_w, staged_h, staged_w, wide, task, sid, block, rows, heads, batch)
                wait("PIPE_V", SCORES_READY + (step & 1))
                softmax.maximum(
                    rows, step & 1, block, first_key(plan, block), key_count(plan, block), first_column(plan, block),
                    scale, scores, wide, tall, staged_h, tops,
                )  # fmt: skip
                arrive("PIPE_V", SCORES_FREE + (step & 1))
                if not plan.resident:
                    T.ascend_set_flag("V_MTE2", 0)
            softmax.end_maximum(tops)
            for block in T.serial(blocks):
                step = T.alloc_var("int32", init=at_first + blocks + block)
                if not plan.resident:
                    stage_block(rel_h, rel_w, staged_h, staged_w, wide, task, sid, block, rows, heads, batch)
                wait("PIPE_V", SCORES_READY + (step & 1))
                T.ascend_wait_flag("MTE3_V", step & 1)
                softmax.exact_block(
                    rows, step & 1, block, first_key(plan, block), key_count(plan, block), first_column(plan, block),
                    scale, scores, wide, tall, staged_h, tops, sums, weights,
                )  # fmt: skip
                arrive("PIPE_V", SCORES_FREE + (step & 1))
                if not plan.resident:
                    T.ascend_set_flag("V_MTE2", 0)
                send(weights, p_l1, step, sid)
            if plan.resident:
                T.ascend_set_flag("V_MTE2", 0)
            softmax.add_up(rows, sums, totals, turn & 1)
            softmax.settle(totals, turn & 1)
            finish(out, totals, result, packed, verdicts, task, turn & 1, sid, heads, batch)

    return SimpleNamespace(begin=begin, sweep=sweep, check=check, exact_sweep=exact_sweep, end=end)
