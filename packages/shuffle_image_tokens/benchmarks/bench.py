"""Image rows interleaved in place, beside what a user of torch would write.

``python packages/shuffle_image_tokens/benchmarks/bench.py --out FOLDER``
"""

from __future__ import annotations

import torch
from torch import Tensor

from tilevl.shuffle_image_tokens import shuffle_image_tokens
from tilevl.testing import same_bits
from tilevl.testing.benchmark import Row, interleaved, options, report

GROUPS = 2


def image_by_image(embeds: Tensor, starts: Tensor, counts: Tensor) -> None:
    """Each image's rows reshaped, transposed and assigned back."""
    for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
        rows = embeds[start : start + count]
        rows.copy_(rows.view(GROUPS, count // GROUPS, -1).transpose(0, 1).reshape(count, -1))


def permutation(rows: int, starts: Tensor, counts: Tensor) -> Tensor:
    """For each row the one that it takes."""
    source = torch.arange(rows)
    for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
        source[start : start + count] = torch.arange(start, start + count).view(GROUPS, -1).t().flatten()
    return source


def with_text_between(counts: Tensor, text: Tensor) -> tuple[Tensor, Tensor, int]:
    """Starts and counts of images with that many text rows before each, and the number of rows."""
    ends = (counts + text).cumsum(0)
    return ends - counts, counts, int(ends[-1]) + 16


SHAPES = {
    "1 image of 4096 x 4096": (4096, *with_text_between(torch.tensor([4096]), torch.tensor([16]))),
    "1 image of 16384 x 4096": (4096, *with_text_between(torch.tensor([16384]), torch.tensor([16]))),
    "16 images of 256 x 1280": (1280, *with_text_between(torch.full((16,), 256), torch.full((16,), 8))),
    "8 images of 272..1088 x 4096": (4096, *with_text_between(torch.arange(1, 9) * 136, torch.arange(9, 17))),
    "2000 images of 4 x 1024": (1024, *with_text_between(torch.full((2000,), 4), torch.randint(1, 9, (2000,)))),
}


def main() -> None:
    """Verifies, then times."""
    given = options(__doc__, "cpu", "cuda", "ascend")
    if given.target == "cuda":
        import on_cuda

        on_cuda.main(given)
        return
    if given.target == "ascend":
        import on_ascend

        on_ascend.main(given)
        return
    rows = []
    for shape, (width, starts, counts, total) in SHAPES.items():
        embeds = torch.randn(total, width).bfloat16()
        longest, source, images = int(counts.max()), permutation(total, starts, counts), int(counts.sum())
        expected, other = embeds[source], embeds.clone()
        image_by_image(other, starts, counts)
        shuffle_image_tokens(embeds, starts, counts, longest, GROUPS)
        assert same_bits(embeds, expected) and same_bits(other, expected)
        calls = {
            "shuffle_image_tokens": lambda: shuffle_image_tokens(embeds, starts, counts, longest, GROUPS),  # noqa: B023
            "gather all rows by a ready index, copy_ back": lambda: embeds.copy_(embeds[source]),  # noqa: B023
            "image by image": lambda: image_by_image(embeds, starts, counts),  # noqa: B023
            "limit: one copy of the images' rows": lambda: other[:images].copy_(embeds[:images]),  # noqa: B023
        }
        times = interleaved(calls, rounds=given.rounds)
        own = times["shuffle_image_tokens"]
        rows += [Row(shape, name, time, f"op takes {own / time:.2f} of it") for name, time in times.items()]
    report("shuffle_image_tokens_cpu", rows, given.out)


if __name__ == "__main__":
    main()
