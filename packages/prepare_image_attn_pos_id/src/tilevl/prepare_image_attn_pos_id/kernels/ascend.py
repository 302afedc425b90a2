"""Ascend: each vector core writes one stretch of tokens, image by image where images are long, else by search.

A long image repeats itself: after some whole bands the columns are the same and the rows are a constant higher. One
such period is computed once by SIMT threads, and all that follows is the period plus a constant, one addition for 32
tokens. Where images are short, the core brings their sums and grids to UB, and each thread searches its token's owner.
"""

from functools import lru_cache
from typing import Any

import tilelang.ascend.language as T
import torch
from torch import Tensor

from tilevl.core.ascend import BLOCK_BYTES, AscendProgram
from tilevl.core.cache import Kernel
from tilevl.prepare_image_attn_pos_id.contract import MAX_SIDE, OP

TILE = 4096  # tokens of one copy to global memory: 32 KiB
PERIOD = 2048  # tokens, the longest period that is kept
LONG = 256  # tokens from which the part of an image is written by itself
SLOTS = 1024  # images that are searched at once
_LEAST = 256  # tokens a period is repeated to, so that a register is rarely cut short
_UNIT = 16  # tokens that the cores' shares are multiples of: 128 bytes
_ALIGNED = BLOCK_BYTES // 8  # tokens between two places where a register may be stored
_PAIRS = 32  # tokens of a register
_THREADS = 512
_SHORT = 2**31  # below it, positions are divided as int32

# Flags are set by hand below, and no two threads share a place.
PASS_CONFIGS = {
    "tl.enable_auto_schedule": False,
    "tl.disable_thread_storage_sync": True,
    "tirx.disable_vectorize": True,
}


def build() -> Kernel:
    """The kernel; any window, number of images and tokens. Each pair of index dtypes is a program of its own."""

    def prepare(grid_hw: Tensor, cu_seqlens_vit: Tensor, total_seqlens_vit: int, window: int, out: Tensor) -> None:
        program = program_of(_name(grid_hw.dtype), _name(cu_seqlens_vit.dtype))
        if not grid_hw.numel():
            grid_hw = grid_hw.new_empty(grid_hw.shape)  # its strides may be any, and the launch looks at them
        program(grid_hw, cu_seqlens_vit, out, min(window, MAX_SIDE))

    return prepare


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@lru_cache(maxsize=None)
def program_of(grid_dtype: str, sums_dtype: str) -> AscendProgram:
    """The program of a pair of index dtypes."""
    return AscendProgram(OP, lambda cores: positions(grid_dtype, sums_dtype, cores), PASS_CONFIGS)


def positions(grid_dtype: str, sums_dtype: str, cores: int) -> Any:
    """The program; a token outside of all images, or of an image whose grid and sums disagree, is at (0, 0).

    Args:
        grid_dtype: int32 or int64.
        sums_dtype: int32 or int64.
        cores: vector cores to spread over.
    """
    images = T.dynamic("images")
    sums_size = T.dynamic("sums_size")
    total = T.dynamic("total", "int64")

    @T.macro
    def place(dtype, local_long, width_long, window):
        """Row and column of a token of an image."""
        row = T.alloc_var("int32", init=0)
        column = T.alloc_var("int32", init=0)
        local = T.Cast(dtype, local_long)
        width = T.Cast(dtype, width_long)
        side = T.Cast(dtype, window)
        if side == 1:
            down = T.alloc_var(dtype, init=T.truncdiv(local, width))
            row = T.int32(down)
            column = T.int32(local - down * width)
        else:
            band = T.alloc_var(dtype, init=T.truncdiv(local, width * side))
            in_band = T.alloc_var(dtype, init=local - band * width * side)
            square = T.alloc_var(dtype, init=T.truncdiv(in_band, side * side))
            in_square = T.alloc_var(dtype, init=in_band - square * side * side)
            down = T.alloc_var(dtype, init=T.truncdiv(in_square, side))
            row = T.int32(band * side + down)
            column = T.int32(square * side + in_square - down * side)
        return row, column

    @T.macro
    def owner(sums, first, behind, token):
        """The first image that ends behind a token, or ``behind``."""
        low = T.alloc_var("int32", init=first)
        high = T.alloc_var("int32", init=behind)
        while low < high:
            middle = T.alloc_var("int32", init=(low + high) >> 1)
            if T.int64(sums[middle + 1]) <= token:
                low = middle + 1
            else:
                high = middle
        return low

    @T.macro
    def send(tile, out, at, tokens, turn):
        T.ascend_set_flag("V_MTE3", turn & 1)
        T.ascend_wait_flag("V_MTE3", turn & 1)
        T.copy(tile[turn & 1, 0:tokens, 0:2], out[at : at + tokens, 0:2])
        T.ascend_set_flag("MTE3_V", turn & 1)

    @T.prim_func
    def pos_id_positions(
        grids: T.Tensor((images, 2), grid_dtype),
        sums: T.Tensor((sums_size,), sums_dtype),
        out: T.Tensor((total, 2), "int32"),
        window: T.int64,
    ):
        with T.Kernel(cores) as core:
            period = T.alloc_shared((PERIOD + _LEAST + _PAIRS, 2), "int32")
            tile = T.alloc_shared((2, TILE + _PAIRS, 2), "int32")
            ends = T.alloc_shared((SLOTS + 1,), sums_dtype)
            sides = T.alloc_shared((SLOTS, 2), grid_dtype)

            share = T.alloc_var("int64", init=T.ceildiv(T.ceildiv(total, cores), _UNIT) * _UNIT)
            at = T.alloc_var("int64", init=share * core)
            stop = T.alloc_var("int64", init=T.min(share * core + share, total))
            image = T.alloc_var("int32", init=0)
            all_images = T.alloc_var("int32", init=images)
            turn = T.alloc_var("int32", init=0)  # tiles so far; they alternate between two places
            T.ascend_set_flag("MTE3_V", 0)
            T.ascend_set_flag("MTE3_V", 1)
            T.ascend_set_flag("V_MTE2", 0)
            while at < stop:
                image = owner(sums, image, all_images, at)
                height = T.alloc_var("int64", init=0)
                width = T.alloc_var("int64", init=0)
                local = T.alloc_var("int64", init=0)
                span = T.alloc_var("int64", init=stop - at)  # tokens that one image, or none, has from here on
                side = T.alloc_var("int64", init=1)
                if image < images:
                    height = T.int64(grids[image, 0])
                    width = T.int64(grids[image, 1])
                    local = at - T.int64(sums[image])
                    side = window
                    span = T.min(span, T.int64(sums[image + 1]) - at)
                    if T.min(height, width) <= 0 or T.max(height, width) > MAX_SIDE or local < 0:
                        width = 0
                    elif height * width <= local:
                        width = 0
                    else:
                        span = T.min(span, height * width - local)
                    if width == 0:  # no row of it means anything
                        side = 1
                        local = 0
                if span < 1:
                    span = 1
                tokens = T.alloc_var("int64", init=T.max(width, 1) * side)  # of a band, then of a period
                rows = T.alloc_var("int64", init=side)
                first_row = T.alloc_var("int64", init=T.truncdiv(local, tokens) * side)
                phase = T.alloc_var("int64", init=local - T.truncdiv(local, tokens) * tokens)
                while T.truncmod(tokens, T.int64(_ALIGNED)) != 0 and tokens <= PERIOD:
                    tokens = tokens * 2
                    rows = rows * 2
                if tokens <= PERIOD and (span >= LONG or span >= stop - at):
                    if tokens < _LEAST:
                        rows = rows * T.ceildiv(_LEAST, tokens)
                        tokens = tokens * T.ceildiv(_LEAST, tokens)
                    if width == 0:
                        rows = 0
                    length = T.alloc_var("int32", init=T.int32(tokens))
                    step = T.alloc_var("int32", init=T.int32(rows))
                    top = T.alloc_var("int32", init=T.int32(first_row))
                    skipped = T.alloc_var("int32", init=T.int32(phase))
                    wide = T.alloc_var("int32", init=T.int32(width))
                    window_side = T.alloc_var("int32", init=T.int32(side))
                    needed = T.alloc_var("int32", init=T.int32(T.min(tokens, span)))
                    with T.SimtVF(threads=_THREADS):
                        thread = T.get_thread_binding()
                        for round_ in T.serial(T.ceildiv(needed, _THREADS)):
                            token = round_ * _THREADS + thread
                            if token < needed:
                                row = T.alloc_var("int32", init=top)
                                column = T.alloc_var("int32", init=0)
                                if wide > 0:
                                    y, x = place("int32", skipped + token, wide, window_side)
                                    row = top + y
                                    column = x
                                period[token, 0] = row
                                period[token, 1] = column
                    many = T.alloc_var("int32", init=TILE // length)  # periods of a tile
                    rest = T.alloc_var("int64", init=span)
                    down = T.alloc_var("int32", init=0)
                    while rest > 0:
                        here = T.alloc_var("int32", init=T.int32(T.min(rest, T.int64(many * length))))
                        times = T.alloc_var("int32", init=T.truncdiv(here + length - 1, length))
                        reach = T.alloc_var("int32", init=T.min(here, length))
                        T.ascend_wait_flag("MTE3_V", turn & 1)
                        with T.SimdVF():
                            lane = T.simd.vci(0, "int32")
                            one = T.simd.vdup(1, "int32")
                            odd = T.simd.vand(lane, one)
                            is_row = T.simd.vcmps(odd, 0, op="eq")
                            for time in T.serial(times):
                                lower = T.simd.vdup(down + time * step, "int32", mask=is_row)
                                for piece in T.serial(T.ceildiv(reach, _PAIRS)):
                                    there = T.simd.update_mask(T.uint32(2 * (reach - piece * _PAIRS)), 32)
                                    numbers = T.simd.vld(period[piece * _PAIRS, 0], "NORM")
                                    moved = T.simd.vadd(numbers, lower)
                                    T.simd.vsts(
                                        tile[turn & 1, time * length + piece * _PAIRS, 0], moved, there, "NORM_B32"
                                    )
                        send(tile, out, at, T.int64(here), turn)
                        at = at + here
                        rest = rest - here
                        down = down + times * step
                        turn = turn + 1
                else:
                    part = T.alloc_var("int64", init=T.min(stop - at, T.int64(TILE)))
                    last = owner(sums, image, all_images, at + part - 1)
                    count = T.alloc_var("int32", init=T.min(last + 1, images) - image)
                    if count > SLOTS:
                        count = SLOTS
                        part = T.max(T.min(part, T.int64(sums[image + SLOTS]) - at), 1)
                    T.ascend_wait_flag("V_MTE2", 0)
                    T.copy(sums[image : image + count + 1], ends[0 : count + 1])
                    T.copy(grids[image : image + count, 0:2], sides[0:count, 0:2])
                    T.ascend_set_flag("MTE2_V", 0)
                    T.ascend_wait_flag("MTE2_V", 0)
                    T.ascend_wait_flag("MTE3_V", turn & 1)
                    searched = T.alloc_var("int32", init=T.int32(part))
                    begin = T.alloc_var("int64", init=at)
                    slot = turn & 1
                    with T.SimtVF(threads=_THREADS):
                        thread = T.get_thread_binding()
                        for round_ in T.serial(T.ceildiv(searched, _THREADS)):
                            token = round_ * _THREADS + thread
                            if token < searched:
                                row = T.alloc_var("int32", init=0)
                                column = T.alloc_var("int32", init=0)
                                mine = owner(ends, 0, count, begin + token)
                                if mine < count:
                                    high_side = T.alloc_var("int64", init=T.int64(sides[mine, 0]))
                                    wide_side = T.alloc_var("int64", init=T.int64(sides[mine, 1]))
                                    inside = T.alloc_var("int64", init=begin + token - T.int64(ends[mine]))
                                    if (
                                        T.min(high_side, wide_side) > 0
                                        and T.max(high_side, wide_side) <= MAX_SIDE
                                        and inside >= 0
                                    ):
                                        if inside < high_side * wide_side:
                                            if high_side * wide_side < _SHORT and wide_side * window < _SHORT:
                                                y, x = place("int32", inside, wide_side, window)
                                                row = y
                                                column = x
                                            else:
                                                y, x = place("int64", inside, wide_side, window)
                                                row = y
                                                column = x
                                tile[slot, token, 0] = row
                                tile[slot, token, 1] = column
                    T.ascend_set_flag("V_MTE2", 0)
                    send(tile, out, at, part, turn)
                    at = at + part
                    turn = turn + 1
            T.ascend_wait_flag("MTE3_V", 0)
            T.ascend_wait_flag("MTE3_V", 1)
            T.ascend_wait_flag("V_MTE2", 0)

    return pos_id_positions
