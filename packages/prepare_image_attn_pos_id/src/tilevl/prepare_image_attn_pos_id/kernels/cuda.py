"""CUDA: all threads of a block find the images of its first and last token; each then searches between the two."""

from __future__ import annotations

from typing import Any

import tilelang.language as T
from torch import Tensor

from tilevl.core.cache import Kernel
from tilevl.core.cuda import CudaProgram, IndexView, view
from tilevl.core.cuda_windows import SHORT, place_in_windows
from tilevl.core.plans import Launch, PlannedKernel
from tilevl.prepare_image_attn_pos_id.contract import MAX_SIDE

_THREADS = 256
_PAIRS = 2  # pairs of tokens, 16 bytes each, that a thread writes
TOKENS = _THREADS * _PAIRS * 2  # of a block
_FAR = 2**62


def build() -> Kernel:
    """The kernel; any index dtypes, window, number of images and tokens."""
    program = CudaProgram("prepare_image_attn_pos_id", positions)

    def plan(grid_hw: Tensor, cu_seqlens_vit: Tensor, total_seqlens_vit: int, window: int, out: Tensor) -> Launch:
        device = out.get_device()
        numbers = (
            grid_hw.shape[0], total_seqlens_vit, window, int(grid_hw.element_size() == 8),
            int(cu_seqlens_vit.element_size() == 8),
        )  # fmt: skip

        def launch(grids: int, sums: int, positions: int) -> None:
            program(device, grids, sums, positions, *numbers)

        return launch

    return PlannedKernel(plan)


def positions() -> Any:
    """The program; a token outside of all images, or of an image whose grid and sums disagree, is at (0, 0)."""
    place = place_in_windows()

    @T.prim_func
    def pos_id_positions(
        anchor: T.Tensor((1,), "uint8"),
        grids: T.int64,
        sums: T.int64,
        out: T.int64,
        images: T.int32,
        total: T.int64,
        window: T.int64,
        wide_grids: T.int32,
        wide_sums: T.int32,
    ):
        with T.Kernel(T.ceildiv(total, TOKENS), threads=_THREADS) as block:
            thread = T.get_thread_binding()
            grid = IndexView(grids, wide_grids)
            ends = IndexView(sums, wide_sums)
            result = view(out, "int32")
            base = T.int64(block) * TOKENS
            first = T.alloc_var("int32", init=0)
            last = T.alloc_var("int32", init=0)
            first_below = T.alloc_var("int32", init=images)
            last_below = T.alloc_var("int32", init=images)
            step = T.alloc_var("int32", init=0)
            end = T.alloc_var("int64", init=0)
            while first < first_below or last < last_below:  # one step for up to 256 images, two for 65536
                step = (first_below - first + _THREADS - 1) // _THREADS
                end = _FAR
                if first + step * (thread + 1) <= first_below and step > 0:
                    end = ends[first + step * (thread + 1)]
                first += step * T.syncthreads_count(end <= base)
                first_below = T.min(first_below, first + T.max(step - 1, 0))
                step = (last_below - last + _THREADS - 1) // _THREADS
                end = _FAR
                if last + step * (thread + 1) <= last_below and step > 0:
                    end = ends[last + step * (thread + 1)]
                last += step * T.syncthreads_count(end < base + TOKENS)
                last_below = T.min(last_below, last + T.max(step - 1, 0))
            height = T.alloc_var("int64", init=0)
            width = T.alloc_var("int64", init=0)
            begin = T.alloc_var("int64", init=0)
            if first == last and first < images:  # one image for the whole block
                height = grid[2 * first]
                width = grid[2 * first + 1]
                begin = ends[first]
            held = T.alloc_local((4,), "int32")
            short = height > 0 and width > 0 and height <= MAX_SIDE and width <= MAX_SIDE and height * width < SHORT
            inside = short and base >= begin and base + TOKENS <= begin + height * width
            if inside and (window == 1 or (window == 2 and (base - begin) % 2 == 0 and width % 2 == 0)):
                columns = T.alloc_var("int32", init=T.int32(width))
                for pair in T.unroll(_PAIRS):
                    local = T.alloc_var("int32", init=T.int32(base - begin) + (pair * _THREADS + thread) * 2)
                    if window == 1:
                        line = T.alloc_var("int32", init=T.truncdiv(local, columns))
                        column = T.alloc_var("int32", init=local - line * columns)
                        held[0] = line
                        held[1] = column
                        held[2] = T.if_then_else(column + 1 < columns, line, line + 1)
                        held[3] = T.if_then_else(column + 1 < columns, column + 1, 0)
                    else:  # a pair is one row of a window
                        band = T.alloc_var("int32", init=T.truncdiv(local, columns * 2))
                        in_band = T.alloc_var("int32", init=local - band * columns * 2)
                        held[0] = band * 2 + ((in_band >> 1) & 1)
                        held[1] = (in_band >> 2) * 2
                        held[2] = held[0]
                        held[3] = held[1] + 1
                    for v in T.vectorized(4):
                        result[(base + (pair * _THREADS + thread) * 2) * 2 + v] = held[v]
            else:
                for pair in T.serial(_PAIRS):
                    token = base + (pair * _THREADS + thread) * 2
                    for k in T.unroll(2):
                        held[2 * k] = 0
                        held[2 * k + 1] = 0
                        low = T.alloc_var("int32", init=first)
                        high = T.alloc_var("int32", init=last)
                        while low < high:
                            middle = (low + high) >> 1
                            if ends[middle + 1] <= token + k:
                                low = middle + 1
                            else:
                                high = middle
                        if low < images:
                            if first != last:
                                height = grid[2 * low]
                                width = grid[2 * low + 1]
                                begin = ends[low]
                            own = T.alloc_var("int64", init=token + k - begin)
                            if height > 0 and width > 0 and height <= MAX_SIDE and width <= MAX_SIDE and own >= 0:
                                if own < height * width:
                                    small = height * width < SHORT and width * window < SHORT
                                    place(small, held, 2 * k, own, width, window)
                    if token + 1 < total:
                        for v in T.vectorized(4):
                            result[token * 2 + v] = held[v]
                    elif token < total:
                        for v in T.vectorized(2):
                            result[token * 2 + v] = held[v]

    return pos_id_positions
