"""Ascend: each vector core moves an even share of the rows through its unified buffer, several copies on their way.

Rows that go to neighbouring rows move as one copy. First every core looks at all indices. Where those that count rise
from one to the next, no two are equal and the shares go out in any order. Otherwise a core takes the rows whose
destinations it owns, one after the other, so that of equal indices the last row wins whole.
"""

from typing import Any

import tilelang.ascend.language as T
from torch import Tensor

from tilevl.core.ascend import AscendProgram
from tilevl.core.cache import Kernel

OP = "replace_input_embeds"

_SLOTS = 4  # copies on their way at once
_SLOT_BYTES = 32 * 1024
_NARROWEST = 256  # bytes of the smallest piece of a row; fewer kinds of kernels
_LOOKED = 8192  # indices that a core looks at together, and keeps where these are all
_THREADS = 1024


def key(input_embeds: Tensor, token_index: Tensor) -> tuple[str, str, int]:
    """What a kernel is built for: types of elements and indices, and room for a row: a power of 2, up to a slot."""
    room = _NARROWEST
    while room < _SLOT_BYTES and room < input_embeds.shape[-1] * input_embeds.element_size():
        room *= 2
    return str(input_embeds.dtype)[6:], str(token_index.dtype)[6:], room // input_embeds.element_size()


def build() -> Kernel:
    """The kernel; any count, width and row stride."""
    programs: dict[tuple[str, str, int], AscendProgram] = {}

    def replace(input_embeds: Tensor, image_embeds: Tensor, token_index: Tensor) -> None:
        kind = key(input_embeds, token_index)
        program = programs.get(kind)
        if program is None:
            program = programs.setdefault(kind, AscendProgram(OP, lambda cores: move_rows(cores, *kind)))
        program(entries(input_embeds), image_embeds, token_index)

    return replace


def entries(input_embeds: Tensor) -> Tensor:
    """The rows as ``[entries, tokens, D]``; one entry wherever all rows lie at one distance."""
    if input_embeds.dim() == 2:
        return input_embeds.unsqueeze(0)
    batch, tokens, width = input_embeds.shape
    apart = input_embeds.stride(1)
    if batch == 1 or input_embeds.stride(0) == tokens * apart:
        return input_embeds.as_strided((1, batch * tokens, width), (batch * tokens * apart, apart, 1))
    return input_embeds


def move_rows(cores: int, element: str, index: str, room: int) -> Any:
    """The program; ``room`` is in elements."""
    size = T.dtype(element).bits // 8
    most = _SLOT_BYTES // (room * size)  # rows of one copy
    batch, tokens, width, count, batch_stride, token_stride, source_stride = (
        T.dynamic(name, "int64")
        for name in ("batch", "tokens", "width", "count", "batch_stride", "token_stride", "source_stride")
    )

    @T.prim_func
    def replace_move_rows(
        into: T.StridedTensor((batch, tokens, width), (batch_stride, token_stride, 1), element),
        source: T.StridedTensor((count, width), (source_stride, 1), element),
        indices: T.Tensor((count,), index),
    ):
        with T.Kernel(cores) as core:
            held = T.alloc_shared((_SLOTS, most, room), element)
            seen = T.alloc_shared((_LOOKED,), index)
            breaks = T.alloc_shared((_THREADS,), "int32")
            all_breaks = T.alloc_shared((1,), "int32")
            T.annotate_manual_multi_buffer(held)

            # One break where the first index that counts stands, and each time one follows one that doesn't count; two
            # where an index doesn't rise. With one at most, the indices that count are one rising run.
            with T.SimtVF(threads=_THREADS):
                for thread in T.Parallel(_THREADS):
                    breaks[thread] = 0
            for part in T.serial(T.ceildiv(count, _LOOKED - 1)):
                T.copy(indices[part * (_LOOKED - 1)], seen)
                with T.SimtVF(threads=_THREADS):
                    for thread in T.Parallel(_THREADS):
                        if part == 0 and thread == 0:
                            if seen[0] >= 0:
                                breaks[0] = 1
                        for step in T.serial(_LOOKED // _THREADS):
                            i = step * _THREADS + thread
                            if i + 1 < _LOOKED and part * (_LOOKED - 1) + i + 1 < count:
                                if seen[i + 1] >= 0:
                                    if seen[i] >= seen[i + 1]:
                                        breaks[thread] = breaks[thread] + 2
                                    elif seen[i] < 0:
                                        breaks[thread] = breaks[thread] + 1
            with T.SimtVF(threads=_THREADS):
                T.reduce_sum(breaks, all_breaks, dim=0)
            rising = T.alloc_var("int32", init=0)
            if all_breaks[0] < 2:
                rising = 1

            i = T.alloc_var("int64", init=0)
            end = T.alloc_var("int64", init=count)
            column = T.alloc_var("int64", init=0)
            row = T.alloc_var("int64", init=-1)
            run = T.alloc_var("int64", init=1)
            limit = T.alloc_var("int64", init=1)
            entry = T.alloc_var("int64", init=0)
            token = T.alloc_var("int64", init=0)
            if rising == 1:
                i = count * core // cores
                end = count * (core + 1) // cores
            for turn in T.serial((end - i) * T.ceildiv(width, room)):
                if i < end:
                    if column == 0:
                        if rising == 0 and count < _LOOKED:  # the core reads all of them, and has them already
                            row = T.Cast("int64", seen[i])
                        else:
                            row = T.Cast("int64", indices[i])
                        run = 1
                        if row >= 0 and row < batch * tokens:
                            entry = T.truncdiv(row, tokens)
                            token = T.truncmod(row, tokens)
                            if rising == 1:
                                limit = T.min(T.min(end - i, tokens - token), most)
                                while run < limit and T.Cast("int64", indices[i + run]) == row + run:
                                    run += 1
                            elif T.truncmod(row, T.int64(cores)) != core:
                                row = -1
                        else:
                            row = -1
                    if row >= 0:
                        T.assume_no_conflict(into)
                        T.copy(source[i : i + run, column : column + room], held[turn % _SLOTS, 0:run, 0:room])
                        if rising == 0:  # a row may go where the one before went
                            T.ascend_pipe_barrier("PIPE_MTE3")
                        T.copy(
                            held[turn % _SLOTS, 0:run, 0:room],
                            into[entry, token : token + run, column : column + room],
                        )
                        column += room
                    if row < 0 or column >= width:
                        column = 0
                        i += run

    return replace_move_rows
