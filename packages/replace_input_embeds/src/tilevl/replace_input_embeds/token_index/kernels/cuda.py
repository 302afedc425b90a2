"""CUDA: a block counts the True entries before its own, which spares blocks from waiting for each other."""

from __future__ import annotations

from typing import Any

import tilelang.language as T
from torch import Tensor

from tilevl.core.cache import Kernel
from tilevl.core.cuda import WIDEST, CudaProgram, view
from tilevl.core.plans import Launch, PlannedKernel

_THREADS = 1024
_WARPS = _THREADS // 32
_EACH = 16  # entries that a thread looks at
_BLOCK = _THREADS * _EACH


def build() -> Kernel:
    """The kernel; any strides, alignment and length."""
    program = CudaProgram("image_token_index", find_marked)

    def plan(is_image_token: Tensor, num_image_tokens: int, out: Tensor) -> Launch:
        device, total, contiguous = out.get_device(), is_image_token.numel(), is_image_token.is_contiguous()
        tokens, token_stride = is_image_token.shape[-1], is_image_token.stride(-1)
        batch_stride = is_image_token.stride(0) if is_image_token.dim() == 2 else 0
        numbers = max(1, -(-total // _BLOCK)), total, tokens, token_stride, batch_stride, num_image_tokens

        def launch(marks: int, index: int) -> None:
            program(device, marks, index, *numbers, int(contiguous and marks % WIDEST == 0))

        return launch

    return PlannedKernel(plan)


def find_marked() -> Any:
    """The program; what is marked beyond the result's length is left out."""

    @T.prim_func
    def index_find_marked(
        anchor: T.Tensor((1,), "uint8"),
        marks: T.int64,
        out: T.int64,
        blocks: T.int32,
        total: T.int64,
        tokens: T.int64,
        token_stride: T.int64,
        batch_stride: T.int64,
        length: T.int64,
        dense: T.int32,
    ):
        with T.Kernel(blocks, threads=_THREADS) as block:
            thread = T.get_thread_binding()
            entries = view(marks, "uint8")
            words = view(marks, "int32")
            result = view(out, "int64")
            held = T.alloc_local((4,), "int32")
            counts = T.alloc_shared((_WARPS,), "int64")
            counts_before = T.alloc_shared((_WARPS,), "int64")
            marked = T.alloc_var("int32", init=0)
            before = T.alloc_var("int64", init=0)
            for step in T.serial(block + 1):  # the entries before this block's, and then its own
                before += T.call_extern("int32", "__popc", marked)
                marked = 0
                first = (T.int64(step) * _THREADS + thread) * _EACH
                if dense != 0 and first + _EACH <= total:
                    for v in T.vectorized(4):
                        held[v] = words[first // 4 + v]
                    for k in T.unroll(_EACH):
                        if ((held[k // 4] >> (k % 4 * 8)) & 255) != 0:
                            marked = marked | (1 << k)
                else:
                    for k in T.serial(_EACH):
                        if first + k < total:
                            line = T.alloc_var("int64", init=T.truncdiv(first + k, tokens))
                            if entries[line * batch_stride + (first + k - line * tokens) * token_stride] != 0:
                                marked = marked | (1 << k)
            count = T.alloc_var("int64", init=T.call_extern("int32", "__popc", marked))
            upto = T.alloc_var("int64", init=count)
            other = T.alloc_var("int64", init=0)
            for bit in T.unroll(5):  # sums over the warp: of counts up to each thread, of what lies before over all
                other = T.shfl_up(upto, 1 << bit)
                if thread % 32 >= (1 << bit):
                    upto += other
                other = T.shfl_xor(before, 1 << bit)
                before += other
            if thread % 32 == 31:
                counts[thread // 32] = upto
                counts_before[thread // 32] = before
            T.sync_threads()
            place = T.alloc_var("int64", init=upto - count)
            all_marked = T.alloc_var("int64", init=0)
            for warp in T.serial(_WARPS):
                all_marked += counts_before[warp] + counts[warp]
                place += counts_before[warp]
                if warp < thread // 32:
                    place += counts[warp]
            for k in T.unroll(_EACH):
                if ((marked >> k) & 1) != 0:
                    if place < length:
                        result[place] = (T.int64(block) * _THREADS + thread) * _EACH + k
                    place += 1
            if block == blocks - 1:
                for step in T.serial(T.ceildiv(length - all_marked - thread, _THREADS)):
                    result[all_marked + thread + step * _THREADS] = -1

    return index_find_marked
