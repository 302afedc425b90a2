"""What prepare_image_attn_pos_id says when it refuses a call."""

from __future__ import annotations

from tilevl.prepare_image_attn_pos_id import prepare_image_attn_pos_id
from tilevl.testing.errors import ErrorTable, Rule

from .cases import REFUSALS

RULES = [
    Rule(ValueError, "grid_hw must be [num_images, 2], got shape <shape>"),
    Rule(TypeError, "<grid_hw|cu_seqlens_vit> must be int32 or int64, got <dtype>"),
    Rule(ValueError, "<grid_hw|cu_seqlens_vit> must be contiguous, got strides <strides> for shape <shape>"),
    Rule(TypeError, "cu_seqlens_vit must be on the device of grid_hw, <device>, got <device>"),
    Rule(ValueError, "cu_seqlens_vit must be [num_images + 1], got shape <shape>"),
    Rule(ValueError, "cu_seqlens_vit must have one element more than grid_hw has images, <number>, got <number>"),
    Rule(ValueError, "total_seqlens_vit must be at least 0, got <number>"),
    Rule(ValueError, "window must be at least 1, got <number>"),
    Rule(
        ValueError,
        "grid_hw[<image>] must have a height and a width in [0, 2147483648], got (<height>, <width>)",
    ),
    Rule(
        ValueError,
        "grid_hw[<image>] must have a height and a width that are multiples of window, <window>, got "
        "(<height>, <width>)",
    ),
    Rule(ValueError, "cu_seqlens_vit[<image>] must be <number>, the prefix sum of the counts so far, got <number>"),
    Rule(ValueError, "total_seqlens_vit must be at least cu_seqlens_vit[<images>], <number>, got <number>"),
]

TABLES = [ErrorTable("prepare_image_attn_pos_id", prepare_image_attn_pos_id, RULES, REFUSALS)]
