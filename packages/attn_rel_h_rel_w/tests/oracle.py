"""The expected attention in float64, token by token from the contract's words."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor


def sides(tokens: int, grid_h: int | None, grid_w: int | None) -> tuple[int, int]:
    if grid_h is None and grid_w is None:
        return round(math.sqrt(tokens)), round(math.sqrt(tokens))
    if grid_h is None:
        return (tokens // grid_w if grid_w else 0), grid_w or 0
    if grid_w is None:
        return grid_h, (tokens // grid_h if grid_h else 0)
    return grid_h, grid_w


def attn_rel_h_rel_w(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    rel_h: Tensor,
    rel_w: Tensor,
    grid_h: int | None = None,
    grid_w: int | None = None,
    scale: float | None = None,
) -> Tensor:
    """The whole result, not rounded."""
    q, k, v, h, w = (tensor.double().numpy() for tensor in (query, key, value, rel_h, rel_w))
    batch, tokens, heads, head_dim = q.shape
    _, columns = sides(tokens, grid_h, grid_w)
    factor = 1 / math.sqrt(head_dim) if scale is None else scale
    out = np.zeros(q.shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        for b, n in np.ndindex(batch, heads):
            scores = factor * np.einsum("id,jd->ij", q[b, :, n], k[b, :, n])
            for j in range(tokens):
                scores[:, j] += h[b, :, n, j // columns] + w[b, :, n, j % columns]
            for i, row in enumerate(scores):
                if not np.all(np.isneginf(row)):
                    weights = np.exp(row - row.max())
                    out[b, i, n] = weights @ v[b, :, n] / weights.sum()
    return torch.from_numpy(out)
