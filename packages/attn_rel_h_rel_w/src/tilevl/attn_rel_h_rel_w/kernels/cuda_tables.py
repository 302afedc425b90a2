"""What the CUDA programs share about the two tables: scores are powers of two."""

from __future__ import annotations

from typing import Any

import tilelang.language as T

LOG2E = 1.4426950408889634
_LARGEST = 3.4e38


def base_2(bias: Any) -> Any:
    """A float32 bias times log2(e). Infinities and NaN stay, but no finite number becomes infinite."""
    return T.if_then_else(T.abs(bias) <= _LARGEST, T.max(T.min(bias * LOG2E, _LARGEST), -_LARGEST), bias)
