"""Calls of bmp_to_patches that must work, and calls that must be refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Generator, Tensor

from tilevl.testing import Case, Refusal

Args = tuple[Any, ...]
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
HALF = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
NOT_PROVEN = ((0.844, 0.758, 0.421), (0.266, 0.516, 0.411))  # no float32 multiply-add gives exact float16 here


def draw(g: Generator, count: int) -> Tensor:
    return torch.randint(0, 256, (count,), generator=g, dtype=torch.uint8)


def images(
    g: Generator,
    *sizes: tuple[int, int],
    patch_size: int = 4,
    constants: tuple[Sequence[float], Sequence[float]] = CLIP,
    bytes_per_pixel: int = 3,
    window: int = 1,
    dtype: torch.dtype = BF16,
    spare: int = 0,
    index: torch.dtype = torch.int64,
) -> Args:
    """Images of (height, width), by turns bottom-up and top-down, with gaps between them and padded rows."""
    position, crops, counts = 5, [], [0]
    for i, (height, width) in enumerate(sizes):
        stride = -(-width * bytes_per_pixel // 4) * 4
        crops.append(
            [position, stride, height, width] if i % 2 else [position + (height - 1) * stride, -stride, height, width]
        )
        counts.append(counts[-1] + (height // patch_size) * (width // patch_size))
        position += height * stride + 3
    return (
        draw(g, position),
        torch.tensor(crops, dtype=torch.int64).view(-1, 4),
        torch.tensor(counts, dtype=index),
        counts[-1] + spare,
        patch_size,
        *constants,
        bytes_per_pixel,
        window,
        dtype,
    )


def one(crop: list[int], count: int, num_bytes: int, patch_size: int = 2, **kinds: Any) -> Callable[[Generator], Args]:
    """One crop given by its four numbers."""

    def make(g: Generator) -> Args:
        _, _, _, _, *rest = images(g, patch_size=patch_size, **kinds)
        return draw(g, num_bytes), torch.tensor([crop]), torch.tensor([0, count]), count, *rest

    return make


def overlapping_crops(g: Generator) -> Args:
    crops = torch.tensor([[0, 60, 8, 8], [60 * 3 + 7, 60, 8, 12], [60 * 11, -60, 12, 4]])
    return draw(g, 60 * 12), crops, torch.tensor([0, 4, 10, 13]), 13, 4, *CLIP, 3, 1, BF16


def offset_view(g: Generator) -> Args:
    pixels, *rest = images(g, (9, 7), (8, 8))
    return torch.cat([draw(g, 11), pixels, draw(g, 6)])[11:-6], *rest


def crop_with_nothing_between(g: Generator) -> Args:
    pixels, crops, _, _, *rest = images(g, (8, 8), (3, 8), (4, 12))
    crops[1] = torch.tensor([-(2**62), 2**62, 0, 2**40])
    return pixels, crops, torch.tensor([0, 4, 4, 7]), 7, *rest


def odd_strides_of_size_one(g: Generator) -> Args:
    pixels, crops, *rest = images(g, (4, 8))
    return pixels, torch.as_strided(crops.clone(), (1, 4), (9, 1)), *rest


def no_crops_of_any_strides(g: Generator) -> Args:
    pixels, crops, *rest = images(g, spare=3)
    return pixels, crops.as_strided((0, 4), (9, 7)), *rest


CASES = [
    Case("bottom_up", lambda g: images(g, (8, 12)), traced=True),
    Case("both_directions", lambda g: images(g, (8, 12), (12, 4), (4, 4)), traced=True),
    Case("four_bytes_fp32", lambda g: images(g, (8, 8), (4, 12), bytes_per_pixel=4, dtype=FP32), traced=True),
    Case("windows", lambda g: images(g, (8, 16), (16, 8), window=2, constants=HALF), traced=True),
    Case("windows_of_three_fp16", lambda g: images(g, (12, 18), patch_size=2, window=3, dtype=FP16)),
    Case("spare_rows", lambda g: images(g, (8, 8), (4, 8), spare=5), traced=True),
    Case("remainders", lambda g: images(g, (11, 15), (7, 6), (3, 30))),
    Case("remainders_smaller_than_a_window", lambda g: images(g, (9, 17), window=2)),
    Case("int32", lambda g: images(g, (8, 12), (5, 5), index=torch.int32)),
    Case("imagenet_fp16", lambda g: images(g, (16, 16), constants=IMAGENET, dtype=FP16)),
    Case("one_float_for_three", lambda g: (*images(g, (8, 8))[:5], 0.5, 0.25, 3, 1, BF16), traced=True),
    Case("not_proven_fp16", lambda g: images(g, (16, 16), constants=NOT_PROVEN, dtype=FP16)),
    Case("tiny_std", lambda g: images(g, (8, 8), constants=((0.1,) * 3, (1e-300,) * 3))),
    Case("huge_std", lambda g: images(g, (8, 8), constants=((0.1,) * 3, (1e41,) * 3), dtype=FP32)),
    *(
        Case(f"patch_size_{p}", lambda g, p=p: images(g, (2 * p, p), (p, 3 * p), patch_size=p))
        for p in (1, 2, 3, 5, 6, 7, 12, 14, 16, 20, 32)
    ),
    Case("patch_size_64", lambda g: images(g, (64, 65), patch_size=64, bytes_per_pixel=4)),
    Case("patch_size_14_fp16_four_bytes", lambda g: images(g, (28, 14), patch_size=14, bytes_per_pixel=4, dtype=FP16)),
    Case("stride_zero", one([7, 0, 4, 6], 6, 25)),
    Case("overlapping_rows", one([2, 1, 6, 2], 3, 13)),
    Case("overlapping_rows_upwards", one([7, -1, 6, 2], 3, 13)),
    Case("stride_longer_than_a_row", one([1, 101, 4, 4], 4, 316)),
    Case("one_row_of_any_stride", one([3, 2**63 - 1, 1, 5], 5, 18, patch_size=1)),
    Case("one_row_of_any_negative_stride", one([3, -(2**63), 1, 5], 5, 18, patch_size=1)),
    Case("overlapping_crops", overlapping_crops),
    Case("offset_view", offset_view, layout=True),
    Case("odd_strides_of_size_one", odd_strides_of_size_one, layout=True),
    Case("crop_with_nothing_between", crop_with_nothing_between),
    Case("crop_smaller_than_a_patch", lambda g: images(g, (3, 40))),
    Case("no_crops", lambda g: images(g), traced=True),
    Case("no_crops_spare_rows", lambda g: images(g, spare=3)),
    Case("no_crops_of_any_strides", no_crops_of_any_strides, layout=True),
    Case("no_bytes_no_crops", lambda g: (draw(g, 0), *images(g, spare=2)[1:])),
]


def series(g: Generator, count: int) -> Args:
    return images(g, (4, 4 * count), spare=2)  # so that no count makes total_patches 0 or 1, constants to torch


def changed(position: int, value: Any) -> Callable[[Generator], Args]:
    """A plain call with one argument replaced; a function is called with the plain one."""

    def make(g: Generator) -> Args:
        args = list(images(g, (8, 12), (12, 4)))
        args[position] = value(args[position]) if callable(value) else value
        return tuple(args)

    return make


def crop(row: int, *numbers: int) -> Callable[[Generator], Args]:
    """A plain call (443 bytes) with one crop replaced; the counts stay right where they can."""
    return changed(1, lambda crops: torch.cat([crops[:row], torch.tensor([numbers]), crops[row + 1 :]]))


def data(name: str, make: Callable[[Generator], Args], text: str) -> Refusal:
    return Refusal(name, make, ValueError, text, data=True)


REFUSALS = [
    Refusal("pixels_rank", changed(0, lambda t: t[None]), ValueError, "pixels must be [num_bytes], got shape [1, 443]"),
    Refusal("pixels_dtype", changed(0, lambda t: t.to(torch.int8)), TypeError, "pixels must be uint8, got int8"),
    Refusal(
        "pixels_strides",
        changed(0, lambda t: torch.stack([t, t], 1)[:, 0]),
        ValueError,
        "pixels must be contiguous, got strides [2] for shape [443]",
    ),
    Refusal("crops_rank", changed(1, lambda t: t[0]), ValueError, "crops must be [num_crops, 4], got shape [4]"),
    Refusal(
        "crops_columns",
        changed(1, lambda t: t.view(4, 2)),
        ValueError,
        "crops must be [num_crops, 4], got shape [4, 2]",
    ),
    Refusal("crops_dtype", changed(1, Tensor.int), TypeError, "crops must be int64, got int32"),
    Refusal(
        "crops_strides",
        changed(1, lambda t: t.t().contiguous().t()),
        ValueError,
        "crops must be contiguous, got strides [1, 2] for shape [2, 4]",
    ),
    Refusal("crops_device", changed(1, lambda t: t.to("meta")), TypeError, "crops must be on the device of pixels"),
    Refusal(
        "sums_rank", changed(2, lambda t: t[None]), ValueError, "cu_patches must be [num_crops + 1], got shape [1, 3]"
    ),
    Refusal("sums_dtype", changed(2, Tensor.float), TypeError, "cu_patches must be int32 or int64, got float32"),
    Refusal(
        "sums_strides",
        changed(2, lambda t: torch.stack([t, t], 1)[:, 0]),
        ValueError,
        "cu_patches must be contiguous, got strides [2] for shape [3]",
    ),
    Refusal("sums_length", changed(2, lambda t: t[:2]), ValueError, "one element more than crops has rows, 3, got 2"),
    Refusal("sums_device", changed(2, lambda t: t.to("meta")), TypeError, "cu_patches must be on the device of pixels"),
    Refusal("negative_total", changed(3, -1), ValueError, "total_patches must be at least 0, got -1"),
    Refusal("patch_size_zero", changed(4, 0), ValueError, "patch_size must be in [1, 64], got 0"),
    Refusal("patch_size_65", changed(4, 65), ValueError, "patch_size must be in [1, 64], got 65"),
    Refusal("mean_of_two", changed(5, (0.5, 0.5)), ValueError, "mean must be 3 floats (R, G, B) or one for all, got 2"),
    Refusal("std_of_four", changed(6, (0.5,) * 4), ValueError, "std must be 3 floats (R, G, B) or one for all, got 4"),
    Refusal("mean_nan", changed(5, (0.5, float("nan"), 0.5)), ValueError, "mean must be finite, got nan for channel G"),
    Refusal("std_inf", changed(6, (0.5, 0.5, float("inf"))), ValueError, "std must be finite, got inf for channel B"),
    Refusal("std_zero", changed(6, (0.0, 0.5, 0.5)), ValueError, "std must be greater than 0, got 0.0 for channel R"),
    Refusal(
        "std_negative", changed(6, (0.5, 0.5, -0.5)), ValueError, "std must be greater than 0, got -0.5 for channel B"
    ),
    Refusal("two_bytes", changed(7, 2), ValueError, "bytes_per_pixel must be 3 or 4, got 2"),
    Refusal("five_bytes", changed(7, 5), ValueError, "bytes_per_pixel must be 3 or 4, got 5"),
    Refusal("window_zero", changed(8, 0), ValueError, "window must be at least 1, got 0"),
    Refusal(
        "result_dtype",
        changed(9, torch.float64),
        TypeError,
        "out_dtype must be bfloat16 or float16 or float32, got float64",
    ),
    data("negative_height", crop(1, 0, 36, -12, 4), "crops[1, 2] must be at least 0, got -12"),
    data("negative_width", crop(0, 0, 36, 8, -(2**63)), "crops[0, 3] must be at least 0, got -9223372036854775808"),
    data(
        "starts_before", crop(0, -1, 36, 8, 12), "crops[0] must lie in pixels, bytes [0, 443), got bytes [-1, 287) for"
    ),
    data(
        "ends_behind", crop(1, 300, 12, 12, 4), "crops[1] must lie in pixels, bytes [0, 443), got bytes [300, 444) for"
    ),
    data(
        "climbs_out", crop(0, 251, -36, 8, 12), "crops[0] must lie in pixels, bytes [0, 443), got bytes [-1, 287) for"
    ),
    data(
        "wraps_around",
        crop(0, 2**63 - 1, 2**63 - 1, 8, 12),
        "got bytes [9223372036854775807, 73786976294838206492) for offset 9223372036854775807, "
        "row stride 9223372036854775807, height 8, width 12",
    ),
    data(
        "wraps_to_the_front",
        crop(0, 0, 2**61, 8, 12),
        "crops[0] must lie in pixels, bytes [0, 443), got bytes [0, 1614",
    ),
    data(
        "endless_height",
        crop(1, 0, 0, 2**63 - 1, 2**62),
        "crops[1] must lie in pixels, bytes [0, 443), got bytes [0, 1383",
    ),
    data(
        "outside_without_a_patch",
        crop(1, 441, 3, 3, 1),
        "bytes [0, 443), got bytes [441, 450) for offset 441, row stride 3, height 3, width 1",
    ),
    data(
        "grid_no_multiple",
        changed(8, 2),
        "crops[0] must have a patch grid that is a multiple of window, 2, got 2 x 3 patches",
    ),
    data(
        "sums_start", changed(2, lambda t: t + 1), "cu_patches[0] must be 0, the prefix sum of the counts so far, got 1"
    ),
    data(
        "sums_of_others",
        changed(2, lambda t: t * 2),
        "cu_patches[1] must be 6, the prefix sum of the counts so far, got 12",
    ),
    data("total_too_small", changed(3, 8), "total_patches must be at least cu_patches[2], 9, got 8"),
]
