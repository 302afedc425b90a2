"""Row and column of each patch for Qwen's vision towers through ``prepare_image_attn_pos_id``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tilevl.integrations.transformers import own_path
from tilevl.prepare_image_attn_pos_id import prepare_image_attn_pos_id

OP = "prepare_image_attn_pos_id"


def forward(module: Any, run: str, hidden_states: Tensor, grid_thw: Tensor, **kwargs: Any) -> Any:
    """Stands for ``forward`` of a vision tower: gives it the position ids and prefix sums that it would make itself.

    Args:
        module: the vision tower, with ``spatial_merge_size``.
        run: names the call of ``accelerate``.
        hidden_states: ``[patches, values of a patch]``.
        grid_thw: int ``[images or videos, 3]``: frames, rows and columns of patches.
        kwargs: passed on. What they bring of position ids or prefix sums is taken as it is.

    Raises:
        ValueError: the grids don't have as many patches as there are; names both.
    """
    if kwargs.get("position_ids") is None and kwargs.get("cu_seqlens") is None:
        reason = _against(hidden_states, grid_thw)
        if reason:
            own_path.warn_once(run, reason)
        else:
            kwargs["position_ids"], kwargs["cu_seqlens"] = positions(
                grid_thw, hidden_states.shape[0], module.spatial_merge_size
            )
    return type(module).forward(module, hidden_states, grid_thw, **kwargs)


def positions(grid_thw: Tensor, patches: int, window: int) -> tuple[Tensor, Tensor]:
    """Position ids ``[patches, 2]`` and prefix sums ``[frames + 1]`` of the patches of each frame, both int32."""
    per_frame = torch.repeat_interleave(grid_thw[:, 1:], grid_thw[:, 0], dim=0)
    cu_seqlens = torch.nn.functional.pad(per_frame.prod(1).cumsum(0, dtype=torch.int32), (1, 0))
    if torch.compiler.is_compiling():
        torch._assert_async(cu_seqlens[-1] == patches, f"grid_thw must have {patches} patches, as many as there are")
    else:
        total = int(cu_seqlens[-1])
        if total != patches:
            raise ValueError(f"grid_thw must have {patches} patches, as many as there are, got {total}")
    return prepare_image_attn_pos_id(per_frame, cu_seqlens, patches, window), cu_seqlens


def _against(hidden_states: Tensor, grid_thw: Tensor) -> str:
    if grid_thw.device != hidden_states.device:
        return f"grid_thw must be on {hidden_states.device}, where the patches are, got {grid_thw.device}"
    return own_path.device(OP, grid_thw.device.type)
