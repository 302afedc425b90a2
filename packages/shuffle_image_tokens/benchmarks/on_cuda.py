"""The CUDA part of the benchmark: replays beside the copy limit and torch's ways, and what a call costs at least."""

from __future__ import annotations

from argparse import Namespace

import torch
from torch import Tensor

from tilevl.shuffle_image_tokens import shuffle_image_tokens
from tilevl.testing import same_bits
from tilevl.testing.benchmark import Row, report
from tilevl.testing.cuda_benchmark import compared, copy_bandwidth, on_device, replayed, small_calls

OWN, BAR = "shuffle_image_tokens", 1.3  # of the limit
GROUPS = 2
TEXT = 16  # rows before and between the images
LARGE = {(8, 1024, 4096): 6, (1, 4096, 4096): 8, (1, 16384, 4096): 4}  # images, rows and width; sets of inputs
ROUNDS_OF_SETS = 5  # in a graph, whose start, about 9 us, would else count much in each call
SMALL = ((8, 256, 1280), (8, 256, 4096))


class Inputs:
    """Images with text between them, and the permutation that torch's gather takes."""

    def __init__(self, images: int, rows: int, width: int) -> None:
        self.starts = torch.arange(images, device="cuda") * (rows + TEXT) + TEXT
        self.counts = torch.full((images,), rows, device="cuda", dtype=torch.int32)
        self.rows = rows
        self.embeds = torch.randn(images * (rows + TEXT) + TEXT, width, device="cuda").bfloat16()
        source = torch.arange(self.embeds.shape[0], device="cuda")
        for start in self.starts.tolist():
            source[start : start + rows] = torch.arange(start, start + rows).view(GROUPS, -1).t().flatten()
        self.source = source

    def own(self) -> None:
        shuffle_image_tokens(self.embeds, self.starts, self.counts, self.rows, GROUPS)

    def gather(self) -> None:
        """One index_select of all rows, copied back."""
        self.embeds.copy_(self.embeds.index_select(0, self.source))

    def image_by_image(self) -> None:
        """Each image's rows reshaped, transposed and assigned back."""
        for start in self.starts.tolist():
            rows: Tensor = self.embeds[start : start + self.rows]
            rows.copy_(rows.view(GROUPS, self.rows // GROUPS, -1).transpose(0, 1).reshape(self.rows, -1))


def large(images: int, rows: int, width: int, bandwidth: float, rounds: int) -> list[Row]:
    """Replays over several sets of inputs."""
    shape = f"{images} image{'s' if images > 1 else ''} of {rows} rows of {width}, bf16"
    sets = [Inputs(images, rows, width) for _ in range(LARGE[images, rows, width])]
    for one in sets:
        expected = one.embeds.index_select(0, one.source)
        one.own()
        assert same_bits(one.embeds, expected)
    times = replayed(
        {
            OWN: [one.own for one in sets] * ROUNDS_OF_SETS,
            "gather and copy": [one.gather for one in sets] * ROUNDS_OF_SETS,
        },
        rounds=rounds,
    )
    times |= on_device({"image by image": [one.image_by_image for one in sets]}, rounds=rounds)
    times["limit"] = 2 * images * rows * width * 2 / bandwidth * 1e6
    return compared(shape, times, OWN, "limit", BAR)


def small(images: int, rows: int, width: int, rounds: int) -> list[Row]:
    """What counts is what any kernel costs."""
    shape = f"{images} image{'s' if images > 1 else ''} of {rows} rows of {width}, bf16"
    inputs = Inputs(images, rows, width)
    return small_calls(shape, {OWN: inputs.own, "gather and copy": inputs.gather}, OWN, 4 * rounds)


def main(given: Namespace) -> None:
    """Verifies, then times."""
    bandwidth = copy_bandwidth()
    rows = [row for shape in LARGE for row in large(*shape, bandwidth, given.rounds)]
    rows += [row for shape in SMALL for row in small(*shape, given.rounds)]
    rows.append(Row("copy of 4 GiB", "bandwidth", bandwidth / 1e12, "TB/s, read and written"))
    report("shuffle_image_tokens_cuda", rows, given.out, limit="limit")
