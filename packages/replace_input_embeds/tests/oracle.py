"""The expected content, row by row in numpy on the bits of the elements."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def replace_input_embeds(input_embeds: Tensor, image_embeds: Tensor, token_index: Tensor) -> Tensor:
    """A copy of ``input_embeds`` with the rows written."""
    carrier = torch.int16 if input_embeds.element_size() == 2 else torch.int32
    content = input_embeds.contiguous().view(carrier).numpy().copy()
    rows = content.reshape(int(np.prod(content.shape[:-1])), content.shape[-1])
    source = image_embeds.contiguous().view(carrier).numpy()
    for i, row in enumerate(token_index.tolist()):
        if row >= 0:
            rows[row] = source[i]
    return torch.from_numpy(content).view(input_embeds.dtype)


def image_token_index(is_image_token: Tensor, num_image_tokens: int) -> Tensor:
    """Positions of the True entries, padded with -1."""
    flat = is_image_token.numpy().reshape(-1)
    found = [i for i in range(flat.size) if flat[i]]
    return torch.tensor(found + [-1] * (num_image_tokens - len(found)), dtype=torch.int64)
