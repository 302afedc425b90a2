"""CPU: torch's own row gather, straight into the result."""

from __future__ import annotations

import torch
from torch import Tensor

from tilevl.core.cache import Kernel


def build() -> Kernel:
    """The kernel; any dtype, width and stride."""
    return take


def take(rows: Tensor, index: Tensor, out: Tensor) -> None:
    """Writes every row of ``out``; each index names a row."""
    torch.index_select(rows, 0, index, out=out)
