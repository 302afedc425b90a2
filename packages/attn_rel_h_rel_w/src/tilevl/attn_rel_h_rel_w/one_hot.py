"""The CPU's faster way: scores, bias and exponential of a tile of keys in one bfloat16 product.

A query's entries of the two tables become further columns of the query, and a one-hot code of a key's row and column
within its tile becomes further columns of the key. Their product, summed in float32, is score plus bias, exactly. Tiles
of 16 x 16 keys need 32 such columns. Two more subtract a level from all scores of a query, so far above them that
``sigmoid`` is ``exp``, and oneDNN's linear layer applies it before it rounds. So probabilities come out as bfloat16,
and neither scores nor bias ever lie in memory. A column of ones beside the values gives their sum, which tells
afterwards whether the level was right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_SIDE = 16  # rows and columns of a tile of keys
_PARTS = 2**16  # products with values that wait for their sum, queries times tiles: 10 MiB where D is 64
_SUM = 16  # columns beside the values; the first holds ones, the rest keep rows aligned
_MARGIN = 16.0  # from the level down to the logarithm of the largest sum there can be
_SPREAD = 40.0  # a query's scores lie so close together that the level suits all of them
_LOWEST = -1e30  # stands for -inf, which times 0 would be NaN
_LEAST, _MOST = 2.0**-100, math.exp(-12)  # sums that lost nothing to underflow, and in which sigmoid is exp
_LINEAR_TAKES = ("X", "W", "B", "attr", "scalars", "algorithm")


def is_fast() -> bool:
    """Whether torch has the linear layer, and the processor bfloat16 vector instructions, but no matrix unit.

    There torch's fused attention multiplies bfloat16 at the pace of float32. With a matrix unit it doesn't.
    """
    capabilities: dict[str, bool] = getattr(
        torch.cpu, "get_capabilities", dict
    )()  # newer than the oldest torch that is allowed
    if not capabilities.get("avx512_bf16", False) or capabilities.get("amx_bf16", False):
        return False
    linear = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if torch.backends.mkldnn.is_available() else None
    return linear is not None and tuple(a.name for a in linear.default._schema.arguments) == _LINEAR_TAKES


@dataclass(frozen=True)
class _Tile:
    """Keys of a few rows and columns of the grid."""

    rows: slice
    columns: slice
    codes: Tensor  # [keys, K]: room for the key, one-hot row, one-hot column, 1, 1; tiles of one shape share it
    values: Tensor  # [keys, D + _SUM]: room for the value, 1, 0, ...


def _tiles(rows: int, columns: int, head_dim: int, code_at: int) -> list[_Tile]:
    of_shape: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
    tiles = []
    for top in range(0, rows, _SIDE):
        for left in range(0, columns, _SIDE):
            height, width = min(_SIDE, rows - top), min(_SIDE, columns - left)
            if (height, width) not in of_shape:
                codes = torch.zeros(height, width, code_at + 2 * _SIDE + 2, dtype=torch.bfloat16, device="cpu")
                codes[:, :, code_at : code_at + height].diagonal(dim1=0, dim2=2).fill_(1)
                codes[:, :, code_at + _SIDE : code_at + _SIDE + width].diagonal(dim1=1, dim2=2).fill_(1)
                codes[:, :, -2:] = 1
                values = torch.zeros(height, width, head_dim + _SUM, dtype=torch.bfloat16, device="cpu")
                values[:, :, head_dim] = 1
                of_shape[height, width] = codes.flatten(0, 1), values.flatten(0, 1)
            place = slice(top, top + height), slice(left, left + width)
            tiles.append(_Tile(*place, *of_shape[height, width]))
    return tiles


def attend(
    query: Tensor, key: Tensor, value: Tensor, rel_h: Tensor, rel_w: Tensor, out: Tensor, scale: float
) -> list[tuple[int, int, slice]]:
    """Attention of bfloat16 tensors ``[B, N, S, ...]``, head by head.

    Returns:
        (batch, head, queries) of the blocks that have to be done in another way: those with a NaN, an infinity or a
        query without keys, and those where a query's level turned out to be wrong.
    """
    batch, heads, tokens, head_dim = query.shape
    rows, columns = rel_h.shape[-1], rel_w.shape[-1]
    exact = abs(math.frexp(scale)[0]) in (0.0, 0.5)  # a power of two scales a bfloat16 without rounding
    code_at = head_dim if exact else 2 * head_dim
    tiles = _tiles(rows, columns, head_dim, code_at)
    step = min(max(_PARTS // len(tiles), 1), tokens)
    bands = -(-columns // _SIDE)  # queries come once for each band of tiles, so that few and large copies fill them in
    extended = torch.zeros(bands, step, code_at + 2 * _SIDE + 2, dtype=query.dtype, device=query.device)
    parts = torch.empty(len(tiles), step, head_dim + _SUM, dtype=query.dtype, device=query.device)
    left_over = []
    for b in range(batch):
        for n in range(heads):
            k, v = key[b, n].unflatten(0, (rows, columns)), value[b, n].unflatten(0, (rows, columns))
            k_float = key[b, n].float()
            mean = k_float.mean(0)
            reach = torch.linalg.vector_norm(k_float - mean, dim=1).amax()
            for s in range(0, tokens, step):
                block = slice(s, min(s + step, tokens))
                x, products = extended[:, : block.stop - s], parts[:, : block.stop - s]
                q = query[b, n, block].float().mul_(scale)
                h, w = _clamped(rel_h[b, n, block]), _clamped(rel_w[b, n, block])
                _fill(x, q, h, w, mean, reach, exact)
                for band in range(bands):
                    _put(x[band], code_at + _SIDE, w[:, band * _SIDE : (band + 1) * _SIDE])
                for i, tile in enumerate(tiles):
                    band = i % bands
                    if band == 0:
                        _put(x, code_at, h[:, tile.rows])
                    _put_keys(tile.codes, k[tile.rows, tile.columns], code_at // head_dim)
                    _put_keys(tile.values, v[tile.rows, tile.columns], 1)
                    p = torch.ops.mkldnn._linear_pointwise.default(x[band], tile.codes, None, "sigmoid", [], "")
                    torch.mm(p, tile.values, out=products[i])
                total = products.sum(0, dtype=torch.float32)
                least, most = total[:, head_dim].aminmax()
                if least > _LEAST and most < _MOST:  # false for NaN
                    torch.div(total[:, :head_dim], total[:, head_dim, None], out=out[b, n, block])
                else:
                    left_over.append((b, n, block))
    return left_over


def _clamped(table: Tensor) -> Tensor:
    # Not clamp(): of rows that don't follow one another it goes element by element.
    return table.clone(memory_format=torch.contiguous_format).clamp_(min=_LOWEST)


def _fill(x: Tensor, q: Tensor, h: Tensor, w: Tensor, mean: Tensor, reach: Tensor, exact: bool) -> None:
    """The query's own columns, and the level.

    It lies above the largest score there can be: by Cauchy-Schwarz on keys less their mean, and the tables' maxima.
    Where that leaves a wide range, the level comes down by half of what is too much.
    """
    head_dim = q.shape[1]
    x[..., :head_dim].copy_(q)
    if not exact:
        x[..., head_dim : 2 * head_dim].copy_(q - x[0, :, :head_dim])
    spread = torch.linalg.vector_norm(q, dim=1).mul_(reach)
    level = torch.minimum(spread, (spread + _SPREAD) / 2).addmv_(q, mean).add_(h.amax(1)).add_(w.amax(1))
    level.add_(_MARGIN + math.log(h.shape[1] * w.shape[1]))
    level.masked_fill_(level < _LOWEST / 2, torch.nan)  # no key at all: not for this way
    x[..., -2].copy_(level.neg_())
    x[..., -1].copy_(level.sub_(x[0, :, -2]))


def _put(x: Tensor, at: int, columns: Tensor) -> None:
    x[..., at : at + columns.shape[1]].copy_(columns)


def _put_keys(rows: Tensor, keys: Tensor, times: int) -> None:
    """Keys of a tile ``[rows, columns, D]`` into the first columns of its codes, or values into those of its values."""
    head_dim = keys.shape[2]
    for i in range(times):
        rows[:, i * head_dim : (i + 1) * head_dim].unflatten(0, keys.shape[:2]).copy_(keys)
