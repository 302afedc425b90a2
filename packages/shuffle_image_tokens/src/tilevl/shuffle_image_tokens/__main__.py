"""Smoke test of the installed package: ``python -m tilevl.shuffle_image_tokens``."""

from __future__ import annotations

import sys

import torch

from tilevl.core import smoke
from tilevl.shuffle_image_tokens import shuffle_image_tokens


def example() -> tuple[object, object]:
    """Rows a b c d e f in two groups, with a row before and one after."""
    embeds = torch.tensor([[9.0], [1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [8.0]])
    shuffle_image_tokens(embeds, torch.tensor([1]), torch.tensor([6]), 6)
    return embeds.flatten().tolist(), [9.0, 1.0, 4.0, 2.0, 5.0, 3.0, 6.0, 8.0]


if __name__ == "__main__":
    sys.exit(smoke.run("tilevl.shuffle_image_tokens", example))
