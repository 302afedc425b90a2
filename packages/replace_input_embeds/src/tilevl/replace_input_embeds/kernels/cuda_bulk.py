"""CUDA, for Hopper: rows stream through shared memory in bulk copies, which need no registers and no thread's time.

A block has a run of rows, some of them on their way in while others leave. One warp starts the copies. The others look
meanwhile whether a later index equals one of the block's: few do more than compare with the least and the greatest.
"""

from __future__ import annotations

from typing import Any

import tilelang.language as T

from tilevl.core.cuda import IndexView, view

BLOCKS = 264  # two for each multiprocessor of the largest devices
WARP = 32
NARROWEST = 2048  # bytes of a row below which starting a bulk copy takes longer than it moves

PIECE = 8192  # bytes of a bulk copy, at most
_STAGES = 13  # pieces of a block in shared memory, two blocks to a multiprocessor
_LAG = 2  # pieces that may be on their way out before the next one comes in
_THREADS = 256  # that look for equal indices
_LOOKS = 16  # indices that a thread loads before it looks at the first


def stream_rows() -> Any:
    """The program that moves the rows; widths and strides are in bytes, multiples of 16.

    ``claims`` is 0 where equal indices are searched for: then a block has at most 32 rows. A block has ``share`` rows,
    the first ``extra`` blocks one more, each in ``pieces``.
    """

    @T.macro
    def look(index, found, thread, first, last, count):
        """Enters a bit for each of the block's rows that a later row beats, a word for each warp."""
        lane = thread % WARP
        mine = T.alloc_var("int64", init=-1)
        if first + lane < last:
            mine = index[first + lane]
        lowest = T.alloc_var("int32", init=2**31 - 1)  # the low words decide who looks closer
        highest = T.alloc_var("int32", init=-(2**31))
        if mine >= 0:
            lowest = T.int32(mine)
            highest = T.int32(mine)
        lowest = T.warp_reduce_min(lowest)
        highest = T.warp_reduce_max(highest)
        beaten = T.alloc_var("int32", init=0)
        seen = T.alloc_local((_LOOKS,), "int64")
        for turn in T.serial(T.ceildiv(count - last, _THREADS * _LOOKS)):
            for k in T.unroll(_LOOKS):
                seen[k] = -1
                if last + (turn * _LOOKS + k) * _THREADS + thread < count:
                    seen[k] = index[last + (turn * _LOOKS + k) * _THREADS + thread]
            for k in T.unroll(_LOOKS):
                if seen[k] >= 0 and T.int32(seen[k]) >= lowest and T.int32(seen[k]) <= highest:
                    for own in T.serial(T.int32(last - first)):
                        if index[first + own] == seen[k]:
                            beaten = beaten | (1 << own)
        if thread < WARP:
            alike = T.alloc_var("int32", init=T.reinterpret(T.match_any_sync(mine), "int32"))
            if lane < WARP - 1 and (alike >> (lane + 1)) != 0:
                beaten = beaten | (1 << lane)
        beaten = T.warp_reduce_bitor(beaten)
        if lane == 0:
            found[thread // WARP] = beaten

    @T.macro
    def start(ring, full, source, source_stride, width, stage, row, part):
        """Has a piece of a row come in."""
        size = T.min(width - part * PIECE, PIECE)
        T.mbarrier_arrive_expect_tx(full[stage], size)
        T.call_extern(
            "handle", "tl::tma_load", T.address_of(ring[stage * PIECE]),
            T.address_of(source[row * source_stride + part * PIECE]), full[stage], size,
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
        share: T.int64,
        extra: T.int32,
        pieces: T.int32,
    ):
        with T.Kernel(
            T.min(count, T.int64(BLOCKS)), threads=_THREADS + WARP, prelude="#include <tl_templates/cuda/copy_sm90.h>\n"
        ) as block:
            T.annotate_min_blocks_per_sm(2)
            thread = T.get_thread_binding()
            ring = T.alloc_shared((_STAGES * PIECE,), "uint8")
            full = T.alloc_barrier([1] * _STAGES)
            found = T.alloc_shared((_THREADS // WARP,), "int32")
            into = view(into_at, "uint8")
            source = view(source_at, "uint8")
            index = IndexView(index_at, wide)
            first = T.alloc_var("int64", init=block * share + T.min(block, extra))
            last = T.alloc_var("int64", init=first + share + T.if_then_else(block < extra, 1, 0))
            items = T.alloc_var("int32", init=T.int32(last - first) * pieces)
            T.pdl_sync()  # blocks may be here before the kernel ahead has ended
            if thread < _THREADS:
                if claims == 0:
                    look(index, found, thread, first, last, count)
                    T.named_barrier_arrive(1, _THREADS + WARP)
            else:
                lane = thread - _THREADS
                item = T.alloc_var("int32", init=0)
                stage = T.alloc_var("int32", init=0)
                phase = T.alloc_var("int32", init=0)
                refilled = T.alloc_var("int32", init=0)
                next_row = T.alloc_var("int64", init=T.truncdiv(lane, pieces))
                next_part = T.alloc_var("int32", init=lane - T.int32(next_row) * pieces)
                if lane < items and lane < _STAGES:
                    start(ring, full, source, source_stride, width, lane, first + next_row, next_part)
                T.sync_warp()
                next_row = first + T.truncdiv(_STAGES, pieces)
                next_part = T.truncmod(_STAGES, pieces)
                for batch in T.serial(T.ceildiv(T.int32(last - first), WARP)):
                    i = first + batch * WARP + lane
                    row = T.alloc_var("int64", init=-1)
                    if i < last:
                        row = index[i]
                        if row >= rows:
                            row = -1
                        if claims != 0 and row >= 0:
                            if view(claims, "int32")[row] != i:
                                row = -1
                    if claims == 0:
                        T.sync_threads(1, _THREADS + WARP)
                        beaten = T.alloc_var("int32", init=0)
                        for warp in T.unroll(_THREADS // WARP):
                            beaten = beaten | found[warp]
                        if ((beaten >> lane) & 1) != 0:
                            row = -1
                    place = T.alloc_var("int64", init=row * token_stride)
                    if row >= tokens:
                        place = T.truncdiv(row, tokens) * batch_stride + T.truncmod(row, tokens) * token_stride
                    for k in T.serial(T.min(T.int32(last - first) - batch * WARP, WARP)):
                        at = T.alloc_var("int64", init=T.shfl_sync(place, k))
                        chosen = T.alloc_var("int64", init=T.shfl_sync(row, k))
                        if lane == 0:
                            for piece in T.serial(pieces):
                                T.mbarrier_wait_parity(full[stage], phase)
                                if chosen >= 0:
                                    T.call_extern(
                                        "handle", "tl::tma_store", T.address_of(into[at + piece * PIECE]),
                                        T.address_of(ring[stage * PIECE]), T.min(width - piece * PIECE, PIECE),
                                    )  # fmt: skip
                                T.tma_store_arrive()
                                if item >= _LAG and item + (_STAGES - _LAG) < items:
                                    T.tma_store_wait(_LAG)
                                    refilled = T.if_then_else(stage >= _LAG, stage - _LAG, stage - _LAG + _STAGES)
                                    start(ring, full, source, source_stride, width, refilled, next_row, next_part)
                                    next_part += 1
                                    if next_part == pieces:
                                        next_part = 0
                                        next_row += 1
                                item += 1
                                stage += 1
                                if stage == _STAGES:
                                    stage = 0
                                    phase = 1 - phase
                if lane == 0:
                    T.tma_store_wait(0)

    return replace_stream_rows
