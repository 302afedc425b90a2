"""Inputs that are overwritten as soon as a call returns: https://github.com/vllm-project/vllm-ascend/pull/11678."""

from __future__ import annotations

import torch
from torch import Generator

from tilevl.replace_input_embeds import image_token_index, replace_input_embeds
from tilevl.testing import same_bits


def test_rows_and_index_overwritten_right_after_the_call_do_not_change_the_result(
    device: torch.device, rng: Generator
) -> None:
    before = torch.randn(40, 32, generator=rng)
    drawn = [(torch.randn(9, 32, generator=rng), torch.randperm(40, generator=rng)[:9]) for _ in range(2)]
    expected = []
    for rows, index in drawn:
        expected.append(before.clone())
        expected[-1][index] = rows
    held = [[tensor.to(device) for tensor in pair] for pair in drawn]
    rows, index = (tensor.clone() for tensor in held[0])
    results = []
    for turn in range(100):
        results.append(before.to(device, copy=True))
        replace_input_embeds(results[turn], rows, index)
        rows.copy_(held[(turn + 1) % 2][0])
        index.copy_(held[(turn + 1) % 2][1])
    for turn, result in enumerate(results):
        assert same_bits(result, expected[turn % 2])


def test_a_mask_overwritten_right_after_the_call_does_not_change_the_index(
    device: torch.device, rng: Generator
) -> None:
    drawn = [torch.rand(3, 40, generator=rng) < 0.5 for _ in range(2)]
    expected = [torch.nonzero(mask.flatten()).flatten().tolist() for mask in drawn]
    held = [mask.to(device) for mask in drawn]
    mask, results = held[0].clone(), []
    for turn in range(100):
        results.append(image_token_index(mask, 120))
        mask.copy_(held[(turn + 1) % 2])
    for turn, result in enumerate(results):
        marked = expected[turn % 2]
        assert result.tolist() == marked + [-1] * (120 - len(marked))
