"""Calls of prepare_image_attn_pos_id that must work, and calls that must be refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor

from tilevl.testing import Case, Refusal

Args = tuple[Any, ...]
Grid = tuple[int, int]
INT32, INT64 = torch.int32, torch.int64


def integers(g: Generator, low: int, high: int, count: int) -> list[int]:
    drawn: list[int] = torch.randint(low, high, (count,), generator=g).tolist()
    return drawn


def any_grids(g: Generator, images: int, window: int = 1, most: int = 6, least: int = 1) -> list[Grid]:
    heights, widths = integers(g, least, most + 1, images), integers(g, least, most + 1, images)
    return [(h * window, w * window) for h, w in zip(heights, widths, strict=True)]


def call(
    grids: Sequence[Grid],
    window: int = 1,
    spare: int = 0,
    grid_dtype: torch.dtype = INT64,
    sums_dtype: torch.dtype = INT64,
) -> Args:
    sums = [0]
    for height, width in grids:
        sums.append(sums[-1] + height * width)
    grid_hw = torch.tensor(grids, dtype=grid_dtype).view(-1, 2)
    return grid_hw, torch.tensor(sums, dtype=sums_dtype), sums[-1] + spare, window


def in_any_order(g: Generator, grids: Sequence[Grid]) -> list[Grid]:
    """The same images in another order each time: traced calls need the same total."""
    return [grids[i] for i in torch.randperm(len(grids), generator=g)]


def inside_larger_tensors(g: Generator) -> Args:
    grid_hw, sums, total, window = call(in_any_order(g, [(1, 2), (3, 1), (4, 4), (2, 5), (0, 3), (6, 2)]), spare=1)
    return torch.cat([-grid_hw, grid_hw, grid_hw])[6:12], torch.cat([sums - 9, sums])[7:], total, window


def size_one_with_odd_strides(g: Generator) -> Args:
    grid_hw, sums = torch.tensor([[3, 5]]), torch.tensor([0, 15])
    return torch.as_strided(grid_hw, (1, 2), (9, 1)), sums, 15, 1


def no_images_odd_stride(g: Generator) -> Args:
    return torch.empty(0, 2, dtype=INT64), torch.as_strided(torch.tensor([0, 9]), (1,), (2,)), 4, 1


def no_images_of_any_strides(g: Generator) -> Args:
    return torch.empty(0, 2, dtype=INT64).as_strided((0, 2), (5, 3)), torch.tensor([0]), 4, 1


def long_and_short_runs(g: Generator) -> Args:
    grids = any_grids(g, 3, 2, 3)
    grids += [(40, 30)] * 2 + any_grids(g, 15, 2, 3) + [(2, 700)] + [(4, 6)] * 60 + [(36, 36), (36, 38)]
    return call(grids + any_grids(g, 12, 2, 4), window=2, spare=11)


def empty_images_between(g: Generator, images: int) -> Args:
    grids = any_grids(g, images, most=4)
    for empty in ((0, 0), (0, 5), (7, 0)):
        grids.insert(integers(g, 1, len(grids), 1)[0], empty)
    return call([(0, 3), *grids, (4, 0)], spare=2)


def huge_empty_side(g: Generator, images: int) -> Args:
    return call([(2**31, 0), *any_grids(g, images), (0, 2**31)], spare=3)


CASES = [
    Case("raster", lambda g: call(in_any_order(g, [(3, 2), (2, 5), (4, 4), (1, 7)])), traced=True),
    Case("windows_of_2", lambda g: call(in_any_order(g, [(4, 2), (2, 6), (8, 4)]), window=2, spare=5), traced=True),
    Case("random", lambda g: call(any_grids(g, 7))),
    Case("random_windows_of_2", lambda g: call(any_grids(g, 7, 2), window=2, spare=5)),
    Case("windows_of_3", lambda g: call(any_grids(g, 3, 3), window=3)),
    Case("windows_of_6_many", lambda g: call(any_grids(g, 20, 6, 2), window=6)),
    Case("one_window", lambda g: call([(5, 5)], window=5)),
    Case("wide_then_tall", lambda g: call([(2, 8), (8, 2), (1, 16), (16, 1)])),
    Case("int32", lambda g: call(any_grids(g, 4), grid_dtype=INT32, sums_dtype=INT32)),
    Case("int32_grids", lambda g: call(any_grids(g, 30), grid_dtype=INT32)),
    Case("int32_sums", lambda g: call(any_grids(g, 30), sums_dtype=INT32)),
    Case("spare_rows", lambda g: call(any_grids(g, 3), spare=100)),
    Case("one_token", lambda g: call([(1, 1)], spare=1)),
    Case("large_grids", lambda g: call([(70, 131), (131, 70)])),
    Case("many_small", lambda g: call(any_grids(g, 300), spare=1)),
    Case("many_small_in_windows", lambda g: call(any_grids(g, 300, 2, 3), window=2)),
    Case("many_equal", lambda g: call([(2, 2)] * 700, window=2)),
    Case("many_equal_in_raster", lambda g: call([(3, 2)] * 700, spare=7)),
    Case("long_and_short_runs", long_and_short_runs),
    Case("long_runs_only", lambda g: call([(30, 40)] * 5 + [(50, 30)] * 6)),
    Case("empty_images_between_few", lambda g: empty_images_between(g, 3)),
    Case("empty_images_between_many", lambda g: empty_images_between(g, 90)),
    Case("empty_images_only", lambda g: call([(0, 4)] * 3, spare=2)),
    Case("many_empty_images_only", lambda g: call([(0, 4)] * 30, spare=2)),
    Case("huge_empty_side", lambda g: huge_empty_side(g, 2)),
    Case("huge_empty_side_among_many", lambda g: huge_empty_side(g, 80)),
    Case("inside_larger_tensors", inside_larger_tensors, traced=True),
    Case("size_one_with_odd_strides", size_one_with_odd_strides, layout=True),
    Case("no_images", lambda g: call([]), traced=True),
    Case("no_images_but_rows", lambda g: call([], spare=9)),
    Case("no_images_odd_stride", no_images_odd_stride),
    Case("no_images_of_any_strides", no_images_of_any_strides, layout=True),
]


def series(g: Generator, count: int) -> Args:
    return call(any_grids(g, count), spare=count)


def changed(position: int, value: Any) -> Any:
    """A plain call with one argument replaced; a function is called with the plain one."""

    def make(g: Generator) -> Args:
        args = list(call(any_grids(g, 4)))
        args[position] = value(args[position]) if callable(value) else value
        return tuple(args)

    return make


def altered(args: Args, position: int, where: Any, value: int) -> Args:
    """A call with one element of a tensor replaced."""
    tensor: Tensor = args[position].clone()
    tensor[where] = value
    return (*args[:position], tensor, *args[position + 1 :])


def frames_summed_per_entry(g: Generator) -> Args:
    """Grids (t, h, w) of [[1, 4, 6], [1, 2, 2], [2, 2, 4]] with one sum for both frames of the last."""
    return torch.tensor([[4, 6], [2, 2], [2, 4]]), torch.tensor([0, 24, 28, 44]), 44, 1


METADATA_REFUSALS = [
    Refusal("grid_rank", changed(0, Tensor.flatten), ValueError, "grid_hw must be [num_images, 2], got shape [8]"),
    Refusal(
        "grid_columns",
        changed(0, lambda t: torch.cat([t, t], 1)[:, :3].contiguous()),
        ValueError,
        "grid_hw must be [num_images, 2], got shape [4, 3]",
    ),
    Refusal("grid_dtype", changed(0, Tensor.short), TypeError, "grid_hw must be int32 or int64, got int16"),
    Refusal(
        "grid_strides",
        changed(0, lambda t: t.t().contiguous().t()),
        ValueError,
        "grid_hw must be contiguous, got strides [1, 4] for shape [4, 2]",
    ),
    Refusal(
        "grid_expanded",
        changed(0, lambda t: t[:1].expand(4, 2)),
        ValueError,
        "grid_hw must be contiguous, got strides [0, 1]",
    ),
    Refusal(
        "sums_device",
        changed(1, lambda t: t.to("meta")),
        TypeError,
        "cu_seqlens_vit must be on the device of grid_hw",
    ),
    Refusal(
        "sums_rank", changed(1, lambda t: t[None]), ValueError, "cu_seqlens_vit must be [num_images + 1], got shape [1,"
    ),
    Refusal(
        "sums_dtype",
        changed(1, Tensor.float),
        TypeError,
        "cu_seqlens_vit must be int32 or int64, got float32",
    ),
    Refusal(
        "sums_strides",
        changed(1, lambda t: torch.stack([t, t], 1)[:, 0]),
        ValueError,
        "cu_seqlens_vit must be contiguous, got strides [2]",
    ),
    Refusal(
        "sums_length",
        changed(1, lambda t: t[:-1]),
        ValueError,
        "cu_seqlens_vit must have one element more than grid_hw has images, 5, got 4",
    ),
    Refusal("negative_total", changed(2, -1), ValueError, "total_seqlens_vit must be at least 0, got -1"),
    Refusal("no_window", changed(3, 0), ValueError, "window must be at least 1, got 0"),
    Refusal("negative_window", changed(3, -2), ValueError, "window must be at least 1, got -2"),
]

_NEGATIVE = "must have a height and a width in [0, 2147483648], got "
_PARTIAL = "must have a height and a width that are multiples of window, 2, got "

DATA_REFUSALS = [
    Refusal(
        "negative_height",
        lambda g: call([(2, 2), (-2, 3)], spare=9),
        ValueError,
        f"grid_hw[1] {_NEGATIVE}(-2, 3)",
        data=True,
    ),
    Refusal("both_negative", lambda g: call([(-2, -3)]), ValueError, f"grid_hw[0] {_NEGATIVE}(-2, -3)", data=True),
    Refusal(
        "negative_among_many",
        lambda g: altered(call([(3, 3)] * 90), 0, (71, 1), -3),
        ValueError,
        f"grid_hw[71] {_NEGATIVE}(3, -3)",
        data=True,
    ),
    Refusal(
        "product_wraps_to_0",
        lambda g: (torch.tensor([[2**32, 2**32]]), torch.tensor([0, 0]), 5, 1),
        ValueError,
        f"grid_hw[0] {_NEGATIVE}(4294967296, 4294967296)",
        data=True,
    ),
    Refusal(
        "sums_wrap_to_0",
        lambda g: (torch.full((4, 2), 2**31), torch.tensor([0, 2**62, -(2**63), -(2**62), 0]), 2**40, 1),
        ValueError,
        "cu_seqlens_vit[2] must be 9223372036854775808, the prefix sum of the counts so far, got -9223372036854775808",
        data=True,
    ),
    Refusal(
        "differences_wrap",
        lambda g: (torch.tensor([[2**31, 2**31]] * 80), torch.tensor([0, 2**62, -(2**63), -(2**62)] * 20 + [0]), 1, 1),
        ValueError,
        "cu_seqlens_vit[2] must be 9223372036854775808",
        data=True,
    ),
    Refusal(
        "height_part_of_a_window",
        lambda g: call([(4, 2), (3, 4)], 2),
        ValueError,
        f"grid_hw[1] {_PARTIAL}(3, 4)",
        data=True,
    ),
    Refusal(
        "width_part_of_a_window",
        lambda g: call([(4, 5), (3, 4)], 2),
        ValueError,
        f"grid_hw[0] {_PARTIAL}(4, 5)",
        data=True,
    ),
    Refusal(
        "part_of_a_window_among_many",
        lambda g: call([(4, 2)] * 80 + [(2, 3)], 2),
        ValueError,
        f"grid_hw[80] {_PARTIAL}(2, 3)",
        data=True,
    ),
    Refusal(
        "sums_start_late",
        lambda g: altered(call([(2, 3), (1, 4)]), 1, 0, 1),
        ValueError,
        "cu_seqlens_vit[0] must be 0, the prefix sum of the counts so far, got 1",
        data=True,
    ),
    Refusal(
        "frames_summed_per_entry",
        frames_summed_per_entry,
        ValueError,
        "cu_seqlens_vit[3] must be 36, the prefix sum of the counts so far, got 44",
        data=True,
    ),
    Refusal(
        "sums_repeat",
        lambda g: (torch.tensor([[8, 8]] * 4), torch.tensor([0, 64, 64, 64, 64]), 64, 1),
        ValueError,
        "cu_seqlens_vit[2] must be 128, the prefix sum of the counts so far, got 64",
        data=True,
    ),
    Refusal(
        "one_sum_off_among_many",
        lambda g: altered(call([(2, 3)] * 100), 1, 57, 343),
        ValueError,
        "cu_seqlens_vit[57] must be 342, the prefix sum of the counts so far, got 343",
        data=True,
    ),
    Refusal(
        "total_too_small",
        lambda g: call([(2, 3), (4, 4)], spare=-1),
        ValueError,
        "total_seqlens_vit must be at least cu_seqlens_vit[2], 22, got 21",
        data=True,
    ),
    Refusal(
        "total_too_small_for_many",
        lambda g: call([(1, 1)] * 100, spare=-100),
        ValueError,
        "total_seqlens_vit must be at least cu_seqlens_vit[100], 100, got 0",
        data=True,
    ),
]

REFUSALS = METADATA_REFUSALS + DATA_REFUSALS
