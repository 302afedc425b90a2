"""Calls of new_op that must work, and calls that must be refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor

from tilevl.testing import Case, Refusal

Args = tuple[Any, ...]


def draw(g: Generator, *shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.randn(shape, generator=g).to(dtype)


def some(g: Generator, count: int, rows: int) -> Tensor:
    return torch.randint(0, rows, (count,), generator=g)


def plain(g: Generator, dtype: torch.dtype = torch.bfloat16) -> Args:
    return draw(g, 11, 6, dtype=dtype), some(g, 17, 11)


CASES = [
    Case("plain", plain, traced=True),
    Case("fp16", lambda g: plain(g, torch.float16)),
    Case("fp32", lambda g: plain(g, torch.float32)),
    Case("int32", lambda g: (draw(g, 9, 5), some(g, 4, 9).int())),
    Case("strided", lambda g: (draw(g, 20, 16)[3:15:2, 5:12], some(g, 8, 6)), traced=True),
    Case("expanded", lambda g: (draw(g, 1, 8).expand(5, 8), some(g, 7, 5))),
    Case("many", lambda g: (draw(g, 300, 40), some(g, 700, 300))),
    Case("no_index", lambda g: (draw(g, 9, 8), some(g, 0, 9)), traced=True),
    Case("no_rows", lambda g: (draw(g, 0, 8), torch.empty(0, dtype=torch.int64))),
    Case("no_columns", lambda g: (draw(g, 5, 0), some(g, 3, 5))),
]


def series(g: Generator, count: int) -> Args:
    return draw(g, 8 + count, 16), some(g, count, 8)


def changed(position: int, value: Callable[[Any], Any]) -> Callable[[Generator], Args]:
    """A plain call with one of its tensors replaced."""

    def make(g: Generator) -> Args:
        args = list(plain(g))
        args[position] = value(args[position])
        return tuple(args)

    return make


def past(index: Tensor, position: int, value: int) -> Tensor:
    index[position] = value
    return index


REFUSALS = [
    Refusal("rank", changed(0, lambda t: t[0]), ValueError, "rows must be [R, D], got shape [6]"),
    Refusal("dtype", changed(0, Tensor.double), TypeError, "rows must be bfloat16 or float16 or float32, got float64"),
    Refusal(
        "last_stride", changed(0, lambda t: t.t().contiguous().t()), ValueError, "rows must have a last stride of 1"
    ),
    Refusal("device", changed(1, lambda t: t.to("meta")), TypeError, "index must be on the device of rows"),
    Refusal("index_rank", changed(1, lambda t: t[None]), ValueError, "index must be [M], got shape [1, 17]"),
    Refusal("index_dtype", changed(1, Tensor.short), TypeError, "index must be int32 or int64, got int16"),
    Refusal(
        "index_strides",
        changed(1, lambda t: torch.stack([t, t], 1)[:, 0]),
        ValueError,
        "index must be contiguous, got strides [2]",
    ),
    Refusal("past_the_end", changed(1, lambda t: past(t, 4, 11)), ValueError, "index[4]", data=True),
    Refusal("negative", changed(1, lambda t: past(t, 16, -1)), ValueError, "index[16]", data=True),
]
