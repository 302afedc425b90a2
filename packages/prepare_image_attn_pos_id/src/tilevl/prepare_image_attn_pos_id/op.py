"""Registers prepare_image_attn_pos_id and gives its public function."""

from __future__ import annotations

from torch import Tensor

from tilevl.core.registration import direct, register
from tilevl.prepare_image_attn_pos_id import contract
from tilevl.prepare_image_attn_pos_id._version import __version__

OP = register(
    "tilevl.prepare_image_attn_pos_id",
    contract.SCHEMA,
    version=__version__,
    check=contract.check,
    check_data=contract.check_data,
    specialise=contract.specialise,
)
_call = direct(OP)


def prepare_image_attn_pos_id(
    grid_hw: Tensor, cu_seqlens_vit: Tensor, total_seqlens_vit: int, window: int = 1
) -> Tensor:
    """Row and column of every image token, for rotary or learned 2-D position embeddings in the vision tower.

    Equals the position ids of Qwen2-VL's vision tower with one frame and ``spatial_merge_size = window``. Several
    frames are several images here: one row of ``grid_hw`` each.

    Args:
        grid_hw: int32 or int64, ``[num_images, 2]``, contiguous: height and width of each image's token grid, both
            multiples of ``window``. 0 makes an empty image.
        cu_seqlens_vit: int32 or int64, ``[num_images + 1]``, contiguous: prefix sums of height * width, from 0.
        total_seqlens_vit: rows of the result, at least ``cu_seqlens_vit[-1]``.
        window: 1 takes an image's tokens in raster order; w > 1 takes windows of w x w tokens in raster order, and
            raster order inside each.

    Returns:
        int32, ``[total_seqlens_vit, 2]``, contiguous: (row, column) of each token, from (0, 0) in each image; rows
        past the last image are (0, 0).

    Raises:
        TypeError: a dtype or device is wrong.
        ValueError: a rank, shape, stride or scalar is wrong, a grid isn't a multiple of ``window``, or the sums aren't
            those of the grids (the last two on a device only with ``TILEVL_CHECK_DATA=1``; else rows of such an image
            may hold any position there, and nothing outside the result is touched).
        tilevl.core.TargetUnavailableError: the device can't run the op.

    Example:
        >>> prepare_image_attn_pos_id(torch.tensor([[2, 4]]), torch.tensor([0, 8]), 8, window=2).tolist()
        [[0, 0], [0, 1], [1, 0], [1, 1], [0, 2], [0, 3], [1, 2], [1, 3]]
    """
    positions: Tensor = _call(grid_hw, cu_seqlens_vit, total_seqlens_vit, window)
    return positions
