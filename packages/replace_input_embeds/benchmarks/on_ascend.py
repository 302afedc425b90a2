"""The Ascend part of the benchmark: bytes against the least possible, and the host model's time; nothing is timed."""

from __future__ import annotations

from argparse import Namespace

import torch

from tilevl.replace_input_embeds import image_token_index, replace_input_embeds
from tilevl.testing import same_bits
from tilevl.testing.ascend_benchmark import modelled, npu
from tilevl.testing.benchmark import Row, report

TOKENS, ROWS = 8192, 4096
INDICES = {
    "one run": torch.arange(ROWS) + 1000,
    "scattered": torch.randperm(TOKENS)[:ROWS].sort().values,
    "in any order": torch.randperm(TOKENS)[:ROWS],
}


def replaced(width: int, name: str) -> list[Row]:
    """Rows of a long prompt."""
    device, index = npu(), INDICES[name]
    embeds, image = torch.randn(TOKENS, width).bfloat16(), torch.randn(ROWS, width).bfloat16()
    expected = embeds.index_copy(0, index, image)
    tensors = embeds.to(device), image.to(device), index.to(device)
    rows = modelled(
        f"{ROWS} rows of {width} into {TOKENS}, {name}, bf16",
        lambda: replace_input_embeds(*tensors),
        2 * image.nbytes + index.nbytes,
    )
    assert same_bits(tensors[0], expected)
    return rows


def found(tokens: int) -> list[Row]:
    """Half of the tokens marked."""
    mask = torch.rand(tokens) < 0.5
    there = mask.to(npu())
    count = int(mask.sum())
    assert image_token_index(there, count).cpu().equal(torch.nonzero(mask).flatten())
    return modelled(
        f"index of {count} of {tokens} tokens", lambda: image_token_index(there, count), mask.nbytes + 8 * count
    )


def main(given: Namespace) -> None:
    """Verifies, then asks the model."""
    rows = [row for width in (4096, 1024) for name in INDICES for row in replaced(width, name)]
    rows += [row for tokens in (8192, 131072) for row in found(tokens)]
    report("replace_input_embeds_ascend_model", rows, given.out)
