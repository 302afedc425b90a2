"""CUDA: blocks hold a strip of an image's columns, all rows of it, in registers: read, barrier, written in place.

On Hopper up to 8 blocks, a cluster with a barrier of its own, share the rows of a strip, which is the wider for it.
Strips don't meet, so no second buffer is needed. Images that don't fit go by way of a copy of the tensor, from torch's
allocator (inside a graph capture from the graph's pool), in two launches.
"""

from __future__ import annotations

from typing import Any

import tilelang.language as T
from torch import Tensor

from tilevl.core.cache import Kernel
from tilevl.core.cuda import UNITS, CudaProgram, IndexView, has_clusters, scratch, view, widest_unit
from tilevl.core.plans import Launch, PlannedKernel

OP = "shuffle_image_tokens"

_HELD = 8  # units that a thread holds
_SMALL, _LARGE = 512, 1024  # threads of a block; two small ones share a multiprocessor, one reads while one writes
_MOST_BLOCKS = 8  # of a cluster
_WIDE = 16  # units of a strip beyond which its width gains nothing
_ENOUGH = 264  # blocks that keep the largest devices busy
_NARROW = 4  # units of a strip below which loads waste more than further blocks gain
_LEAST = 2  # units of a strip below which a copy of the tensor is as fast
_COPY_THREADS = 128
_COPY_HELD = 4


def build() -> Kernel:
    """The kernel; any dtype, width, alignment, row stride and number of groups."""
    programs = {
        plan: CudaProgram(OP, lambda plan=plan: shuffle_strips(*plan)) for plan in {*_plans(True), *_plans(False)}
    }
    copy = CudaProgram(OP, copy_rows)

    def plan(
        input_embeds: Tensor, image_start: Tensor, image_tokens: Tensor, max_image_tokens: int, groups: int
    ) -> Launch:
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
            return lambda embeds, starts, counts: None
        bits = width | token_stride | batch_stride
        layouts = {
            unit: (rows, tokens, width // unit, token_stride // unit, batch_stride // unit, unit)
            for unit in UNITS
            if bits % unit == 0
        }
        wide = int(image_start.element_size() == 8), int(image_tokens.element_size() == 8)
        spans = (images, longest, groups, *wide)
        shares = plan_of(longest, has_clusters(device))
        if shares is None:

            def launch_by_copy(embeds: int, starts: int, counts: int) -> None:
                second = scratch(rows * width, device)
                layout = layouts[widest_unit(embeds | bits)]
                for way_back in (0, 1):
                    copy(device, embeds, second.data_ptr(), *layout, starts, counts, *spans, way_back)

            return launch_by_copy
        program, fitting = programs[shares], _fitting(longest, *shares)
        strips = {unit: strip_width(fitting, width // unit, images * shares[1]) for unit in layouts}

        def launch(embeds: int, starts: int, counts: int) -> None:
            unit = widest_unit(embeds | bits)
            program(device, embeds, *layouts[unit], strips[unit], starts, counts, *spans)

        return launch

    return PlannedKernel(plan)


def plan_of(longest: int, clusters: bool) -> tuple[int, int] | None:
    """Threads of a block and blocks of a cluster for images of up to ``longest`` rows; None where a copy is needed."""
    plans = _plans(clusters)
    for plan in plans[:-1]:
        if _fitting(longest, *plan) >= (_WIDE if plan != plans[-2] else _WIDE // 2):
            return plan
    return plans[-1] if _fitting(longest, *plans[-1]) >= (_LEAST if clusters else 1) else None


def _plans(clusters: bool) -> tuple[tuple[int, int], ...]:
    """Threads and blocks, from those for short images to those for long ones."""
    if clusters:
        return (_SMALL, 1), (_SMALL, 2), (_SMALL, 4), (_SMALL, _MOST_BLOCKS), (_LARGE, _MOST_BLOCKS)
    return (_SMALL, 1), (_LARGE, 1)


def _fitting(longest: int, threads: int, blocks: int) -> int:
    """Units of the widest strip that fits into the registers of a cluster."""
    return threads * _HELD // -(-longest // blocks)


def strip_width(fits: int, units: int, images: int) -> int:
    """Width of a strip as a power of 2, given as its exponent: at most ``fits``, and enough strips for the device."""
    exponent = min(min(fits, _WIDE).bit_length() - 1, (units - 1).bit_length())
    while 1 << exponent > _NARROW and images * -(-units >> exponent) < _ENOUGH:
        exponent -= 1
    return exponent


def shuffle_strips(threads: int, blocks: int) -> Any:
    """The program that shuffles in place; widths and strides are in units.

    Args:
        threads: of a block.
        blocks: of a cluster, which shares the rows of a strip; 1 for no cluster.
    """

    @T.macro
    def meet():
        if blocks == 1:
            T.sync_threads()
        else:
            T.call_extern("handle", "tl::cluster_sync")

    @T.macro
    def shuffle(
        unit, embeds_at, strip, thread, start, count, first, last, groups, tokens, width, token_stride, batch_stride,
        columns,
    ):  # fmt: skip
        embeds = view(embeds_at, unit)
        held = T.alloc_local((_HELD,), unit)
        column = T.alloc_var("int32", init=(strip << columns) + (thread & ((1 << columns) - 1)))
        run = T.alloc_var("int32", init=T.truncdiv(count, groups))
        if start + count <= tokens:  # no image of a batch ends inside: rows are equally far apart
            place = T.alloc_var("int64", init=start * token_stride + column)
            turn = T.alloc_var("int32", init=0)
            for k in T.unroll(_HELD):
                to = first + ((thread + k * threads) >> columns)
                if to < last and column < width:
                    turn = T.truncdiv(to, groups)
                    held[k] = embeds[place + T.int64((to - turn * groups) * run + turn) * token_stride]
            meet()
            for k in T.unroll(_HELD):
                to = first + ((thread + k * threads) >> columns)
                if to < last and column < width:
                    embeds[place + T.int64(to) * token_stride] = held[k]
        else:
            spot = T.alloc_var("int64", init=0)
            row = T.alloc_var("int64", init=0)
            turn = T.alloc_var("int32", init=0)
            for k in T.unroll(_HELD):
                to = first + ((thread + k * threads) >> columns)
                if to < last and column < width:
                    turn = T.truncdiv(to, groups)
                    row = start + ((to - turn * groups) * run + turn)
                    spot = T.truncdiv(row, tokens)
                    spot = spot * batch_stride + (row - spot * tokens) * token_stride
                    held[k] = embeds[spot + column]
            meet()
            for k in T.unroll(_HELD):
                to = first + ((thread + k * threads) >> columns)
                if to < last and column < width:
                    row = start + to
                    spot = T.truncdiv(row, tokens)
                    spot = spot * batch_stride + (row - spot * tokens) * token_stride
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
        with T.Kernel(
            ((width + (1 << columns) - 1) >> columns) * images * blocks, threads=threads, cluster_dims=blocks,
            prelude="#include <tl_templates/cuda/cluster.h>\n",
        ) as block:  # fmt: skip
            T.annotate_min_blocks_per_sm(1024 // threads)
            if blocks > 1:
                T.pdl_sync()  # TVM lets every cluster start before the kernel ahead of it has ended
            thread = T.get_thread_binding()
            strips = T.alloc_var("int32", init=(width + (1 << columns) - 1) >> columns)
            image = T.alloc_var("int32", init=T.truncdiv(block // blocks, strips))
            strip = T.alloc_var("int32", init=block // blocks - image * strips)
            start = T.alloc_var("int64", init=IndexView(starts, wide_starts)[image])
            long_count = T.alloc_var("int64", init=IndexView(counts, wide_counts)[image])
            if start >= 0 and long_count > 0 and long_count <= longest and start <= rows - long_count:
                count = T.int32(long_count)
                if T.truncmod(count, groups) == 0:
                    first = T.alloc_var("int32", init=T.ceildiv(count, blocks) * (block % blocks))
                    last = T.alloc_var("int32", init=T.min(first + T.ceildiv(count, blocks), count))
                    rest = (
                        strip,
                        thread,
                        start,
                        count,
                        first,
                        last,
                        groups,
                        tokens,
                        width,
                        token_stride,
                        batch_stride,
                        columns,
                    )
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
