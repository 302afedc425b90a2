# mypy: disable-error-code="misc,valid-type,no-untyped-def,untyped-decorator"
"""Ascend, the cube core: two products for each block of keys, the second one two blocks behind the first."""

from __future__ import annotations

from types import SimpleNamespace

import tilelang.ascend.language as T

from tilevl.attn_rel_h_rel_w.kernels.ascend_plan import KEYS, Plan
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
    key_count,
)

_LAG = 2  # steps between the products, so that the vector cores always have scores to go on with
_OTHER = 16  # added to the flags of the second vector core


def cube_macros(plan: Plan) -> SimpleNamespace:
    """What the cube core does: ``begin``, ``sweep``, ``checked`` and ``end``.

    ``m`` holds the tensors and buffers of the program.
    """
    queries, half, head_dim, blocks = plan.queries, plan.half, plan.head_dim, plan.blocks
    places = plan.places
    p_free, q_free = 2 * places, 2 * places + 1  # flags of L0A, behind those of L0B: places of keys, then of values
    small = queries // 16 * (head_dim // 16) < 10  # multiplies that add to so small a result wait for each other
    lag = min(_LAG, blocks)  # no more: the queries of a task come after the result of the last but one
    copies = copy_macros(plan)

    @T.macro
    def arrive(pipe, flag):
        T.ascend_cross_core_set_flag(4, pipe, flag)
        T.ascend_cross_core_set_flag(4, pipe, flag + _OTHER)

    @T.macro
    def wait(pipe, flag):
        T.ascend_cross_core_wait_flag(4, pipe, flag)
        T.ascend_cross_core_wait_flag(4, pipe, flag + _OTHER)

    @T.macro
    def begin(m):
        """Every place is free, and holds numbers where a short block leaves some of it as it is."""
        for place in T.unroll(2, explicit=True):
            if plan.short:
                T.fill(m.k_l1[place, 0:KEYS, 0:head_dim], 0)
                T.fill(m.v_l1[place, 0:KEYS, 0:head_dim], 0)
            T.ascend_set_flag("MTE1_MTE2", 1 + place)
            T.ascend_set_flag("MTE1_MTE2", 3 + place)
            T.ascend_set_flag("FIX_M", place)
            arrive("PIPE_MTE1", WEIGHTS_FREE + place)
        for sub in T.unroll(plan.twins, explicit=True):
            if plan.folded:
                arrive("PIPE_MTE1", QUERY_FREE)
            else:
                T.fill(m.q_l1[sub * queries : (sub + 1) * queries, 0:head_dim], 0)
        if not plan.folded:
            T.ascend_set_flag("MTE1_MTE2", 0)
        for slot in T.unroll(plan.slots, explicit=True):
            T.ascend_set_flag("FIX_M", 2 + slot)
        T.ascend_pipe_barrier("PIPE_MTE2")
        for flag in T.unroll(q_free + 1, explicit=True):
            T.ascend_set_flag("M_MTE1", flag)

    @T.macro
    def end():
        for place in T.unroll(2, explicit=True):
            T.ascend_wait_flag("MTE1_MTE2", 1 + place)
            T.ascend_wait_flag("MTE1_MTE2", 3 + place)
            T.ascend_wait_flag("FIX_M", place)
            wait("PIPE_FIX", SCORES_FREE + place)
        if not plan.folded:
            T.ascend_wait_flag("MTE1_MTE2", 0)
        for slot in T.unroll(plan.slots, explicit=True):
            T.ascend_wait_flag("FIX_M", 2 + slot)
        for flag in T.unroll(q_free + 1, explicit=True):
            T.ascend_wait_flag("M_MTE1", flag)

    @T.macro
    def load_query(m, tile, twins):
        """The queries of a task, to L0A."""
        if not plan.folded:
            T.ascend_wait_flag("MTE1_MTE2", 0)
            for side in T.unroll(2 * twins, explicit=True):
                copies.load_rows(m, m.query, m.q_l1, side * half, tile + side // 2, side % 2, 0, head_dim)
            T.ascend_set_flag("MTE2_MTE1", 0)
            T.ascend_wait_flag("MTE2_MTE1", 0)
        T.ascend_wait_flag("M_MTE1", q_free)
        for sub in T.unroll(twins, explicit=True):
            if plan.folded:
                wait("PIPE_MTE1", QUERY_READY)
            T.copy(m.q_l1[sub * queries : (sub + 1) * queries, 0:head_dim], m.q_l0[sub, 0:queries, 0:head_dim])
            if plan.folded:
                arrive("PIPE_MTE1", QUERY_FREE)
        if not plan.folded:
            T.ascend_set_flag("MTE1_MTE2", 0)

    @T.macro
    def first_product(m, tile, block, step, turn, sub, twins, opens, closes):
        """The scores of a block, to both vector cores; ``turn`` counts loads of keys."""
        l0 = turn & 1 if places == 2 else 0
        if sub == 0:
            T.ascend_wait_flag("MTE1_MTE2", 1 + (turn & 1))
            copies.load_keys(m, m.key, m.k_l1, turn & 1, tile, block)
            T.ascend_set_flag("MTE2_MTE1", 1 + (turn & 1))
            if opens:
                load_query(m, tile, twins)
            T.ascend_wait_flag("MTE2_MTE1", 1 + (turn & 1))
            T.ascend_wait_flag("M_MTE1", l0)
            T.copy(m.k_l1[turn & 1, 0:KEYS, 0:head_dim], m.k_l0[l0, 0:KEYS, 0:head_dim])
            T.ascend_set_flag("MTE1_MTE2", 1 + (turn & 1))
            T.ascend_set_flag("MTE1_M", l0)
            T.ascend_wait_flag("MTE1_M", l0)
        T.ascend_wait_flag("FIX_M", step & 1)
        T.gemm(
            m.q_l0[sub, 0:queries, 0:head_dim], m.k_l0[l0, 0:KEYS, 0:head_dim], m.s_l0[step & 1, 0:queries, 0:KEYS],
            transpose_B=True, clear_accum=True,
        )  # fmt: skip
        if sub == twins - 1:
            T.ascend_set_flag("M_MTE1", l0)
            if closes:
                T.ascend_set_flag("M_MTE1", q_free)
        T.ascend_set_flag("M_FIX", step & 1)
        T.ascend_wait_flag("M_FIX", step & 1)
        wait("PIPE_FIX", SCORES_FREE + (step & 1))
        T.dual_copy(m.s_l0[step & 1, 0:queries, 0:KEYS], m.scores[step & 1, 0:half, 0:KEYS])
        T.ascend_set_flag("FIX_M", step & 1)
        arrive("PIPE_FIX", SCORES_READY + (step & 1))

    @T.macro
    def second_product(m, tile, block, step, turn, sub, twins, slot):
        """Adds what a block gives to the result, and hands it over after the last one."""
        l0 = turn & 1 if places == 2 else 0
        count = T.alloc_var("int32", init=key_count(plan, block))
        T.assume(count > 0)
        T.assume(count <= KEYS)
        if sub == 0:
            T.ascend_wait_flag("MTE1_MTE2", 3 + (turn & 1))
            copies.load_keys(m, m.value, m.v_l1, turn & 1, tile, block)
            T.ascend_set_flag("MTE2_MTE1", 3 + (turn & 1))
        T.ascend_wait_flag("M_MTE1", p_free)
        wait("PIPE_MTE1", WEIGHTS_READY + (step & 1))
        T.copy(m.p_l1[step & 1, 0:queries, 0:KEYS], m.p_l0)
        arrive("PIPE_MTE1", WEIGHTS_FREE + (step & 1))
        if sub == 0:
            T.ascend_wait_flag("MTE2_MTE1", 3 + (turn & 1))
            T.ascend_wait_flag("M_MTE1", places + l0)
            T.copy(m.v_l1[turn & 1, 0:KEYS, 0:head_dim], m.v_l0[l0, 0:KEYS, 0:head_dim])
            T.ascend_set_flag("MTE1_MTE2", 3 + (turn & 1))
        T.ascend_set_flag("MTE1_M", 2 + l0)
        T.ascend_wait_flag("MTE1_M", 2 + l0)
        if block == 0:
            T.ascend_wait_flag("FIX_M", 2 + (slot & (plan.slots - 1)))
        if small:
            T.ascend_pipe_barrier("PIPE_M")
        T.gemm(
            m.p_l0[0:queries, 0:count], m.v_l0[l0, 0:count, 0:head_dim], m.o_l0[slot, 0:queries, 0:head_dim],
            clear_accum=(block == 0),
        )  # fmt: skip
        T.ascend_set_flag("M_MTE1", p_free)
        if sub == twins - 1:
            T.ascend_set_flag("M_MTE1", places + l0)
        if block == blocks - 1:
            T.ascend_set_flag("M_FIX", 2 + (slot & (plan.slots - 1)))
            T.ascend_wait_flag("M_FIX", 2 + (slot & (plan.slots - 1)))
            wait("PIPE_FIX", RESULT_FREE)
            T.dual_copy(m.o_l0[slot, 0:queries, 0:head_dim], m.result)
            T.ascend_set_flag("FIX_M", 2 + (slot & (plan.slots - 1)))
            arrive("PIPE_FIX", RESULT_READY)

    @T.macro
    def sweep(m, first, stride, count, twins, passes):
        """``count`` tasks: tile ``first`` (and its twin), ``first + stride`` and so on.

        Of two passes the first has the first product only.
        """
        steps = T.alloc_var("int32", init=count * passes * blocks * twins)
        for step in T.serial(steps + lag):
            if step < steps:
                turn = T.alloc_var("int32", init=T.truncdiv(step, twins))
                sub = T.alloc_var("int32", init=T.truncmod(step, twins))
                part = T.alloc_var("int32", init=T.truncmod(turn, passes * blocks))
                tile = T.alloc_var("int32", init=first + T.truncdiv(turn, passes * blocks) * stride)
                first_product(
                    m, tile, T.truncmod(turn, blocks), step, turn, sub, twins, part == 0, part == passes * blocks - 1
                )
            if step >= lag:
                late = T.alloc_var("int32", init=step - lag)
                late_turn = T.alloc_var("int32", init=T.truncdiv(late, twins))
                late_sub = T.alloc_var("int32", init=T.truncmod(late, twins))
                task = T.alloc_var("int32", init=T.truncdiv(late_turn, passes * blocks))
                if passes == 1 or T.truncmod(late_turn, passes * blocks) >= (passes - 1) * blocks:
                    second_product(
                        m, first + task * stride, T.truncmod(late_turn, blocks), late, late_turn, late_sub, twins,
                        (task & 1) * twins + late_sub,
                    )  # fmt: skip

    @T.macro
    def checked():
        """Waits until both vector cores have reported on all tasks."""
        wait("PIPE_S", CHECKED)

    return SimpleNamespace(begin=begin, sweep=sweep, checked=checked, end=end)
