"""Attention with two bias tables, beside torch's attention over a dense bias: time, and peak of extra memory.

``python packages/attn_rel_h_rel_w/benchmarks/bench.py --out packages/attn_rel_h_rel_w/benchmarks/results``
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.profiler import ProfilerActivity, profile

from tilevl.attn_rel_h_rel_w import attn_rel_h_rel_w
from tilevl.testing import relative_error
from tilevl.testing.benchmark import Row, interleaved, options, report

OWN, DENSE = "attn_rel_h_rel_w", "sdpa, dense bias ready"
BOUNDS = {torch.bfloat16: 4e-3, torch.float16: 1e-3, torch.float32: 1e-5}


@dataclass(frozen=True)
class Shape:
    """One encoder layer: batch, grid, heads, head dim, dtype."""

    batch: int
    grid_h: int
    grid_w: int
    heads: int
    head_dim: int
    dtype: torch.dtype

    def __str__(self) -> str:
        return (
            f"{self.batch} x {self.grid_h}x{self.grid_w}, {self.heads} heads of {self.head_dim}, "
            f"{str(self.dtype).removeprefix('torch.')}"
        )

    def draw(self) -> list[Tensor]:
        """Contiguous query, key, value, rel_h, rel_w."""
        tokens = self.grid_h * self.grid_w
        widths = (self.head_dim, self.head_dim, self.head_dim, self.grid_h, self.grid_w)
        return [torch.randn(self.batch, tokens, self.heads, width).to(self.dtype) for width in widths]


SHAPES = [
    Shape(1, 64, 64, 12, 64, torch.bfloat16),  # a global layer of SAM-B
    Shape(1, 64, 64, 16, 80, torch.bfloat16),  # of SAM-H
    Shape(25, 14, 14, 12, 64, torch.bfloat16),  # the windows of one image
    Shape(1, 64, 64, 12, 64, torch.float16),
    Shape(1, 64, 64, 12, 64, torch.float32),
]


def dense_bias(rel_h: Tensor, rel_w: Tensor) -> Tensor:
    """What a user without the op builds: ``[B, N, S, S]`` in the dtype of the tables."""
    rows, columns = rel_h.transpose(1, 2), rel_w.transpose(1, 2)
    return (rows.unsqueeze(-1) + columns.unsqueeze(-2)).flatten(-2)


def peak_bytes(call: Callable[[], object]) -> int:
    """The most that a call holds of what it allocates, its result included."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        call()
    held = peak = 0
    for event in recorded.profiler.kineto_results.events():  # type: ignore[union-attr]
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


def verify(shape: Shape, inputs: list[Tensor]) -> None:
    """Every head of a few queries against float64."""
    query, key, value, rel_h, rel_w = (tensor.transpose(1, 2) for tensor in inputs)
    result = attn_rel_h_rel_w(*inputs, shape.grid_h, shape.grid_w).transpose(1, 2)
    some = torch.randperm(query.shape[2])[:64]
    bias = dense_bias(*(table[:, :, some].transpose(1, 2).double() for table in (rel_h, rel_w)))
    scores = query[:, :, some].double() @ key.double().transpose(-1, -2) * shape.head_dim**-0.5 + bias
    error = relative_error(result[:, :, some], scores.softmax(-1) @ value.double())
    assert error < BOUNDS[shape.dtype], f"{shape}: relative error {error:.2e}"


def measure(shape: Shape, rounds: int) -> list[Row]:
    """Time and memory of one shape, verified first."""
    inputs = shape.draw()
    verify(shape, inputs)
    q, k, v = (tensor.transpose(1, 2) for tensor in inputs[:3])
    rel_h, rel_w = inputs[3:]
    bias = dense_bias(rel_h, rel_w)
    calls: dict[str, Callable[[], object]] = {
        OWN: lambda: attn_rel_h_rel_w(*inputs, shape.grid_h, shape.grid_w),
        DENSE: lambda: scaled_dot_product_attention(q, k, v, attn_mask=bias),
        "sdpa, dense bias built": lambda: scaled_dot_product_attention(q, k, v, attn_mask=dense_bias(rel_h, rel_w)),
        "sdpa, no bias: another result": lambda: scaled_dot_product_attention(q, k, v),
    }
    times = interleaved(calls, rounds=rounds, warmup=1)
    rows = []
    for name, call in calls.items():
        extra = peak_bytes(call) + (bias.nbytes if name == DENSE else 0)
        note = f"{times[name] / times[DENSE]:.2f} of dense, {extra / 2**20:.0f} MiB with the result"
        rows.append(Row(str(shape), name, times[name], note))
    return rows


def main() -> None:
    """Verifies, then times."""
    given = options(__doc__, "cpu", "cuda", "ascend", rounds=15)
    if given.target == "cuda":
        import on_cuda

        on_cuda.main(given)
        return
    if given.target == "ascend":
        import on_ascend

        on_ascend.main(given)
        return
    report("attn_rel_h_rel_w_cpu", [row for shape in SHAPES for row in measure(shape, given.rounds)], given.out)


if __name__ == "__main__":
    main()
