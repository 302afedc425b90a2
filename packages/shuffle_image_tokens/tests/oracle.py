"""The expected content, row by row in numpy on the bits of the elements."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def shuffle_image_tokens(
    input_embeds: Tensor, image_start: Tensor, image_tokens: Tensor, max_image_tokens: int, groups: int = 2
) -> Tensor:
    """A copy of ``input_embeds`` with the rows of each image interleaved."""
    carrier = torch.int16 if input_embeds.element_size() == 2 else torch.int32
    old = input_embeds.contiguous().view(carrier).numpy()
    old = old.reshape(int(np.prod(old.shape[:-1])), old.shape[-1])
    new = old.copy()
    for start, count in zip(image_start.tolist(), image_tokens.tolist(), strict=True):
        if start < 0:
            continue
        run = count // groups
        for j in range(run):
            for g in range(groups):
                new[start + j * groups + g] = old[start + g * run + j]
    return torch.from_numpy(new.reshape(tuple(input_embeds.shape))).view(input_embeds.dtype)
