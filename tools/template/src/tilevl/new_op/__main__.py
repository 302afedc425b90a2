"""Smoke test of the installed package: ``python -m tilevl.new_op``."""

from __future__ import annotations

import sys

import torch

from tilevl.core import smoke
from tilevl.new_op import new_op


def example() -> tuple[object, object]:
    """Three rows, one of them twice."""
    rows = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    return new_op(rows, torch.tensor([2, 0, 2])).tolist(), [[5.0, 6.0], [1.0, 2.0], [5.0, 6.0]]


if __name__ == "__main__":
    sys.exit(smoke.run("tilevl.new_op", example))
