"""Smoke test of the installed package: ``python -m tilevl.replace_input_embeds``."""

from __future__ import annotations

import sys

import torch

from tilevl.core import smoke
from tilevl.replace_input_embeds import replace_input_embeds


def example() -> tuple[object, object]:
    """Two image rows into four token rows, one of them skipped."""
    embeds = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
    replace_input_embeds(embeds, torch.tensor([[-1.0, -2.0], [-3.0, -4.0]]), torch.tensor([2, -1]))
    return embeds.tolist(), [[1.0, 2.0], [3.0, 4.0], [-1.0, -2.0], [7.0, 8.0]]


if __name__ == "__main__":
    sys.exit(smoke.run("tilevl.replace_input_embeds", example))
