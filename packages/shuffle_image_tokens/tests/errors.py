"""What shuffle_image_tokens says when it refuses a call."""

from __future__ import annotations

from tilevl.shuffle_image_tokens import shuffle_image_tokens
from tilevl.testing.errors import ErrorTable, Rule

from .refusals import REFUSALS

RULES = [
    Rule(ValueError, "input_embeds must be [T, D] or [B, T, D], got shape <shape>"),
    Rule(TypeError, "input_embeds must be bfloat16 or float16 or float32, got <dtype>"),
    Rule(TypeError, "<image_start|image_tokens> must be on the device of input_embeds, <device>, got <device>"),
    Rule(ValueError, "<image_start|image_tokens> must be [num_images], got shape <shape>"),
    Rule(TypeError, "<image_start|image_tokens> must be int32 or int64, got <dtype>"),
    Rule(ValueError, "<image_start|image_tokens> must be contiguous, got strides <strides> for shape <shape>"),
    Rule(ValueError, "image_tokens must have one element per element of image_start, <number>, got <number>"),
    Rule(ValueError, "max_image_tokens must be at least 0, got <number>"),
    Rule(ValueError, "groups must be at least 1, got <number>"),
    Rule(ValueError, "input_embeds must have a last stride of 1, got strides <strides>"),
    Rule(ValueError, "input_embeds must have rows that don't overlap, got strides <strides> for shape <shape>"),
    Rule(
        ValueError,
        "<image_start|image_tokens> must not overlap input_embeds, got two views of one storage that share memory",
    ),
    Rule(ValueError, "image_tokens[<image>] must be in [0, <number>], up to max_image_tokens, got <count>"),
    Rule(ValueError, "image_tokens[<image>] must be a multiple of groups, <groups>, got <count>"),
    Rule(ValueError, "image_tokens[<image>] must be at most the <rows> rows of input_embeds, got <count>"),
    Rule(
        ValueError,
        "image_start[<image>] must be at most <row>, so that <count> rows end in the <rows> rows of input_embeds, "
        "got <row>",
    ),
    Rule(
        ValueError,
        "image_start[<image>] must leave the images disjoint: rows [<row>, <row>) of image <image> overlap rows "
        "[<row>, <row>) of image <image>, got <row>",
    ),
]

TABLES = [ErrorTable("shuffle_image_tokens", shuffle_image_tokens, RULES, REFUSALS)]
