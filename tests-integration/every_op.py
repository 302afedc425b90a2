"""A small call of every op whose counts change from draw to draw, in tensors of shapes that don't.

For scripts that run in a process of their own: first_calls.py, after_fork.py, soak.py.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

Args = tuple[Any, ...]


def attention(g: Generator) -> Args:
    """A 4 x 4 grid; it has no count that could change."""
    query, key, value = (torch.randn(1, 16, 2, 32, generator=g).half() for _ in range(3))
    return query, key, value, *(torch.randn(1, 16, 2, 8, generator=g).half() for _ in range(2)), 4, 4


def patches(g: Generator) -> Args:
    """Two crops of 1 to 4 patches each."""
    pixels = torch.randint(0, 256, (20 * 24,), dtype=torch.uint8, generator=g)
    sizes = 4 * torch.randint(1, 3, (2, 2), generator=g)
    crops = torch.cat([torch.tensor([[0, 24], [19 * 24, -24]]), sizes], dim=1)
    return pixels, crops, sums((sizes // 4).prod(1)), 9, 4, (0.5,) * 3, (0.5,) * 3


def position_ids(g: Generator) -> Args:
    """Four images of up to 25 tokens."""
    grid = torch.randint(0, 6, (4, 2), generator=g)
    return grid, sums(grid.prod(1)), 100


def replaced(g: Generator) -> Args:
    """Nine rows or fewer."""
    index = torch.randperm(40, generator=g)[:9]
    index[torch.rand(9, generator=g) < 0.3] = -1
    return torch.randn(40, 16, generator=g).bfloat16(), torch.randn(9, 16, generator=g).bfloat16(), index


def token_index(g: Generator) -> Args:
    """Any number of marks among 60 tokens."""
    return torch.rand(60, generator=g) < torch.rand((), generator=g), 60


def shuffled(g: Generator) -> Args:
    """An image of up to 20 rows, and one of 6."""
    count = 2 * int(torch.randint(0, 11, (), generator=g))
    return torch.randn(40, 16, generator=g).bfloat16(), torch.tensor([3, 30]), torch.tensor([count, 6]), 20


def sums(counts: Tensor) -> Tensor:
    """Prefix sums, from 0 on."""
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


PACKAGES = {
    "attn_rel_h_rel_w": "attn_rel_h_rel_w",
    "bmp_to_patches": "bmp_to_patches",
    "prepare_image_attn_pos_id": "prepare_image_attn_pos_id",
    "replace_input_embeds": "replace_input_embeds",
    "image_token_index": "replace_input_embeds",
    "shuffle_image_tokens": "shuffle_image_tokens",
}

DRAWS: dict[str, Callable[[Generator], Args]] = {
    "attn_rel_h_rel_w": attention,
    "bmp_to_patches": patches,
    "prepare_image_attn_pos_id": position_ids,
    "replace_input_embeds": replaced,
    "image_token_index": token_index,
    "shuffle_image_tokens": shuffled,
}


def with_target(target: str) -> list[str]:
    """The ops that have a target."""
    from tilevl.testing.plugin import declared_targets

    packages = Path(__file__).resolve().parents[1] / "packages"
    return [op for op, package in PACKAGES.items() if target in declared_targets(packages / package)]


def draw(op: str, seed: int, device: torch.device) -> Args:
    """Arguments for an op on a device; the same for the same seed."""
    args = DRAWS[op](torch.Generator().manual_seed(seed))
    return tuple(arg.to(device) if isinstance(arg, Tensor) else arg for arg in args)


def call(op: str, args: Args) -> Tensor:
    """The outcome of a call: its result, or what it wrote."""
    result = getattr(import_module(f"tilevl.{PACKAGES[op]}"), op)(*args)
    outcome: Tensor = args[0] if result is None else result
    return outcome
