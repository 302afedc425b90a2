"""Prompts with images in them: what replace_input_embeds and shuffle_image_tokens take, and what they leave."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor

from tilevl.replace_input_embeds import replace_input_embeds
from tilevl.shuffle_image_tokens import shuffle_image_tokens

from .oracles import oracle

Args = tuple[Any, ...]


def merge(embeds: Tensor, rows: Tensor, index: Tensor, start: Tensor, count: Tensor, longest: int) -> None:
    """Both ops on the same rows, one after the other."""
    replace_input_embeds(embeds, rows, index)
    shuffle_image_tokens(embeds, start, count, longest, 2)


def prompt(g: Generator, *counts: int, width: int = 16, batch: int | None = None) -> Args:
    """Arguments for ``merge``: a prompt with images of the given numbers of rows, three words before each."""
    starts, place = [], 0
    for count in counts:
        place += 3
        starts.append(place)
        place += count
    tokens = place + 4
    tokens += -tokens % (batch or 1)
    shape = (tokens, width) if batch is None else (batch, tokens // batch, width)
    index = [start + i for start, count in zip(starts, counts, strict=True) for i in range(count)]
    return (
        torch.randn(shape, generator=g).bfloat16(),
        torch.randn(len(index), width, generator=g).bfloat16(),
        torch.tensor(index, dtype=torch.int64),
        torch.tensor(starts, dtype=torch.int64),
        torch.tensor(counts, dtype=torch.int64),
        max(counts, default=0),
    )


def merged(embeds: Tensor, rows: Tensor, index: Tensor, start: Tensor, count: Tensor, longest: int) -> Tensor:
    """What ``merge`` must leave in ``embeds``."""
    replaced = oracle("replace_input_embeds")(embeds, rows, index)
    shuffled: Tensor = oracle("shuffle_image_tokens")(replaced, start, count, longest, 2)
    return shuffled
