# mypy: disable-error-code="misc,valid-type,no-untyped-def,untyped-decorator"
"""CUDA, for Hopper: tiles of keys come by TMA, warpgroups multiply them from shared memory and hold all else.

A tile of keys is ``rows`` x ``columns`` of the grid, where ``columns`` is the grid's width, or a part of it, made a
multiple of 8. TMA reads keys as ``[B, grid_h, grid_w, N, D]`` and fills what lies outside the grid with zeros, so that
every tile has one shape. The columns' bias is then the same for all tiles, and stays in registers in the layout of the
scores. The rows' bias is one number for each query and row of the tile, and joins the running maximum.
"""

from dataclasses import dataclass
from typing import Any

import tilelang.language as T

from tilevl.attn_rel_h_rel_w.kernels.cuda_tables import LOG2E, base_2

HEAD_DIMS = (16, 32, 64)  # widths that one swizzle of shared memory spans
_WARPGROUP, _WARP = 128, 32
_MOST_COLUMNS, _MOST_KEYS, _ALL_KEYS = 128, 144, 224
_MOST_TABLE = 64 * 1024  # bytes of rel_h in shared memory
_IN_FLIGHT = 16  # loads of rel_h that a thread waits for at once
_REGISTERS = {2: 240, 3: 160}  # of a thread, by warpgroups that multiply
_LOADER_REGISTERS = 24


@dataclass(frozen=True)
class Plan:
    """How a grid is cut.

    Attributes:
        warpgroups: of a block, each with 64 queries.
        rows: of the grid, in a tile of keys.
        columns: of the grid, in a tile of keys; a multiple of 8.
        stages: tiles of keys in shared memory.
        at_once: all keys fit; the block loads them itself and has no warp for it.
        overlapped: a tile's scores are multiplied while the values of the one before are.
        turns: two warpgroups multiply by turns, so that one's softmax hides the other's products.
    """

    warpgroups: int
    rows: int
    columns: int
    stages: int = 2
    at_once: bool = False
    overlapped: bool = False
    turns: bool = False


def plan_of(grid_h: int, grid_w: int) -> Plan | None:
    """The plan of a grid, None where its row table is too large."""
    parts = -(-grid_w // _MOST_COLUMNS)
    columns = _to_multiple(-(-grid_w // parts), 8)
    rows = max(min(_MOST_KEYS // columns, grid_h), 1)
    rows = -(-grid_h // -(-grid_h // rows))  # tiles of one size, as far as it goes
    if rows * columns % 16:
        rows, columns = (rows - 1, columns) if rows > 1 else (1, columns + 8)
    tiles = -(-grid_h // rows) * -(-grid_w // columns)
    if parts == 1 and grid_h * columns <= _ALL_KEYS and grid_h * columns % 16 == 0:
        plan = Plan(1, grid_h, columns, 1, at_once=True)
    elif tiles <= 2:
        plan = Plan(1, rows, columns, tiles, at_once=True)
    elif columns == 40:  # three warpgroups of 160 registers hold tiles of 80 keys
        plan = Plan(3, 2, columns, 3)
    else:
        plan = Plan(2, rows, columns, 3 if rows * columns <= 128 else 2, overlapped=True, turns=True)
    table = _to_multiple(grid_h, plan.rows) * (64 * plan.warpgroups + 1) * 4
    return plan if table <= _MOST_TABLE else None


def _to_multiple(number: int, step: int) -> int:
    return -(-number // step) * step


def attend_grid(dtype: str, head_dim: int, grid_h: int, grid_w: int, plan: Plan) -> Any:
    """The program.

    Args:
        dtype: ``bfloat16`` or ``float16``.
        head_dim: D, one of ``HEAD_DIMS``.
        grid_h: rows of the grid.
        grid_w: columns of the grid.
        plan: how the grid is cut.
    """
    rows, columns, stages = plan.rows, plan.columns, plan.stages
    tokens, queries, keys = grid_h * grid_w, 64 * plan.warpgroups, rows * columns
    down = -(-grid_h // rows)
    parts = -(-grid_w // columns)
    tiles, table_rows = down * parts, down * rows
    blocks = -(-tokens // queries)
    workers = _WARPGROUP * plan.warpgroups
    threads = workers if plan.at_once else workers + _WARPGROUP
    loads = -(-queries * table_rows // workers)
    in_flight = -(-loads // -(-loads // _IN_FLIGHT))
    full_row = T.GemmWarpPolicy.FullRow
    infinity = T.infinity("float32")

    batch, heads = T.dynamic("batch"), T.dynamic("heads")
    query_strides = [T.dynamic(f"query_{axis}") for axis in ("batch", "token", "head")]
    key_strides = [T.dynamic(f"key_{axis}") for axis in ("batch", "row", "token", "head")]
    value_strides = [T.dynamic(f"value_{axis}") for axis in ("batch", "row", "token", "head")]

    def near(address: Any, offset: Any) -> Any:
        """Memory from an element on, for 32-bit indices."""
        return T.make_tensor(T.reinterpret(address + offset * 2, "handle"), (2**31 - 1,), dtype)

    def in_layout_of_scores(width: int) -> Any:
        """Where WGMMA leaves ``[queries, width]``: (thread, register)."""
        return T.Fragment(
            (queries, width),
            forward_fn=lambda i, c: (
                i // 64 * 128 + i % 64 // 16 * 32 + i % 8 * 4 + c % 8 // 2,
                c // 8 * 4 + i // 8 % 2 * 2 + c % 2,
            ),
        )

    @T.macro
    def load_tile(j, source, into, full, b, n):
        for r in T.unroll(rows):
            T.tma_copy(
                source[b, j % down * rows + r, j // down * columns : j // down * columns + columns, n, 0:head_dim],
                into[j % stages, r * columns : r * columns + columns, 0:head_dim],
                barrier=full[j % stages],
                leader_scope_threads=_WARP,
            )
        T.barrier_arrive(full[j % stages])

    @T.macro
    def load(query, key, value, q_tile, k_tiles, v_tiles, q_full, k_full, k_empty, v_full, v_empty, first, n, b):
        T.tma_copy(
            query[b, first : first + queries, n, 0:head_dim], q_tile, barrier=q_full[0], leader_scope_threads=_WARP
        )
        T.barrier_arrive(q_full[0])
        for j in T.serial(tiles):
            if not plan.at_once:
                T.mbarrier_wait_parity(k_empty[j % stages], (j // stages + 1) % 2)
            load_tile(j, key, k_tiles, k_full, b, n)
            if not plan.at_once:
                T.mbarrier_wait_parity(v_empty[j % stages], (j // stages + 1) % 2)
            load_tile(j, value, v_tiles, v_full, b, n)

    @T.macro
    def take_columns(part, w_bias, w, token, first):
        for i, c in T.Parallel(queries, columns):  # all loads first: a thread waits once
            w_bias[i, c] = -infinity
            if first + i < tokens and part * columns + c < grid_w:
                w_bias[i, c] = T.Cast("float32", w[i * token + part * columns + c])
        for i, c in T.Parallel(queries, columns):
            w_bias[i, c] = base_2(w_bias[i, c])

    @T.macro
    def take_rows(h_table, held, h, token, thread, first):
        for turn in T.serial(-(-loads // in_flight)):
            for u in T.unroll(in_flight):
                at = (turn * in_flight + u) * workers + thread
                held[u] = -infinity
                if at < queries * table_rows:
                    if first + at // table_rows < tokens and at % table_rows < grid_h:
                        held[u] = T.Cast("float32", h[at // table_rows * token + at % table_rows])
            for u in T.unroll(in_flight):
                at = (turn * in_flight + u) * workers + thread
                if at < queries * table_rows:
                    h_table[at % table_rows, at // table_rows] = base_2(held[u])

    @T.macro
    def multiply_keys(j, q_tile, k_tiles, k_full, scores):
        T.mbarrier_wait_parity(k_full[j % stages], j // stages % 2)
        T.wgmma_gemm(q_tile, k_tiles[j % stages, :, :], scores, transpose_B=True, policy=full_row, clear_accum=True)

    @T.macro
    def multiply_values(j, v_tiles, weights, result):
        T.wgmma_gemm(weights, v_tiles[j % stages, :, :], result, policy=full_row)

    @T.macro
    def await_values(j, v_full):
        T.mbarrier_wait_parity(v_full[j % stages], j // stages % 2)

    @T.macro
    def release(empty, j, thread):
        if not plan.at_once:
            if thread % _WARP == 0:
                T.barrier_arrive(empty[j % stages])

    @T.macro
    def softmax(j, h_table, h_bias, scores, w_bias, tops, base, top, factor, sums, scale):
        for r, i in T.Parallel(rows, queries):
            h_bias[r, i] = h_table[j % down * rows + r, i]
        for i, r, c in T.Parallel(queries, rows, columns):
            scores[i, r * columns + c] = scores[i, r * columns + c] * scale + w_bias[i, c]
        for i, r, c in T.Parallel(queries, rows, 8):
            tops[i, r * 8 + c] = scores[i, r * columns + c]
        for g in T.unroll(1, columns // 8):
            for i, r, c in T.Parallel(queries, rows, 8):
                tops[i, r * 8 + c] = T.max(tops[i, r * 8 + c], scores[i, r * columns + g * 8 + c])
        for i, r, c in T.Parallel(queries, rows, 8):
            tops[i, r * 8 + c] = tops[i, r * 8 + c] + h_bias[r, i]
        T.reduce_max(tops, base, dim=1, clear=True)
        for i in T.Parallel(queries):
            base[i] = T.max(base[i], top[i])
            factor[i] = top[i]
            top[i] = base[i]
            base[i] = T.if_then_else(base[i] == -infinity, T.float32(0), base[i])
            factor[i] = T.exp2(factor[i] - base[i])
        for r, i in T.Parallel(rows, queries):
            h_bias[r, i] = h_bias[r, i] - base[i]
        for i, r, c in T.Parallel(queries, rows, columns):
            scores[i, r * columns + c] = T.exp2(scores[i, r * columns + c] + h_bias[r, i])
        for i, c in T.Parallel(queries, 8):
            sums[i, c] = sums[i, c] * factor[i]
        for g in T.unroll(keys // 8):
            for i, c in T.Parallel(queries, 8):
                sums[i, c] += scores[i, g * 8 + c]

    @T.macro
    def rescale(result, factor, scores, weights):
        for i, d in T.Parallel(queries, head_dim):
            result[i, d] = result[i, d] * factor[i]
        T.copy(scores, weights)

    @T.macro
    def attend(
        q_tile, k_tiles, v_tiles, q_full, k_full, k_empty, v_full, v_empty,
        h, w, o, h_token, w_token, o_token, h_table, thread, first, scale,
    ):  # fmt: skip
        scores = T.alloc_fragment((queries, keys), "float32")
        weights = T.alloc_fragment((queries, keys), dtype)
        result = T.alloc_fragment((queries, head_dim), "float32")
        w_bias = T.alloc_fragment((queries, columns), "float32")
        tops = T.alloc_fragment((queries, 8 * rows), "float32")
        sums = T.alloc_fragment((queries, 8), "float32")
        h_bias = T.alloc_fragment((rows, queries), "float32")
        top = T.alloc_fragment((queries,), "float32")
        base = T.alloc_fragment((queries,), "float32")
        total = T.alloc_fragment((queries,), "float32")
        factor = T.alloc_fragment((queries,), "float32")
        held = T.alloc_local((in_flight,), "float32")
        T.annotate_layout(
            {
                w_bias: in_layout_of_scores(columns),
                tops: in_layout_of_scores(8 * rows),
                sums: in_layout_of_scores(8),
            }
        )
        take_columns(0, w_bias, w, w_token, first)
        T.fill(top, -infinity)
        T.fill(sums, 0)
        T.fill(result, 0)
        take_rows(h_table, held, h, h_token, thread, first)
        T.sync_threads(1, workers)
        T.mbarrier_wait_parity(q_full[0], 0)
        if plan.overlapped:
            multiply_keys(0, q_tile, k_tiles, k_full, scores)
            T.wait_wgmma(0)
            release(k_empty, 0, thread)
            softmax(0, h_table, h_bias, scores, w_bias, tops, base, top, factor, sums, scale)
            await_values(0, v_full)
            T.copy(scores, weights)
            for j in T.serial(1, tiles):
                if parts > 1:
                    if j % down == 0:
                        take_columns(j // down, w_bias, w, w_token, first)
                if plan.turns:
                    T.sync_threads(2 + thread // _WARPGROUP, workers)
                multiply_keys(j, q_tile, k_tiles, k_full, scores)
                multiply_values(j - 1, v_tiles, weights, result)
                if plan.turns:
                    T.named_barrier_arrive(3 - thread // _WARPGROUP, workers)
                T.wait_wgmma(1)
                release(k_empty, j, thread)
                softmax(j, h_table, h_bias, scores, w_bias, tops, base, top, factor, sums, scale)
                T.warpgroup_fence_operand(scores, num_regs=keys // 2)
                await_values(j, v_full)  # a branch: what is before it isn't put off until the products are done
                T.wait_wgmma(0)
                release(v_empty, j - 1, thread)
                rescale(result, factor, scores, weights)
            multiply_values(tiles - 1, v_tiles, weights, result)
            T.wait_wgmma(0)
        else:
            for j in T.serial(tiles):
                if parts > 1:
                    if j % down == 0:
                        take_columns(j // down, w_bias, w, w_token, first)
                multiply_keys(j, q_tile, k_tiles, k_full, scores)
                T.wait_wgmma(0)
                release(k_empty, j, thread)
                softmax(j, h_table, h_bias, scores, w_bias, tops, base, top, factor, sums, scale)
                rescale(result, factor, scores, weights)
                await_values(j, v_full)
                multiply_values(j, v_tiles, weights, result)
                T.wait_wgmma(0)
                release(v_empty, j, thread)
        T.reduce_sum(sums, total, dim=1)
        for i in T.Parallel(queries):
            total[i] = T.if_then_else(total[i] == 0, T.float32(0), 1 / total[i])
        for i, d in T.Parallel(queries, head_dim):
            if first + i < tokens:
                o[i * o_token + d] = T.Cast(dtype, result[i, d] * total[i])

    @T.prim_func
    def attn_wgmma(
        anchor: T.Tensor((1,), "uint8"),
        query: T.StridedTensor((batch, tokens, heads, head_dim), (*query_strides, 1), dtype),
        key: T.StridedTensor((batch, grid_h, grid_w, heads, head_dim), (*key_strides, 1), dtype),
        value: T.StridedTensor((batch, grid_h, grid_w, heads, head_dim), (*value_strides, 1), dtype),
        rel_h: T.int64,
        rel_h_batch: T.int64,
        rel_h_token: T.int32,
        rel_h_head: T.int64,
        rel_w: T.int64,
        rel_w_batch: T.int64,
        rel_w_token: T.int32,
        rel_w_head: T.int64,
        out: T.int64,
        scale: T.float32,
    ):
        with T.Kernel(batch * heads * blocks, threads=threads) as block:
            first = block % blocks * queries
            n = T.truncmod(block // blocks, heads)
            b = T.truncdiv(block // blocks, heads)
            h = near(rel_h, b * rel_h_batch + T.int64(first) * rel_h_token + n * rel_h_head)
            w = near(rel_w, b * rel_w_batch + T.int64(first) * rel_w_token + n * rel_w_head)
            o = near(out, ((T.int64(b) * tokens + first) * heads + n) * head_dim)
            q_tile = T.alloc_shared((queries, head_dim), dtype)
            k_tiles = T.alloc_shared((stages, keys, head_dim), dtype)
            v_tiles = T.alloc_shared((stages, keys, head_dim), dtype)
            h_table = T.alloc_shared((table_rows, queries + 1), "float32")  # one more: no bank conflicts
            q_full = T.alloc_barrier(_WARP)
            k_full, k_empty = T.alloc_barrier([_WARP] * stages), T.alloc_barrier([workers // _WARP] * stages)
            v_full, v_empty = T.alloc_barrier([_WARP] * stages), T.alloc_barrier([workers // _WARP] * stages)
            thread = T.get_thread_binding()
            tiles_and_barriers = (q_tile, k_tiles, v_tiles, q_full, k_full, k_empty, v_full, v_empty)
            rest = (h, w, o, rel_h_token, rel_w_token, heads * head_dim, h_table, thread, first, scale * LOG2E)
            if plan.at_once:
                if thread < _WARP:
                    load(query, key, value, *tiles_and_barriers, first, n, b)
                attend(*tiles_and_barriers, *rest)
            elif thread >= workers:
                T.dec_max_nreg(_LOADER_REGISTERS)
                if thread < workers + _WARP:
                    load(query, key, value, *tiles_and_barriers, first, n, b)
            else:
                T.inc_max_nreg(_REGISTERS[plan.warpgroups])
                if plan.turns:
                    if thread >= _WARPGROUP:
                        T.named_barrier_arrive(2, workers)  # the first turn is the first warpgroup's
                attend(*tiles_and_barriers, *rest)

    return attn_wgmma
