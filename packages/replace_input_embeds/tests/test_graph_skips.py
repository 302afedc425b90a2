"""Torch's own capture isn't given up where a graph writes a buffer of its own."""

from __future__ import annotations

import pytest
import torch
from torch import Generator, Tensor
from torch._dynamo.utils import counters

from tilevl.replace_input_embeds import replace_input_embeds
from tilevl.testing import same_bits


@pytest.mark.targets("cuda")
def test_reduce_overhead_captures_a_write_to_a_buffer_of_the_graph(
    target: str, device: torch.device, rng: Generator
) -> None:
    """A mutated input makes torch skip CUDA graphs; a tensor made inside doesn't."""

    def merged(before: Tensor, rows: Tensor, index: Tensor) -> Tensor:
        embeds = before * 2
        replace_input_embeds(embeds, rows, index)
        return embeds

    counters.clear()
    compiled = torch.compile(merged, fullgraph=True, mode="reduce-overhead")
    for _ in range(4):
        before, rows = torch.randn(40, 32, generator=rng), torch.randn(9, 32, generator=rng)
        index = torch.randperm(40, generator=rng)[:9]
        expected = before * 2
        expected[index] = rows
        assert same_bits(compiled(*(tensor.to(device) for tensor in (before, rows, index))), expected)
    assert counters["inductor"]["cudagraph_skips"] == 0
