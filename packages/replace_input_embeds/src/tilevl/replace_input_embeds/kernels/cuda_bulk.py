"""CUDA, for Hopper: rows pass through shared memory in bulk copies, which need no registers and no thread's time.

A block has a few rows, all of them on their way in at once. Several blocks share a multiprocessor, and as soon as one
ends the next begins, so that none waits for a slower one. One warp of a block starts the copies. The others look
meanwhile whether a later index equals one of the block's.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import tilelang.language as T

from tilevl.core.cuda import IndexView, view

_BLOCKS = 264  # fewer than these leave multiprocessors idle
NARROWEST = 2048  # bytes of a row below which starting a bulk copy takes longer than it moves
_PIECE = 8192  # bytes of a bulk copy, at most
_RING = 32768  # bytes of a block in shared memory

_RESIDENT = 6  # blocks of a multiprocessor
_STAGES = _RING // NARROWEST  # pieces, and so rows, that fit into the ring at most
_LAG = 2  # pieces of a long row that may be on their way out before the next one comes in
_WARP = 32
_THREADS = 128  # that look for equal indices
_LOOKS = 8  # indices that a thread loads before it looks at the first


@lru_cache(1024)
def plan_of(count: int, width: int) -> tuple[int, int, int]:
    """Rows of a block, pieces of a row and pieces in the ring at a time, for so many rows of so many bytes."""
    pieces = -(-width // _PIECE)
    stages = min(_RING // min(width, _PIECE), _STAGES)
    return max(min(stages // pieces, -(-count // _BLOCKS)), 1), pieces, stages


def stream_rows() -> Any:
    """The program that moves the rows; widths and strides are in bytes, multiples of 16.

    ``claims`` is 0 where equal indices are searched for. A block has ``share`` rows, each in ``pieces``, of which
    ``stages`` fit into the ring.
    """

    @T.macro
    def look(index, found, thread, first, last, count, rows):
        """Enters a bit for each of the block's rows that a later row beats, a word for each warp."""
        lane = thread % _WARP
        mine = T.alloc_var("int32", init=-1)
        value = T.alloc_var("int64", init=-1)
        if first + lane < last:
            value = index[first + lane]
            if value < rows:  # so many rows that 31 bits don't hold an index fit into no memory
                mine = T.int32(T.max(value, -1))
        lowest = T.alloc_var("int32", init=T.if_then_else(mine >= 0, mine, 2**31 - 1))
        lowest = T.warp_reduce_min(lowest)
        highest = T.alloc_var("int32", init=T.warp_reduce_max(mine))
        own = T.alloc_local((_STAGES,), "int32")
        for k in T.unroll(_STAGES):
            own[k] = T.shfl_sync(mine, k)
        beaten = T.alloc_var("int32", init=0)
        seen = T.alloc_local((_LOOKS,), "int64")
        for turn in T.serial(T.ceildiv(count - last, _THREADS * _LOOKS)):
            for k in T.unroll(_LOOKS):
                later = last + (turn * _LOOKS + k) * _THREADS + thread
                seen[k] = -1
                if later < count:
                    seen[k] = index[later]
            for k in T.unroll(_LOOKS):
                if seen[k] >= lowest and seen[k] <= highest:
                    for j in T.unroll(_STAGES):
                        if own[j] == T.int32(seen[k]):
                            beaten = beaten | (1 << j)
        if thread < _WARP:
            alike = T.alloc_var("int32", init=T.reinterpret(T.match_any_sync(mine), "int32"))
            if mine >= 0 and (alike >> lane) > 1:
                beaten = beaten | (1 << lane)
        beaten = T.warp_reduce_bitor(beaten)
        if lane == 0:
            found[thread // _WARP] = beaten

    @T.macro
    def start(ring, full, source, source_stride, width, pitch, stage, row, part):
        """Has a piece of a row come in."""
        size = T.min(width - part * _PIECE, _PIECE)
        T.mbarrier_arrive_expect_tx(full[stage], size)
        T.call_extern(
            "handle", "tl::tma_load", T.address_of(ring[stage * pitch]),
            T.address_of(source[row * source_stride + part * _PIECE]), full[stage], size,
        )  # fmt: skip

    @T.prim_func
    def replace_stream_rows(
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
        pieces: T.int32,
        stages: T.int32,
    ):
        with T.Kernel(
            T.ceildiv(count, T.int64(share)), threads=_THREADS + _WARP,
            prelude="#include <tl_templates/cuda/copy_sm90.h>\n",
        ) as block:  # fmt: skip
            T.annotate_min_blocks_per_sm(_RESIDENT)
            thread = T.get_thread_binding()
            ring = T.alloc_shared((_RING,), "uint8")
            full = T.alloc_barrier([1] * _STAGES)
            found = T.alloc_shared((_THREADS // _WARP,), "int32")
            into = view(into_at, "uint8")
            source = view(source_at, "uint8")
            index = IndexView(index_at, wide)
            first = T.alloc_var("int64", init=T.int64(block) * share)
            last = T.alloc_var("int64", init=T.min(first + share, count))
            T.pdl_sync()  # launched so that this block may be here before the kernel ahead has ended
            if thread < _THREADS:
                if claims == 0:
                    look(index, found, thread, first, last, count, rows)
                    T.named_barrier_arrive(1, _THREADS + _WARP)
            else:
                lane = thread - _THREADS
                pitch = T.alloc_var("int32", init=T.min(width, _PIECE))
                items = T.alloc_var("int32", init=T.int32(last - first) * pieces)
                item = T.alloc_var("int32", init=0)
                stage = T.alloc_var("int32", init=0)
                phase = T.alloc_var("int32", init=0)
                refilled = T.alloc_var("int32", init=0)
                next_row = T.alloc_var("int32", init=T.truncdiv(lane, pieces))
                next_part = T.alloc_var("int32", init=lane - next_row * pieces)
                if lane < items and lane < stages:
                    start(ring, full, source, source_stride, width, pitch, lane, first + next_row, next_part)
                T.sync_warp()
                next_row = T.truncdiv(stages, pieces)
                next_part = stages - next_row * pieces
                row = T.alloc_var("int64", init=-1)
                if first + lane < last:
                    row = index[first + lane]
                    if row >= rows:
                        row = -1
                    if claims != 0 and row >= 0:
                        if view(claims, "int32")[row] != first + lane:
                            row = -1
                place = T.alloc_var("int64", init=row * token_stride)
                if row >= tokens:
                    place = T.truncdiv(row, tokens) * batch_stride + T.truncmod(row, tokens) * token_stride
                if claims == 0:
                    T.sync_threads(1, _THREADS + _WARP)
                    beaten = T.alloc_var("int32", init=0)
                    for warp in T.unroll(_THREADS // _WARP):
                        beaten = beaten | found[warp]
                    if ((beaten >> lane) & 1) != 0:
                        row = -1
                for k in T.serial(T.int32(last - first)):
                    at = T.alloc_var("int64", init=T.shfl_sync(place, k))
                    chosen = T.alloc_var("int64", init=T.shfl_sync(row, k))
                    if lane == 0:
                        for piece in T.serial(pieces):
                            T.mbarrier_wait_parity(full[stage], phase)
                            if chosen >= 0:
                                T.call_extern(
                                    "handle", "tl::tma_store", T.address_of(into[at + piece * _PIECE]),
                                    T.address_of(ring[stage * pitch]), T.min(width - piece * _PIECE, _PIECE),
                                )  # fmt: skip
                            T.tma_store_arrive()
                            if item >= _LAG and item + (stages - _LAG) < items:
                                T.tma_store_wait(_LAG)
                                refilled = T.if_then_else(stage >= _LAG, stage - _LAG, stage - _LAG + stages)
                                start(
                                    ring, full, source, source_stride, width, pitch, refilled, first + next_row,
                                    next_part,
                                )  # fmt: skip
                                next_part += 1
                                if next_part == pieces:
                                    next_part = 0
                                    next_row += 1
                            item += 1
                            stage += 1
                            if stage == stages:
                                stage = 0
                                phase = 1 - phase
                if lane == 0:
                    T.tma_store_wait(0)

    return replace_stream_rows
