# mypy: disable-error-code="misc,valid-type,no-untyped-def,untyped-decorator"
"""CUDA: where the pixels of a block's patches start. A warp searches the prefix sums, looking at 32 crops at a time."""

from __future__ import annotations

from typing import Any

import tilelang.language as T

from tilevl.core.cuda_windows import SHORT, place_in_windows

WARP = 32
NOWHERE = -1
"""The start of a patch that does not lie in ``pixels`` as a whole, and of a row past the last."""

_NEVER = 2**63 - 1  # an end that no patch reaches


def finder(patch: int, span: int, count: int) -> Any:
    """The part of a program that enters the start and the stride of each of a block's patches.

    Args:
        patch: side of a patch, in pixels.
        span: bytes of a row of a patch.
        count: patches of a block.

    Returns:
        A macro ``find(base, total, ends, num_crops, crop, num_bytes, window, places)``. All threads of a block run it,
        at least ``count`` rounded up to whole warps; a barrier must follow. ``base`` is the first patch. ``places``,
        int64 in shared memory, gets the first bytes of the patches, counted from the first pixel, then their strides.
    """
    place = place_in_windows()

    @T.macro
    def search(ends, lane, number, crops):
        """Leaves in ``crops[0]`` the first crop of the range ``crops`` that ends after a patch."""
        while crops[0] < crops[1]:
            step = T.alloc_var("int32", init=(crops[1] - crops[0] + WARP - 1) >> 5)
            probe = T.alloc_var("int32", init=T.min(crops[0] + (lane + 1) * step, crops[1]) - 1)
            passed = T.alloc_var("int32", init=0)
            if crops[0] + lane * step < crops[1]:
                passed = T.if_then_else(ends[probe + 1] <= number, 1, 0)
            skipped = T.alloc_var("int32", init=T.popcount(T.ballot_sync(passed)))
            crops[0] = T.min(crops[0] + skipped * step, crops[1])
            crops[1] = T.min(crops[0] + step - 1, crops[1])

    @T.macro
    def hold(ends, crop, which, held):
        """Leaves in ``held`` what is known of a crop: its four numbers and its first patch."""
        for k in T.unroll(4):
            held[k] = crop[which * 4 + k]
        held[4] = ends[which]

    @T.macro
    def among_few(ends, crop, lane, number, num_crops, chosen, held):
        """With a crop for each lane, all are read at once; what a patch needs of its own comes from that one's lane."""
        end = T.alloc_var("int64", init=_NEVER)
        if lane < num_crops:
            end = ends[lane + 1]
            hold(ends, crop, lane, held)
        low = T.alloc_var("int32", init=0)
        for k in T.unroll(5):
            if T.shfl_sync(end, low + (WARP >> (k + 1)) - 1) <= number:
                low = low + (WARP >> (k + 1))
        chosen[0] = T.if_then_else(T.shfl_sync(end, low) <= number, WARP, low)
        for k in T.unroll(5):
            held[k] = T.shfl_sync(held[k], low)

    @T.macro
    def among_many(ends, crop, lane, number, num_crops, chosen, held):
        """Searches for the warp's first patch and, where another crop has the others, up to its last, then between."""
        crops = T.alloc_local((2,), "int32")
        crops[0] = 0
        crops[1] = num_crops
        search(ends, lane, number - lane, crops)
        low = T.alloc_var("int32", init=crops[0])
        if T.any_sync(low < num_crops and ends[T.min(low, num_crops - 1) + 1] <= number):
            crops[1] = num_crops
            search(ends, lane, number - lane + WARP - 1, crops)
            high = T.alloc_var("int32", init=crops[0])
            while low < high:
                middle = (low + high) >> 1
                if ends[middle + 1] <= number:
                    low = middle + 1
                else:
                    high = middle
        chosen[0] = low
        if low < num_crops:
            hold(ends, crop, low, held)

    @T.macro
    def find(base, total, ends, num_crops, crop, num_bytes, window, places):
        thread = T.get_thread_binding()
        chosen = T.alloc_local((1,), "int32")
        held = T.alloc_local((5,), "int64")
        if thread < T.ceildiv(count, WARP) * WARP:
            for k in T.unroll(5):
                held[k] = 0
            if num_crops <= WARP:
                among_few(ends, crop, thread % WARP, base + thread, num_crops, chosen, held)
            else:
                among_many(ends, crop, thread % WARP, base + thread, num_crops, chosen, held)
        if thread < count:
            places[thread] = NOWHERE
            if chosen[0] < num_crops and base + thread < total:
                offset = T.alloc_var("int64", init=held[0])
                stride = T.alloc_var("int64", init=held[1])
                lines = T.alloc_var("int64", init=T.truncdiv(held[2], T.int64(patch)))
                columns = T.alloc_var("int64", init=T.truncdiv(held[3], T.int64(patch)))
                local = T.alloc_var("int64", init=base + thread - held[4])
                if local >= 0 and lines > 0 and columns >= window and local < lines * columns:
                    where = T.alloc_local((2,), "int64")
                    small = local < SHORT and columns * window < SHORT and columns < SHORT
                    place(small, where, 0, local, columns, window)
                    start = T.alloc_var("int64", init=offset + where[0] * patch * stride + where[1] * span)
                    end_row = T.alloc_var("int64", init=start + (patch - 1) * stride)
                    if start >= 0 and end_row >= 0 and start <= num_bytes - span and end_row <= num_bytes - span:
                        if patch == 1 or (stride <= num_bytes and stride >= -num_bytes):
                            places[thread] = start
                            places[count + thread] = stride

    return find
