"""Calls of attn_rel_h_rel_w that must work, and calls that must be refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor

from tilevl.testing import Case, Refusal

Args = tuple[Any, ...]
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
NAN, INF = float("nan"), float("inf")


def normal(g: Generator, *shape: int, dtype: torch.dtype = FP32) -> Tensor:
    return torch.randn(*shape, generator=g).to(dtype)


def tensors(
    g: Generator,
    grid_h: int,
    grid_w: int,
    batch: int = 2,
    heads: int = 3,
    head_dim: int = 16,
    dtype: torch.dtype = BF16,
    padding: tuple[int, int] = (0, 0),
) -> Args:
    """Contiguous inputs; columns of padding hold NaN and infinities by turns."""
    tokens = grid_h * grid_w
    inputs = [normal(g, batch, tokens, heads, head_dim, dtype=dtype) for _ in range(3)]
    for side, extra in zip((grid_h, grid_w), padding, strict=True):
        table = normal(g, batch, tokens, heads, side + extra, dtype=dtype)
        table[..., side::3] = NAN
        table[..., side + 1 :: 3] = INF
        table[..., side + 2 :: 3] = -INF
        inputs.append(table)
    return tuple(inputs)


def packed(g: Generator) -> Args:
    """Slices of one qkv, tables permuted and with room to their right, a dtype of 16 bits."""
    qkv = normal(g, 2, 20, 3, 3, 32, dtype=FP16)
    rel_h = normal(g, 2, 3, 20, 8, dtype=FP16).permute(0, 2, 1, 3)
    rel_w = normal(g, 2 * 3, 20, 9, dtype=FP16)[..., 2:].view(2, 3, 20, 7).transpose(1, 2)
    return *qkv.unbind(2), rel_h, rel_w, None, 5


def expanded(g: Generator) -> Args:
    query, key, value, rel_h, rel_w = tensors(g, 3, 4, batch=1)
    return query, key.expand(2, -1, -1, -1)[:1], value, rel_h[:, :1].expand(-1, 12, -1, -1), rel_w, 3, 4


def shared_over_the_batch(g: Generator) -> Args:
    rest = tensors(g, 2, 5, batch=1)[1:]
    return normal(g, 3, 10, 3, 16, dtype=BF16), *(tensor.expand(3, -1, -1, -1) for tensor in rest), 2, 5


def odd_strides_of_size_one(g: Generator) -> Args:
    query, key, value, _, _ = tensors(g, 1, 6, batch=1, heads=1)
    rel_h = normal(g, 12, dtype=BF16).as_strided((1, 6, 1, 1), (99, 2, 77, 5))
    rel_w = normal(g, 36, dtype=BF16).as_strided((1, 6, 1, 6), (0, 6, 1, 1))
    return query.as_strided(query.shape, (3, 16, 5, 1)), key, value, rel_h, rel_w, 1, None


def one_head_behind_another(g: Generator) -> Args:
    """An offset, and heads, batch and tokens in an order of their own."""
    query, key, value, rel_h, rel_w = tensors(g, 3, 3, dtype=FP32)
    query = normal(g, 3, 9, 2, 40).permute(2, 1, 0, 3)[..., 7:23]
    return query, key.flip(1), value.transpose(0, 2).contiguous().transpose(0, 2), rel_h, rel_w


def masked(g: Generator, dtype: torch.dtype = BF16) -> Args:
    """Some rows and columns of keys at -inf, for one query all rows, for another all columns."""
    inputs = tensors(g, 4, 3, batch=1, dtype=dtype)
    rel_h, rel_w = inputs[3:]
    rel_h[0, :, :, 1] = -INF
    rel_w[0, ::2, :, 2] = -INF
    rel_h[0, 5, 1] = -INF
    rel_w[0, 7, 2] = -INF
    return *inputs, 4, 3


def nan_in_one_query(g: Generator) -> Args:
    inputs = tensors(g, 3, 4, batch=1)
    inputs[0][0, 4, 1, 3] = NAN
    inputs[3][0, 9, 2, 1] = NAN
    return *inputs, 3, 4


def lowest_number_as_mask(g: Generator) -> Args:
    inputs = tensors(g, 4, 4, dtype=FP32)
    inputs[3][..., 2] = -1e30
    return inputs


def with_scale(scale: float, dtype: torch.dtype = BF16) -> Callable[[Generator], Args]:
    return lambda g: (*tensors(g, 3, 5, head_dim=32, dtype=dtype), 3, None, scale)


def large_norms(g: Generator) -> Args:
    """Scores up to the hundreds, where exp needs the row's own maximum."""
    query, key, *rest = tensors(g, 4, 4, head_dim=64)
    return query * 6, key * 6, *rest


CASES = [
    Case("square", lambda g: tensors(g, 4, 4), traced=True),
    Case("rectangle", lambda g: (*tensors(g, 3, 5, head_dim=32), 3, 5), traced=True),
    Case("packed_qkv_permuted_tables_fp16", packed, traced=True),
    Case(
        "padded_tables_fp32",
        lambda g: (*tensors(g, 5, 2, padding=(3, 6), dtype=FP32), 5, 2),
        traced=True,
        targets=("cpu",),
    ),
    Case("given_scale", with_scale(0.37), traced=True),
    Case("padded_tables", lambda g: (*tensors(g, 5, 2, padding=(3, 6)), 5, 2)),
    Case("masked", masked, traced=True),
    Case("masked_fp16", lambda g: masked(g, FP16)),
    Case("masked_fp32", lambda g: masked(g, FP32), targets=("cpu",)),
    Case("lowest_number_as_mask", lowest_number_as_mask, targets=("cpu",)),
    Case("nan_in_one_query", nan_in_one_query),
    Case("large_norms", large_norms),
    Case("negative_scale", with_scale(-1.5)),
    Case("scale_zero", with_scale(0.0)),
    Case("whole_number_as_scale", with_scale(2)),
    Case("expanded", expanded, layout=True),
    Case("shared_over_the_batch", shared_over_the_batch),
    Case("odd_strides_of_size_one", odd_strides_of_size_one, layout=True),
    Case("axes_in_another_order", one_head_behind_another, targets=("cpu",)),
    Case("one_tensor_for_all", lambda g: (*[normal(g, 1, 9, 1, 16, dtype=BF16)] * 5,)),
    Case("one_token", lambda g: tensors(g, 1, 1)),
    Case("one_row", lambda g: (*tensors(g, 1, 13), 1, None)),
    Case("one_column_fp16", lambda g: (*tensors(g, 17, 1, dtype=FP16), None, 1)),
    Case("primes", lambda g: (*tensors(g, 7, 11, batch=1, padding=(1, 5)), 7)),
    Case("window_of_sam", lambda g: tensors(g, 14, 14, batch=3, heads=2, head_dim=80, padding=(2, 2))),
    Case(
        "window_of_sam_fp32", lambda g: tensors(g, 14, 14, batch=1, heads=2, head_dim=80, dtype=FP32), targets=("cpu",)
    ),
    *(
        Case(f"head_dim_{d}_{str(t)[6:]}", lambda g, d=d, t=t: (*tensors(g, 4, 6, head_dim=d, dtype=t), 4, 6))
        for d in (16, 48, 64, 112, 128)
        for t in (BF16, FP16)
    ),
    Case("no_batch", lambda g: (*tensors(g, 3, 4, batch=0), 3), traced=True),
    Case("no_heads", lambda g: (*tensors(g, 3, 4, heads=0), 3)),
    Case("no_tokens", lambda g: tensors(g, 0, 0, padding=(2, 0))),
    Case("no_tokens_no_rows", lambda g: (*tensors(g, 0, 3), 0)),
    Case("no_tokens_in_three_columns", lambda g: (*tensors(g, 0, 3), None, 3)),
    Case("no_tokens_both_sides", lambda g: (*tensors(g, 4, 0), 4, 0)),
]


def series(g: Generator, count: int) -> Args:
    """Two columns, as many rows as the count; tables of a fixed width."""
    inputs = tensors(g, count, 2, padding=(9 - count, 7))
    return *inputs, None, 2


def changed(position: int, value: Any, grid: tuple[Any, ...] = (3, 4)) -> Callable[[Generator], Args]:
    """A plain call on a 3 x 4 grid with one argument replaced; a function is called with the plain one."""

    def make(g: Generator) -> Args:
        args = [*tensors(g, 3, 4), *grid, None]
        args[position] = value(args[position]) if callable(value) else value
        return tuple(args)

    return make


def with_grid(*grid: int | None, sides: tuple[int, int] = (3, 4)) -> Callable[[Generator], Args]:
    return lambda g: (*tensors(g, *sides, batch=1, heads=1), *grid)


def with_head_dim(head_dim: int) -> Callable[[Generator], Args]:
    return lambda g: tensors(g, 2, 2, head_dim=head_dim)


def every_second(tensor: Tensor) -> Tensor:
    return torch.stack([tensor, tensor], -1)[..., 0]


NAMES = ("query", "key", "value", "rel_h", "rel_w")
REFUSALS = [
    *(
        Refusal(f"{name}_rank", changed(i, lambda t: t[0]), ValueError, f"{name} must be [B, S, N, ")
        for i, name in enumerate(NAMES)
    ),
    *(
        Refusal(
            f"{name}_strides",
            changed(i, every_second),
            ValueError,
            f"{name} must have a last stride of 1, got strides [",
        )
        for i, name in enumerate(NAMES)
    ),
    *(
        Refusal(
            f"{name}_dtype",
            changed(i, Tensor.half),
            TypeError,
            f"{name} must have the dtype of query, bfloat16, got float16",
        )
        for i, name in list(enumerate(NAMES))[1:]
    ),
    *(
        Refusal(
            f"{name}_device",
            changed(i, lambda t: t.to("meta")),
            TypeError,
            f"{name} must be on the device of query, ",
        )
        for i, name in list(enumerate(NAMES))[1:]
    ),
    Refusal(
        "double",
        changed(0, Tensor.double),
        TypeError,
        "query must be bfloat16 or float16 or float32, got float64",
        targets=("cpu",),
    ),
    Refusal(
        "float_on_a_device",
        changed(0, Tensor.float),
        TypeError,
        "query must be bfloat16 or float16, got float32",
        targets=("cuda", "ascend"),
    ),
    Refusal(
        "integers",
        changed(0, Tensor.int),
        TypeError,
        "query must be bfloat16 or float16 or float32, got int32",
        targets=("cpu",),
    ),
    Refusal(
        "keys_of_another_count",
        changed(1, lambda t: t[:, :-1]),
        ValueError,
        "key must have the shape of query, [2, 12, 3, 16], got [2, 11, 3, 16]",
    ),
    Refusal(
        "values_of_another_head_dim",
        changed(2, lambda t: torch.cat([t, t], -1)),
        ValueError,
        "value must have the shape of query, [2, 12, 3, 16], got [2, 12, 3, 32]",
    ),
    *(
        Refusal(f"head_dim_{d}", with_head_dim(d), ValueError, f"must be a multiple of 16 in [16, 128], got {d}")
        for d in (0, 8, 24, 144)
    ),
    Refusal(
        "rel_h_heads",
        changed(3, lambda t: t[:, :, :1]),
        ValueError,
        "rel_h must have the batch, tokens and heads of query, [2, 12, 3], got shape [2, 12, 1, 3]",
    ),
    Refusal(
        "rel_w_tokens",
        changed(4, lambda t: t[:, 1:]),
        ValueError,
        "rel_w must have the batch, tokens and heads of query, [2, 12, 3], got shape [2, 11, 3, 4]",
    ),
    Refusal(
        "rel_h_columns",
        changed(3, lambda t: t[..., :2]),
        ValueError,
        "rel_h must have at least grid_h, 3, columns, got 2",
    ),
    Refusal(
        "rel_w_columns",
        changed(4, lambda t: t[..., :3], (3, None)),
        ValueError,
        "rel_w must have at least grid_w, 4, columns, got 3",
    ),
    Refusal("tables_swapped", with_grid(4, 3), ValueError, "rel_h must have at least grid_h, 4, columns, got 3"),
    Refusal("no_square", with_grid(), ValueError, "grid_h or grid_w must be given where S is not a square, got S = 12"),
    Refusal(
        "no_square_of_988_tokens",
        with_grid(sides=(26, 38)),
        ValueError,
        "grid_h or grid_w must be given where S is not a square, got S = 988",
    ),
    Refusal("wrong_grid", with_grid(3, 3), ValueError, "grid_h * grid_w must be S, 12, got 3 * 3"),
    Refusal("side_of_31_for_988_tokens", with_grid(31, 31, sides=(26, 38)), ValueError, "must be S, 988, got 31 * 31"),
    Refusal("rows_no_divisor", with_grid(5), ValueError, "grid_h must divide S, 12, got 5"),
    Refusal("columns_no_divisor", with_grid(None, 7), ValueError, "grid_w must divide S, 12, got 7"),
    Refusal("more_rows_than_tokens", with_grid(24), ValueError, "grid_h must divide S, 12, got 24"),
    Refusal("rows_negative", with_grid(-3, -4), ValueError, "grid_h must be at least 0, got -3"),
    Refusal("columns_negative", with_grid(None, -4), ValueError, "grid_w must be at least 0, got -4"),
    Refusal("rows_zero", with_grid(0), ValueError, "grid_h can be 0 only where S is 0, got S = 12"),
    Refusal("columns_zero", with_grid(None, 0), ValueError, "grid_w can be 0 only where S is 0, got S = 12"),
    Refusal("both_zero", with_grid(0, 0), ValueError, "grid_h can be 0 only where S is 0, got S = 12"),
    Refusal("tokens_missing", with_grid(3, 4, sides=(0, 0)), ValueError, "grid_h * grid_w must be S, 0, got 3 * 4"),
    *(
        Refusal(f"scale_{scale}", changed(7, scale), ValueError, f"scale must be finite, got {scale}")
        for scale in (NAN, INF, -INF)
    ),
]
