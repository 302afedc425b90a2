"""What new_op says when it refuses a call."""

from __future__ import annotations

from tilevl.new_op import new_op
from tilevl.testing.errors import ErrorTable, Rule

from .cases import REFUSALS

RULES = [
    Rule(ValueError, "rows must be [R, D], got shape <shape>"),
    Rule(TypeError, "rows must be bfloat16 or float16 or float32, got <dtype>"),
    Rule(ValueError, "rows must have a last stride of 1, got strides <strides>"),
    Rule(TypeError, "index must be on the device of rows, <device>, got <device>"),
    Rule(ValueError, "index must be [M], got shape <shape>"),
    Rule(TypeError, "index must be int32 or int64, got <dtype>"),
    Rule(ValueError, "index must be contiguous, got strides <strides> for shape <shape>"),
    Rule(ValueError, "index[<position>] must be in [0, <rows>), got <index>"),
]

TABLES = [ErrorTable("new_op", new_op, RULES, REFUSALS)]
