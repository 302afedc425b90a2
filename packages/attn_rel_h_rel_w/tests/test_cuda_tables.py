"""On CUDA: tables of any width and layout, and which of them the copy engine takes."""

from __future__ import annotations

from collections.abc import Callable
from importlib import util
from typing import Any

import pytest
import torch
from torch import Generator, Tensor

from tilevl.attn_rel_h_rel_w import attn_rel_h_rel_w
from tilevl.testing import skip_unless

from . import oracle
from .cases import INF, NAN, tensors
from .test_cuda import IN_FOURS, MASKED_GRID, cuda_only, kind_of, on, padded
from .test_standard import compare

HEADS = [1, 3, 4, 12, 16]


def side_by_side(table: Tensor) -> Tensor:
    return table


def offset(elements: int) -> Callable[[Tensor], Tensor]:
    """A table that begins some elements after an address that suits any load."""

    def lay(table: Tensor) -> Tensor:
        memory = torch.full((elements + table.numel(),), NAN, dtype=table.dtype, device=table.device)
        memory[elements:] = table.flatten()
        return memory[elements:].view(table.shape)

    return lay


def rows(of_head: int, of_token: int) -> Callable[[Tensor], Tensor]:
    """Heads some columns further apart than they need, and tokens a multiple of columns apart; NaN and inf between."""

    def lay(table: Tensor) -> Tensor:
        batch, tokens, heads, side = table.shape
        width = side + of_head
        row = -(-heads * width // of_token) * of_token
        memory = torch.full((batch, tokens, row), NAN, dtype=table.dtype, device=table.device)
        memory[..., ::3] = INF
        view = memory[..., : heads * width].unflatten(2, (heads, width))[..., :side]
        view.copy_(table)
        return view

    return lay


def heads_first(columns: int) -> Callable[[Tensor], Tensor]:
    """``[B, N, S, G]`` permuted, where G is a multiple of columns."""
    return lambda table: rows(-table.shape[3] % columns, 1)(table.transpose(1, 2)).transpose(1, 2)


def one_for_all_heads(table: Tensor) -> Tensor:
    """The first head's; the others' tables are lost."""
    return rows(0, 8)(table[:, :, :1]).expand(table.shape)


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "side_by_side": side_by_side,
    "padded": rows(2, 8),
    "one_column_between_heads": rows(1, 1),
    "room_between_heads_and_tokens": rows(1, 8),
    "room_between_tokens": rows(0, 8),
    "offset_of_16_bytes": offset(8),
    "offset_of_4_bytes": offset(2),
    "offset_of_2_bytes": offset(1),
    "heads_first": heads_first(1),
    "heads_first_padded": heads_first(8),
    "one_for_all_heads": one_for_all_heads,
}
TMA, FOURS, ELEMENT = "tables_by_tma", "tables_by_four_tokens", "tables_by_element"
CHOICES = [
    *((layout, heads, TMA) for layout in ("padded", "heads_first_padded") for heads in HEADS),
    *((layout, heads, FOURS) for layout in ("side_by_side", "heads_first", "offset_of_16_bytes") for heads in HEADS),
    *((layout, heads, FOURS) for layout in ("offset_of_4_bytes", "offset_of_2_bytes") for heads in HEADS),
    *((layout, 12, FOURS) for layout in ("room_between_tokens", "room_between_heads_and_tokens", "one_for_all_heads")),
    *(("one_column_between_heads", heads, FOURS if heads % 2 == 0 else ELEMENT) for heads in HEADS),
]


@pytest.mark.parametrize(("layout", "heads", "kind"), CHOICES)
def test_tma_takes_tables_in_rows_of_one_token_or_four(layout: str, heads: int, kind: str, rng: Generator) -> None:
    """Of 14 columns: one token where heads and addresses lie at multiples of 16 bytes, four where tokens are even."""
    skip_unless(util.find_spec("tilelang") is not None, "cuda_compiler", "pip install 'tilevl-core[kernels]'")
    query, key, value, rel_h, rel_w = tensors(rng, 14, 14, heads=heads)
    laid, aligned = LAYOUTS[layout](rel_h), LAYOUTS["padded"](rel_w)
    for tables in ((laid, laid), (laid, aligned), (aligned, laid)):
        assert kind_of(query, key, value, *tables) == kind


@pytest.mark.parametrize(
    ("grid", "kind"), [((5, 8), FOURS), ((5, 16), FOURS), ((3, 5), ELEMENT), ((8, 16), TMA), ((2, 9), ELEMENT)], ids=str
)
def test_tokens_come_in_fours_where_they_make_whole_fours(grid: tuple[int, int], kind: str, rng: Generator) -> None:
    skip_unless(util.find_spec("tilelang") is not None, "cuda_compiler", "pip install 'tilevl-core[kernels]'")
    assert kind_of(*tensors(rng, *grid, heads=2)) == kind


def test_tma_takes_no_table_whose_heads_lie_too_far_apart_for_its_columns() -> None:
    skip_unless(util.find_spec("tilelang") is not None, "cuda_compiler", "pip install 'tilevl-core[kernels]'")
    query = torch.empty(1, 16, 3, 16, dtype=torch.bfloat16, device="meta")
    for of_head, kind in ((2**28, TMA), (2**28 + 1, FOURS), (2**29, ELEMENT)):
        table = query.as_strided((1, 16, 3, 4), (3 * of_head, 8, of_head, 1))
        assert kind_of(query, query, query, table, table) == kind


@cuda_only
@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_tables_in_any_layout(layout: str, heads: int, target: str, device: torch.device, rng: Generator) -> None:
    args: tuple[Any, ...] = (*tensors(rng, 14, 14, heads=heads, head_dim=64), 14, 14)
    tables = args[3:5]
    if layout == "one_for_all_heads":
        tables = tuple(table[:, :, :1].expand(table.shape) for table in tables)
    moved = on(device, args)
    result = attn_rel_h_rel_w(*moved[:3], *(LAYOUTS[layout](table) for table in moved[3:5]), 14, 14)
    compare(result, oracle.attn_rel_h_rel_w(*args[:3], *tables, 14, 14))


@cuda_only
@pytest.mark.parametrize("heads", [3, 12])
@pytest.mark.parametrize("columns", [1, 16])
@pytest.mark.parametrize("grid", [(14, 14), MASKED_GRID], ids=str)
@pytest.mark.parametrize("poison", [NAN, INF, -INF], ids=str)
def test_no_head_sees_what_its_neighbours_tables_hold(
    poison: float,
    grid: tuple[int, int],
    columns: int,
    heads: int,
    target: str,
    device: torch.device,
    rng: Generator,
) -> None:
    """Every second head of the first batch, and the others of the second, hold what would show in any sum."""
    args = padded(rng, grid, columns, heads=heads, head_dim=64)
    for table in args[3:5]:
        table[0, :, ::2] = poison
        table[1, :, 1::2] = poison
    result = attn_rel_h_rel_w(*on(device, args)).cpu()
    kept = [tuple(tensor[b : b + 1, :, 1 - b :: 2] for tensor in args[:5]) for b in range(2)]
    for b, inputs in enumerate(kept):
        compare(result[b : b + 1, :, 1 - b :: 2], oracle.attn_rel_h_rel_w(*inputs, *grid))


@cuda_only
@pytest.mark.parametrize("grid", IN_FOURS, ids=str)
@pytest.mark.parametrize("layout", ["side_by_side", "heads_first", "offset_of_2_bytes"])
def test_grids_whose_tokens_come_in_fours(
    layout: str, grid: tuple[int, int], target: str, device: torch.device, rng: Generator
) -> None:
    args = (*tensors(rng, *grid, heads=2, head_dim=64), *grid)
    moved = on(device, args)
    tables = [LAYOUTS[layout](table) for table in moved[3:5]]
    compare(attn_rel_h_rel_w(*moved[:3], *tables, *grid), oracle.attn_rel_h_rel_w(*args))
