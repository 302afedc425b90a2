"""CUDA: long rows move through registers, one or a few at a time for each block, and stores wait for no search.

Each thread loads a unit of a row, one of the indices and one of the later indices, which are waited for at once. Where
a later index equals one of the block's, its row goes to the same place, and the block moves that row once more itself,
after its own: whoever writes last, the last row stands there.
"""

from __future__ import annotations

from typing import Any

import tilelang.language as T

from tilevl.core.cuda import IndexView, view

NARROWEST = 1024  # bytes of a row below which too many threads would idle

_THREADS = 512
_WARP = 32
_ROWS = 8  # of a block at most, so that the index is read through once for all of them
_ENOUGH = 264  # blocks that keep the largest devices busy
_RESIDENT = 4  # blocks of a multiprocessor
_UNIT = "int32x4"  # of 16 bytes


def plan_of(count: int, units: int) -> tuple[int, int]:
    """Rows of a block, and threads of a row as the exponent of a power of 2, for so many rows of so many units."""
    return max(min(_ROWS, -(-count // _ENOUGH)), 1), min(units, _THREADS).bit_length() - 1


def move_long_rows() -> Any:
    """The program that moves the rows; width and strides are in units of 16 bytes.

    ``claims`` is 0 where equal indices are searched for. A block has ``share`` rows; ``1 << lanes`` threads, at least a
    warp, have one of them at a time, and the others the next ones.
    """

    @T.macro
    def look(index, winner, mine, least, greatest, first, later, count):
        """Enters a later index that equals one of the block's."""
        seen = T.alloc_var("int64", init=-1)
        if later < count:
            seen = index[later]
        near = T.alloc_var("int32", init=T.if_then_else(seen >= least and seen <= greatest, 1, 0))
        if T.warp_reduce_max(near) != 0:
            for k in T.unroll(_ROWS):
                if T.shfl_sync(mine, k) == T.int32(seen) and near != 0 and later > first + k:
                    T.call_extern("int32", "atomicMax", T.address_of(winner[k]), T.int32(later))

    @T.macro
    def put(into, source, held, from_at, row, lane, lanes, tokens, width, token_stride, batch_stride):
        """Stores the unit that is held, and moves what else a thread has of the row."""
        place = T.alloc_var("int64", init=T.int64(row) * token_stride)
        if row >= tokens:
            place = T.truncdiv(T.int64(row), tokens) * batch_stride + T.truncmod(T.int64(row), tokens) * token_stride
        if lane < width:
            into[place + lane] = held[0]
        for chunk in T.serial(1, (width + (1 << lanes) - 1) >> lanes):
            if lane + (chunk << lanes) < width:
                into[place + (lane + (chunk << lanes))] = source[from_at + (lane + (chunk << lanes))]

    @T.prim_func
    def replace_move_long_rows(
        anchor: T.Tensor((1,), "uint8"),
        into_at: T.int64,
        source_at: T.int64,
        index_at: T.int64,
        claims: T.int64,
        rows: T.int64,
        tokens: T.int64,
        count: T.int64,
        width: T.int32,
        token_stride: T.int64,
        batch_stride: T.int64,
        source_stride: T.int64,
        wide: T.int32,
        share: T.int32,
        lanes: T.int32,
    ):
        with T.Kernel(T.ceildiv(count, T.int64(share)), threads=_THREADS) as block:
            T.annotate_min_blocks_per_sm(_RESIDENT)
            thread = T.get_thread_binding()
            into = view(into_at, _UNIT)
            source = view(source_at, _UNIT)
            index = IndexView(index_at, wide)
            winner = T.alloc_shared((_ROWS,), "int32")
            if thread < _ROWS:
                winner[thread] = -1
            T.sync_threads()
            first = T.alloc_var("int64", init=T.int64(block) * share)
            own = T.alloc_var("int32", init=T.int32(T.min(T.int64(share), count - first)))
            lane = thread & ((1 << lanes) - 1)
            slots = _THREADS >> lanes
            slot = thread >> lanes
            held = T.alloc_local((1,), _UNIT)
            if slot < own and lane < width:  # the first loads wait for nothing
                held[0] = source[(first + slot) * source_stride + lane]
            value = T.alloc_var("int64", init=-1)
            mine = T.alloc_var("int32", init=-1)  # the block's indices that count; each warp has all of them
            if thread % _WARP < own:
                value = index[first + thread % _WARP]
                if value < rows:  # more rows than 31 bits count fit into no memory
                    mine = T.int32(T.max(value, -1))
                if claims != 0 and mine >= 0:
                    if view(claims, "int32")[mine] != first + thread % _WARP:
                        mine = -1
            least = T.alloc_var("int32", init=T.if_then_else(mine >= 0, mine, 2**31 - 1))
            least = T.warp_reduce_min(least)
            greatest = T.alloc_var("int32", init=T.warp_reduce_max(mine))
            turns = T.alloc_var("int32", init=T.truncdiv(share + slots - 1, slots))
            looks = T.alloc_var("int32", init=0)  # of a turn
            if claims == 0:
                looks = T.truncdiv(T.int32(count - first) - 2 + turns * _THREADS, turns * _THREADS)
            later = T.alloc_var("int64", init=first + 1 + thread)
            i = T.alloc_var("int32", init=slot)
            row = T.alloc_var("int32", init=-1)
            for _ in T.serial(turns):
                for _ in T.serial(looks):
                    look(index, winner, mine, least, greatest, first, later, count)
                    later += _THREADS
                row = T.shfl_sync(mine, i)
                if row >= 0:
                    put(
                        into, source, held, (first + i) * source_stride, row, lane, lanes, tokens, width, token_stride,
                        batch_stride,
                    )  # fmt: skip
                i += slots
                if i < own and lane < width:
                    held[0] = source[(first + i) * source_stride + lane]
            T.sync_threads()
            i = slot
            best = T.alloc_var("int32", init=-1)
            for _ in T.serial(turns):
                row = T.shfl_sync(mine, i)
                best = -1
                if i < own:
                    best = winner[i]
                if best >= 0:
                    if lane < width:
                        held[0] = source[best * source_stride + lane]
                    put(
                        into, source, held, best * source_stride, row, lane, lanes, tokens, width, token_stride,
                        batch_stride,
                    )  # fmt: skip
                i += slots

    return replace_move_long_rows
