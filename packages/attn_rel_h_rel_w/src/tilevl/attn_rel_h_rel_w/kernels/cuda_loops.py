# mypy: disable-error-code="misc,valid-type,no-untyped-def,untyped-decorator"
"""How a warpgroup of the Hopper program goes through the tiles of keys of a turn: fast, or exactly."""

from typing import Any

import tilelang.language as T

from tilevl.attn_rel_h_rel_w.kernels.cuda_loads import WARP
from tilevl.attn_rel_h_rel_w.kernels.cuda_plans import Plan
from tilevl.attn_rel_h_rel_w.kernels.cuda_softmax import Softmax

WARPGROUP = 128
_FIRST_BARRIER = 2  # on which the first of two warpgroups waits to multiply; the second, on the next


@T.macro
def release(empty, which, thread):
    """A warp is done with a slot or a stage."""
    if thread % WARP == 0:
        T.barrier_arrive(empty[which])


@T.macro
def hand_over(thread, workers):
    """A warpgroup lets the other one multiply."""
    T.named_barrier_arrive(_FIRST_BARRIER + 1 - thread // WARPGROUP, workers)


def loops_of(plan: Plan, softmax: Softmax) -> tuple[Any, Any]:
    """The loop that keeps the first tile's reference, and the one that raises it.

    Both take how many tiles came before, the slot, tiles and barriers in shared memory, registers, thread and scale.
    """
    tiles, down, stages, pieces, keys = plan.tiles, plan.down, plan.stages, plan.pieces, plan.keys
    workers = WARPGROUP * plan.warpgroups
    full_row = T.GemmWarpPolicy.FullRow

    @T.macro
    def multiply_keys(g, s, q_tiles, k_tiles, k_full, scores):
        T.mbarrier_wait_parity(k_full[g % stages], g // stages % 2)
        for q_tile, k_tile, (first, _) in zip(q_tiles, k_tiles, pieces):
            T.wgmma_gemm(
                q_tile[s, :, :],
                k_tile[g % stages, :, :],
                scores,
                transpose_B=True,
                policy=full_row,
                clear_accum=first == 0,
            )

    @T.macro
    def multiply_values(g, v_tiles, weights, results):
        for v_tile, result in zip(v_tiles, results):
            T.wgmma_gemm(weights, v_tile[g % stages, :, :], result, policy=full_row)

    @T.macro
    def await_values(g, v_full):
        T.mbarrier_wait_parity(v_full[g % stages], g // stages % 2)

    @T.macro
    def next_columns(j, s, w_tile, state):
        if plan.parts > 1:
            if j % down == 0:
                softmax.take_columns(j // down, s, w_tile, state[0])

    @T.macro
    def overlapped(start, s, in_shared, barriers, registers, thread, scale):
        """By turns: one warpgroup multiplies a tile's scores, and values of the one before, while the other weighs."""
        q_tiles, k_tiles, v_tiles, h_tile, w_tile = in_shared
        k_full, k_empty, v_full, v_empty = barriers
        scores, weights, results, state = registers
        multiply_keys(start, s, q_tiles, k_tiles, k_full, scores)
        T.wait_wgmma(0)
        release(k_empty, start % stages, thread)
        softmax.refer(s, h_tile, scores, state, scale)
        await_values(start, v_full)
        T.copy(scores, weights)
        for j in T.serial(1, tiles):
            next_columns(j, s, w_tile, state)
            T.sync_threads(_FIRST_BARRIER + thread // WARPGROUP, workers)
            multiply_keys(start + j, s, q_tiles, k_tiles, k_full, scores)
            multiply_values(start + j - 1, v_tiles, weights, results)
            hand_over(thread, workers)
            T.wait_wgmma(len(pieces))
            release(k_empty, (start + j) % stages, thread)
            softmax.weigh(j, s, h_tile, scores, state, scale)
            T.warpgroup_fence_operand(scores, num_regs=keys // 2)
            await_values(start + j, v_full)  # a branch: what is before it isn't put off until the products are done
            T.wait_wgmma(0)
            release(v_empty, (start + j - 1) % stages, thread)
            T.copy(scores, weights)
        multiply_values(start + tiles - 1, v_tiles, weights, results)
        T.wait_wgmma(0)
        release(v_empty, (start + tiles - 1) % stages, thread)

    @T.macro
    def in_order(rising, start, s, in_shared, barriers, registers, thread, scale):
        q_tiles, k_tiles, v_tiles, h_tile, w_tile = in_shared
        k_full, k_empty, v_full, v_empty = barriers
        scores, weights, results, state = registers
        for j in T.serial(tiles):
            next_columns(j, s, w_tile, state)
            multiply_keys(start + j, s, q_tiles, k_tiles, k_full, scores)
            T.wait_wgmma(0)
            release(k_empty, (start + j) % stages, thread)
            if rising:
                softmax.raise_reference(j, s, h_tile, scores, results, state, scale)
            else:
                if j == 0:
                    softmax.refer(s, h_tile, scores, state, scale)
                else:
                    softmax.weigh(j, s, h_tile, scores, state, scale)
            T.copy(scores, weights)
            await_values(start + j, v_full)
            multiply_values(start + j, v_tiles, weights, results)
            T.wait_wgmma(0)
            release(v_empty, (start + j) % stages, thread)

    @T.macro
    def fast(start, s, in_shared, barriers, registers, thread, scale):
        if plan.overlapped:
            overlapped(start, s, in_shared, barriers, registers, thread, scale)
        else:
            in_order(False, start, s, in_shared, barriers, registers, thread, scale)

    @T.macro
    def exact(start, s, in_shared, barriers, registers, thread, scale):
        in_order(True, start, s, in_shared, barriers, registers, thread, scale)

    return fast, exact
