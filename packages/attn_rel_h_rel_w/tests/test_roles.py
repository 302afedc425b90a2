"""What the two tables, the scale and the grid mean, on values that tell the usual mistakes apart."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Generator, Tensor

from tilevl.attn_rel_h_rel_w import attn_rel_h_rel_w

from . import oracle
from .test_standard import compare


def twelve_in_column(tokens: int, head_dim: int = 64) -> Tensor:
    """Values whose row j is 12 in column j."""
    return 12 * torch.eye(tokens, head_dim).view(1, tokens, 1, head_dim)


def run(device: torch.device, *args: object, dtype: torch.dtype = torch.float32) -> list[float]:
    moved = [arg.to(device, dtype) if isinstance(arg, Tensor) else arg for arg in args]
    result: list[float] = attn_rel_h_rel_w(*moved)[0, 0, 0, :4].tolist()
    return result


def test_rel_h_belongs_to_rows_and_isn_t_scaled(target: str, device: torch.device) -> None:
    """Swapped tables give 1, 2, 3, 6; a bias scaled by 1/8 gives 2.67, 3.07, 2.92, 3.35."""
    query = torch.zeros(1, 4, 1, 64)
    rel_h, rel_w = (torch.tensor([0.0, math.log(x)]).expand(1, 4, 1, 2) for x in (2, 3))
    got = run(device, query, query, twelve_in_column(4), rel_h, rel_w, dtype=torch.bfloat16)
    assert got == pytest.approx([0.9989, 3.0057, 1.9944, 6.0009], rel=4e-3)
    if device.type == "cpu":
        assert run(device, query, query, twelve_in_column(4), rel_h, rel_w) == pytest.approx([1, 3, 2, 6], rel=1e-5)


def test_scale_is_one_over_root_of_head_dim_and_on_the_product(target: str, device: torch.device) -> None:
    """Without the 1/8 the weights are the 8th powers, and column 3 is above 11.9."""
    query, key = torch.zeros(1, 4, 1, 64), torch.zeros(1, 4, 1, 64)
    query[..., 0] = 8
    key[0, :, 0, 0] = torch.tensor([1.0, 2.0, 3.0, 6.0]).log()
    zeros = torch.zeros(1, 4, 1, 2)
    got = run(device, query, key, twelve_in_column(4), zeros, zeros, dtype=torch.float16)
    assert got == pytest.approx([1, 2, 3, 6], rel=3e-3)


def test_given_scale_takes_the_place_of_the_default(target: str, device: torch.device) -> None:
    query, key = torch.ones(1, 4, 1, 64), torch.zeros(1, 4, 1, 64)
    key[0, :, 0, 5] = torch.tensor([1.0, 2.0, 3.0, 6.0]).log()
    zeros = torch.zeros(1, 4, 1, 2)
    got = run(device, query, key, twelve_in_column(4), zeros, zeros, 2, 2, 1.0, dtype=torch.float16)
    assert got == pytest.approx([1, 2, 3, 6], rel=3e-3)


def test_a_query_uses_its_own_row_of_the_tables(target: str, device: torch.device, rng: Generator) -> None:
    """Not the row of its place in the grid: each query's tables name another single key."""
    grid_h, grid_w = 5, 7
    tokens = grid_h * grid_w
    wanted = torch.randperm(tokens, generator=rng)
    rel_h = torch.zeros(1, tokens, 1, grid_h, dtype=torch.bfloat16)
    rel_w = torch.zeros(1, tokens, 1, grid_w, dtype=torch.bfloat16)
    rel_h[0, torch.arange(tokens), 0, wanted // grid_w] = 100
    rel_w[0, torch.arange(tokens), 0, wanted % grid_w] = 100
    query = torch.zeros(1, tokens, 1, 16, dtype=torch.bfloat16)
    value = torch.randn(1, tokens, 1, 16, generator=rng).bfloat16()
    inputs = (tensor.to(device) for tensor in (query, query, value, rel_h, rel_w))
    assert torch.equal(attn_rel_h_rel_w(*inputs, grid_h, grid_w).cpu(), value[:, wanted])


def test_one_side_and_both_sides_of_the_grid_agree(target: str, device: torch.device, rng: Generator) -> None:
    tokens = 24
    query, key, value, rel_h, rel_w = (
        torch.randn(1, tokens, 2, 16, generator=rng).to(device, torch.bfloat16) for _ in range(5)
    )
    both = attn_rel_h_rel_w(query, key, value, rel_h, rel_w, 4, 6)
    assert torch.equal(attn_rel_h_rel_w(query, key, value, rel_h, rel_w, grid_h=4), both)
    assert torch.equal(attn_rel_h_rel_w(query, key, value, rel_h, rel_w, grid_w=6), both)
    assert not torch.equal(attn_rel_h_rel_w(query, key, value, rel_h, rel_w, 6, 4), both)
    square = [tensor[:, :16] for tensor in (query, key, value, rel_h, rel_w)]
    assert torch.equal(attn_rel_h_rel_w(*square), attn_rel_h_rel_w(*square, 4, 4))


def test_all_scores_minus_infinity_give_zeros_and_nothing_else_changes(
    target: str, device: torch.device, rng: Generator
) -> None:
    inputs = [torch.randn(2, 9, 2, 16, generator=rng).to(device, torch.bfloat16) for _ in range(5)]
    plain = attn_rel_h_rel_w(*inputs)
    inputs[3][1, 4, 0] = -torch.inf
    result = attn_rel_h_rel_w(*inputs)
    assert torch.equal(result[1, 4, 0], torch.zeros_like(result[1, 4, 0]))
    result[1, 4, 0] = plain[1, 4, 0]
    assert torch.equal(result, plain)


@pytest.mark.targets("cpu")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("grid", [(3, 5), (4, 16), (20, 64)], ids=str)
def test_a_score_of_infinity_or_nan_makes_its_row_nan_wherever_it_stands(
    grid: tuple[int, int], dtype: torch.dtype, rng: Generator
) -> None:
    rows, columns = grid
    shapes = [(1, rows * columns, 2, 16)] * 3 + [(1, rows * columns, 2, side) for side in grid]
    inputs = [torch.randn(shape, generator=rng).to(dtype) for shape in shapes]
    bad = torch.zeros(rows * columns, 2, dtype=torch.bool)
    for table, side in ((inputs[3], rows), (inputs[4], columns)):
        for place in range(min(side, rows * columns // 4)):
            query = int(torch.randint(rows * columns, (), generator=rng))
            table[0, query, place % 2, place] = torch.inf if place % 3 else torch.nan
            bad[query, place % 2] = True
    result = attn_rel_h_rel_w(*inputs, *grid)
    assert torch.equal(result[0].isnan(), bad.unsqueeze(-1).expand(-1, -1, 16))


def test_padding_of_the_tables_isn_t_read(target: str, device: torch.device, rng: Generator) -> None:
    inputs = [torch.randn(1, 12, 2, 16, generator=rng).to(device, torch.float16) for _ in range(5)]
    expected = attn_rel_h_rel_w(*inputs, 3, 4)
    inputs[3][..., 3:] = torch.nan
    inputs[4][..., 4:] = torch.inf
    assert torch.equal(attn_rel_h_rel_w(*inputs, 3, 4), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
@pytest.mark.parametrize("grid", [(16, 16), (24, 20), (7, 41), (1, 160)], ids=str)
@pytest.mark.parametrize("head_dim", [64, 80])
def test_error_against_float64_is_within_the_contract_s_bounds(
    dtype: torch.dtype, grid: tuple[int, int], head_dim: int, target: str, device: torch.device, rng: Generator
) -> None:
    tokens = grid[0] * grid[1]
    shapes = [(1, tokens, 2, head_dim)] * 3 + [(1, tokens, 2, side) for side in grid]
    inputs = [torch.randn(shape, generator=rng).to(dtype) for shape in shapes]
    result = attn_rel_h_rel_w(*(tensor.to(device) for tensor in inputs), *grid)
    compare(result, oracle.attn_rel_h_rel_w(*inputs, *grid))
