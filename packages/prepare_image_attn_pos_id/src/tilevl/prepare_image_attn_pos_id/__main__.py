"""Smoke test of the installed package: ``python -m tilevl.prepare_image_attn_pos_id``."""

from __future__ import annotations

import sys

import torch

from tilevl.core import smoke
from tilevl.prepare_image_attn_pos_id import prepare_image_attn_pos_id


def example() -> tuple[object, object]:
    """A 2 x 4 grid in windows of 2 x 2 tokens."""
    positions = prepare_image_attn_pos_id(torch.tensor([[2, 4]]), torch.tensor([0, 8]), 8, window=2)
    return positions.tolist(), [[0, 0], [0, 1], [1, 0], [1, 1], [0, 2], [0, 3], [1, 2], [1, 3]]


if __name__ == "__main__":
    sys.exit(smoke.run("tilevl.prepare_image_attn_pos_id", example))
