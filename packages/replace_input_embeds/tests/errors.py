"""What replace_input_embeds and image_token_index say when they refuse a call."""

from __future__ import annotations

from tilevl.replace_input_embeds import image_token_index, replace_input_embeds
from tilevl.testing.errors import ErrorTable, Rule

from .cases import INDEX_REFUSALS, REFUSALS

RULES = [
    Rule(ValueError, "input_embeds must be [T, D] or [B, T, D], got shape <shape>"),
    Rule(ValueError, "image_embeds must be [M, D], got shape <shape>"),
    Rule(ValueError, "token_index must be [M], got shape <shape>"),
    Rule(TypeError, "input_embeds must be bfloat16 or float16 or float32, got <dtype>"),
    Rule(TypeError, "image_embeds must have the dtype of input_embeds, <dtype>, got <dtype>"),
    Rule(TypeError, "token_index must be int32 or int64, got <dtype>"),
    Rule(TypeError, "<image_embeds|token_index> must be on the device of input_embeds, <device>, got <device>"),
    Rule(ValueError, "image_embeds must have rows of <D> elements like input_embeds, got <number>"),
    Rule(ValueError, "token_index must have one element per row of image_embeds, <M>, got <number>"),
    Rule(ValueError, "<input_embeds|image_embeds> must have a last stride of 1, got strides <strides>"),
    Rule(ValueError, "token_index must be contiguous, got strides <strides> for shape <shape>"),
    Rule(ValueError, "input_embeds must have rows that don't overlap, got strides <strides> for shape <shape>"),
    Rule(
        ValueError,
        "<image_embeds|token_index> must not overlap input_embeds, got two views of one storage that share memory",
    ),
    Rule(ValueError, "token_index[<position>] must be less than <rows>, got <index>"),
]

INDEX_RULES = [
    Rule(ValueError, "is_image_token must be [T] or [B, T], got shape <shape>"),
    Rule(TypeError, "is_image_token must be bool, got <dtype>"),
    Rule(ValueError, "num_image_tokens must be at least 0, got <number>"),
    Rule(
        ValueError,
        "is_image_token must mark at most num_image_tokens, <number>, tokens, got <number>; the first too many is "
        "token <position>",
    ),
]

TABLES = [
    ErrorTable("replace_input_embeds", replace_input_embeds, RULES, REFUSALS),
    ErrorTable("image_token_index", image_token_index, INDEX_RULES, INDEX_REFUSALS),
]
