"""Ascend: a vector core holds a strip of an image's columns, all rows of it, and writes its runs where they go.

Strips don't meet, so no core waits for another and no second buffer is needed. A strip is as wide as fits beside the
longest image that the caller allows. Where no strip of 32 bytes fits, rows go by way of a copy of the tensor.
"""

from typing import Any

import tilelang.ascend.language as T
from torch import Tensor

from tilevl.core.ascend import AscendProgram
from tilevl.core.cache import Kernel
from tilevl.shuffle_image_tokens.strips import HELD_BYTES, LONGEST, strip_bytes

OP = "shuffle_image_tokens"

_PIECE = 4095  # bursts of one copy
_LOOKED = 512  # images that a core looks at together
_COPY_SLOTS = 4
_COPY_BYTES = 40 * 1024  # of a slot
_COPY_ROWS = 20


def build() -> Kernel:
    """The kernel; any number of rows, images and groups, any width and row stride."""
    programs: dict[tuple[Any, ...], AscendProgram] = {}

    def program(trace: Any, *kind: Any) -> AscendProgram:
        found = programs.get((trace, *kind))
        if found is None:
            found = programs.setdefault((trace, *kind), AscendProgram(OP, lambda cores: trace(cores, *kind)))
        return found

    def shuffle(
        input_embeds: Tensor, image_start: Tensor, image_tokens: Tensor, max_image_tokens: int, groups: int
    ) -> None:
        rows = flat(input_embeds)
        if rows is None:  # entries at another distance than their rows ask for: no one stride reaches all rows
            even = input_embeds.contiguous()
            shuffle(even, image_start, image_tokens, max_image_tokens, groups)
            input_embeds.copy_(even)
            return
        longest = min(max_image_tokens, rows.shape[0])
        blocks, rest = divmod(rows.shape[0], groups)
        if groups == 1 or longest < groups:
            return
        apart, width = rows.stride(0), rows.shape[1]
        spread = rows.as_strided((blocks, groups + rest, width), (groups * apart, apart, 1))
        types = str(rows.dtype)[6:], str(image_start.dtype)[6:], str(image_tokens.dtype)[6:]
        if longest > LONGEST:
            source = rows.contiguous() if not rows.is_contiguous() else rows.clone()
            program(copy_runs, *types)(source, spread, image_start, image_tokens, longest, groups)
            return
        strip, slots = strip_bytes(longest, width * rows.element_size(), image_start.shape[0])
        program(shuffle_strips, *types, strip, slots)(rows, spread, image_start, image_tokens, longest, groups)

    return shuffle


def flat(input_embeds: Tensor) -> Tensor | None:
    """The rows as ``[rows, D]``, None where they don't lie at one distance."""
    if input_embeds.dim() == 2:
        return input_embeds
    batch, tokens, width = input_embeds.shape
    apart = input_embeds.stride(1)
    if batch > 1 and tokens == 1:
        apart = input_embeds.stride(0)
    elif batch > 1 and input_embeds.stride(0) != tokens * apart:
        return None
    return input_embeds.as_strided((batch * tokens, width), (apart, 1))


@T.macro
def count_breaks(starts, counts, breaks, rows, images, longest, groups):
    """Counts what hints that two images share a row: less than two breaks say that none do.

    There is one break where the first image that is there stands and each time that one follows one that isn't, and two
    where one begins before the end of the one before.
    """
    seen_starts = T.alloc_shared((_LOOKED,), starts.dtype)
    seen_counts = T.alloc_shared((_LOOKED,), counts.dtype)
    own = T.alloc_shared((_LOOKED,), "int32")
    with T.SimtVF(threads=_LOOKED):
        for thread in T.Parallel(_LOOKED):
            own[thread] = 0
    for part in T.serial(T.ceildiv(images, _LOOKED - 1)):
        T.copy(starts[part * (_LOOKED - 1)], seen_starts)
        T.copy(counts[part * (_LOOKED - 1)], seen_counts)
        with T.SimtVF(threads=_LOOKED):
            for thread in T.Parallel(_LOOKED):
                first = T.alloc_var("int64", init=0)
                size = T.alloc_var("int64", init=0)
                end = T.alloc_var("int64", init=-1)
                if part * (_LOOKED - 1) + thread < images:
                    first = T.Cast("int64", seen_starts[thread])
                    size = T.Cast("int64", seen_counts[thread])
                    if first >= 0 and size > 0 and size <= longest and first <= rows - size:
                        if T.truncmod(size, groups) == 0:
                            end = first + size
                            if part == 0 and thread == 0:
                                own[0] = 1
                if thread + 1 < _LOOKED and part * (_LOOKED - 1) + thread + 1 < images:
                    first = T.Cast("int64", seen_starts[thread + 1])
                    size = T.Cast("int64", seen_counts[thread + 1])
                    if first >= 0 and size > 0 and size <= longest and first <= rows - size:
                        if T.truncmod(size, groups) == 0:
                            if end < 0:
                                own[thread] = own[thread] + 1
                            elif first < end:
                                own[thread] = own[thread] + 2
    with T.SimtVF(threads=_LOOKED):
        T.reduce_sum(own, breaks, dim=0)


def shuffle_strips(cores: int, element: str, start: str, count: str, strip: int, slots: int) -> Any:
    """The program that shuffles in place; ``strip`` is in bytes."""
    columns = strip // (T.dtype(element).bits // 8)
    room = HELD_BYTES // slots // strip  # rows
    rows, width, apart, blocks, inner, step, images = (
        T.dynamic(name, "int64") for name in ("rows", "width", "apart", "blocks", "inner", "step", "images")
    )

    @T.prim_func
    def shuffle_strips(
        embeds: T.StridedTensor((rows, width), (apart, 1), element),
        spread: T.StridedTensor((blocks, inner, width), (step, apart, 1), element),
        starts: T.Tensor((images,), start),
        counts: T.Tensor((images,), count),
        longest: T.int64,
        groups: T.int64,
    ):
        with T.Kernel(cores) as core:
            held = T.alloc_shared((slots, room, columns), element)
            T.annotate_manual_multi_buffer(held)
            breaks = T.alloc_shared((1,), "int32")
            count_breaks(starts, counts, breaks, rows, images, longest, groups)
            rising = T.alloc_var("int32", init=0)
            if breaks[0] < 2:
                rising = 1

            # Strips of all images in turn; where images may share rows, all of one strip on one core, in order.
            strips = T.ceildiv(width, columns)
            turns = T.alloc_var("int64", init=0)
            if rising == 1:
                turns = T.ceildiv(images * strips - core, cores)
            else:
                turns = T.ceildiv(strips - core, cores) * images
            image = T.alloc_var("int64", init=0)
            column = T.alloc_var("int64", init=0)
            begin = T.alloc_var("int64", init=0)
            size = T.alloc_var("int64", init=0)
            run = T.alloc_var("int64", init=0)
            block = T.alloc_var("int64", init=0)
            for turn in T.serial(turns):
                T.assume_no_conflict(embeds)
                T.assume_no_conflict(spread)
                if rising == 1:
                    image = T.truncdiv(turn * cores + core, strips)
                    column = T.truncmod(turn * cores + core, strips) * columns
                else:
                    image = T.truncmod(turn, images)
                    column = (T.truncdiv(turn, images) * cores + core) * columns
                    T.ascend_pipe_barrier("PIPE_ALL")
                begin = T.Cast("int64", starts[image])
                size = T.Cast("int64", counts[image])
                run = 0
                if begin >= 0 and size > 0 and size <= longest and begin <= rows - size:
                    if T.truncmod(size, groups) == 0:
                        run = T.truncdiv(size, groups)
                if run > 1:  # runs of one row stay as they are
                    for piece in T.serial(T.ceildiv(size, _PIECE)):
                        T.copy(
                            embeds[
                                begin + piece * _PIECE : begin + T.min(piece * _PIECE + _PIECE, size),
                                column : column + columns,
                            ],
                            held[turn % slots, piece * _PIECE : T.min(piece * _PIECE + _PIECE, size), 0:columns],
                        )
                    for group in T.serial(groups):
                        T.assume_no_conflict(spread)
                        block = T.min(T.truncdiv(begin + group, groups), blocks - run)
                        T.copy(
                            held[turn % slots, group * run : group * run + run, 0:columns],
                            spread[block : block + run, begin + group - block * groups, column : column + columns],
                        )

    return shuffle_strips


def copy_runs(cores: int, element: str, start: str, count: str) -> Any:
    """The program that copies rows from a copy of the tensor to their new places."""
    columns = _COPY_BYTES // _COPY_ROWS // (T.dtype(element).bits // 8)
    rows, width, blocks, inner, step, apart, images = (
        T.dynamic(name, "int64") for name in ("rows", "width", "blocks", "inner", "step", "apart", "images")
    )

    @T.prim_func
    def shuffle_copy_runs(
        source: T.Tensor((rows, width), element),
        spread: T.StridedTensor((blocks, inner, width), (step, apart, 1), element),
        starts: T.Tensor((images,), start),
        counts: T.Tensor((images,), count),
        longest: T.int64,
        groups: T.int64,
    ):
        with T.Kernel(cores) as core:
            held = T.alloc_shared((_COPY_SLOTS, _COPY_ROWS, columns), element)
            T.annotate_manual_multi_buffer(held)
            breaks = T.alloc_shared((1,), "int32")
            count_breaks(starts, counts, breaks, rows, images, longest, groups)
            rising = T.alloc_var("int32", init=0)
            if breaks[0] < 2:
                rising = 1

            # A task is a piece of a run, in some columns; where images may share rows, one core has these columns.
            pieces = T.ceildiv(T.ceildiv(longest, groups), _COPY_ROWS)
            strips = T.ceildiv(width, columns)
            turns = T.alloc_var("int64", init=T.ceildiv(strips - core, cores) * images * groups * pieces)
            if rising == 1:
                turns = T.ceildiv(strips * images * groups * pieces - core, cores)
            task = T.alloc_var("int64", init=0)
            column = T.alloc_var("int64", init=0)
            image = T.alloc_var("int64", init=0)
            begin = T.alloc_var("int64", init=0)
            size = T.alloc_var("int64", init=0)
            group = T.alloc_var("int64", init=0)
            done = T.alloc_var("int64", init=0)
            run = T.alloc_var("int64", init=0)
            more = T.alloc_var("int64", init=0)
            block = T.alloc_var("int64", init=0)
            for turn in T.serial(turns):
                T.assume_no_conflict(spread)
                if rising == 1:
                    task = T.truncdiv(turn * cores + core, strips)
                    column = T.truncmod(turn * cores + core, strips) * columns
                else:
                    task = T.truncmod(turn, images * groups * pieces)
                    column = (T.truncdiv(turn, images * groups * pieces) * cores + core) * columns
                    T.ascend_pipe_barrier("PIPE_MTE3")
                image = T.truncdiv(task, groups * pieces)
                group = T.truncmod(T.truncdiv(task, pieces), groups)
                done = T.truncmod(task, pieces) * _COPY_ROWS
                begin = T.Cast("int64", starts[image])
                size = T.Cast("int64", counts[image])
                more = 0
                if begin >= 0 and size > 0 and size <= longest and begin <= rows - size:
                    if T.truncmod(size, groups) == 0:
                        run = T.truncdiv(size, groups)
                        more = T.min(run - done, _COPY_ROWS)
                if more > 0:
                    block = T.min(T.truncdiv(begin + group, groups), blocks - run)
                    T.copy(
                        source[
                            begin + group * run + done : begin + group * run + done + more, column : column + columns
                        ],
                        held[turn % _COPY_SLOTS, 0:more, 0:columns],
                    )
                    T.copy(
                        held[turn % _COPY_SLOTS, 0:more, 0:columns],
                        spread[
                            block + done : block + done + more,
                            begin + group - block * groups,
                            column : column + columns,
                        ],
                    )

    return shuffle_copy_runs
