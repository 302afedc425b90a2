# mypy: disable-error-code="misc,valid-type,no-untyped-def,untyped-decorator"
"""CUDA, for Hopper: blocks stay, tiles come by TMA, warpgroups multiply them from shared memory and hold all else.

A turn of a block is some queries of one head with their tables, and all keys. One warp loads, this turn's tiles and
then already the next turn's, while the others multiply. A tile of keys is ``rows`` x ``columns`` of the grid, where
``columns`` is the grid's width, or a part of it, made a multiple of 8. TMA reads keys as ``[B, grid_h, grid_w, N, D]``
and fills what lies outside the grid with zeros, so that every tile has one shape. The columns' bias is then the same
for all tiles, and stays in registers in the layout of the scores. The rows' bias is one number for each query and row
of the tile, and joins the running maximum.
"""

from typing import Any

import tilelang.language as T

from tilevl.attn_rel_h_rel_w.kernels.cuda_loads import BY_HAND, TMA_UNIT, WARP, loads_of, near
from tilevl.attn_rel_h_rel_w.kernels.cuda_plans import Plan
from tilevl.attn_rel_h_rel_w.kernels.cuda_softmax import in_layout_of_scores, softmax_of

_WARPGROUP = 128
_REGISTERS = {2: 240, 3: 160}  # of a thread, by warpgroups that multiply
_LOADER_REGISTERS = 24


def attend_grid(dtype: str, plan: Plan, unit: int) -> Any:
    """The program.

    Args:
        dtype: ``bfloat16`` or ``float16``.
        plan: how the grid is cut.
        unit: elements of a table that come at once: 8 by TMA, 2 or 1 by the loading warps.
    """
    queries, keys, tiles, down, columns = plan.queries, plan.keys, plan.tiles, plan.down, plan.columns
    stages, slots, pieces, blocks = plan.stages, plan.slots, plan.pieces, plan.blocks
    tokens, grid_h, grid_w, head_dim = plan.tokens, plan.grid_h, plan.grid_w, plan.head_dim
    workers = _WARPGROUP * plan.warpgroups
    aligned = unit == TMA_UNIT
    full_row = T.GemmWarpPolicy.FullRow
    load_turn, load_tables, load_tile = loads_of(dtype, plan, unit)
    take_columns, weigh, rescale = softmax_of(plan)

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
    def release(empty, which, thread):
        if thread % WARP == 0:
            T.barrier_arrive(empty[which])

    @T.macro
    def attend_overlapped(
        start, s, q_tiles, k_tiles, v_tiles, h_tile, w_tile, q_empty, k_full, k_empty, v_full, v_empty,
        scores, weights, results, state, thread, scale,
    ):  # fmt: skip
        w_bias, _, _, _, _, factor, _ = state
        multiply_keys(start, s, q_tiles, k_tiles, k_full, scores)
        T.wait_wgmma(0)
        release(k_empty, start % stages, thread)
        weigh(0, s, h_tile, scores, state, scale)
        await_values(start, v_full)
        T.copy(scores, weights)
        for j in T.serial(1, tiles):
            if plan.parts > 1:
                if j % down == 0:
                    take_columns(j // down, s, w_tile, w_bias)
            if plan.turns:
                T.sync_threads(2 + thread // _WARPGROUP, workers)
            multiply_keys(start + j, s, q_tiles, k_tiles, k_full, scores)
            multiply_values(start + j - 1, v_tiles, weights, results)
            if plan.turns:
                T.named_barrier_arrive(3 - thread // _WARPGROUP, workers)
            T.wait_wgmma(len(pieces))
            release(k_empty, (start + j) % stages, thread)
            weigh(j, s, h_tile, scores, state, scale)
            T.warpgroup_fence_operand(scores, num_regs=keys // 2)
            await_values(start + j, v_full)  # a branch: what is before it isn't put off until the products are done
            T.wait_wgmma(0)
            release(v_empty, (start + j - 1) % stages, thread)
            rescale(results, factor)
            T.copy(scores, weights)
        release(q_empty, s, thread)
        multiply_values(start + tiles - 1, v_tiles, weights, results)
        T.wait_wgmma(0)
        release(v_empty, (start + tiles - 1) % stages, thread)

    @T.macro
    def attend_in_order(
        start, s, q_tiles, k_tiles, v_tiles, h_tile, w_tile, q_empty, k_full, k_empty, v_full, v_empty,
        scores, weights, results, state, thread, scale,
    ):  # fmt: skip
        w_bias, _, _, _, _, factor, _ = state
        for j in T.serial(tiles):
            if plan.parts > 1:
                if j % down == 0:
                    take_columns(j // down, s, w_tile, w_bias)
            multiply_keys(start + j, s, q_tiles, k_tiles, k_full, scores)
            T.wait_wgmma(0)
            release(k_empty, (start + j) % stages, thread)
            weigh(j, s, h_tile, scores, state, scale)
            rescale(results, factor)
            T.copy(scores, weights)
            await_values(start + j, v_full)
            multiply_values(start + j, v_tiles, weights, results)
            T.wait_wgmma(0)
            release(v_empty, (start + j) % stages, thread)
        release(q_empty, s, thread)

    @T.macro
    def store(o, of_token, first, results, sums, total):
        """Each result over the sum of its weights; zeros where that is zero."""
        T.reduce_sum(sums, total, dim=1)
        for i in T.Parallel(queries):
            total[i] = T.if_then_else(total[i] == 0, T.float32(0), 1 / total[i])
        for result, (d0, width) in zip(results, pieces):
            for i, d in T.Parallel(queries, width):
                if first + i < tokens:
                    o[i * of_token + d0 + d] = T.Cast(dtype, result[i, d] * total[i])

    def table(address: Any, side: int, batch: Any, heads: Any, of_batch: Any, of_token: Any, of_head: Any) -> Any:
        if aligned:
            columns_of_all_heads = (heads - 1) * of_head + side
            return T.buffer((batch, tokens, columns_of_all_heads), dtype, address, (of_batch, of_token, 1)), of_head
        return address, of_batch, of_token, of_head

    def place_of(place: Any, heads: Any) -> tuple[Any, Any, Any]:
        """Batch, head and first query of a turn."""
        return T.truncdiv(place // blocks, heads), T.truncmod(place // blocks, heads), place % blocks * queries

    def in_rows(address: Any, batch: Any, heads: Any, of_batch: Any, of_token: Any, of_head: Any) -> Any:
        strides = (of_batch, of_token * grid_w, of_token, of_head, 1)
        return T.buffer((batch, grid_h, grid_w, heads, head_dim), dtype, address, strides)

    @T.prim_func
    def attn_wgmma(
        anchor: T.Tensor((1,), "uint8"),
        query_at: T.ptr(dtype),
        query_batch: T.int64,
        query_token: T.int64,
        query_head: T.int64,
        key_at: T.ptr(dtype),
        key_batch: T.int64,
        key_token: T.int64,
        key_head: T.int64,
        value_at: T.ptr(dtype),
        value_batch: T.int64,
        value_token: T.int64,
        value_head: T.int64,
        rel_h_at: T.ptr(dtype) if aligned else T.int64,
        rel_h_batch: T.int64,
        rel_h_token: T.int64,
        rel_h_head: T.int64,
        rel_w_at: T.ptr(dtype) if aligned else T.int64,
        rel_w_batch: T.int64,
        rel_w_token: T.int64,
        rel_w_head: T.int64,
        out: T.int64,
        batch: T.int32,
        heads: T.int32,
        most_blocks: T.int32,
        scale: T.float32,
    ):
        query = T.buffer((batch, tokens, heads, head_dim), dtype, query_at, (query_batch, query_token, query_head, 1))
        key = in_rows(key_at, batch, heads, key_batch, key_token, key_head)
        value = in_rows(value_at, batch, heads, value_batch, value_token, value_head)
        rel_h = table(rel_h_at, grid_h, batch, heads, rel_h_batch, rel_h_token, rel_h_head)
        rel_w = table(rel_w_at, grid_w, batch, heads, rel_w_batch, rel_w_token, rel_w_head)
        with T.Kernel(most_blocks, threads=workers + _WARPGROUP) as block:
            q_tiles = [T.alloc_shared((slots, queries, width), dtype) for _, width in pieces]
            k_tiles = [T.alloc_shared((stages, keys, width), dtype) for _, width in pieces]
            v_tiles = [T.alloc_shared((stages, keys, width), dtype) for _, width in pieces]
            h_tile = T.alloc_shared((slots, plan.h_chunks, queries, plan.h_width), dtype)
            w_tile = T.alloc_shared((slots, plan.parts, queries, plan.w_width), dtype)
            q_full = T.alloc_barrier([WARP if aligned else WARP + BY_HAND] * slots)
            q_empty = T.alloc_barrier([workers // WARP] * slots)
            k_full, k_empty = T.alloc_barrier([WARP] * stages), T.alloc_barrier([workers // WARP] * stages)
            v_full, v_empty = T.alloc_barrier([WARP] * stages), T.alloc_barrier([workers // WARP] * stages)
            thread = T.get_thread_binding()
            turns = T.truncdiv(batch * heads * blocks - block + most_blocks - 1, most_blocks)
            if thread >= workers:
                T.dec_max_nreg(_LOADER_REGISTERS)
                if thread < workers + WARP:
                    for turn in T.serial(turns):
                        b, n, first = place_of(block + turn * most_blocks, heads)
                        load_turn(turn, query, rel_h, rel_w, q_tiles, h_tile, w_tile, q_full, q_empty, b, n, first)
                        for j in T.serial(tiles):
                            g = turn * tiles + j
                            T.mbarrier_wait_parity(k_empty[g % stages], (g // stages + 1) % 2)
                            load_tile(g, j, key, k_tiles, k_full, b, n)
                            T.mbarrier_wait_parity(v_empty[g % stages], (g // stages + 1) % 2)
                            load_tile(g, j, value, v_tiles, v_full, b, n)
                elif not aligned:
                    for turn in T.serial(turns):
                        b, n, first = place_of(block + turn * most_blocks, heads)
                        load_tables(
                            turn, rel_h, rel_w, h_tile, w_tile, q_full, q_empty, b, n, first, thread - workers - WARP
                        )
            else:
                T.inc_max_nreg(_REGISTERS[plan.warpgroups])
                if plan.turns:
                    if thread >= _WARPGROUP:
                        T.named_barrier_arrive(2, workers)  # the first turn is the first warpgroup's
                scores = T.alloc_fragment((queries, keys), "float32")
                weights = T.alloc_fragment((queries, keys), dtype)
                results = [T.alloc_fragment((queries, width), "float32") for _, width in pieces]
                w_bias = T.alloc_fragment((queries, columns), "float32")
                h_bias = T.alloc_fragment((plan.rows, queries), "float32")
                tops = T.alloc_fragment((queries, 8 * plan.rows), "float32")
                sums = T.alloc_fragment((queries, 8), "float32")
                base = T.alloc_fragment((queries,), "float32")
                top = T.alloc_fragment((queries,), "float32")
                factor = T.alloc_fragment((queries,), "float32")
                total = T.alloc_fragment((queries,), "float32")
                T.annotate_layout(
                    {
                        w_bias: in_layout_of_scores(queries, columns),
                        tops: in_layout_of_scores(queries, 8 * plan.rows),
                        sums: in_layout_of_scores(queries, 8),
                    }
                )
                state = w_bias, h_bias, tops, base, top, factor, sums
                for turn in T.serial(turns):
                    b, n, first = place_of(block + turn * most_blocks, heads)
                    s = turn % slots
                    o = near(out, ((T.int64(b) * tokens + first) * heads + n) * head_dim, dtype)
                    T.mbarrier_wait_parity(q_full[s], turn // slots % 2)
                    take_columns(0, s, w_tile, w_bias)
                    T.fill(top, -T.infinity("float32"))
                    T.fill(sums, 0)
                    for result in results:
                        T.fill(result, 0)
                    attend = attend_overlapped if plan.overlapped else attend_in_order
                    attend(
                        turn * tiles, s, q_tiles, k_tiles, v_tiles, h_tile, w_tile, q_empty,
                        k_full, k_empty, v_full, v_empty,
                        scores, weights, results, state, thread, scale,
                    )  # fmt: skip
                    store(o, heads * head_dim, first, results, sums, total)

    return attn_wgmma
