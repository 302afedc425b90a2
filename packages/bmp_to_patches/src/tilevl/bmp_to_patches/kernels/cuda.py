"""CUDA: a block brings the pixel rows of some patches to shared memory in 16-byte pieces, and writes planes from there.

Where a row of a patch fills 16-byte stores, threads write the result themselves. Else they put it together in shared
memory, in the place of the pixels that they have read, and copy it out in the widest units that hold.

Values come from a multiply-add in float32 where ``values.multiply_add`` proves it exact for all codes, else from the
table of exact values. A patch that does not lie in ``pixels`` as a whole gives zeros, and so does a row past the last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import tilelang.language as T
import torch
from torch import Tensor

from tilevl.bmp_to_patches import values
from tilevl.core.cache import Kernel
from tilevl.core.cuda import WIDEST, CudaProgram, DeviceConstant, IndexView, view
from tilevl.core.plans import Launch, PlannedKernel

OP = "bmp_to_patches"

PASS_CONFIGS = {"tl.disable_thread_storage_sync": True}  # all barriers are written down here
_THREADS = 256
_PIXELS = 4096  # of a block, as far as whole patches come to it
_COLUMNS = 16  # of a row of a patch that a thread writes at most
_IN_FLIGHT = 4  # pieces that a thread loads before it stores the first
_FAR = 2**62
_SHORT = 2**31  # below it, places are divided as int32, which takes a third of the time
_NOWHERE = -1
_STORE = """// a store of 16 bytes that nvcc doesn't split into four, as it does with some
__device__ __forceinline__ void store_16_bytes(void *into, const void *from) {
  const uint4 v = *reinterpret_cast<const uint4 *>(from);
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(into), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}
"""


def build(
    patch_size: int,
    mean: Sequence[float],
    std: Sequence[float],
    bytes_per_pixel: int,
    window: int,
    out_dtype: torch.dtype,
) -> Kernel:
    """The kernel of a set of constants; patch size, pixel size and dtype of the result choose the program."""
    proven = values.multiply_add(mean, std, out_dtype)
    program = program_of(patch_size, bytes_per_pixel, str(out_dtype).removeprefix("torch."), proven is None)
    constants = (0.0,) * 6 if proven is None else (*proven.scale.tolist(), *proven.bias.tolist())
    table = DeviceConstant(OP, values.exact_values(mean, std, out_dtype)) if proven is None else None

    def plan(pixels: Tensor, crops: Tensor, cu_patches: Tensor, total_patches: int, *rest: Any) -> Launch:
        device, num_bytes, num_crops = pixels.get_device(), pixels.numel(), crops.shape[0]
        wide = int(cu_patches.element_size() == 8)
        numbers = (total_patches, window, table.on(device).data_ptr() if table else 0, *constants)

        def launch(pixels_at: int, crops_at: int, sums_at: int, out_at: int) -> None:
            program(device, pixels_at, num_bytes, crops_at, sums_at, num_crops, wide, out_at, *numbers)

        return launch

    return PlannedKernel(plan)


@lru_cache(maxsize=None)
def program_of(patch: int, pixel_bytes: int, dtype: str, by_table: bool) -> CudaProgram:
    """The program of a patch size; kernels of different constants and windows share it."""
    return CudaProgram(OP, lambda: patches(patch, pixel_bytes, dtype, by_table), PASS_CONFIGS)


def patches(patch: int, pixel_bytes: int, dtype: str, by_table: bool) -> Any:
    """The program.

    Args:
        patch: side of a patch, in pixels.
        pixel_bytes: 3 or 4.
        dtype: of the result, TileLang's name.
        by_table: values come from a table ``[3, 256]``, not from constants.
    """
    span = patch * pixel_bytes
    pieces = (span + 2 * WIDEST - 2) // WIDEST  # that a row of a patch can touch
    pitch = pieces | 1  # pieces from row to row in shared memory: odd, so that rows start in different banks
    most = WIDEST // (4 if dtype == "float32" else 2)  # numbers of the widest store
    width = math.gcd(patch, most)  # numbers side by side that lie in one row of a patch, whatever the patch and row
    direct = width == most
    group = max(k for k in range(width, max(width, _COLUMNS) + 1, width) if patch % k == 0)  # columns of a thread
    if direct:
        group = width
    at_once = max(1, _THREADS // (patch * (patch // group)))  # patches that the threads write in one round
    count = max(1, min(_THREADS, _PIXELS // patch**2))  # patches of a block
    if not direct:
        count = min(count, at_once)
    even = most // math.gcd(3 * patch**2, most)  # patches that end at a multiple of 16 bytes
    count = max(count % even, count // even * even)
    unit = math.gcd(count * 3 * patch**2, most)  # numbers that a thread copies at once
    groups = patch // group
    words = -(-group * pixel_bytes // 4)
    loads = -(-count * patch * pieces // _THREADS)
    in_flight = min(loads, _IN_FLIGHT)
    items = count * patch * groups
    length = 3 * patch * patch

    @T.macro
    def locate(kind, where, local_long, columns_long, window_long):
        """Row and column of a patch in its crop's grid."""
        local = T.alloc_var(kind, init=T.Cast(kind, local_long))
        columns = T.alloc_var(kind, init=T.Cast(kind, columns_long))
        window = T.alloc_var(kind, init=T.Cast(kind, window_long))
        if window == 1:
            line = T.alloc_var(kind, init=T.truncdiv(local, columns))
            where[0] = T.int64(line)
            where[1] = T.int64(local - line * columns)
        else:
            band = T.alloc_var(kind, init=T.truncdiv(local, columns * window))
            in_band = T.alloc_var(kind, init=local - band * columns * window)
            square = T.alloc_var(kind, init=T.truncdiv(in_band, window * window))
            in_square = T.alloc_var(kind, init=in_band - square * window * window)
            down = T.alloc_var(kind, init=T.truncdiv(in_square, window))
            where[0] = T.int64(band * window + down)
            where[1] = T.int64(square * window + in_square - down * window)

    @T.prim_func
    def bmp_patches(
        anchor: T.Tensor((1,), "uint8"),
        pixels: T.int64,
        num_bytes: T.int64,
        crops: T.int64,
        sums: T.int64,
        num_crops: T.int32,
        wide: T.int32,
        out: T.int64,
        total: T.int64,
        window: T.int64,
        table: T.int64,
        scale_r: T.float32,
        scale_g: T.float32,
        scale_b: T.float32,
        bias_r: T.float32,
        bias_g: T.float32,
        bias_b: T.float32,
    ):
        with T.Kernel(T.ceildiv(total, count), threads=_THREADS, prelude=_STORE) as block:
            thread = T.get_thread_binding()
            ends = IndexView(sums, wide)
            crop = view(crops, "int64")
            lead = pixels & (WIDEST - 1)  # pieces are aligned; the first pixel may lie inside one
            first_whole = T.alloc_var("int64", init=(lead + WIDEST - 1) >> 4)  # pieces that lie in pixels as a whole
            last_whole = T.alloc_var("int64", init=(lead + num_bytes) >> 4)
            piece_words = view(pixels - lead, "int32")
            piece_bytes = view(pixels - lead, "uint8")
            result = view(out, dtype)
            starts = T.alloc_shared((count,), "int64")  # first byte of a patch, counted from the first piece
            strides = T.alloc_shared((count,), "int64")
            places = T.alloc_shared((count * 2,), "int32")  # the low words of both: what a place in a piece depends on
            tile = T.alloc_shared((count * patch * pitch * 4 + 4,), "int32")
            ready = T.alloc_shared((1 if direct else count * length,), dtype)
            looked_up = T.alloc_shared((768 if by_table else 1,), dtype)
            base = T.int64(block) * count

            if by_table:
                for k in T.unroll(768 // _THREADS):
                    looked_up[k * _THREADS + thread] = view(table, dtype)[k * _THREADS + thread]
            first = T.alloc_var("int32", init=0)
            last = T.alloc_var("int32", init=0)
            for step in T.serial(T.ceildiv(num_crops, _THREADS)):
                end = T.alloc_var("int64", init=_FAR)
                if step * _THREADS + thread < num_crops:
                    end = ends[step * _THREADS + thread + 1]
                first += T.syncthreads_count(end <= base)
                last += T.syncthreads_count(end < base + count)
            if thread < count:
                where = T.alloc_local((2,), "int64")
                low = T.alloc_var("int32", init=first)
                high = T.alloc_var("int32", init=last)
                while low < high:
                    middle = (low + high) >> 1
                    if ends[middle + 1] <= base + thread:
                        low = middle + 1
                    else:
                        high = middle
                starts[thread] = _NOWHERE
                if low < num_crops and base + thread < total:
                    offset = T.alloc_var("int64", init=crop[low * 4])
                    stride = T.alloc_var("int64", init=crop[low * 4 + 1])
                    rows = T.alloc_var("int64", init=T.truncdiv(crop[low * 4 + 2], T.int64(patch)))
                    columns = T.alloc_var("int64", init=T.truncdiv(crop[low * 4 + 3], T.int64(patch)))
                    local = T.alloc_var("int64", init=base + thread - ends[low])
                    if local >= 0 and rows > 0 and columns >= window and local < rows * columns:
                        if local < _SHORT and columns * window < _SHORT and columns < _SHORT:
                            locate("int32", where, local, columns, window)
                        else:
                            locate("int64", where, local, columns, window)
                        start = T.alloc_var("int64", init=offset + where[0] * patch * stride + where[1] * span)
                        end_row = T.alloc_var("int64", init=start + (patch - 1) * stride)
                        if start >= 0 and end_row >= 0 and start <= num_bytes - span and end_row <= num_bytes - span:
                            if patch == 1 or (stride <= num_bytes and stride >= -num_bytes):
                                starts[thread] = start + lead
                                strides[thread] = stride
                                places[2 * thread] = T.int32(start + lead)
                                places[2 * thread + 1] = T.int32(stride)
            T.sync_threads()

            held = T.alloc_local((in_flight * 4,), "int32")
            at = T.alloc_var("int64", init=0)
            piece = T.alloc_var("int64", init=0)
            for turn in T.serial(T.ceildiv(loads, in_flight)):
                for k in T.unroll(in_flight):
                    item = (turn * in_flight + k) * _THREADS + thread
                    which = item // pieces % count
                    line = item // (count * pieces)
                    part = item % pieces
                    if line < patch and starts[which] != _NOWHERE:
                        at = starts[which] + line * strides[which]
                        piece = (at >> 4) + part
                        if part * WIDEST < (T.int32(at) & (WIDEST - 1)) + span:
                            if piece >= first_whole and piece < last_whole:
                                for v in T.vectorized(4):
                                    held[k * 4 + v] = piece_words[piece * 4 + v]
                for k in T.unroll(in_flight):
                    item = (turn * in_flight + k) * _THREADS + thread
                    which = item // pieces % count
                    line = item // (count * pieces)
                    part = item % pieces
                    if line < patch:
                        for v in T.vectorized(4):
                            tile[((which * patch + line) * pitch + part) * 4 + v] = held[k * 4 + v]
            if first_whole != 0 or last_whole * WIDEST != lead + num_bytes:  # pieces that lie only partly in pixels
                for turn in T.serial(loads):
                    item = turn * _THREADS + thread
                    which = item // pieces % count
                    line = item // (count * pieces)
                    part = item % pieces
                    if line < patch and starts[which] != _NOWHERE:
                        at = starts[which] + line * strides[which]
                        piece = (at >> 4) + part
                        if part * WIDEST < (T.int32(at) & (WIDEST - 1)) + span:
                            if piece < first_whole or piece >= last_whole:
                                for v in T.serial(4):
                                    word = T.alloc_var("int32", init=0)
                                    for b in T.serial(4):
                                        byte = piece * WIDEST + v * 4 + b
                                        if byte >= lead and byte < lead + num_bytes:
                                            word = word | (T.int32(piece_bytes[byte]) << (b * 8))
                                    tile[((which * patch + line) * pitch + part) * 4 + v] = word
            T.sync_threads()

            raw = T.alloc_local((words + 1,), "uint32")
            codes = T.alloc_local((words,), "uint32")
            numbers = T.alloc_local((group,), "float32" if not by_table else dtype)
            packed = T.alloc_local((width,), dtype)
            low = T.alloc_var("int32", init=0)
            for round_ in T.serial(T.ceildiv(items, _THREADS)):
                slot = round_ * _THREADS + thread
                whose = slot // (patch * groups)
                row = slot // groups % patch
                column = slot % groups * group
                if slot < items:
                    low = (places[2 * whose] + row * places[2 * whose + 1]) & (WIDEST - 1)
                    first_byte = low + column * pixel_bytes
                    word = (whose * patch + row) * pitch * 4 + (first_byte >> 2)
                    for k in T.unroll(words + 1):
                        raw[k] = T.reinterpret(tile[word + k], "uint32")
                    for k in T.unroll(words):
                        codes[k] = T.call_extern(
                            "uint32", "__funnelshift_r", raw[k], raw[k + 1], T.uint32((first_byte & 3) * 8)
                        )
                if not direct:
                    T.sync_threads()  # the result may take the place of the pixels
                if slot < items and base + whose < total:
                    spot = whose * length + row * patch + column
                    for channel in T.unroll(3):
                        for k in T.unroll(group):
                            byte = k * pixel_bytes + 2 - channel
                            code = T.int32((codes[byte // 4] >> T.uint32(byte % 4 * 8)) & T.uint32(255))
                            if by_table:
                                numbers[k] = looked_up[channel * 256 + code]
                            else:
                                scale = T.if_then_else(
                                    channel == 0, scale_r, T.if_then_else(channel == 1, scale_g, scale_b)
                                )
                                bias = T.if_then_else(
                                    channel == 0, bias_r, T.if_then_else(channel == 1, bias_g, bias_b)
                                )
                                numbers[k] = T.Cast("float32", code) * scale + bias
                        if starts[whose] == _NOWHERE:
                            for k in T.unroll(group):
                                numbers[k] = 0
                        for part in T.unroll(group // width):
                            for v in T.vectorized(width):
                                packed[v] = T.Cast(dtype, numbers[part * width + v])
                            if direct:
                                T.call_extern(
                                    "handle", "store_16_bytes",
                                    T.address_of(result[base * length + spot + channel * patch**2]),
                                    T.address_of(packed[0]),
                                )  # fmt: skip
                            else:
                                for v in T.vectorized(width):
                                    ready[spot + channel * patch**2 + part * width + v] = packed[v]
            if not direct:
                T.sync_threads()
                left = T.alloc_var("int32", init=T.int32(T.min(total - base, T.int64(count))) * length)
                for step in T.serial(T.ceildiv(count * length, _THREADS * unit)):
                    first_number = (step * _THREADS + thread) * unit
                    if first_number < count * length:
                        if first_number + unit <= left:
                            for v in T.vectorized(unit):
                                result[base * length + first_number + v] = ready[first_number + v]
                        else:
                            for v in T.serial(unit):
                                if first_number + v < left:
                                    result[base * length + first_number + v] = ready[first_number + v]

    return bmp_patches
