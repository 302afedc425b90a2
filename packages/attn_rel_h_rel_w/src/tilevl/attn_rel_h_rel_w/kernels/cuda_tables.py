"""What the CUDA programs share about the two tables: scores are powers of two."""

from __future__ import annotations

from typing import Any

import tilelang.language as T

LOG2E = 1.4426950408889634
LARGEST = 3.4e38
"""Finite in float32; what an overflow gives is larger."""


def base_2(bias: Any) -> Any:
    """A float32 bias times log2(e). Infinities and NaN stay, but no finite number becomes infinite."""
    return T.if_then_else(T.abs(bias) <= LARGEST, T.max(T.min(bias * LOG2E, LARGEST), -LARGEST), bias)
