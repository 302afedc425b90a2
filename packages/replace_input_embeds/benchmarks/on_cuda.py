"""The CUDA part of the benchmark: replays beside the copy limit and torch's ways, and what a call costs at least."""

from __future__ import annotations

from argparse import Namespace

import torch
from torch import Tensor

from tilevl.replace_input_embeds import replace_input_embeds
from tilevl.testing import same_bits
from tilevl.testing.benchmark import Row, report
from tilevl.testing.cuda_benchmark import compared, copy_bandwidth, on_device, replayed, small_calls

OWN, BAR = "replace_input_embeds", 1.25  # of the limit
TOKENS, ROWS, WIDTH = 8192, 4096, 4096
SETS = 6  # of inputs, 100 MB each: several times the L2 cache
ROUNDS_OF_SETS = 5  # in a graph, whose start, about 9 us, would else count much in each call
INDICES = {
    "one run": lambda: torch.arange(ROWS) + 1000,
    "scattered": lambda: torch.randperm(TOKENS)[:ROWS].sort().values,
}


def draw(tokens: int, rows: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Embeddings, image rows, index and mask."""
    embeds = torch.randn(tokens, width, device="cuda").bfloat16()
    image = torch.randn(rows.numel(), width, device="cuda").bfloat16()
    mask = torch.zeros(tokens, 1, dtype=torch.bool)
    mask[rows] = True
    return embeds, image, rows.cuda(), mask.cuda()


def masked_assignment(embeds: Tensor, image: Tensor, mask: Tensor) -> None:
    """The boolean index that many models use."""
    embeds[mask[:, 0]] = image


def large(name: str, bandwidth: float, rounds: int) -> list[Row]:
    """The shape of a long prompt."""
    shape = f"{ROWS} rows of {WIDTH} into {TOKENS}, {name}, bf16"
    sets = [draw(TOKENS, INDICES[name](), WIDTH) for _ in range(SETS)]
    for embeds, image, index, mask in sets:
        expected = embeds.masked_scatter(mask, image)
        replace_input_embeds(embeds, image, index)
        assert same_bits(embeds, expected)
    times = replayed(
        {
            OWN: [lambda s=s: replace_input_embeds(s[0], s[1], s[2]) for s in sets] * ROUNDS_OF_SETS,
            "index_copy_": [lambda s=s: s[0].index_copy_(0, s[2], s[1]) for s in sets] * ROUNDS_OF_SETS,
            "copy of the rows": [lambda s=s: s[0][:ROWS].copy_(s[1]) for s in sets] * ROUNDS_OF_SETS,
        },
        rounds=rounds,
    )
    times |= on_device(
        {
            "masked_scatter_": [lambda s=s: s[0].masked_scatter_(s[3], s[1]) for s in sets],
            "boolean index": [lambda s=s: masked_assignment(s[0], s[1], s[3]) for s in sets],
        },
        rounds=rounds,
    )
    times["limit"] = 2 * ROWS * WIDTH * 2 / bandwidth * 1e6
    return compared(shape, times, OWN, "limit", BAR)


def small(rounds: int) -> list[Row]:
    """One page's image tokens: what counts is what any kernel costs."""
    shape = "272 rows of 1280 into 1024, bf16"
    embeds, image, index, _ = draw(1024, torch.arange(272) + 100, 1280)
    calls = {
        OWN: lambda: replace_input_embeds(embeds, image, index),
        "index_copy_": lambda: embeds.index_copy_(0, index, image),
    }
    return small_calls(shape, calls, OWN, 4 * rounds)


def main(given: Namespace) -> None:
    """Verifies, then times."""
    bandwidth = copy_bandwidth()
    rows = [row for name in INDICES for row in large(name, bandwidth, given.rounds)] + small(given.rounds)
    rows.append(Row("copy of 4 GiB", "bandwidth", bandwidth / 1e12, "TB/s, read and written"))
    report("replace_input_embeds_cuda", rows, given.out, limit="limit")
