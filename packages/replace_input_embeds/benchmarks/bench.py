"""Image rows into the input embeddings, beside what a user of torch would write.

``python packages/replace_input_embeds/benchmarks/bench.py --out packages/replace_input_embeds/benchmarks/results``
"""

from __future__ import annotations

import torch

from tilevl.replace_input_embeds import replace_input_embeds
from tilevl.testing import same_bits
from tilevl.testing.benchmark import Row, interleaved, options, report

SHAPES = {
    "4096 rows of 4096 into 8192, one run": (8192, 4096, torch.arange(4096) + 1000),
    "4096 rows of 4096 into 8192, scattered": (8192, 4096, torch.randperm(8192)[:4096]),
    "272 rows of 1280 into 1024, one run": (1024, 1280, torch.arange(272) + 100),
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
    for shape, (tokens, width, index) in SHAPES.items():
        index = index.sort().values  # masked_scatter takes rows in order
        embeds = torch.randn(tokens, width).bfloat16()
        image = torch.randn(index.numel(), width).bfloat16()
        mask = torch.zeros(tokens, 1, dtype=torch.bool)
        mask[index] = True
        expected, result = embeds.masked_scatter(mask, image), embeds.clone()
        replace_input_embeds(result, image, index)
        assert same_bits(result, expected)
        calls = {
            "replace_input_embeds": lambda: replace_input_embeds(result, image, index),  # noqa: B023
            "index_copy_": lambda: result.index_copy_(0, index, image),  # noqa: B023
            "masked_scatter_": lambda: result.masked_scatter_(mask, image),  # noqa: B023
            "limit: one copy of the rows": lambda: result[: index.numel()].copy_(image),  # noqa: B023
        }
        times = interleaved(calls, rounds=given.rounds)
        own = times["replace_input_embeds"]
        rows += [Row(shape, name, time, f"op takes {own / time:.2f} of it") for name, time in times.items()]
    report("replace_input_embeds_cpu", rows, given.out)


if __name__ == "__main__":
    main()
