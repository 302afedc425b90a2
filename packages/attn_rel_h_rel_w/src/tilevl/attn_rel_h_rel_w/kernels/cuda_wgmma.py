# mypy: disable-error-code="misc,valid-type,no-untyped-def,untyped-decorator"
"""CUDA, for Hopper: blocks stay, tiles come by TMA, warpgroups multiply them from shared memory and hold all else.

A turn of a block is some queries of one head with their tables, and all keys. One warp loads, this turn's tiles and
then already the next turn's, while the others multiply. A tile of keys is ``rows`` x ``columns`` of the grid, where
``columns`` is the grid's width, or a part of it, made a multiple of 8. TMA reads keys as ``[B, grid_h, grid_w, N, D]``
and fills what lies outside the grid with zeros, so that every tile has one shape. The columns' bias is then the same
for all tiles, and stays in registers in the layout of the scores. The rows' bias is one number for each query and row
of the tile, and joins the difference to the reference.
"""

from typing import Any

import tilelang.language as T

from tilevl.attn_rel_h_rel_w.kernels.cuda_loads import BY_HAND, WARP, begin_of, loads_of, near
from tilevl.attn_rel_h_rel_w.kernels.cuda_loops import WARPGROUP, hand_over, loops_of, release
from tilevl.attn_rel_h_rel_w.kernels.cuda_plans import TMA_UNIT, Plan
from tilevl.attn_rel_h_rel_w.kernels.cuda_softmax import in_layout_of_scores, softmax_of
from tilevl.attn_rel_h_rel_w.kernels.cuda_turns import alloc_verdicts, turns_of

_REGISTERS = {2: 240, 3: 160}  # of a thread, by warpgroups that multiply
_LOADER_REGISTERS = 24


def attend_grid(dtype: str, plan: Plan, together: int) -> Any:
    """The program.

    Args:
        dtype: ``bfloat16`` or ``float16``.
        plan: how the grid is cut.
        together: tokens that are one row of a table to TMA: 1 where all heads begin at multiples of 16 bytes, 4 for
            heads at any column; 0 where the loading warps bring tables element by element.
    """
    queries, keys, tiles, columns = plan.queries, plan.keys, plan.tiles, plan.columns
    stages, slots, pieces = plan.stages, plan.slots, plan.pieces
    tokens, grid_h, grid_w, head_dim = plan.tokens, plan.grid_h, plan.grid_w, plan.head_dim
    workers = WARPGROUP * plan.warpgroups
    load_turn, load_tables, load_tile = loads_of(dtype, plan, together)
    softmax = softmax_of(plan)
    fast, exact = loops_of(plan, softmax)
    take_turns = turns_of(plan, workers + WARP if together else workers + WARP + BY_HAND)

    @T.macro
    def load(before, again, t, verdict, place, query, key, value, tables, in_shared, of_turn, of_tiles, thread):
        q_tiles, k_tiles, v_tiles, h_tile, w_tile = in_shared
        k_full, k_empty, v_full, v_empty = of_tiles
        b, n, first = place
        if not again:
            if thread == workers:
                T.atomic_store(verdict, 0, "relaxed")  # all who multiply wait for this turn's queries, and so see it
        load_turn(before, query, *tables, q_tiles, h_tile, w_tile, *of_turn, b, n, first)
        for j in T.serial(tiles):
            g = before * tiles + j
            T.mbarrier_wait_parity(k_empty[g % stages], (g // stages + 1) % 2)
            load_tile(g, j, key, k_tiles, k_full, b, n)
            T.mbarrier_wait_parity(v_empty[g % stages], (g // stages + 1) % 2)
            load_tile(g, j, value, v_tiles, v_full, b, n)

    @T.macro
    def load_by_hand(before, again, t, verdict, place, tables, in_shared, of_turn, thread):
        load_tables(before, *tables, *in_shared[3:], *of_turn, *place, thread)

    @T.macro
    def store(o, of_token, first, results, total, wanted):
        """Each wanted result over the sum of its weights; zeros where that is zero."""
        for i in T.Parallel(queries):
            total[i] = T.if_then_else(total[i] == 0, T.float32(0), 1 / total[i])
        for result, (d0, width) in zip(results, pieces):
            for i, d in T.Parallel(queries, width):
                if first + i < tokens and wanted(i):
                    o[i * of_token + d0 + d] = T.Cast(dtype, result[i, d] * total[i])

    @T.macro
    def attend(
        before, again, t, verdict, place, in_memory, in_shared, of_turn, of_tiles, registers, checked, thread, scale
    ):
        b, n, first = place
        out, heads, tables = in_memory
        h_table, w_table = (
            (tile, lambda t, table=table: begin_of(table, n, t) % TMA_UNIT if together > 1 else 0)
            for tile, table in zip(in_shared[3:], tables)
        )
        to_multiply = *in_shared[:3], h_table, w_table
        q_full, q_empty = of_turn
        _, _, results, (w_bias, _, _, _, top, _, sums) = registers
        total, spoiled, worst, doubts = checked
        s = before % slots
        T.mbarrier_wait_parity(q_full[s], before // slots % 2)
        softmax.take_columns(0, s, w_table, w_bias)
        T.fill(top, -T.infinity("float32"))
        T.fill(sums, 0)
        for result in results:
            T.fill(result, 0)
        if again:
            exact(before * tiles, s, to_multiply, of_tiles, registers, thread, scale)
        else:
            fast(before * tiles, s, to_multiply, of_tiles, registers, thread, scale)
        release(q_empty, s, thread)
        T.reduce_sum(sums, total, dim=1)
        o = near(out, ((T.int64(b) * tokens + first) * heads + n) * head_dim, dtype)
        if again:
            store(o, heads * head_dim, first, results, total, lambda i: (doubts[i] >> t) & 1 != 0)
        else:
            if t == 0:
                T.fill(doubts, 0)
            softmax.judge(results, total, spoiled, worst, doubts, t, verdict, tokens - first)
            store(o, heads * head_dim, first, results, total, lambda i: True)

    def table(
        address: Any, side: int, batch: Any, heads: Any, of_batch: Any, of_token: Any, of_head: Any, past: Any
    ) -> Any:
        if together:
            shape = batch, tokens // together, past + (heads - 1) * of_head + (together - 1) * of_token + side
            return T.buffer(shape, dtype, address, (of_batch, of_token * together, 1)), of_token, of_head, past
        return address, of_batch, of_token, of_head, past

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
        rel_h_at: T.ptr(dtype) if together else T.int64,
        rel_h_batch: T.int64,
        rel_h_token: T.int64,
        rel_h_head: T.int64,
        rel_h_past: T.int32,
        rel_w_at: T.ptr(dtype) if together else T.int64,
        rel_w_batch: T.int64,
        rel_w_token: T.int64,
        rel_w_head: T.int64,
        rel_w_past: T.int32,
        out: T.int64,
        batch: T.int32,
        heads: T.int32,
        most_blocks: T.int32,
        scale: T.float32,
    ):
        query = T.buffer((batch, tokens, heads, head_dim), dtype, query_at, (query_batch, query_token, query_head, 1))
        key = in_rows(key_at, batch, heads, key_batch, key_token, key_head)
        value = in_rows(value_at, batch, heads, value_batch, value_token, value_head)
        rel_h = table(rel_h_at, grid_h, batch, heads, rel_h_batch, rel_h_token, rel_h_head, rel_h_past)
        rel_w = table(rel_w_at, grid_w, batch, heads, rel_w_batch, rel_w_token, rel_w_head, rel_w_past)
        with T.Kernel(most_blocks, threads=workers + WARPGROUP) as block:
            q_tiles = [T.alloc_shared((slots, queries, width), dtype) for _, width in pieces]
            k_tiles = [T.alloc_shared((stages, keys, width), dtype) for _, width in pieces]
            v_tiles = [T.alloc_shared((stages, keys, width), dtype) for _, width in pieces]
            by_token = max(together, 1), queries // max(together, 1)
            h_tile = T.alloc_shared((slots, plan.h_chunks, *by_token, plan.h_width), dtype)
            w_tile = T.alloc_shared((slots, plan.parts, *by_token, plan.w_width), dtype)
            q_full = T.alloc_barrier([WARP if together else WARP + BY_HAND] * slots)
            q_empty = T.alloc_barrier([workers // WARP] * slots)
            k_full, k_empty = T.alloc_barrier([WARP] * stages), T.alloc_barrier([workers // WARP] * stages)
            v_full, v_empty = T.alloc_barrier([WARP] * stages), T.alloc_barrier([workers // WARP] * stages)
            verdicts = alloc_verdicts()
            thread = T.get_thread_binding()
            turns = block, most_blocks, batch, heads, verdicts
            tables = rel_h, rel_w
            in_shared = q_tiles, k_tiles, v_tiles, h_tile, w_tile
            of_turn, of_tiles = (q_full, q_empty), (k_full, k_empty, v_full, v_empty)
            if thread >= workers:
                T.dec_max_nreg(_LOADER_REGISTERS)
                if thread < workers + WARP:
                    take_turns(*turns, load, (query, key, value, tables, in_shared, of_turn, of_tiles, thread))
                elif not together:
                    take_turns(*turns, load_by_hand, (tables, in_shared, of_turn, thread - workers - WARP))
            else:
                T.inc_max_nreg(_REGISTERS[plan.warpgroups])
                if plan.overlapped:
                    if thread >= WARPGROUP:
                        hand_over(thread, workers)  # the first warpgroup begins
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
                spoiled = T.alloc_fragment((queries, 8), "float32")
                worst = T.alloc_fragment((queries,), "float32")
                doubts = T.alloc_fragment((queries,), "int32")
                T.annotate_layout(
                    {
                        w_bias: in_layout_of_scores(queries, columns),
                        tops: in_layout_of_scores(queries, 8 * plan.rows),
                        sums: in_layout_of_scores(queries, 8),
                        spoiled: in_layout_of_scores(queries, 8),
                    }
                )
                state = w_bias, h_bias, tops, base, top, factor, sums
                registers, checked = (scores, weights, results, state), (total, spoiled, worst, doubts)
                in_memory = out, heads, tables
                T.fill(doubts, 0)
                take_turns(*turns, attend, (in_memory, in_shared, of_turn, of_tiles, registers, checked, thread, scale))

    return attn_wgmma
