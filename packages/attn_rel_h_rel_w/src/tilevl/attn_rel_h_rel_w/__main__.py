"""Smoke test of the installed package: ``python -m tilevl.attn_rel_h_rel_w``."""

from __future__ import annotations

import math
import sys

import torch

from tilevl.attn_rel_h_rel_w import attn_rel_h_rel_w
from tilevl.core import smoke


def example() -> tuple[object, object]:
    """A 2 x 2 grid with nothing but bias: the second row counts twice, the second column three times."""
    query = torch.zeros(1, 4, 1, 16)
    value = torch.zeros(1, 4, 1, 16)
    value[0, :, 0, :4] = 12 * torch.eye(4)
    rel_h = torch.tensor([0.0, math.log(2)]).expand(1, 4, 1, 2)
    rel_w = torch.tensor([0.0, math.log(3)]).expand(1, 4, 1, 2)
    result = attn_rel_h_rel_w(query, query, value, rel_h, rel_w)
    return [round(number, 5) for number in result[0, 0, 0, :4].tolist()], [1.0, 3.0, 2.0, 6.0]


if __name__ == "__main__":
    sys.exit(smoke.run("tilevl.attn_rel_h_rel_w", example))
