"""The Ascend part of the benchmark: bytes against the least possible, and the host model's time; nothing is timed."""

from __future__ import annotations

from argparse import Namespace

import torch

from tilevl.shuffle_image_tokens import shuffle_image_tokens
from tilevl.shuffle_image_tokens.strips import LONGEST
from tilevl.testing import same_bits
from tilevl.testing.ascend_benchmark import modelled, npu
from tilevl.testing.benchmark import Row, report

SHAPES = ((16, 576, 4096), (1, 576, 4096), (4, 1024, 2048), (1, 4096, 4096), (1, 8192, 1024))


def shuffled(images: int, rows: int, width: int) -> list[Row]:
    """Equal images one after the other, two groups."""
    device, total = npu(), images * rows
    embeds = torch.randn(total, width).bfloat16()
    expected = embeds.view(images, 2, rows // 2, width).transpose(1, 2).reshape(total, width)
    starts, counts = torch.arange(0, total, rows), torch.full((images,), rows)
    result, spans = embeds.to(device), (starts.to(device), counts.to(device))
    rows_of_the_table = modelled(
        f"{images} images of {rows} rows of {width}, bf16",
        lambda: shuffle_image_tokens(result, *spans, rows),
        2 * embeds.nbytes + starts.nbytes + counts.nbytes,
        copied=2 * embeds.nbytes if rows > LONGEST else 0,
    )
    assert same_bits(result, expected)
    return rows_of_the_table


def main(given: Namespace) -> None:
    """Verifies, then asks the model."""
    rows = [row for shape in SHAPES for row in shuffled(*shape)]
    report("shuffle_image_tokens_ascend_model", rows, given.out)
