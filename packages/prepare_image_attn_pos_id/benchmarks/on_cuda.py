"""The CUDA part of the benchmark: replays against a fill of the same bytes, and what a call costs at least."""

from __future__ import annotations

import importlib.util
from argparse import Namespace
from collections.abc import Callable

import torch
from torch import Tensor

from tilevl.prepare_image_attn_pos_id import prepare_image_attn_pos_id
from tilevl.testing import same_bits
from tilevl.testing.benchmark import Row, report
from tilevl.testing.cuda_benchmark import compared, on_device, replayed, small_calls

OWN, BAR = "prepare_image_attn_pos_id", 1.5  # of a fill
SHAPES = {  # images, side of the square grid, window
    "64 images of 128 x 128, window 1": (64, 128, 1),
    "64 images of 128 x 128, window 2": (64, 128, 2),
    "10,000 images of 2 x 2, window 1": (10_000, 2, 1),
}
CALLS = 32  # in a graph


def hugging_face(grid_hw: Tensor, window: int) -> Callable[[], Tensor] | None:
    """What transformers calls for its vision towers; None where transformers is missing or has it elsewhere."""
    if (
        importlib.util.find_spec("transformers") is None
        or importlib.util.find_spec("transformers.vision_utils") is None
    ):
        return None
    from transformers.vision_utils import get_vision_position_ids

    grid_thw = torch.nn.functional.pad(grid_hw, (1, 0), value=1).cuda()
    return lambda: get_vision_position_ids(grid_thw, window)


def image_by_image(grid_hw: Tensor, window: int) -> Tensor:
    """The usual way in vision-language models: expand, permute and stack for each image, then concatenate."""
    images = []
    for height, width in grid_hw.tolist():
        rows = torch.arange(height, device="cuda").unsqueeze(1).expand(height, width)
        columns = torch.arange(width, device="cuda").unsqueeze(0).expand(height, width)
        windows = (height // window, window, width // window, window)
        sides = [side.reshape(windows).permute(0, 2, 1, 3).flatten() for side in (rows, columns)]
        images.append(torch.stack(sides, dim=-1))
    return torch.cat(images).int()


def measure(shape: str, rounds: int) -> list[Row]:
    """Verifies, then times."""
    images, side, window = SHAPES[shape]
    grid_hw = torch.full((images, 2), side)
    sums = (torch.arange(images + 1) * side * side).cuda()
    grids, total = grid_hw.cuda(), images * side * side

    def own() -> Tensor:
        return prepare_image_attn_pos_id(grids, sums, total, window)

    def fill() -> Tensor:
        return torch.full((total, 2), 7, dtype=torch.int32, device="cuda")

    assert same_bits(own(), image_by_image(grid_hw, window))
    times = replayed({OWN: [own] * CALLS, "a fill": [fill] * CALLS}, rounds=rounds)
    if images < 1000:
        peers = {
            "image by image": lambda: image_by_image(grid_hw, window),
            "Hugging Face": hugging_face(grid_hw, window),
        }
        times |= on_device({name: [peer] for name, peer in peers.items() if peer}, rounds=rounds)
    return compared(shape, times, OWN, "a fill", BAR) + small_calls(shape, {OWN: own, "a fill": fill}, OWN, 4 * rounds)


def main(given: Namespace) -> None:
    """All shapes."""
    rows = [row for shape in SHAPES for row in measure(shape, given.rounds)]
    report("prepare_image_attn_pos_id_cuda", rows, given.out, limit="a fill")
