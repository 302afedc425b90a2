# mypy: disable-error-code="misc,valid-type,no-untyped-def,untyped-decorator"
"""Ascend, a vector core: tables in, softmax for each block of keys, results out."""

from __future__ import annotations

from types import SimpleNamespace

import tilelang.ascend.language as T

from tilevl.attn_rel_h_rel_w.kernels.ascend_plan import GROUPS, KEYS, Plan
from tilevl.attn_rel_h_rel_w.kernels.ascend_softmax import softmax_macros
from tilevl.attn_rel_h_rel_w.kernels.ascend_tasks import (
    CHECKED,
    QUERY_FREE,
    QUERY_READY,
    RESULT_FREE,
    RESULT_READY,
    SCORES_FREE,
    SCORES_READY,
    WEIGHTS_FREE,
    WEIGHTS_READY,
    copy_macros,
    query_count,
)

_TYPES = {"bfloat16": "bfloat16_t", "float16": "half"}


def vector_macros(plan: Plan) -> SimpleNamespace:
    """What a vector core does: ``begin``, ``sweep``, ``check``, ``exact`` and ``end``.

    ``m`` holds the tensors and buffers of the program, ``m.sid`` which of the two vector cores this is.
    """
    half, queries, blocks, head_dim = plan.half, plan.queries, plan.blocks, plan.head_dim
    softmax, copies = softmax_macros(plan), copy_macros(plan)
    twins, chunk = plan.twins, plan.chunk
    late = min(1, blocks - 1)  # the block after which the result of the task before is there
    last_use = (blocks - 1) // chunk * chunk if plan.grouped else blocks - 1  # of the staged tables

    @T.macro
    def arrive(pipe, flag):
        T.ascend_cross_core_set_flag(4, pipe, flag)

    @T.macro
    def wait(pipe, flag):
        T.ascend_cross_core_wait_flag(4, pipe, flag)

    @T.macro
    def begin(m):
        softmax.clear(m)
        for place in T.unroll(2, explicit=True):
            arrive("PIPE_V", SCORES_FREE + place)
            T.ascend_set_flag("MTE3_V", place)
        for slot in T.unroll(plan.slots, explicit=True):
            T.ascend_set_flag("MTE3_V", 2 + slot)
        T.ascend_set_flag("V_MTE2", 0)

    @T.macro
    def end():
        for place in T.unroll(2, explicit=True):
            wait("PIPE_MTE3", WEIGHTS_FREE + place)
            T.ascend_wait_flag("MTE3_V", place)
        if plan.folded:
            for _ in T.unroll(twins, explicit=True):
                wait("PIPE_MTE3", QUERY_FREE)
        for slot in T.unroll(plan.slots, explicit=True):
            T.ascend_wait_flag("MTE3_V", 2 + slot)
        T.ascend_wait_flag("V_MTE2", 0)

    @T.macro
    def stage(m, tile, many, h_at, h_count, w_at, w_count):
        """A piece of both tables for the queries of this core in ``many`` tiles."""
        T.ascend_wait_flag("V_MTE2", 0)
        for sub in T.unroll(many, explicit=True):
            copies.load_rows(m, m.rel_h, m.staged_h, sub * half, tile + sub, m.sid, h_at, h_count)
            copies.load_rows(m, m.rel_w, m.staged_w, sub * half, tile + sub, m.sid, w_at, w_count)
        T.ascend_set_flag("MTE2_V", 0)
        T.ascend_wait_flag("MTE2_V", 0)

    @T.macro
    def stage_block(m, tile, block, rows):
        """The tables' piece for a block, where they aren't resident."""
        if plan.pieces > 1:
            at = T.alloc_var("int32", init=T.truncmod(block, plan.pieces) * KEYS)
            width = T.alloc_var("int32", init=T.min(plan.grid_w - at, KEYS))
            row = T.alloc_var("int32", init=T.truncdiv(block, plan.pieces))
            stage(m, tile, 1, row, 1, at, width)
        else:
            first = T.alloc_var("int32", init=block * plan.rows)
            high = T.alloc_var("int32", init=T.min(plan.grid_h - first, plan.rows))
            stage(m, tile, 1, first, high, 0, plan.grid_w)
        softmax.widen(m, 0, rows)

    @T.macro
    def send(m, step):
        """The weights of a block to the cube core."""
        T.ascend_set_flag("V_MTE3", step & 1)
        T.ascend_wait_flag("V_MTE3", step & 1)
        wait("PIPE_MTE3", WEIGHTS_FREE + (step & 1))
        T.evaluate(
            T.ascend_nd2nz_post_copy(
                m.p_l1[step & 1, m.sid * half, 0], m.weights[step & 1, 0], half, KEYS, queries, _TYPES[plan.dtype]
            )
        )
        T.ascend_set_flag("MTE3_V", step & 1)
        arrive("PIPE_MTE3", WEIGHTS_READY + (step & 1))

    @T.macro
    def send_query(m, tile, step, sub):
        """The queries of a tile to the cube core, by way of the place of results and the next place of weights."""
        rows = T.alloc_var("int32", init=query_count(plan, tile, m.sid))
        T.ascend_set_flag("MTE3_MTE2", 0)
        T.ascend_wait_flag("MTE3_MTE2", 0)
        copies.load_rows(m, m.query, m.packed, 0, tile, m.sid, 0, head_dim)
        T.ascend_set_flag("MTE2_V", 1)
        T.ascend_wait_flag("MTE2_V", 1)
        T.ascend_wait_flag("MTE3_V", step & 1)
        softmax.fold(m, rows, step & 1)
        T.ascend_set_flag("V_MTE3", step & 1)
        T.ascend_wait_flag("V_MTE3", step & 1)
        wait("PIPE_MTE3", QUERY_FREE)
        T.evaluate(
            T.ascend_nd2nz_post_copy(
                m.q_l1[sub * queries + m.sid * half, 0],
                m.weights[step & 1, 0],
                half,
                head_dim,
                twins * queries,
                _TYPES[plan.dtype],
            )
        )
        T.ascend_set_flag("MTE3_V", step & 1)
        arrive("PIPE_MTE3", QUERY_READY)

    @T.macro
    def finish(m, tile, slot):
        """Divides and stores the result of a tile."""
        rows = T.alloc_var("int32", init=query_count(plan, tile, m.sid))
        wait("PIPE_V", RESULT_READY)
        softmax.divide(m, rows, slot)
        T.ascend_set_flag("V_MTE3", 2)
        T.ascend_wait_flag("V_MTE3", 2)
        copies.store_rows(m, m.packed, m.out, tile, m.sid)

    @T.macro
    def report(m, tile, slot):
        """Whether a tile must be done again, for all cores of the group."""
        which = T.alloc_var("int32", init=2 * tile + m.sid)
        T.copy(m.verdicts[slot * GROUPS : slot * GROUPS + GROUPS], m.status[which, 0:GROUPS])
        T.ascend_set_flag("MTE3_V", 2 + (slot & (plan.slots - 1)))

    @T.macro
    def weigh(m, sub, tile, block, step, slot):
        """Weights of a block for one tile."""
        rows = T.alloc_var("int32", init=query_count(plan, tile, m.sid))
        if plan.grouped:
            if T.truncmod(block, chunk) == 0:
                softmax.spread(m, sub, rows, block)
        wait("PIPE_V", SCORES_READY + (step & 1))
        T.ascend_wait_flag("MTE3_V", step & 1)
        if block == 0:
            softmax.first_block(m, sub, rows, step & 1, slot)
            if plan.width > KEYS:
                softmax.subtract(m, sub, rows)
        else:
            softmax.next_block(m, sub, rows, step & 1, slot, block)
        arrive("PIPE_V", SCORES_FREE + (step & 1))
        send(m, step)
        if block == blocks - 1:
            T.ascend_wait_flag("MTE3_V", 2 + (slot & (plan.slots - 1)))
            softmax.judge(m, sub, rows, slot)
            softmax.settle(m, slot)

    @T.macro
    def sweep(m, first, stride, count):
        """``count`` tasks: tile ``first`` (and its twin), ``first + stride`` and so on.

        References come from first blocks, and the result of a task while the next one begins.
        """
        if plan.folded:
            if count > 0:
                for sub in T.unroll(twins, explicit=True):
                    send_query(m, first + sub, sub, sub)
        for turn in T.serial(count):
            tile = T.alloc_var("int32", init=first + turn * stride)
            stage(m, tile, twins, 0, plan.grid_h, 0, plan.grid_w)
            for block in T.serial(blocks):
                step = T.alloc_var("int32", init=(turn * blocks + block) * twins)
                weigh(m, 0, tile, block, step, (turn & 1) * twins)
                if block == late:
                    if turn > 0:
                        finish(m, tile - stride + twins - 1, ((turn - 1) & 1) * twins + twins - 1)
                        report(m, tile - stride + twins - 1, ((turn - 1) & 1) * twins + twins - 1)
                    if plan.folded and turn + 1 < count:
                        for sub in T.unroll(twins, explicit=True):
                            send_query(m, tile + stride + sub, step + 1 + sub, sub)
                    arrive("PIPE_MTE3", RESULT_FREE)
                if twins == 2:
                    weigh(m, 1, tile + 1, block, step + 1, (turn & 1) * twins + 1)
                    if block == 0 and turn > 0:
                        finish(m, tile - stride, ((turn - 1) & 1) * twins)
                        report(m, tile - stride, ((turn - 1) & 1) * twins)
                        arrive("PIPE_MTE3", RESULT_FREE)
                if block == last_use:
                    T.ascend_set_flag("V_MTE2", 0)
        if count > 0:
            last = T.alloc_var("int32", init=first + (count - 1) * stride)
            for sub in T.unroll(twins, explicit=True):
                finish(m, last + sub, ((count - 1) & 1) * twins + sub)
                report(m, last + sub, ((count - 1) & 1) * twins + sub)
                if sub < twins - 1:
                    arrive("PIPE_MTE3", RESULT_FREE)

    @T.macro
    def check():
        """Waits until both vector cores have reported, and says so to the cube core."""
        arrive("PIPE_MTE3", CHECKED)
        T.ascend_cross_core_set_flag(1, "PIPE_MTE3", CHECKED)
        T.ascend_cross_core_wait_flag(1, "PIPE_S", CHECKED)
        T.ascend_set_flag("MTE3_S", 0)
        T.ascend_wait_flag("MTE3_S", 0)

    @T.macro
    def exact(m, tile):
        """One tile, with the maxima over all blocks; takes all scores twice."""
        rows = T.alloc_var("int32", init=query_count(plan, tile, m.sid))
        if plan.folded:
            send_query(m, tile, 0, 0)
        arrive("PIPE_MTE3", RESULT_FREE)
        if plan.resident:
            stage(m, tile, 1, 0, plan.grid_h, 0, plan.grid_w)
            softmax.widen(m, 0, rows)
        softmax.begin_maximum(m, 0)
        for step in T.serial(2 * blocks):
            block = T.alloc_var("int32", init=T.truncmod(step, blocks))
            if not plan.resident:
                stage_block(m, tile, block, rows)
            if plan.grouped:
                if T.truncmod(block, chunk) == 0:
                    softmax.spread(m, 0, rows, block)
            wait("PIPE_V", SCORES_READY + (step & 1))
            if step < blocks:
                softmax.maximum(m, 0, rows, step & 1, block)
            else:
                T.ascend_wait_flag("MTE3_V", step & 1)
                softmax.exact_block(m, 0, rows, step & 1, block)
            arrive("PIPE_V", SCORES_FREE + (step & 1))
            if not plan.resident:
                T.ascend_set_flag("V_MTE2", 0)
            if step >= blocks:
                send(m, step)
            if step == blocks - 1:
                softmax.end_maximum(m, 0)
        if plan.resident:
            T.ascend_set_flag("V_MTE2", 0)
        softmax.settle(m, 0)
        finish(m, tile, 0)

    return SimpleNamespace(begin=begin, sweep=sweep, check=check, exact=exact, end=end)
