"""CUDA: rows of patches come to shared memory in 16-byte pieces, and each thread turns one row into its three planes.

Where a row of a patch fills 16-byte stores, threads write the result themselves, each a part of a row. Else a block
puts its patches together in shared memory, in the place of the pixels, and copies them out as one run; Hopper does
that by itself.

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
from tilevl.bmp_to_patches.kernels.cuda_places import NOWHERE, WARP, finder
from tilevl.bmp_to_patches.kernels.cuda_prelude import PRELUDE
from tilevl.core.cache import Kernel
from tilevl.core.cuda import WIDEST, CudaProgram, DeviceConstant, IndexView, view
from tilevl.core.plans import Launch, PlannedKernel

OP = "bmp_to_patches"

PASS_CONFIGS = {"tl.disable_thread_storage_sync": True}  # all barriers are written down here
_ROWS = 256  # of patches, that a block has at most: each thread brings one
_SHARED = 44 * 1024  # bytes of pixels or results that a block has at most, as far as whole patches come to it
_BLOCKS = 6  # on a multiprocessor: with more registers for each thread, fewer would fit


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
    itemsize = 4 if dtype == "float32" else 2
    most = WIDEST // itemsize  # numbers of the widest store
    length = 3 * patch * patch
    direct = patch % most == 0
    columns = most if direct else patch  # of a row, that a thread writes at once
    width = math.gcd(columns, most)  # numbers of a store
    groups = patch // columns
    words = -(-columns * pixel_bytes // 4)
    row_bytes = max(pitch * WIDEST, 0 if direct else 3 * patch * itemsize)
    count = max(1, min(_ROWS, _SHARED // row_bytes) // patch)  # patches of a block
    even = 8 if count >= 8 else most // math.gcd(length, most)  # patches that end at a multiple of 16 bytes
    count = max(count % even, count // even * even)
    unit = math.gcd(count * length, most)  # numbers that a thread copies at once
    rows = count * patch
    threads = -(-rows // WARP) * WARP
    find = finder(patch, span, count)

    @T.macro
    def bring(tile, piece_words, first_whole, last_whole, places, at, need):
        """The pieces of a warp's rows; those of a row that touches a piece only partly in pixels by its own thread."""
        thread = T.get_thread_binding()
        lane = thread % WARP
        first = T.alloc_var("int64", init=at >> 4)
        touched = T.alloc_var("int32", init=(need + WIDEST - 1) >> 4)
        together = T.alloc_var("int32", init=need)
        if first < first_whole or first + touched > last_whole:
            together = 0
        for k in T.unroll(pieces):
            item = k * WARP + lane
            part = item % pieces
            row = thread - lane + item // pieces
            piece = T.alloc_var("int64", init=T.shfl_sync(first, item // pieces) + part)
            if part * WIDEST < T.shfl_sync(together, item // pieces):
                T.call_extern(
                    "handle", "bring_16_bytes",
                    T.address_of(tile[((row % count * patch + row // count) * pitch + part) * 4]),
                    T.address_of(piece_words[piece * 4]),
                )  # fmt: skip
        if together != need:
            own = (thread % count * patch + thread // count) * pitch * 4
            for part in T.serial(touched):
                for v in T.serial(4):
                    half = T.int64(v % 2 * 32)
                    if first + part < first_whole:
                        tile[own + part * 4 + v] = T.int32(places[2 * count + v // 2] >> half)
                    elif first + part >= last_whole:
                        tile[own + part * 4 + v] = T.int32(places[2 * count + 2 + v // 2] >> half)
                    else:
                        tile[own + part * 4 + v] = piece_words[(first + part) * 4 + v]
        T.call_extern("handle", "wait_for_own_pieces")

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
        with T.Kernel(T.ceildiv(total, count), threads=threads, prelude=PRELUDE) as block:
            T.annotate_min_blocks_per_sm(_BLOCKS)
            thread = T.get_thread_binding()
            lead = pixels & (WIDEST - 1)  # pieces are aligned; the first pixel may lie inside one
            first_whole = T.alloc_var("int64", init=(lead + WIDEST - 1) >> 4)  # pieces that lie in pixels as a whole
            last_whole = T.alloc_var("int64", init=(lead + num_bytes) >> 4)
            piece_words = view(pixels - lead, "int32")
            piece_bytes = view(pixels - lead, "uint8")
            result = view(out, dtype)
            # First bytes, strides, and the pieces before and after the whole ones, with zeros outside of pixels. One
            # array, in use until the pixels are there: TileLang puts a later array in the place of one that is not.
            places = T.alloc_shared((2 * count + 4,), "int64")
            tile = T.alloc_shared((threads * pitch * 4 + 4,), "int32")
            ready = T.alloc_shared((1 if direct else count * length,), dtype)
            looked_up = T.alloc_shared((768 if by_table else 1,), dtype)
            base = T.int64(block) * count

            if by_table:
                for k in T.unroll(T.ceildiv(768, threads)):
                    if k * threads + thread < 768:
                        looked_up[k * threads + thread] = view(table, dtype)[k * threads + thread]
            eighth = thread - (threads - WARP)  # by the last warp, while the first one searches
            if eighth >= 0 and eighth < 4:
                edge = T.alloc_var("int64", init=0)
                for b in T.serial(8):
                    byte = T.if_then_else(eighth < 2, 0, (last_whole - 1) * WIDEST) + eighth * 8 + b
                    if byte >= lead and byte < lead + num_bytes:
                        edge = edge | (T.int64(piece_bytes[byte]) << T.int64(b * 8))
                places[2 * count + eighth] = edge
            ends = IndexView(sums, wide)
            find(base, total, ends, num_crops, view(crops, "int64"), num_bytes, window, places)
            T.sync_threads()

            which = thread % count  # neighbours in memory are neighbours in a warp
            at = T.alloc_var("int64", init=0)
            need = T.alloc_var("int32", init=0)  # bytes from the start of the first piece to the end of the row
            if thread < rows and places[which] != NOWHERE:
                at = lead + places[which] + thread // count * places[count + which]
                need = (T.int32(at) & (WIDEST - 1)) + span
            bring(tile, piece_words, first_whole, last_whole, places, at, need)
            T.sync_threads()

            raw = T.alloc_local((words + 1,), "uint32")
            codes = T.alloc_local((words,), "uint32")
            numbers = T.alloc_local((columns,), "float32" if not by_table else dtype)
            packed = T.alloc_local((width,), dtype)
            scale = T.alloc_local((3,), "float32")
            bias = T.alloc_local((3,), "float32")
            for turn in T.unroll(groups):
                item = turn * threads + thread
                whose = item // (patch * groups) if direct else item % count
                height = item // groups % patch if direct else item // count
                column = item % groups * columns
                here = T.alloc_var("bool", init=False)
                if item < rows * groups:
                    here = places[whose] != NOWHERE
                    low = T.int32(lead) + T.int32(places[whose]) + height * T.int32(places[count + whose])
                    first_byte = T.alloc_var("int32", init=(low & (WIDEST - 1)) + column * pixel_bytes)
                    word = (whose * patch + height) * pitch * 4 + (first_byte >> 2)
                    for k in T.unroll(words + 1):
                        raw[k] = T.reinterpret(tile[word + k], "uint32")
                    for k in T.unroll(words):
                        codes[k] = T.call_extern(
                            "uint32", "__funnelshift_r", raw[k], raw[k + 1], T.uint32((first_byte & 3) * 8)
                        )
                    for channel, given in enumerate(((scale_r, bias_r), (scale_g, bias_g), (scale_b, bias_b))):
                        scale[channel] = T.if_then_else(here, given[0], 0.0)
                        bias[channel] = T.if_then_else(here, given[1], 0.0)
                if not direct:
                    T.sync_threads()  # the result may take the place of the pixels
                if item < rows * groups and base + whose < total:
                    spot = whose * length + height * patch + column
                    for channel in T.unroll(3):
                        for k in T.unroll(columns):
                            byte = k * pixel_bytes + 2 - channel
                            if by_table:
                                code = (codes[byte // 4] >> T.uint32(byte % 4 * 8)) & T.uint32(255)
                                numbers[k] = looked_up[channel * 256 + T.int32(code)]
                                if not here:
                                    numbers[k] = 0
                            else:
                                code = T.call_extern("float32", "float_of_byte", codes[byte // 4], T.uint32(byte % 4))
                                numbers[k] = code * scale[channel] + bias[channel]
                        for part in T.unroll(columns // width):
                            for v in T.vectorized(width):
                                packed[v] = T.Cast(dtype, numbers[part * width + v])
                            at_number = spot + channel * patch**2 + part * width
                            if direct:
                                T.call_extern(
                                    "handle", "store_16_bytes",
                                    T.address_of(result[base * length + at_number]), T.address_of(packed[0]),
                                )  # fmt: skip
                            else:
                                for v in T.vectorized(width):
                                    ready[at_number + v] = packed[v]
            if not direct:
                T.call_extern("handle", "show_for_copies")
                T.sync_threads()
                whole = T.alloc_var("bool", init=base + count <= total)
                if unit == most and whole and T.call_extern("bool", "copies_runs"):
                    if thread == 0:
                        T.call_extern(
                            "handle", "copy_run", T.address_of(result[base * length]), T.address_of(ready[0]),
                            count * length * itemsize,
                        )  # fmt: skip
                elif unit == most and whole:
                    for step in T.unroll(T.ceildiv(count * length, threads * unit)):
                        first_number = (step * threads + thread) * unit
                        if first_number < count * length:
                            T.call_extern(
                                "handle", "store_16_bytes",
                                T.address_of(result[base * length + first_number]),
                                T.address_of(ready[first_number]),
                            )  # fmt: skip
                else:
                    left = T.alloc_var("int32", init=T.int32(T.min(total - base, T.int64(count))) * length)
                    for step in T.serial(T.ceildiv(left, threads)):
                        if step * threads + thread < left:
                            result[base * length + step * threads + thread] = ready[step * threads + thread]

    return bmp_patches
