"""CUDA: one block holds a strip of an image's columns, all rows of it, in registers: read, barrier, written in place.

Strips don't meet, so no block waits for another and no second buffer is needed. Images of more than ``LONGEST`` rows
don't fit: they go by way of a copy of the tensor, from torch's allocator (inside a graph capture from the graph's
pool), in two launches.
"""

from __future__ import annotations

from typing import Any

import tilelang.language as T
from torch import Tensor

from tilevl.core.cache import Kernel
from tilevl.core.cuda import CudaProgram, IndexView, scratch, view, widest_unit

OP = "shuffle_image_tokens"

_HELD = 8  # units that a thread holds
_SMALL, _LARGE = 512, 1024  # threads of a block; two small ones share a multiprocessor, one reads while one writes
LONGEST = _LARGE * _HELD
_SMALL_ROWS = 512  # up to here a small block's strip is 128 bytes wide or more: half as wide takes a fifth longer
_ENOUGH = 264  # blocks that keep the largest devices busy
_NARROW = 4  # units of a strip below which loads waste more than further blocks gain
_COPY_THREADS = 128
_COPY_HELD = 4


def build() -> Kernel:
    """The kernel; any dtype, width, alignment, row stride and number of groups."""
    small, large = (CudaProgram(OP, lambda threads=threads: shuffle_strips(threads)) for threads in (_SMALL, _LARGE))
    copy = CudaProgram(OP, copy_rows)

    def shuffle(
        input_embeds: Tensor, image_start: Tensor, image_tokens: Tensor, max_image_tokens: int, groups: int
    ) -> None:
        size, images, device = input_embeds.element_size(), image_start.shape[0], input_embeds.get_device()
        shape, strides = input_embeds.shape, input_embeds.stride()
        tokens, width, token_stride = shape[-2], shape[-1] * size, strides[-2] * size
        rows, batch_stride = tokens, 0
        if len(shape) == 3:
            rows, batch_stride = tokens * shape[0], strides[0] * size
            if batch_stride == tokens * token_stride:
                tokens = rows
        longest = min(max_image_tokens, rows)
        if longest <= 0:
            return
        embeds = input_embeds.data_ptr()
        unit = widest_unit(embeds | width | token_stride | batch_stride)
        units, token_stride, batch_stride = width // unit, token_stride // unit, batch_stride // unit
        spans = (
            image_start.data_ptr(), image_tokens.data_ptr(), images, longest, groups, image_start.element_size() == 8,
            image_tokens.element_size() == 8,
        )  # fmt: skip
        if longest > LONGEST:
            second = scratch(rows * width, device)
            layout = (rows, tokens, units, token_stride, batch_stride, unit)
            for way_back in (0, 1):
                copy(device, embeds, second.data_ptr(), *layout, *spans, way_back)
            return
        program, threads = (small, _SMALL) if longest <= _SMALL_ROWS else (large, _LARGE)
        strip = strip_width(threads * _HELD // longest, units, images)
        program(device, embeds, rows, tokens, units, token_stride, batch_stride, unit, strip, *spans)

    return shuffle


def strip_width(fits: int, units: int, images: int) -> int:
    """Width of a strip as a power of 2, given as its exponent: at most ``fits``, and enough strips for the device."""
    exponent = min(fits.bit_length() - 1, (units - 1).bit_length())
    while 1 << exponent > _NARROW and images * -(-units >> exponent) < _ENOUGH:
        exponent -= 1
    return exponent


def shuffle_strips(threads: int) -> Any:
    """The program that shuffles in place; widths and strides are in units."""

    @T.macro
    def shuffle(
        unit, embeds_at, strip, thread, start, count, groups, tokens, width, token_stride, batch_stride, columns
    ):
        embeds = view(embeds_at, unit)
        held = T.alloc_local((_HELD,), unit)
        column = (strip << columns) + (thread & ((1 << columns) - 1))
        if start + count <= tokens:  # no image of a batch ends inside: rows are equally far apart
            first = T.alloc_var("int32", init=thread >> columns)
            turn = T.alloc_var("int32", init=T.truncdiv(first, groups))
            group = T.alloc_var("int32", init=first - turn * groups)
            turns = T.alloc_var("int32", init=T.truncdiv(threads >> columns, groups))
            left = T.alloc_var("int32", init=(threads >> columns) - turns * groups)
            run = T.alloc_var("int64", init=T.truncdiv(count, groups) * token_stride)
            place = T.alloc_var("int64", init=start * token_stride + column + turn * token_stride + group * run)
            for k in T.unroll(_HELD):  # the next row of a thread: turns further, and one more where groups are full
                if first + k * (threads >> columns) < count and column < width:
                    held[k] = embeds[place]
                group += left
                place += turns * token_stride + left * run
                if group >= groups:
                    group -= groups
                    place += token_stride - groups * run
            T.sync_threads()
            place = (start + first) * token_stride + column
            for k in T.unroll(_HELD):
                if first + k * (threads >> columns) < count and column < width:
                    embeds[place] = held[k]
                place += (threads >> columns) * token_stride
        else:
            spot = T.alloc_var("int64", init=0)
            for k in T.unroll(_HELD):
                to = (thread + k * threads) >> columns
                if to < count and column < width:
                    whole = T.truncdiv(to, groups)
                    row = start + (to - whole * groups) * T.truncdiv(count, groups) + whole
                    spot = row * token_stride
                    if row >= tokens:
                        spot = T.truncdiv(row, tokens) * batch_stride + T.truncmod(row, tokens) * token_stride
                    held[k] = embeds[spot + column]
            T.sync_threads()
            for k in T.unroll(_HELD):
                to = (thread + k * threads) >> columns
                if to < count and column < width:
                    row = start + to
                    spot = row * token_stride
                    if row >= tokens:
                        spot = T.truncdiv(row, tokens) * batch_stride + T.truncmod(row, tokens) * token_stride
                    embeds[spot + column] = held[k]

    @T.prim_func
    def shuffle_strips(
        anchor: T.Tensor((1,), "uint8"),
        embeds: T.int64,
        rows: T.int64,
        tokens: T.int64,
        width: T.int32,
        token_stride: T.int64,
        batch_stride: T.int64,
        unit: T.int32,
        columns: T.int32,
        starts: T.int64,
        counts: T.int64,
        images: T.int32,
        longest: T.int32,
        groups: T.int32,
        wide_starts: T.int32,
        wide_counts: T.int32,
    ):
        with T.Kernel(T.ceildiv(width, 1 << columns) * images, threads=threads) as block:
            T.annotate_min_blocks_per_sm(1024 // threads)
            thread = T.get_thread_binding()
            image = T.truncdiv(block, T.ceildiv(width, 1 << columns))
            strip = block - image * T.ceildiv(width, 1 << columns)
            start = T.alloc_var("int64", init=IndexView(starts, wide_starts)[image])
            long_count = T.alloc_var("int64", init=IndexView(counts, wide_counts)[image])
            if start >= 0 and long_count > 0 and long_count <= longest and start <= rows - long_count:
                count = T.int32(long_count)
                if T.truncmod(count, groups) == 0:
                    rest = (strip, thread, start, count, groups, tokens, width, token_stride, batch_stride, columns)
                    if unit == 16:
                        shuffle("int32x4", embeds, *rest)
                    elif unit == 8:
                        shuffle("int32x2", embeds, *rest)
                    elif unit == 4:
                        shuffle("int32", embeds, *rest)
                    else:
                        shuffle("int16", embeds, *rest)

    return shuffle_strips


def copy_rows() -> Any:
    """The program that copies images: into a second buffer, and with ``way_back`` from there to the shuffled places."""

    @T.macro
    def copy(unit, from_at, to_at, thread, read, write, width):
        source = view(from_at, unit)
        into = view(to_at, unit)
        held = T.alloc_local((_COPY_HELD,), unit)
        for chunk in T.serial(T.ceildiv(width, _COPY_THREADS * _COPY_HELD)):
            for k in T.unroll(_COPY_HELD):
                column = (chunk * _COPY_HELD + k) * _COPY_THREADS + thread
                if column < width:
                    held[k] = source[read + column]
            for k in T.unroll(_COPY_HELD):
                column = (chunk * _COPY_HELD + k) * _COPY_THREADS + thread
                if column < width:
                    into[write + column] = held[k]

    @T.prim_func
    def shuffle_copy_rows(
        anchor: T.Tensor((1,), "uint8"),
        embeds: T.int64,
        second: T.int64,
        rows: T.int64,
        tokens: T.int64,
        width: T.int32,
        token_stride: T.int64,
        batch_stride: T.int64,
        unit: T.int32,
        starts: T.int64,
        counts: T.int64,
        images: T.int32,
        longest: T.int32,
        groups: T.int32,
        wide_starts: T.int32,
        wide_counts: T.int32,
        way_back: T.int32,
    ):
        with T.Kernel(longest * images, threads=_COPY_THREADS) as block:
            thread = T.get_thread_binding()
            image = T.truncdiv(block, longest)
            to = T.int64(block - image * longest)
            start = T.alloc_var("int64", init=IndexView(starts, wide_starts)[image])
            count = T.alloc_var("int64", init=IndexView(counts, wide_counts)[image])
            if start >= 0 and to < count and count <= longest and start <= rows - count:
                if T.truncmod(count, T.int64(groups)) == 0:
                    row = start + to
                    inside = T.alloc_var("int64", init=row * token_stride)
                    if row >= tokens:
                        inside = T.truncdiv(row, tokens) * batch_stride + T.truncmod(row, tokens) * token_stride
                    beside = T.alloc_var("int64", init=row * width)
                    read_at = T.alloc_var("int64", init=embeds)
                    write_at = T.alloc_var("int64", init=second)
                    read = T.alloc_var("int64", init=inside)
                    write = T.alloc_var("int64", init=beside)
                    if way_back != 0:
                        turn = T.truncdiv(to, T.int64(groups))
                        run = T.truncdiv(count, T.int64(groups))
                        beside = (start + (to - turn * groups) * run + turn) * width
                        read_at = second
                        write_at = embeds
                        read = beside
                        write = inside
                    if unit == 16:
                        copy("int32x4", read_at, write_at, thread, read, write, width)
                    elif unit == 8:
                        copy("int32x2", read_at, write_at, thread, read, write, width)
                    elif unit == 4:
                        copy("int32", read_at, write_at, thread, read, write, width)
                    else:
                        copy("int16", read_at, write_at, thread, read, write, width)

    return shuffle_copy_rows
