"""A small call of each op: which of its arguments change their sizes, and what it must give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Generator, Tensor

from .oracles import oracle

Args = tuple[Any, ...]


@dataclass(frozen=True)
class Call:
    """One function of one op.

    Attributes:
        op: the package.
        name: the function.
        draw: makes arguments, tensors on the CPU, from a generator and a number that sets their sizes.
        sizes: for each tensor argument, the dimensions that the number changes.
        written: the argument that the op writes; None for one that returns a tensor.
    """

    op: str
    name: str
    draw: Callable[[Generator, int], Args]
    sizes: tuple[tuple[int, ...], ...]
    written: int | None = None

    @property
    def function(self) -> Callable[..., Any]:
        """The public function."""
        function: Callable[..., Any] = getattr(import_module(f"tilevl.{self.op}"), self.name)
        return function

    def expected(self, args: Args) -> Tensor:
        """What it returns, or what it leaves in the argument that it writes."""
        result: Tensor = oracle(self.op, self.name)(*args)
        return result


def _attention(g: Generator, number: int) -> Args:
    rows, columns, heads, head_dim = 2 + number, 6, 2, 16
    tokens = rows * columns
    query, key, value = torch.randn(1, tokens, 3, heads, head_dim, generator=g).bfloat16().unbind(2)
    rel_h, rel_w = (torch.randn(1, tokens, heads, side, generator=g).bfloat16() for side in (rows, columns))
    return query, key, value, rel_h, rel_w, None, columns


def _patches(g: Generator, number: int) -> Args:
    side, patch = 16, 4
    stride, each = side * 3, (side // patch) ** 2
    pixels = torch.randint(0, 256, (number * side * stride,), generator=g, dtype=torch.uint8)
    crops = torch.tensor([[(i + 1) * side * stride - stride, -stride, side, side] for i in range(number)])
    return pixels, crops, torch.arange(number + 1) * each, 100, patch, [0.5] * 3, [0.25] * 3, 3, 2, torch.float32


def _positions(g: Generator, number: int) -> Args:
    grids = 2 * torch.randint(1, 4, (number, 2), generator=g)
    return grids, torch.nn.functional.pad(grids.prod(1).cumsum(0), (1, 0)), 36 * 8, 2


def _replaced(g: Generator, number: int) -> Args:
    rows = number * 3
    embeds, image = torch.randn(4 + 2 * rows, 24, generator=g), torch.randn(rows, 24, generator=g)
    return embeds, image, torch.randperm(4 + 2 * rows, generator=g)[:rows]


def _index(g: Generator, number: int) -> Args:
    return torch.rand(2, 5 * number, generator=g) < 0.4, 100


def _shuffled(g: Generator, number: int) -> Args:
    counts = 6 * torch.randint(1, 4, (number,), generator=g)
    starts = torch.nn.functional.pad(counts.cumsum(0)[:-1], (1, 0)) + torch.arange(number)
    return torch.randn(20 * number, 24, generator=g), starts, counts, 18, 3


CALLS = [
    Call("attn_rel_h_rel_w", "attn_rel_h_rel_w", _attention, ((1,), (1,), (1,), (1, 3), (1,))),
    Call("bmp_to_patches", "bmp_to_patches", _patches, ((0,), (0,), (0,))),
    Call("prepare_image_attn_pos_id", "prepare_image_attn_pos_id", _positions, ((0,), (0,))),
    Call("replace_input_embeds", "replace_input_embeds", _replaced, ((0,), (0,), (0,)), written=0),
    Call("replace_input_embeds", "image_token_index", _index, ((1,),)),
    Call("shuffle_image_tokens", "shuffle_image_tokens", _shuffled, ((0,), (0,), (0,)), written=0),
]
