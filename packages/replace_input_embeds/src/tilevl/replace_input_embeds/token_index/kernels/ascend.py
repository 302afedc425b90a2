"""Ascend: a vector core writes the positions of some chunks of the mask, and counts the entries before them itself.

So no core waits for another. Cores that count read what others read too, which is why a core takes two chunks before a
further one joins in.
"""

from typing import Any

import tilelang.ascend.language as T
from torch import Tensor

from tilevl.core.ascend import AscendProgram
from tilevl.core.cache import Kernel

OP = "image_token_index"

_THREADS = 512
_EACH = 16  # entries that a thread looks at
_CHUNK = _THREADS * _EACH
_CHUNKS_OF_A_CORE = 2
_GROUPS = 32
_GROUP = _THREADS // _GROUPS  # threads whose counts are added up first


def build() -> Kernel:
    """The kernel; any strides and length."""
    dense, strided = (AscendProgram(OP, lambda cores, way=way: find_marked(cores, way)) for way in (True, False))

    def find(is_image_token: Tensor, num_image_tokens: int, out: Tensor) -> None:
        if is_image_token.is_contiguous():
            dense(is_image_token.as_strided((1, is_image_token.numel()), (is_image_token.numel(), 1)), out)
        else:
            strided(is_image_token if is_image_token.dim() == 2 else is_image_token.unsqueeze(0), out)

    return find


def find_marked(cores: int, dense: bool) -> Any:
    """The program; what is marked beyond the result's length is left out."""
    batch, tokens, batch_stride, token_stride, length = (
        T.dynamic(name, "int64") for name in ("batch", "tokens", "batch_stride", "token_stride", "length")
    )
    strides = (batch_stride, 1 if dense else token_stride)

    @T.prim_func
    def index_find_marked(
        mask: T.StridedTensor((batch, tokens), strides, "bool"),
        out: T.Tensor((length,), "int64"),
    ):
        with T.Kernel(cores) as core:
            marks = T.alloc_shared((_CHUNK,), "bool")
            places = T.alloc_shared((_CHUNK,), "int64")
            counts = T.alloc_shared((_THREADS,), "int32")
            sums = T.alloc_shared((_GROUPS,), "int32")
            total = T.alloc_shared((8,), "int32")
            earlier = T.alloc_shared((_THREADS,), "int32")
            all_earlier = T.alloc_shared((1,), "int32")
            chunks = T.ceildiv(batch * tokens, _CHUNK)
            workers = T.max(T.min(T.int64(cores), T.ceildiv(chunks, _CHUNKS_OF_A_CORE)), 1)
            begin = T.alloc_var("int64", init=chunks * core // workers)
            end = T.alloc_var("int64", init=chunks * (core + 1) // workers)
            place = T.alloc_var("int64", init=0)
            found = T.alloc_var("int32", init=0)
            if core < workers:
                with T.SimtVF(threads=_THREADS):
                    for thread in T.Parallel(_THREADS):
                        earlier[thread] = 0
                for chunk in T.serial(end):
                    if dense:
                        T.copy(mask[0, chunk * _CHUNK : chunk * _CHUNK + _CHUNK], marks)
                    else:
                        with T.SimtVF(threads=_THREADS):
                            for thread in T.Parallel(_THREADS):
                                for step in T.serial(_EACH):
                                    entry = chunk * _CHUNK + step * _THREADS + thread
                                    if entry < batch * tokens:
                                        marks[step * _THREADS + thread] = mask[
                                            T.truncdiv(entry, tokens), T.truncmod(entry, tokens)
                                        ]
                    with T.SimtVF(threads=_THREADS):
                        for thread in T.Parallel(_THREADS):
                            count = T.alloc_var("int32", init=0)
                            for k in T.serial(_EACH):
                                if chunk * _CHUNK + thread * _EACH + k < batch * tokens:
                                    if marks[thread * _EACH + k]:
                                        count += 1
                            counts[thread] = count
                            if chunk < begin:
                                earlier[thread] = earlier[thread] + count
                    if chunk >= begin:
                        if chunk == begin:
                            with T.SimtVF(threads=_THREADS):
                                T.reduce_sum(earlier, all_earlier, dim=0)
                            place = all_earlier[0]
                        with T.SimtVF(threads=_GROUPS):
                            for group in T.Parallel(_GROUPS):
                                inside = T.alloc_var("int32", init=0)
                                for k in T.serial(_GROUP):
                                    inside += counts[group * _GROUP + k]
                                sums[group] = inside
                        with T.SimtVF(threads=_THREADS):
                            for thread in T.Parallel(_THREADS):
                                into = T.alloc_var("int32", init=0)
                                for k in T.serial(T.truncdiv(thread, _GROUP)):
                                    into += sums[k]
                                for k in T.serial(T.truncmod(thread, _GROUP)):
                                    into += counts[thread - k - 1]
                                for k in T.serial(_EACH):
                                    if chunk * _CHUNK + thread * _EACH + k < batch * tokens:
                                        if marks[thread * _EACH + k]:
                                            places[into] = chunk * _CHUNK + thread * _EACH + k
                                            into += 1
                                if thread == _THREADS - 1:
                                    total[0] = into
                        found = total[0]
                        T.copy(places[0:found], out[place : place + found])
                        place += found
                if core == workers - 1:
                    with T.SimtVF(threads=_THREADS):
                        for step in T.serial(_EACH):
                            for thread in T.Parallel(_THREADS):
                                places[step * _THREADS + thread] = -1
                    for piece in T.serial(T.ceildiv(length - place, _CHUNK)):
                        T.copy(places, out[place + piece * _CHUNK : place + piece * _CHUNK + _CHUNK])

    return index_find_marked
