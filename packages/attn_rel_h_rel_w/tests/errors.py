"""What attn_rel_h_rel_w says when it refuses a call."""

from __future__ import annotations

from tilevl.attn_rel_h_rel_w import attn_rel_h_rel_w
from tilevl.testing.errors import ErrorTable, Rule

from .cases import REFUSALS

RULES = [
    Rule(ValueError, "<query|key|value> must be [B, S, N, D], got shape <shape>"),
    Rule(TypeError, "query must be bfloat16 or float16 or float32, got <dtype>"),
    Rule(TypeError, "query must be bfloat16 or float16, got <dtype>"),
    Rule(TypeError, "<key|value|rel_h|rel_w> must have the dtype of query, <dtype>, got <dtype>"),
    Rule(TypeError, "<key|value|rel_h|rel_w> must be on the device of query, <device>, got <device>"),
    Rule(ValueError, "<key|value> must have the shape of query, <shape>, got <shape>"),
    Rule(ValueError, "head dim D must be a multiple of 16 in [16, 128], got <number>"),
    Rule(ValueError, "grid_h or grid_w must be given where S is not a square, got S = <number>"),
    Rule(ValueError, "<grid_h|grid_w> must be at least 0, got <number>"),
    Rule(ValueError, "<grid_h|grid_w> can be 0 only where S is 0, got S = <number>"),
    Rule(ValueError, "grid_h * grid_w must be S, <number>, got <number> * <number>"),
    Rule(ValueError, "<grid_h|grid_w> must divide S, <number>, got <number>"),
    Rule(ValueError, "rel_h must be [B, S, N, >=grid_h], got shape <shape>"),
    Rule(ValueError, "rel_w must be [B, S, N, >=grid_w], got shape <shape>"),
    Rule(ValueError, "<rel_h|rel_w> must have the batch, tokens and heads of query, <sizes>, got shape <shape>"),
    Rule(ValueError, "rel_h must have at least grid_h, <number>, columns, got <number>"),
    Rule(ValueError, "rel_w must have at least grid_w, <number>, columns, got <number>"),
    Rule(ValueError, "<query|key|value|rel_h|rel_w> must have a last stride of 1, got strides <strides>"),
    Rule(ValueError, "scale must be finite, got <number>"),
]

TABLES = [ErrorTable("attn_rel_h_rel_w", attn_rel_h_rel_w, RULES, REFUSALS)]
