# mypy: disable-error-code="misc,valid-type,no-untyped-def,untyped-decorator"
"""Ascend, the cube core: two products for each block of keys, the second one two blocks behind the first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import tilelang.ascend.language as T

from tilevl.attn_rel_h_rel_w.kernels.ascend_plan import KEYS, Plan

LAG = 2  # blocks between the products, so that the vector cores always have scores to go on with

# Flags between the cube core and a vector core. The cube core adds _OTHER for the second one.
SCORES_READY, SCORES_FREE, WEIGHTS_READY, WEIGHTS_FREE = 0, 2, 4, 6  # each for two places
RESULT_READY, RESULT_FREE, QUERY_READY, QUERY_FREE, CHECKED = 8, 9, 10, 11, 12
_OTHER = 16


def cube_macros(plan: Plan, cores: int) -> SimpleNamespace:
    """What the cube core does: ``begin``, ``sweep``, ``checked`` and ``end``."""
    queries, head_dim, blocks, tokens = plan.queries, plan.head_dim, plan.blocks, plan.tokens
    places = 2 if head_dim <= 64 else 1  # in L0B, of keys and of values
    later_v = places  # flags of L0B: places of keys, then of values
    small = queries // 16 * (head_dim // 16) < 10  # multiplies that add to so small a result wait for each other
    p_free, q_free = 2 * places, 2 * places + 1

    @T.macro
    def arrive(pipe, flag):
        T.ascend_cross_core_set_flag(4, pipe, flag)
        T.ascend_cross_core_set_flag(4, pipe, flag + _OTHER)

    @T.macro
    def wait(pipe, flag):
        T.ascend_cross_core_wait_flag(4, pipe, flag)
        T.ascend_cross_core_wait_flag(4, pipe, flag + _OTHER)

    @T.macro
    def begin(k_l1, v_l1, q_l1):
        """Every place is free, and holds numbers."""
        for place in T.unroll(2, explicit=True):
            if plan.short:
                T.fill(k_l1[place, 0:KEYS, 0:head_dim], 0)
                T.fill(v_l1[place, 0:KEYS, 0:head_dim], 0)
            T.ascend_set_flag("MTE1_MTE2", 1 + place)
            T.ascend_set_flag("MTE1_MTE2", 3 + place)
            T.ascend_set_flag("FIX_M", place)
            T.ascend_set_flag("FIX_M", 2 + place)
            arrive("PIPE_MTE1", WEIGHTS_FREE + place)
        if plan.folded:
            arrive("PIPE_MTE1", QUERY_FREE)
        else:
            T.fill(q_l1, 0)
            T.ascend_set_flag("MTE1_MTE2", 0)
        T.ascend_pipe_barrier("PIPE_MTE2")
        for flag in T.unroll(q_free + 1, explicit=True):
            T.ascend_set_flag("M_MTE1", flag)

    @T.macro
    def end():
        for place in T.unroll(2, explicit=True):
            T.ascend_wait_flag("MTE1_MTE2", 1 + place)
            T.ascend_wait_flag("MTE1_MTE2", 3 + place)
            T.ascend_wait_flag("FIX_M", place)
            T.ascend_wait_flag("FIX_M", 2 + place)
            wait("PIPE_FIX", SCORES_FREE + place)
        if not plan.folded:
            T.ascend_wait_flag("MTE1_MTE2", 0)
        for flag in T.unroll(q_free + 1, explicit=True):
            T.ascend_wait_flag("M_MTE1", flag)

    @T.macro
    def load_keys(source, into, task, block, place, heads, batch):
        """The rows of a block of keys or values, from global memory."""
        which = T.alloc_var("int32", init=T.truncdiv(task, plan.tiles))
        b = T.alloc_var("int64", init=T.int64(T.truncdiv(which, T.int32(heads))))
        n = T.alloc_var("int64", init=T.int64(T.truncmod(which, T.int32(heads))))
        first = T.alloc_var("int32", init=first_key(plan, block))
        count = T.alloc_var("int32", init=key_count(plan, block))
        T.assume(b >= 0)
        T.assume(b < batch)
        T.assume(n >= 0)
        T.assume(n < heads)
        T.assume(first >= 0)
        T.assume(count > 0)
        T.assume(count <= KEYS)
        T.assume(first + count <= tokens)
        T.copy(source[b, first : first + count, n, 0:head_dim], into[place, 0:count, 0:head_dim])

    @T.macro
    def load_query(source, into, task, side, heads, batch):
        """The queries of one vector core."""
        which = T.alloc_var("int32", init=T.truncdiv(task, plan.tiles))
        b = T.alloc_var("int64", init=T.int64(T.truncdiv(which, T.int32(heads))))
        n = T.alloc_var("int64", init=T.int64(T.truncmod(which, T.int32(heads))))
        first = T.alloc_var("int32", init=first_query(plan, task, side))
        count = T.alloc_var("int32", init=T.min(tokens - first, plan.share))
        if count > 0:
            T.assume(b >= 0)
            T.assume(b < batch)
            T.assume(n >= 0)
            T.assume(n < heads)
            T.assume(first >= 0)
            T.assume(count <= plan.share)
            T.assume(first + count <= tokens)
            T.copy(
                source[b, first : first + count, n, 0:head_dim],
                into[side * plan.half : side * plan.half + count, 0:head_dim],
            )

    @T.macro
    def first_product(
        query, key, q_l1, k_l1, q_l0, k_l0, s_l0, scores, task, block, step, opens, closes, heads, batch
    ):
        l0 = step & 1 if places == 2 else 0
        T.ascend_wait_flag("MTE1_MTE2", 1 + (step & 1))
        load_keys(key, k_l1, task, block, step & 1, heads, batch)
        T.ascend_set_flag("MTE2_MTE1", 1 + (step & 1))
        if opens:
            if plan.folded:
                wait("PIPE_MTE1", QUERY_READY)
            else:
                T.ascend_wait_flag("MTE1_MTE2", 0)
                for side in T.unroll(2, explicit=True):
                    load_query(query, q_l1, task, side, heads, batch)
                T.ascend_set_flag("MTE2_MTE1", 0)
                T.ascend_wait_flag("MTE2_MTE1", 0)
            T.ascend_wait_flag("M_MTE1", q_free)
            T.copy(q_l1, q_l0)
            if plan.folded:
                arrive("PIPE_MTE1", QUERY_FREE)
            else:
                T.ascend_set_flag("MTE1_MTE2", 0)
        T.ascend_wait_flag("MTE2_MTE1", 1 + (step & 1))
        T.ascend_wait_flag("M_MTE1", l0)
        T.copy(k_l1[step & 1, 0:KEYS, 0:head_dim], k_l0[l0, 0:KEYS, 0:head_dim])
        T.ascend_set_flag("MTE1_MTE2", 1 + (step & 1))
        T.ascend_set_flag("MTE1_M", l0)
        T.ascend_wait_flag("MTE1_M", l0)
        T.ascend_wait_flag("FIX_M", step & 1)
        T.gemm(
            q_l0, k_l0[l0, 0:KEYS, 0:head_dim], s_l0[step & 1, 0:queries, 0:KEYS], transpose_B=True, clear_accum=True
        )
        T.ascend_set_flag("M_MTE1", l0)
        if closes:
            T.ascend_set_flag("M_MTE1", q_free)
        T.ascend_set_flag("M_FIX", step & 1)
        T.ascend_wait_flag("M_FIX", step & 1)
        wait("PIPE_FIX", SCORES_FREE + (step & 1))
        T.dual_copy(s_l0[step & 1, 0:queries, 0:KEYS], scores[step & 1, 0 : queries // 2, 0:KEYS])
        T.ascend_set_flag("FIX_M", step & 1)
        arrive("PIPE_FIX", SCORES_READY + (step & 1))

    @T.macro
    def second_product(value, v_l1, v_l0, p_l1, p_l0, o_l0, result, task, block, step, turn, heads, batch):
        l0 = step & 1 if places == 2 else 0
        count = T.alloc_var("int32", init=key_count(plan, block))
        T.assume(count > 0)
        T.assume(count <= KEYS)
        T.ascend_wait_flag("MTE1_MTE2", 3 + (step & 1))
        load_keys(value, v_l1, task, block, step & 1, heads, batch)
        T.ascend_set_flag("MTE2_MTE1", 3 + (step & 1))
        T.ascend_wait_flag("M_MTE1", p_free)
        wait("PIPE_MTE1", WEIGHTS_READY + (step & 1))
        T.copy(p_l1[step & 1, 0:queries, 0:KEYS], p_l0)
        arrive("PIPE_MTE1", WEIGHTS_FREE + (step & 1))
        T.ascend_wait_flag("MTE2_MTE1", 3 + (step & 1))
        T.ascend_wait_flag("M_MTE1", later_v + l0)
        T.copy(v_l1[step & 1, 0:KEYS, 0:head_dim], v_l0[l0, 0:KEYS, 0:head_dim])
        T.ascend_set_flag("MTE1_MTE2", 3 + (step & 1))
        T.ascend_set_flag("MTE1_M", 2 + l0)
        T.ascend_wait_flag("MTE1_M", 2 + l0)
        if block == 0:
            T.ascend_wait_flag("FIX_M", 2 + (turn & 1))
        if small:
            T.ascend_pipe_barrier("PIPE_M")
        T.gemm(
            p_l0[0:queries, 0:count], v_l0[l0, 0:count, 0:head_dim], o_l0[turn & 1, 0:queries, 0:head_dim],
            clear_accum=(block == 0),
        )  # fmt: skip
        T.ascend_set_flag("M_MTE1", p_free)
        T.ascend_set_flag("M_MTE1", later_v + l0)
        if block == blocks - 1:
            T.ascend_set_flag("M_FIX", 2 + (turn & 1))
            T.ascend_wait_flag("M_FIX", 2 + (turn & 1))
            wait("PIPE_FIX", RESULT_FREE)
            T.dual_copy(o_l0[turn & 1, 0:queries, 0:head_dim], result)
            T.ascend_set_flag("FIX_M", 2 + (turn & 1))
            arrive("PIPE_FIX", RESULT_READY)

    @T.macro
    def sweep(
        query, key, value, q_l1, k_l1, v_l1, p_l1, q_l0, k_l0, v_l0, p_l0, s_l0, o_l0, scores, result,
        first, count, passes, heads, batch,
    ):  # fmt: skip
        """Tasks ``first``, ``first + cores`` and so on; of two passes the first has the first product only."""
        steps = T.alloc_var("int32", init=count * passes * blocks)
        for step in T.serial(steps + LAG):
            if step < steps:
                task = T.alloc_var("int32", init=first + T.truncdiv(step, passes * blocks) * cores)
                block = T.alloc_var("int32", init=T.truncmod(step, blocks))
                part = T.alloc_var("int32", init=T.truncmod(step, passes * blocks))
                first_product(
                    query, key, q_l1, k_l1, q_l0, k_l0, s_l0, scores, task, block, step, part == 0,
                    part == passes * blocks - 1, heads, batch,
                )  # fmt: skip
            if step >= LAG:
                late = T.alloc_var("int32", init=step - LAG)
                if passes == 1 or T.truncmod(late, passes * blocks) >= (passes - 1) * blocks:
                    second_product(
                        value, v_l1, v_l0, p_l1, p_l0, o_l0, result,
                        first + T.truncdiv(late, passes * blocks) * cores, T.truncmod(late, blocks), late,
                        T.truncdiv(late, passes * blocks), heads, batch,
                    )  # fmt: skip

    @T.macro
    def checked():
        """Waits until both vector cores have reported on all tasks."""
        wait("PIPE_S", CHECKED)

    return SimpleNamespace(begin=begin, sweep=sweep, checked=checked, end=end)


def first_query(plan: Plan, task: Any, side: Any) -> Any:
    """The first query of a vector core in a task, as an expression."""
    return (T.truncmod(task, plan.tiles) * 2 + side) * plan.share


def first_key(plan: Plan, block: Any) -> Any:
    """The first key of a block, as an expression."""
    if plan.pieces > 1:
        return T.truncdiv(block, plan.pieces) * plan.grid_w + T.truncmod(block, plan.pieces) * KEYS
    return block * plan.keys


def key_count(plan: Plan, block: Any) -> Any:
    """The keys of a block, as an expression."""
    if plan.pieces > 1:
        return T.min(plan.grid_w - T.truncmod(block, plan.pieces) * KEYS, KEYS)
    return T.min(plan.tokens - block * plan.keys, plan.keys)


def first_column(plan: Plan, block: Any) -> Any:
    """The column of the widened table where a block starts, as an expression."""
    return T.truncmod(block * KEYS, plan.grid_w) if plan.flows else 0
