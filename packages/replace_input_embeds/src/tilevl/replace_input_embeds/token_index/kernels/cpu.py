"""CPU: the positions of the True entries, then -1."""

from __future__ import annotations

import torch
from torch import Tensor

from tilevl.core.cache import Kernel


def build() -> Kernel:
    """The kernel; any strides and length."""
    return find


def find(is_image_token: Tensor, num_image_tokens: int, out: Tensor) -> None:
    """Fills ``out``; the mask marks at most ``num_image_tokens`` tokens."""
    positions = torch.nonzero(is_image_token.flatten()).flatten()
    out[: positions.numel()] = positions
    out[positions.numel() :] = -1
