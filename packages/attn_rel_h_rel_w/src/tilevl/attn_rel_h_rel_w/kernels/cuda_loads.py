# mypy: disable-error-code="misc,valid-type,no-untyped-def,untyped-decorator"
"""What the loading warps of the Hopper program do: tiles by TMA, tables by TMA or element by element."""

from typing import Any

import tilelang.language as T

from tilevl.attn_rel_h_rel_w.kernels.cuda_plans import TMA_UNIT, Plan

WARP = 32
BY_HAND = 3 * WARP  # threads that load tables which TMA can't
_IN_FLIGHT = 8  # loads that such a thread waits for at once


def near(address: Any, offset: Any, dtype: str) -> Any:
    """Memory from an element of 2 bytes on, for 32-bit indices."""
    return T.make_tensor(T.reinterpret(address + offset * 2, "handle"), (2**31 - 1,), dtype)


def begin_of(table: Any, head: Any, token: Any) -> Any:
    """The column at which a head begins in a row of one token or of some, for the one of that number."""
    _, of_token, of_head, past = table
    return past + head * T.Cast("int32", of_head) + token * T.Cast("int32", of_token)


def loads_of(dtype: str, plan: Plan, together: int) -> tuple[Any, Any, Any]:
    """What loads queries with tables that TMA can take, tables that it can't, and a tile of keys or values.

    Args:
        dtype: ``bfloat16`` or ``float16``.
        plan: how the grid is cut.
        together: tokens that are one row of a table to TMA; 0 where it takes no tables.
    """
    rows, columns, down, queries = plan.rows, plan.columns, plan.down, plan.queries
    stages, slots, pieces = plan.stages, plan.slots, plan.pieces

    @T.macro
    def load_turn(turn, query, rel_h, rel_w, q_tiles, h_tile, w_tile, q_full, q_empty, b, n, first):
        s = turn % slots
        T.mbarrier_wait_parity(q_empty[s], (turn // slots + 1) % 2)
        for q_tile, (d, width) in zip(q_tiles, pieces):
            T.tma_copy(
                query[b, first : first + queries, n, d : d + width],
                q_tile[s, 0:queries, 0:width],
                barrier=q_full[s],
                leader_scope_threads=WARP,
            )
        if together:
            for table, tile, parts, step, width in (
                (rel_h, h_tile, plan.h_chunks, plan.h_columns, plan.h_width),
                (rel_w, w_tile, plan.parts, columns, plan.w_width),
            ):
                in_rows = table[0]
                row, rows_of_turn = first // together, queries // together
                for c in T.unroll(parts):
                    for t in T.unroll(together):
                        begin = begin_of(table, n, t) // TMA_UNIT * TMA_UNIT + c * step
                        T.tma_copy(
                            in_rows[b, row : row + rows_of_turn, begin : begin + width],
                            tile[s, c, t, 0:rows_of_turn, 0:width],
                            barrier=q_full[s],
                            leader_scope_threads=WARP,
                        )
        T.barrier_arrive(q_full[s])

    @T.macro
    def load_table(source, of_token, first, side, chunk, into, s, held, thread):
        for turn in T.serial(T.ceildiv(queries * side, BY_HAND * _IN_FLIGHT)):
            for u in T.unroll(_IN_FLIGHT):
                at = (turn * _IN_FLIGHT + u) * BY_HAND + thread
                if at < queries * side:
                    if first + at // side < plan.tokens:
                        held[u] = source[at // side * of_token + at % side]
            for u in T.unroll(_IN_FLIGHT):
                at = (turn * _IN_FLIGHT + u) * BY_HAND + thread
                if at < queries * side:
                    into[s, at % side // chunk, 0, at // side, at % side % chunk] = held[u]

    @T.macro
    def load_tables(turn, rel_h, rel_w, h_tile, w_tile, q_full, q_empty, b, n, first, thread):
        """By ``BY_HAND`` threads; what they held of rows past the last query is stored too, and never used."""
        s = turn % slots
        held = T.alloc_local((_IN_FLIGHT,), dtype)
        T.mbarrier_wait_parity(q_empty[s], (turn // slots + 1) % 2)
        for table, side, chunk, into in (
            (rel_h, plan.grid_h, plan.h_columns, h_tile),
            (rel_w, plan.grid_w, columns, w_tile),
        ):
            address, of_batch, of_token, of_head, _ = table
            source = near(address, b * of_batch + T.int64(first) * of_token + n * of_head, dtype)
            load_table(source, T.Cast("int32", of_token), first, side, chunk, into, s, held, thread)
        T.barrier_arrive(q_full[s])

    @T.macro
    def load_tile(g, j, source, tiles, full, b, n):
        for tile, (d, width) in zip(tiles, pieces):
            for r in T.unroll(rows):
                T.tma_copy(
                    source[
                        b, j % down * rows + r, j // down * columns : j // down * columns + columns, n, d : d + width
                    ],
                    tile[g % stages, r * columns : r * columns + columns, 0:width],
                    barrier=full[g % stages],
                    leader_scope_threads=WARP,
                )
        T.barrier_arrive(full[g % stages])

    return load_turn, load_tables, load_tile
