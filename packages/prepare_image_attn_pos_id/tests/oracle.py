"""The expected positions, token by token in plain Python."""

from __future__ import annotations

import torch
from torch import Tensor


def prepare_image_attn_pos_id(
    grid_hw: Tensor, cu_seqlens_vit: Tensor, total_seqlens_vit: int, window: int = 1
) -> Tensor:
    """(row, column) of each token of the images in order, then (0, 0)."""
    rows: list[tuple[int, int]] = []
    for height, width in grid_hw.tolist():
        for top in range(0, height if width else 0, window):  # an empty image may have one huge side
            for left in range(0, width, window):
                rows += [(y, x) for y in range(top, top + window) for x in range(left, left + window)]
    rows += [(0, 0)] * (total_seqlens_vit - len(rows))
    return torch.tensor(rows, dtype=torch.int32).view(total_seqlens_vit, 2)
