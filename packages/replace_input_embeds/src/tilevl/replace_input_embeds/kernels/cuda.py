"""CUDA: rows stream through shared memory on Hopper, and else one block moves a few in the widest units that hold.

Of equal indices the last row wins whole: a block looks whether an index after one of its own is equal, and then leaves
that row alone. Beyond ``SCANNED`` rows, where looking would take longer than moving, each row claims its place in a
table first.
"""

from __future__ import annotations

from typing import Any

import tilelang.language as T
from torch import Tensor

from tilevl.core.cache import Kernel
from tilevl.core.cuda import WIDEST, CudaProgram, IndexView, filled, has_clusters, view, widest_unit
from tilevl.core.plans import Launch, PlannedKernel
from tilevl.replace_input_embeds.kernels.cuda_bulk import BLOCKS, NARROWEST, PIECE, stream_rows

OP = "replace_input_embeds"
SCANNED = 8192

_THREADS = 128  # for a row
_ROWS = 4  # of a block, so that the index is read once for all of them
_HELD = 4  # units that a thread loads before it stores the first
_RESIDENT = 3  # blocks of a multiprocessor; keeps registers few, so that 96 KiB are on their way
_CLAIM_THREADS = 256


def build() -> Kernel:
    """The kernel; any dtype, width, alignment and row stride."""
    stream, move, claim = (CudaProgram(OP, trace) for trace in (stream_rows, move_rows, claim_rows))

    def plan(input_embeds: Tensor, image_embeds: Tensor, token_index: Tensor) -> Launch:
        size, count, device = input_embeds.element_size(), token_index.shape[0], input_embeds.get_device()
        shape, strides = input_embeds.shape, input_embeds.stride()
        tokens, width = shape[-2], shape[-1] * size
        rows = tokens if len(shape) == 2 else tokens * shape[0]
        token_stride, source_stride = strides[-2] * size, image_embeds.stride(0) * size
        batch_stride = 0 if len(shape) == 2 else strides[0] * size
        bits, wide = width | token_stride | batch_stride | source_stride, int(token_index.element_size() == 8)
        streamed = widest_unit(bits) == WIDEST and width >= NARROWEST and has_clusters(device)
        layout = (rows, tokens, count, width, token_stride, batch_stride, source_stride, wide)
        shares = (*divmod(count, max(min(count, BLOCKS), 1)), -(-width // PIECE))

        def launch(into: int, source: int, index: int) -> None:
            claims = 0
            if count > SCANNED:
                table = filled(-1, rows, device)
                claims = table.data_ptr()
                claim(device, claims, index, rows, count, wide)
            unit = widest_unit(into | source | bits)
            if streamed and unit == WIDEST:
                stream(device, into, source, index, claims, *layout, *shares)
                return
            move(
                device, into, source, index, claims, rows, tokens, count, width // unit, token_stride // unit,
                batch_stride // unit, source_stride // unit, unit, wide,
            )  # fmt: skip

        return launch

    return PlannedKernel(plan)


def move_rows() -> Any:
    """The program that moves the rows; width and strides are in units."""

    @T.macro
    def look(index, claims, i, row, lane, slot, beaten, rows, count):
        """Marks the rows of the block that a later one beats."""
        if lane == 0:
            beaten[slot] = 0
        T.sync_threads()
        if claims != 0:
            if row >= 0 and row < rows:
                if view(claims, "int32")[row] != i:
                    beaten[slot] = 1
        else:
            ours = T.alloc_local((_ROWS,), "int64")
            start = i - slot
            for k in T.unroll(_ROWS):
                ours[k] = -1
                if start + k < count:
                    ours[k] = index[start + k]
            for step in T.serial(T.ceildiv(count - start, _THREADS * _ROWS)):
                later = start + (step * _ROWS + slot) * _THREADS + lane
                if later < count:
                    other = T.alloc_var("int64", init=index[later])
                    for k in T.unroll(_ROWS):
                        if ours[k] == other and later > start + k:
                            beaten[k] = 1
        T.sync_threads()

    @T.macro
    def move(
        unit, into_at, source_at, index, claims, i, lane, slot, beaten, rows, tokens, count, width, token_stride,
        batch_stride, source_stride,
    ):  # fmt: skip
        into = view(into_at, unit)
        source = view(source_at, unit)
        held = T.alloc_local((_HELD,), unit)
        first = i * source_stride + lane
        if i < count:
            for k in T.unroll(_HELD):  # these loads don't depend on the index, so both are waited for once
                if k * _THREADS + lane < width:
                    held[k] = source[first + k * _THREADS]
        row = T.alloc_var("int64", init=-1)
        if i < count:
            row = index[i]
        look(index, claims, i, row, lane, slot, beaten, rows, count)
        if beaten[slot] == 0 and row >= 0 and row < rows:
            place = T.alloc_var("int64", init=row * token_stride + lane)
            if row >= tokens:
                place = T.truncdiv(row, tokens) * batch_stride + T.truncmod(row, tokens) * token_stride + lane
            for k in T.unroll(_HELD):
                if k * _THREADS + lane < width:
                    into[place + k * _THREADS] = held[k]
            for chunk in T.serial(1, T.ceildiv(width, (_THREADS * _HELD))):
                for k in T.unroll(_HELD):
                    if chunk * (_THREADS * _HELD) + k * _THREADS + lane < width:
                        held[k] = source[first + chunk * (_THREADS * _HELD) + k * _THREADS]
                for k in T.unroll(_HELD):
                    if chunk * (_THREADS * _HELD) + k * _THREADS + lane < width:
                        into[place + chunk * (_THREADS * _HELD) + k * _THREADS] = held[k]

    @T.prim_func
    def replace_move_rows(
        anchor: T.Tensor((1,), "uint8"),
        into: T.int64,
        source: T.int64,
        index: T.int64,
        claims: T.int64,
        rows: T.int64,
        tokens: T.int64,
        count: T.int64,
        width: T.int64,
        token_stride: T.int64,
        batch_stride: T.int64,
        source_stride: T.int64,
        unit: T.int32,
        wide: T.int32,
    ):
        with T.Kernel(T.ceildiv(count, _ROWS), threads=_THREADS * _ROWS) as block:
            T.annotate_min_blocks_per_sm(_RESIDENT)
            thread = T.get_thread_binding()
            slot = thread // _THREADS
            i = T.int64(block) * _ROWS + slot
            lane = thread % _THREADS
            beaten = T.alloc_shared((_ROWS,), "int32")
            rest = (i, lane, slot, beaten, rows, tokens, count, width, token_stride, batch_stride, source_stride)
            indices = IndexView(index, wide)
            if unit == 16:
                move("int32x4", into, source, indices, claims, *rest)
            elif unit == 8:
                move("int32x2", into, source, indices, claims, *rest)
            elif unit == 4:
                move("int32", into, source, indices, claims, *rest)
            else:
                move("int16", into, source, indices, claims, *rest)

    return replace_move_rows


def claim_rows() -> Any:
    """The program that enters, for each place, the last row that goes there into a table of -1."""

    @T.prim_func
    def replace_claim_rows(
        anchor: T.Tensor((1,), "uint8"),
        claims: T.int64,
        index: T.int64,
        rows: T.int64,
        count: T.int64,
        wide: T.int32,
    ):
        with T.Kernel(T.ceildiv(count, _CLAIM_THREADS), threads=_CLAIM_THREADS) as block:
            i = T.int64(block) * _CLAIM_THREADS + T.get_thread_binding()
            indices = IndexView(index, wide)
            table = view(claims, "int32")
            if i < count:
                row = T.alloc_var("int64", init=indices[i])
                if row >= 0 and row < rows:
                    T.call_extern("int32", "atomicMax", T.address_of(table[row]), T.int32(i))

    return replace_claim_rows
