"""On CUDA: the fast softmax keeps the first tile's maximum; turns that it can't do are done again, exactly."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import pytest
import torch
from torch import Generator, Tensor

from tilevl.attn_rel_h_rel_w import attn_rel_h_rel_w

from . import oracle
from .cases import BF16, FP16, INF, NAN, tensors
from .test_cuda import KERNELS, cuda_only, on

# By turns with few and with many keys in a tile; in order, by three warpgroups; columns in parts; a row as a tile.
GRIDS = [(64, 64), (48, 48), (14, 14), (40, 40), (3, 300), (300, 2)]
BOUND = 0.03  # of a row's largest difference; weights and results have 8 bits at least

Args = tuple[Tensor, ...]


def rising(args: Args) -> None:
    """Each row of keys outweighs the one before it: the last rows are e**200 times the first."""
    rel_h, rel_w = args[3:]
    rel_h += torch.linspace(0, 200, rel_h.shape[3], dtype=rel_h.dtype)
    rel_w += torch.linspace(0, 200 / rel_h.shape[3], rel_w.shape[3], dtype=rel_w.dtype)


def falling(args: Args) -> None:
    """The first tile outweighs all others."""
    rising(args)
    args[3].copy_(args[3].flip(3))
    args[4].copy_(args[4].flip(3))


def hidden_at_first(args: Args) -> None:
    """No key before the grid's last row and column can be seen, for every third query."""
    args[3][:, ::3, :, :-1] = -INF
    args[4][:, ::3, :, :-1] = -INF


def far_below_at_first(args: Args) -> None:
    """The first keys' bias is the least that a mask has, for every other head."""
    lowest = torch.finfo(args[3].dtype).min
    args[3][:, :, ::2, :-1] = lowest
    args[4][:, :, ::2, :-1] = lowest


def large_values(args: Args) -> None:
    """Values near the dtype's largest, with weights a million times the first tile's: sums and products overflow."""
    value, (rel_h, rel_w) = args[2], args[3:]
    value *= torch.finfo(value.dtype).max / 64
    for table in (rel_h, rel_w):
        table[..., table.shape[3] * 2 // 3 :] += 14


def hidden_altogether(args: Args) -> None:
    """Some queries see no key: zeros."""
    args[3][:, 5::7] = -INF


def not_a_number(args: Args) -> None:
    args[0][0, 9, 0, 7] = NAN
    args[4][-1, 11, -1, 0] = NAN


HARD = [rising, falling, hidden_at_first, far_below_at_first, large_values, hidden_altogether, not_a_number]


def every_row_agrees(result: Tensor, expected: Tensor) -> None:
    """A wrong row shows, whatever the others are."""
    result = result.cpu().double()
    assert torch.equal(result.isnan(), expected.isnan())
    assert torch.equal((result == 0).all(-1), (expected == 0).all(-1))
    result, expected = result.nan_to_num(0.0), expected.double().nan_to_num(0.0)
    off = (result - expected).abs().amax(-1) / expected.abs().amax(-1).clamp_min(1e-30)
    assert off.max() < BOUND, off.max()


@cuda_only
@pytest.mark.parametrize("make", HARD, ids=lambda make: make.__name__)
@pytest.mark.parametrize("dtype", [BF16, FP16], ids=str)
@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_no_row_is_wrong(
    grid: tuple[int, int],
    dtype: torch.dtype,
    make: Callable[[Args], None],
    target: str,
    device: torch.device,
    rng: Generator,
) -> None:
    args = tensors(rng, *grid, batch=2, heads=2, head_dim=64, dtype=dtype)
    make(args)
    every_row_agrees(attn_rel_h_rel_w(*on(device, (*args, *grid))), oracle.attn_rel_h_rel_w(*args, *grid))


@cuda_only
@pytest.mark.parametrize("grid", [(14, 14), (40, 40)], ids=str)
def test_blocks_of_many_turns_do_the_right_ones_again(
    grid: tuple[int, int], target: str, device: torch.device, rng: Generator
) -> None:
    """More turns than a block remembers; those done again lie anywhere among them, the last ones too."""
    turns_of_head = import_module(f"{KERNELS}.cuda_plans").plan_of(16, *grid).blocks
    batch = 3 * 32 * torch.cuda.get_device_properties(device).multi_processor_count // (turns_of_head * 4)
    one = tensors(rng, *grid, batch=3, heads=4, head_dim=16)
    rising(tuple(tensor[1:2] for tensor in one))
    hidden_at_first(tuple(tensor[2:] for tensor in one))
    which = torch.randint(3, (batch,), generator=rng)
    which[-1] = 1
    many = [tensor.to(device)[which.to(device)] for tensor in one]
    result = attn_rel_h_rel_w(*many, *grid).cpu()
    expected = oracle.attn_rel_h_rel_w(*one, *grid)
    for i in range(3):
        alike = result[which == i]
        every_row_agrees(alike[0], expected[i])
        assert torch.equal(alike, alike[:1].expand_as(alike))


@cuda_only
@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_a_row_done_again_leaves_all_others_as_they_were(
    grid: tuple[int, int], target: str, device: torch.device, rng: Generator
) -> None:
    """Its neighbours share its block's turn; not a bit of theirs changes."""
    args = tensors(rng, *grid, batch=3, heads=4, head_dim=64)
    before = attn_rel_h_rel_w(*on(device, (*args, *grid))).cpu()
    others = torch.ones(before.shape[:3], dtype=torch.bool)
    for b, query, n in ((0, 5, 3), (1, 3, 1), (1, 40, 1), (2, args[0].shape[1] - 1, 0)):
        args[3][b, query, n] = torch.linspace(-100, 100, grid[0])
        args[4][b, query, n] = torch.linspace(-100, 100, grid[1])
        others[b, query, n] = False
    args[4][1, 40, 1] = -INF
    after = attn_rel_h_rel_w(*on(device, (*args, *grid))).cpu()
    assert torch.equal(before[others], after[others])
    every_row_agrees(after, oracle.attn_rel_h_rel_w(*args, *grid))
