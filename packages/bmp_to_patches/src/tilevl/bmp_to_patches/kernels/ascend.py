"""Ascend: a vector core brings the pixel rows of neighbouring patches to its unified buffer, and gathers planes there.

A group of patches is as long as the buffers allow: its pixel rows come as one piece each, and its rows of the result
leave as one copy. Two gathers make 128 values: codes from the pixel rows, by a table of places that is computed once
per core, then values by code and channel from the table of exact values, which is read once per core. Patches of less
than 128 values are written by SIMT threads, one value each. A patch that doesn't lie in ``pixels`` as a whole gives
zeros, and so does a row past the last patch.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import tilelang.ascend.language as T
import torch
from torch import Tensor

from tilevl.bmp_to_patches import values
from tilevl.bmp_to_patches.contract import OP
from tilevl.core.ascend import BLOCK_BYTES, AscendProgram, require_no_capture
from tilevl.core.cache import Kernel

_IN_BYTES = 32 * 1024  # pixel rows of a group; a 16-bit index reaches each of them
_OUT_BYTES = 48 * 1024  # values of a group: a patch of 64 x 64 in float32
_LANES = 128  # codes of a register
_THREADS = 512
_SIDE = 2**31  # patches along a crop; a crop with more is skipped, so that products fit 64 bits

# Flags are set by hand below, and no two threads share a place.
PASS_CONFIGS = {
    "tl.enable_auto_schedule": False,
    "tl.disable_thread_storage_sync": True,
    "tirx.disable_vectorize": True,
}


def build(
    patch_size: int,
    mean: Sequence[float],
    std: Sequence[float],
    bytes_per_pixel: int,
    window: int,
    out_dtype: torch.dtype,
) -> Kernel:
    """The kernel of a set of constants; patch size, pixel size and dtypes choose the program."""
    table = values.exact_values(mean, std, out_dtype).view(-1)
    on_device = _per_device(table)
    flat = 3 * patch_size**2 < _LANES

    def kernel(pixels: Tensor, crops: Tensor, cu_patches: Tensor, total_patches: int, *rest: Any) -> None:
        out = rest[-1]
        program = program_of(patch_size, bytes_per_pixel, _name(out_dtype), _name(cu_patches.dtype))
        if not crops.numel():
            crops = crops.new_empty(crops.shape)  # its strides may be any, and the launch looks at them
        program(
            pixels, crops, cu_patches, on_device(out.device), out.view(-1) if flat else out, total_patches,
            min(window, _SIDE),
        )  # fmt: skip

    return kernel


def _per_device(table: Tensor) -> Callable[[torch.device], Tensor]:
    """Copies a table to a device at its first use there, which a graph capture can't hold; later calls copy nothing."""
    copies: dict[torch.device, Tensor] = {}

    def on(device: torch.device) -> Tensor:
        if device not in copies:
            require_no_capture(OP)
            copies[device] = table.to(device)
        return copies[device]

    return on


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@lru_cache(maxsize=None)
def program_of(patch: int, pixel_bytes: int, dtype: str, sums_dtype: str) -> AscendProgram:
    """The program of a patch size; kernels of different constants and windows share it."""
    return AscendProgram(OP, lambda cores: patches(patch, pixel_bytes, dtype, sums_dtype, cores), PASS_CONFIGS)


def patches(patch: int, pixel_bytes: int, dtype: str, sums_dtype: str, cores: int) -> Any:
    """The program.

    Args:
        patch: side of a patch, in pixels.
        pixel_bytes: 3 or 4.
        dtype: of the result, TileLang's name.
        sums_dtype: int32 or int64.
        cores: vector cores to spread over.
    """
    size = 4 if dtype == "float32" else 2
    plane = patch * patch
    numbers = 3 * plane  # of a patch
    span = patch * pixel_bytes  # bytes of a pixel row of a patch
    flat = numbers < _LANES
    registers = -(-numbers // _LANES)
    row = numbers if flat else -(-numbers * size // BLOCK_BYTES) * BLOCK_BYTES // size  # from patch to patch in UB
    most = _OUT_BYTES // size // row  # patches of a group
    room = -(-most * row * size // BLOCK_BYTES) * BLOCK_BYTES // size
    narrow = -(-span // BLOCK_BYTES) * BLOCK_BYTES
    indices = 1 if flat else registers * _LANES
    num_crops, sums_size = T.dynamic("num_crops"), T.dynamic("sums_size")
    num_bytes, extent = T.dynamic("num_bytes", "int64"), T.dynamic("extent", "int64")

    @T.macro
    def owner(sums, first, behind, which):
        """The first crop that ends behind a patch, or ``behind``."""
        low = T.alloc_var("int32", init=first)
        high = T.alloc_var("int32", init=behind)
        while low < high:
            middle = T.alloc_var("int32", init=(low + high) >> 1)
            if T.int64(sums[middle + 1]) <= which:
                low = middle + 1
            else:
                high = middle
        return low

    @T.macro
    def lies_inside(size_of_all, offset, stride, first, last, column, length):
        """Whether pixel rows ``first`` to ``last`` of a crop, from byte ``column`` on, lie in ``pixels``."""
        inside = T.alloc_var("int32", init=0)
        if offset >= 0 and offset <= size_of_all and length <= size_of_all:
            steepest = T.alloc_var("int64", init=T.truncdiv(size_of_all, T.max(last, 1)))
            if last == 0:
                if offset + column <= size_of_all - length:
                    inside = 1
            elif stride <= steepest and stride >= -steepest:
                top = T.alloc_var("int64", init=offset + first * stride + column)
                bottom = T.alloc_var("int64", init=offset + last * stride + column)
                if T.min(top, bottom) >= 0 and T.max(top, bottom) <= size_of_all - length:
                    inside = 1
        return inside

    @T.prim_func
    def bmp_patches(
        pixels: T.Tensor((num_bytes,), "uint8"),
        crops: T.Tensor((num_crops, 4), "int64"),
        sums: T.Tensor((sums_size,), sums_dtype),
        table: T.Tensor((3 * values.CODES,), dtype),
        out: T.Tensor((extent,) if flat else (extent, numbers), dtype),
        total: T.int64,
        window: T.int64,
    ):
        with T.Kernel(cores) as core:
            codes = T.alloc_shared((2, _IN_BYTES + narrow), "uint8")
            result = T.alloc_shared((2, room) if flat else (2, most, row), dtype)
            places = T.alloc_shared((indices,), "uint16")
            channels = T.alloc_shared((indices,), "uint16")
            exact = T.alloc_shared((3 * values.CODES,), dtype)

            square = T.alloc_var("int64", init=T.min(window * window, total))  # patches of a window
            share = T.alloc_var("int64", init=T.truncdiv(total + square * cores - 1, square * cores) * square)
            at = T.alloc_var("int64", init=share * core)
            stop = T.alloc_var("int64", init=T.min(share * core + share, total))
            # Windows of a group, and bytes from pixel row to pixel row. Where not even one window fits, patches are
            # taken one by one.
            pitch = T.alloc_var("int64", init=0)
            widest = T.alloc_var("int64", init=0)
            if window * patch * BLOCK_BYTES <= _IN_BYTES:
                pitch = T.truncdiv(T.int64(_IN_BYTES), window * patch * BLOCK_BYTES) * BLOCK_BYTES
                widest = T.min(T.truncdiv(pitch, window * span), T.truncdiv(T.int64(most), window * window))
            if widest == 0:
                pitch = narrow
            step = T.alloc_var("int32", init=T.int32(pitch))
            if at < stop:
                T.copy(table, exact)
                T.ascend_set_flag("MTE2_V", 2)
                T.ascend_wait_flag("MTE2_V", 2)
                if not flat:
                    with T.SimtVF(threads=_THREADS):
                        thread = T.get_thread_binding()
                        for part in T.serial(-(-indices // _THREADS)):
                            which = part * _THREADS + thread
                            if which < indices:
                                channel = T.truncdiv(T.min(which, numbers - 1), plane)
                                pixel = T.min(which, numbers - 1) - channel * plane
                                line = T.truncdiv(pixel, patch)
                                place = line * step + (pixel - line * patch) * pixel_bytes + 2 - channel
                                places[which] = T.Cast("uint16", place)
                                channels[which] = T.Cast("uint16", channel * values.CODES)
            for slot in T.unroll(2, explicit=True):
                T.ascend_set_flag("MTE3_V", slot)
                T.ascend_set_flag("V_MTE2", slot)
            crop = T.alloc_var("int32", init=0)
            all_crops = T.alloc_var("int32", init=num_crops)
            all_bytes = T.alloc_var("int64", init=num_bytes)
            turn = T.alloc_var("int32", init=0)  # groups so far; they alternate between two places
            while at < stop:
                crop = owner(sums, crop, all_crops, at)
                count = T.alloc_var("int64", init=1)  # patches of the group
                good = T.alloc_var("int32", init=0)
                side = T.alloc_var("int64", init=1)  # of its windows
                squares = T.alloc_var("int64", init=1)
                start = T.alloc_var("int64", init=0)
                stride = T.alloc_var("int64", init=0)
                if crop < num_crops:
                    stride = crops[crop, 1]
                    rows = T.alloc_var("int64", init=T.truncdiv(crops[crop, 2], T.int64(patch)))
                    columns = T.alloc_var("int64", init=T.truncdiv(crops[crop, 3], T.int64(patch)))
                    local = T.alloc_var("int64", init=at - T.int64(sums[crop]))
                    if local >= 0 and rows > 0 and columns >= window and rows <= _SIDE and columns <= _SIDE:
                        if local < rows * columns:
                            offset = T.alloc_var("int64", init=crops[crop, 0])
                            band = T.alloc_var("int64", init=T.truncdiv(local, columns * window))
                            in_band = T.alloc_var("int64", init=local - band * columns * window)
                            tile = T.alloc_var("int64", init=T.truncdiv(in_band, window * window))
                            in_tile = T.alloc_var("int64", init=in_band - tile * window * window)
                            down = T.alloc_var("int64", init=T.truncdiv(in_tile, window))
                            if in_tile == 0:
                                squares = T.min(widest, T.truncdiv(columns, window) - tile)
                                squares = T.min(squares, T.truncdiv(stop - at, window * window))
                                if squares > 0:
                                    good = lies_inside(
                                        all_bytes, offset, stride, band * window * patch,
                                        band * window * patch + window * patch - 1,
                                        tile * window * span, squares * window * span,
                                    )  # fmt: skip
                                if good == 1:
                                    side = window
                                    count = squares * window * window
                            if good == 0:
                                squares = 1
                                good = lies_inside(
                                    all_bytes, offset, stride, (band * window + down) * patch,
                                    (band * window + down) * patch + patch - 1,
                                    (tile * window + in_tile - down * window) * span, T.int64(span),
                                )  # fmt: skip
                            if good == 1:
                                if rows * patch == 1:
                                    stride = 0
                                start = (
                                    offset + (band * window + down) * patch * stride
                                    + (tile * window + in_tile - down * window) * span
                                )  # fmt: skip
                else:
                    count = T.min(stop - at, T.int64(most))
                slot = turn & 1
                here = T.alloc_var("int32", init=T.int32(count))
                if good == 1:
                    length = T.alloc_var("int64", init=squares * side * span)
                    T.ascend_wait_flag("V_MTE2", turn & 1)
                    for line in T.serial(T.int32(side) * patch):
                        first = T.alloc_var("int64", init=start + line * stride)
                        T.copy(
                            pixels[first : first + length],
                            codes[slot, T.int64(line * step) : T.int64(line * step) + length],
                        )
                    T.ascend_set_flag("MTE2_V", turn & 1)
                    T.ascend_wait_flag("MTE2_V", turn & 1)
                    T.ascend_wait_flag("MTE3_V", turn & 1)
                    across = T.alloc_var("int32", init=T.int32(squares))
                    edge = T.alloc_var("int32", init=T.int32(side))
                    if flat:
                        with T.SimtVF(threads=_THREADS):
                            thread = T.get_thread_binding()
                            for part in T.serial(T.ceildiv(here * numbers, _THREADS)):
                                which = part * _THREADS + thread
                                if which < here * numbers:
                                    mine = T.truncdiv(which, numbers)
                                    channel = T.truncdiv(which - mine * numbers, plane)
                                    pixel = which - mine * numbers - channel * plane
                                    of_square = T.truncdiv(mine, edge * edge)
                                    in_square = mine - of_square * edge * edge
                                    lower = T.truncdiv(in_square, edge)
                                    line = T.truncdiv(pixel, patch)
                                    place = (lower * patch + line) * step + 2 - channel
                                    place_in_line = (of_square * edge + in_square - lower * edge) * span
                                    code = codes[slot, place + place_in_line + (pixel - line * patch) * pixel_bytes]
                                    result[slot, which] = exact[channel * values.CODES + T.int32(code)]
                    else:
                        with T.SimdVF():
                            for of_square in T.serial(across):
                                for lower in T.serial(edge):
                                    for right in T.serial(edge):
                                        for part in T.serial(registers):
                                            base = lower * (patch * step) + (of_square * edge + right) * span
                                            place = T.simd.vld(places[part * _LANES], "NORM")
                                            moved = T.simd.vadds(place, T.Cast("uint16", base))
                                            code = T.simd.vgather2(codes[slot, 0], moved)
                                            channel = T.simd.vld(channels[part * _LANES], "NORM")
                                            entry = T.simd.vadd(code, channel)
                                            to = (of_square * edge + lower) * edge + right
                                            if size == 2:
                                                there = T.simd.update_mask(T.uint32(numbers - part * _LANES), 16)
                                                value = T.simd.vgather2(exact[0], entry)
                                                T.simd.vsts(result[slot, to, part * _LANES], value, there, "NORM_B16")
                                            else:
                                                lower_half = T.simd.vgather2(exact[0], T.simd.vunpack(entry, "LOWER"))
                                                rest = T.max(numbers - part * _LANES, 0)
                                                there = T.simd.update_mask(T.uint32(rest), 32)
                                                T.simd.vsts(
                                                    result[slot, to, part * _LANES], lower_half, there, "NORM_B32"
                                                )
                                                upper_half = T.simd.vgather2(exact[0], T.simd.vunpack(entry, "HIGHER"))
                                                left = T.max(numbers - part * _LANES - _LANES // 2, 0)
                                                also = T.simd.update_mask(T.uint32(left), 32)
                                                T.simd.vsts(
                                                    result[slot, to, part * _LANES + _LANES // 2],
                                                    upper_half,
                                                    also,
                                                    "NORM_B32",
                                                )
                    T.ascend_set_flag("V_MTE2", turn & 1)
                else:
                    T.ascend_wait_flag("MTE3_V", turn & 1)
                    with T.SimtVF(threads=_THREADS):
                        thread = T.get_thread_binding()
                        for part in T.serial(T.ceildiv(here * row, _THREADS)):
                            which = part * _THREADS + thread
                            if which < here * row:
                                if flat:
                                    result[slot, which] = 0
                                else:
                                    result[slot, T.truncdiv(which, row), T.truncmod(which, row)] = 0
                T.ascend_set_flag("V_MTE3", turn & 1)
                T.ascend_wait_flag("V_MTE3", turn & 1)
                if flat:
                    T.copy(result[slot, 0 : count * numbers], out[at * numbers : (at + count) * numbers])
                else:
                    T.copy(result[slot, 0:count, 0:numbers], out[at : at + count, 0:numbers])
                T.ascend_set_flag("MTE3_V", turn & 1)
                at = at + count
                turn = turn + 1
            for slot in T.unroll(2, explicit=True):
                T.ascend_wait_flag("MTE3_V", slot)
                T.ascend_wait_flag("V_MTE2", slot)

    return bmp_patches
