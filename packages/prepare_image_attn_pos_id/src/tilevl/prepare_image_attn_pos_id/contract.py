"""The rules of prepare_image_attn_pos_id: every check and message, for fake and real calls alike."""

from __future__ import annotations

import torch
from torch import SymInt, Tensor

from tilevl.core import checks, data_checks

OP = "prepare_image_attn_pos_id"
SCHEMA = f"{OP}(Tensor grid_hw, Tensor cu_seqlens_vit, SymInt total_seqlens_vit, SymInt window=1) -> Tensor"

MAX_SIDE = 2**31  # positions are int32, so a side's last one is at most 2**31 - 1

_SHORT = 64  # up to here Python ints are faster than the passes of torch


def check(
    grid_hw: Tensor, cu_seqlens_vit: Tensor, total_seqlens_vit: int | SymInt, window: int | SymInt
) -> tuple[tuple[int | SymInt, int], torch.dtype]:
    """Shape and dtype of the result; raises ValueError or TypeError where the contract is broken."""
    checks.check_index(OP, "grid_hw", grid_hw, "[num_images, 2]", 2)
    images, sides = grid_hw.shape
    checks.require(sides == 2, lambda: f"{OP}: grid_hw must be [num_images, 2], got shape {checks.shape_of(grid_hw)}")
    checks.check_device(OP, "cu_seqlens_vit", cu_seqlens_vit, "grid_hw", grid_hw)
    checks.check_index(OP, "cu_seqlens_vit", cu_seqlens_vit, "[num_images + 1]", 1)
    checks.require(
        cu_seqlens_vit.shape[0] == images + 1,
        lambda: (
            f"{OP}: cu_seqlens_vit must have one element more than grid_hw has images, {images + 1}, "
            f"got {cu_seqlens_vit.shape[0]}"
        ),
    )
    checks.require(
        total_seqlens_vit >= 0, lambda: f"{OP}: total_seqlens_vit must be at least 0, got {total_seqlens_vit}"
    )
    checks.require(window >= 1, lambda: f"{OP}: window must be at least 1, got {window}")
    return (total_seqlens_vit, 2), torch.int32


def check_data(grid_hw: Tensor, cu_seqlens_vit: Tensor, total_seqlens_vit: int, window: int) -> None:
    """Raises ValueError for a grid that windows don't fill, and for sums that aren't those of height * width."""
    if grid_hw.shape[0] > _SHORT and _many_agree(grid_hw, cu_seqlens_vit, total_seqlens_vit, window):
        return
    counts = []
    for image, (height, width) in enumerate(grid_hw.tolist()):
        if not (0 <= height <= MAX_SIDE and 0 <= width <= MAX_SIDE):
            raise ValueError(
                f"{OP}: grid_hw[{image}] must have a height and a width in [0, {MAX_SIDE}], got ({height}, {width})"
            )
        if height % window or width % window:
            raise ValueError(
                f"{OP}: grid_hw[{image}] must have a height and a width that are multiples of window, {window}, "
                f"got ({height}, {width})"
            )
        counts.append(height * width)
    data_checks.check_prefix_sums(
        OP, "cu_seqlens_vit", cu_seqlens_vit.tolist(), counts, total_seqlens_vit, "total_seqlens_vit"
    )


def _many_agree(grid_hw: Tensor, cu_seqlens_vit: Tensor, total_seqlens_vit: int, window: int) -> bool:
    """Whether all rules hold, in a few passes; nothing overflows, since each is taken once those before it hold."""
    grid_hw, sums = grid_hw.cpu(), cu_seqlens_vit.cpu().long()  # one copy from a device each, not one a pass
    low, high = torch.aminmax(grid_hw)
    if low < 0 or high > MAX_SIDE or sums[0] != 0 or sums[-1] > total_seqlens_vit:
        return False
    low, high = torch.aminmax(sums)
    if low < 0 or high > total_seqlens_vit:
        return False
    grids = grid_hw.long()
    if window > 1 and bool((grids % window).any()):
        return False
    return torch.equal(grids[:, 0] * grids[:, 1], sums[1:] - sums[:-1])


def specialise(grid_hw: Tensor, cu_seqlens_vit: Tensor, total_seqlens_vit: int, window: int) -> tuple[()]:
    """The static key: sizes, dtypes and the window are all read at run time on CPU."""
    return ()
