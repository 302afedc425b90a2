"""The rules of attn_rel_h_rel_w: every check and message, for fake and real calls alike."""

from __future__ import annotations

import math
import sys

import torch
from torch import Tensor

from tilevl.core import checks
from tilevl.core.checks import Size

OP = "attn_rel_h_rel_w"
SCHEMA = (
    f"{OP}(Tensor query, Tensor key, Tensor value, Tensor rel_h, Tensor rel_w, SymInt? grid_h=None, "
    "SymInt? grid_w=None, float? scale=None) -> Tensor"
)
HEAD_DIM_STEP, MAX_HEAD_DIM = 16, 128
DEVICE_DTYPES = (torch.bfloat16, torch.float16)


def check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    rel_h: Tensor,
    rel_w: Tensor,
    grid_h: Size | None,
    grid_w: Size | None,
    scale: float | None,
) -> tuple[tuple[Size, Size, Size, Size], torch.dtype]:
    """Raises ValueError or TypeError where metadata breaks the contract; returns shape and dtype of the result."""
    checks.check_rank(OP, "query", query, "[B, S, N, D]", 4)
    checks.check_dtype(OP, "query", query, checks.FLOATS if query.device.type in ("cpu", "meta") else DEVICE_DTYPES)
    batch, tokens, heads, head_dim = query.shape
    for name, tensor in (("key", key), ("value", value)):
        checks.check_rank(OP, name, tensor, "[B, S, N, D]", 4)
        checks.check_same(OP, name, tensor, "query", query)
        for given, expected in zip(tensor.shape, query.shape, strict=True):
            checks.require(
                given == expected,
                lambda: (
                    f"{OP}: {name} must have the shape of query, {checks.shape_of(query)}, "  # noqa: B023
                    f"got {checks.shape_of(tensor)}"  # noqa: B023
                ),
            )
    for holds in (head_dim % HEAD_DIM_STEP == 0, head_dim >= HEAD_DIM_STEP, head_dim <= MAX_HEAD_DIM):
        checks.require(
            holds,
            lambda: (
                f"{OP}: head dim D must be a multiple of {HEAD_DIM_STEP} in [{HEAD_DIM_STEP}, {MAX_HEAD_DIM}], "
                f"got {head_dim}"
            ),
        )
    rows, columns = grid(tokens, grid_h, grid_w)
    for name, tensor, side_name, side in (("rel_h", rel_h, "grid_h", rows), ("rel_w", rel_w, "grid_w", columns)):
        checks.check_rank(OP, name, tensor, f"[B, S, N, >={side_name}]", 4)
        checks.check_same(OP, name, tensor, "query", query)
        for given, expected in zip(tensor.shape[:3], query.shape[:3], strict=True):
            checks.require(
                given == expected,
                lambda: (
                    f"{OP}: {name} must have the batch, tokens and heads of query, "  # noqa: B023
                    f"{list(query.shape[:3])}, got shape {checks.shape_of(tensor)}"  # noqa: B023
                ),
            )
        checks.require(
            tensor.shape[3] >= side,
            lambda: f"{OP}: {name} must have at least {side_name}, {side}, columns, got {tensor.shape[3]}",  # noqa: B023
        )
    for name, tensor in (("query", query), ("key", key), ("value", value), ("rel_h", rel_h), ("rel_w", rel_w)):
        checks.check_unit_last_stride(OP, name, tensor)
    if scale is not None:
        checks.require(abs(scale) <= sys.float_info.max, lambda: f"{OP}: scale must be finite, got {scale}")
    return (batch, tokens, heads, head_dim), query.dtype


def grid(tokens: Size, grid_h: Size | None, grid_w: Size | None) -> tuple[Size, Size]:
    """Rows and columns of the token grid, or ValueError.

    With both sides None the root of ``tokens`` is taken as a number, so that a traced graph holds for that count alone.

    Args:
        tokens: number of tokens S.
        grid_h: rows, None where they follow.
        grid_w: columns, None where they follow.
    """
    if grid_h is None and grid_w is None:
        side = math.isqrt(int(tokens))
        checks.require(
            side * side == tokens,
            lambda: f"{OP}: grid_h or grid_w must be given where S is not a square, got S = {tokens}",
        )
        return side, side
    for name, given in (("grid_h", grid_h), ("grid_w", grid_w)):
        if given is not None:
            checks.require(given >= 0, lambda: f"{OP}: {name} must be at least 0, got {given}")  # noqa: B023
            if given == 0:
                checks.require(tokens == 0, lambda: f"{OP}: {name} can be 0 only where S is 0, got S = {tokens}")  # noqa: B023
    if grid_h is None:
        assert grid_w is not None
        grid_h = _other_side(tokens, "grid_w", grid_w)
    elif grid_w is None:
        grid_w = _other_side(tokens, "grid_h", grid_h)
    else:
        checks.require(
            grid_h * grid_w == tokens,
            lambda: f"{OP}: grid_h * grid_w must be S, {tokens}, got {grid_h} * {grid_w}",
        )
    return grid_h, grid_w


def _other_side(tokens: Size, name: str, side: Size) -> Size:
    if side == 0:
        return 0
    other = tokens // side
    checks.require(other * side == tokens, lambda: f"{OP}: {name} must divide S, {tokens}, got {side}")
    return other


def factor(head_dim: int, scale: float | None) -> float:
    """What the products of queries and keys are multiplied by."""
    return head_dim**-0.5 if scale is None else scale


def check_data(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    rel_h: Tensor,
    rel_w: Tensor,
    grid_h: int | None,
    grid_w: int | None,
    scale: float | None,
) -> None:
    """Nothing: the tensors hold numbers, and every number is valid."""


def specialise(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    rel_h: Tensor,
    rel_w: Tensor,
    grid_h: int | None,
    grid_w: int | None,
    scale: float | None,
) -> tuple[torch.dtype, int, int, int]:
    """The static key: dtype, head dim, rows and columns of the grid. All else is read at run time."""
    rows, columns = grid(query.shape[1], grid_h, grid_w)
    return query.dtype, query.shape[3], int(rows), int(columns)
