"""Calls of shuffle_image_tokens that must be refused."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor

from tilevl.testing import Refusal

from .cases import FP32, INT32, Args, call, draw


def changed(position: int, value: Any) -> Any:
    """A plain call with one argument replaced; a function is called with the plain one."""

    def make(g: Generator) -> Args:
        args = list(call(draw(g, 37, 24), [(1, 4), (9, 8), (20, 16)]))
        args[position] = value(args[position]) if callable(value) else value
        return tuple(args)

    return make


def index_in_the_embeds(position: int) -> Any:
    def make(g: Generator) -> Args:
        args = list(call(draw(g, 20, 8, dtype=FP32), [(1, 4), (9, 8)]))
        args[position] = args[0].view(INT32).flatten()[3:5]
        return tuple(args)

    return make


def many_with(image: int, start: int, count: int) -> Any:
    """90 images of 4 rows each, of which one is replaced."""

    def make(g: Generator) -> Args:
        spans = [(5 * i, 4) for i in range(90)]
        spans[image] = (start, count)
        return call(draw(g, 450, 8), spans, bound=6)

    return make


def spans(*given: tuple[int, int], groups: int = 2, bound: int = 100, rows: int = 20) -> Any:
    return lambda g: call(draw(g, rows, 8), given, groups, bound)


METADATA = [
    Refusal("rank", changed(0, lambda t: t[0]), ValueError, "input_embeds must be [T, D] or [B, T, D], got shape [24]"),
    Refusal(
        "dtype",
        changed(0, Tensor.double),
        TypeError,
        "input_embeds must be bfloat16 or float16 or float32, got float64",
    ),
    Refusal("start_rank", changed(1, lambda t: t[None]), ValueError, "image_start must be [num_images], got shape [1,"),
    Refusal("start_dtype", changed(1, Tensor.short), TypeError, "image_start must be int32 or int64, got int16"),
    Refusal(
        "start_device",
        changed(1, lambda t: t.to("meta")),
        TypeError,
        "image_start must be on the device of input_embeds",
    ),
    Refusal(
        "start_strides",
        changed(1, lambda t: torch.stack([t, t], 1)[:, 0]),
        ValueError,
        "image_start must be contiguous, got strides [2]",
    ),
    Refusal("count_rank", changed(2, lambda t: t[:, None]), ValueError, "image_tokens must be [num_images], got shape"),
    Refusal("count_dtype", changed(2, Tensor.float), TypeError, "image_tokens must be int32 or int64, got float32"),
    Refusal(
        "count_device",
        changed(2, lambda t: t.to("meta")),
        TypeError,
        "image_tokens must be on the device of input_embeds",
    ),
    Refusal(
        "count_expanded",
        changed(2, lambda t: t[:1].expand(3)),
        ValueError,
        "image_tokens must be contiguous, got strides [0]",
    ),
    Refusal(
        "fewer_counts",
        changed(2, lambda t: t[:2]),
        ValueError,
        "image_tokens must have one element per element of image_start, 3, got 2",
    ),
    Refusal("negative_bound", changed(3, -1), ValueError, "max_image_tokens must be at least 0, got -1"),
    Refusal("no_groups", changed(4, 0), ValueError, "groups must be at least 1, got 0"),
    Refusal("negative_groups", changed(4, -2), ValueError, "groups must be at least 1, got -2"),
    Refusal(
        "last_stride",
        changed(0, lambda t: t.t().contiguous().t()),
        ValueError,
        "input_embeds must have a last stride of 1",
    ),
    Refusal(
        "expanded_rows",
        changed(0, lambda t: t[:1].expand(37, 24)),
        ValueError,
        "input_embeds must have rows that don't overlap, got strides [0, 1]",
    ),
    Refusal(
        "expanded_batch",
        changed(0, lambda t: t.expand(2, 37, 24)),
        ValueError,
        "input_embeds must have rows that don't overlap, got strides [0, 24, 1]",
    ),
    Refusal(
        "overlapping_rows",
        changed(0, lambda t: torch.as_strided(t, (37, 24), (23, 1))),
        ValueError,
        "input_embeds must have rows that don't overlap, got strides [23, 1]",
    ),
    Refusal(
        "start_overlap",
        index_in_the_embeds(1),
        ValueError,
        "image_start must not overlap input_embeds",
        targets=("cpu", "cuda"),  # the simulated NPU can't give one storage two dtypes
    ),
    Refusal(
        "count_overlap",
        index_in_the_embeds(2),
        ValueError,
        "image_tokens must not overlap input_embeds",
        targets=("cpu", "cuda"),
    ),
]


def data(name: str, make: Any, text: str) -> Refusal:
    return Refusal(name, make, ValueError, text, data=True)


DATA = [
    data(
        "above_the_bound",
        spans((0, 2), (4, 8), bound=6),
        "image_tokens[1] must be in [0, 6], up to max_image_tokens, got 8",
    ),
    data(
        "negative_count", spans((0, 2), (4, -2)), "image_tokens[1] must be in [0, 100], up to max_image_tokens, got -2"
    ),
    data("no_multiple", spans((0, 6), (8, 5)), "image_tokens[1] must be a multiple of groups, 2, got 5"),
    data("fewer_than_groups", spans((0, 2), groups=4), "image_tokens[0] must be a multiple of groups, 4, got 2"),
    data(
        "past_the_end",
        spans((0, 2), (17, 4)),
        "image_start[1] must be at most 16, so that 4 rows end in the 20 rows of input_embeds, got 17",
    ),
    data("far_past_the_end", spans((2**63 - 1, 2)), "image_start[0] must be at most 18,"),
    data(
        "count_that_wraps",
        spans((2, 2**63 - 2), bound=2**63 - 1),
        "image_tokens[0] must be at most the 20 rows of input_embeds, got 9223372036854775806",
    ),
    data("no_tokens", spans((0, 2), rows=0), "image_tokens[0] must be at most the 0 rows of input_embeds, got 2"),
    data(
        "overlap",
        spans((9, 4), (0, 4), (3, 8)),
        "image_start[2] must leave the images disjoint: rows [3, 11) of image 2 overlap rows [0, 4) of image 1, got 3",
    ),
    data(
        "overlap_by_the_last_row",
        spans((9, 4), (0, 4), (6, 4)),
        "image_start[2] must leave the images disjoint: rows [6, 10) of image 2 overlap rows [9, 13) of image 0, got 6",
    ),
    data("same_place", spans((4, 4), (4, 4)), "rows [4, 8) of image 1 overlap rows [4, 8) of image 0, got 4"),
    data("inside_another", spans((0, 12), (4, 2)), "rows [4, 6) of image 1 overlap rows [0, 12) of image 0, got 4"),
    data("around_another", spans((4, 2), (0, 12)), "rows [0, 12) of image 1 overlap rows [4, 6) of image 0, got 0"),
    data("above_the_bound_among_many", many_with(71, 355, 8), "image_tokens[71] must be in [0, 6]"),
    data("negative_among_many", many_with(71, 355, -4), "image_tokens[71] must be in [0, 6]"),
    data("no_multiple_among_many", many_with(71, 355, 3), "image_tokens[71] must be a multiple of groups, 2, got 3"),
    data("past_the_end_among_many", many_with(2, 447, 4), "image_start[2] must be at most 446,"),
    data("far_past_the_end_among_many", many_with(2, 2**63 - 3, 4), "image_start[2] must be at most 446,"),
    data("overlap_among_many", many_with(80, 26, 6), "rows [26, 32) of image 80 overlap rows [25, 29) of image 5, got"),
]

REFUSALS = METADATA + DATA
