"""Smoke test of the installed package: ``python -m tilevl.integrations.transformers``."""

from __future__ import annotations

import math
import sys

import torch

from tilevl.core import __version__ as core_version
from tilevl.integrations.transformers import __version__, accelerate
from tilevl.integrations.transformers.acceleration import DISTRIBUTION


def example() -> list[float]:
    """An attention of SAM on 2 x 2 tokens whose bias alone weighs the keys: 2 for a row below, 3 for one to the right.

    Query and key are constants, the four values unit vectors: what comes out are the first token's weights, times 12.
    """
    from transformers import SamVisionConfig
    from transformers.models.sam.modeling_sam import SamVisionSdpaAttention

    config = SamVisionConfig(hidden_size=16, num_attention_heads=1, image_size=4, patch_size=2)
    attention = SamVisionSdpaAttention(config, window_size=0).eval().requires_grad_(False)
    for parameter in attention.parameters():
        parameter.zero_()
    attention.qkv.bias[0] = 1  # the query's first number, which the tables are multiplied by
    attention.qkv.weight[32:] = 12 * torch.eye(16)
    attention.proj.weight.copy_(torch.eye(16))
    attention.rel_pos_h[:, 0] = torch.tensor([math.log(2), 0.0, -math.log(2)])  # key one below, same row, one above
    attention.rel_pos_w[:, 0] = torch.tensor([math.log(3), 0.0, -math.log(3)])
    accelerate(attention)
    out, _ = attention(torch.eye(4, 16).view(1, 2, 2, 16))
    return [round(number, 4) for number in out[0, 0, 0, :4].tolist()]


def main() -> int:
    """Prints versions and the worked value, and returns the exit code."""
    import transformers

    got, expected = example(), [1.0, 3.0, 2.0, 6.0]
    lines = [f"{DISTRIBUTION} {__version__}", f"tilevl-core {core_version}", f"transformers {transformers.__version__}"]
    right = got == expected
    lines.append(f"worked value: {got}, as it should be" if right else f"worked value: got {got}, must be {expected}")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
