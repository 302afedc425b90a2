"""The CUDA part of the benchmark: replays beside cuDNN without any bias, the limit to chase, and what users have now.

That is a dense bias built and given to torch, FlexAttention, and a Triton kernel as inference engines have it.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable

import torch
import triton_peer
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention

from tilevl.attn_rel_h_rel_w import attn_rel_h_rel_w
from tilevl.testing import relative_error
from tilevl.testing.benchmark import Row, report
from tilevl.testing.cuda_benchmark import HOST_BAR, on_host, replayed, verdict

HEADS, HEAD_DIM, BOUND = 12, 64, 4e-3
OWN = "attn_rel_h_rel_w"
WITHOUT_PADDING = f"{OWN}, tables without padding"
REPLAYS = 10  # calls in one graph
AGAIN, STEEP = f"{OWN}, all queries done again", 200  # rel_h rises so far from the first row to the last
LEAST = "cuDNN, no bias: another result"
SHAPES = {  # batch, rows, columns: the most of cuDNN's time that is aimed at
    (2, 14, 14): 1.15,
    (25, 14, 14): 1.25,  # the windows of one page of 1024 pixels
    (1, 40, 40): 1.25,
    (1, 48, 48): 1.25,
    (1, 64, 64): 1.15,
    (4, 64, 64): 1.15,
}


class Inputs:
    """One layer's tensors; tables with padding to a multiple of columns, or ``[B, N, S, G]`` seen from its tokens."""

    def __init__(self, batch: int, grid_h: int, grid_w: int, multiple: int = 16, tables_by_head: bool = False) -> None:
        self.grid = grid_h, grid_w
        tokens = grid_h * grid_w
        widths = (HEAD_DIM,) * 3 + tuple(-(-side // multiple) * multiple for side in self.grid)
        self.args = [torch.randn(batch, tokens, HEADS, width, device="cuda").bfloat16() for width in widths]
        if tables_by_head:
            self.args[3:] = [table.transpose(1, 2).contiguous().transpose(1, 2) for table in self.args[3:]]
        self.heads_first = [tensor.transpose(1, 2) for tensor in self.args[:3]]

    def own(self) -> Tensor:
        return attn_rel_h_rel_w(*self.args, *self.grid)

    def dense_bias(self) -> Tensor:
        rel_h, rel_w = (table[..., :side].transpose(1, 2) for table, side in zip(self.args[3:], self.grid, strict=True))
        return (rel_h.unsqueeze(-1) + rel_w.unsqueeze(-2)).flatten(-2)

    def dense(self) -> Tensor:
        """The bias built and given to torch, as Hugging Face's SAM does."""
        bias = self.dense_bias().view(*self.heads_first[0].shape[:3], -1)
        return scaled_dot_product_attention(*self.heads_first, attn_mask=bias)

    def cudnn(self) -> Tensor:
        """No bias: another result."""
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return scaled_dot_product_attention(*self.heads_first)

    def triton(self) -> Tensor:
        return triton_peer.attend(*self.args, self.grid[1])

    def flex(self) -> Callable[[], Tensor]:
        """FlexAttention, compiled for these tables."""
        rel_h, rel_w = self.args[3:]
        grid_w = self.grid[1]

        def score(score: Tensor, b: Tensor, n: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return score + rel_h[b, i, n, j // grid_w] + rel_w[b, i, n, j % grid_w]

        compiled = torch.compile(flex_attention, dynamic=False)
        return lambda: compiled(*self.heads_first, score_mod=score).transpose(1, 2)

    def right(self, b: int) -> Tensor:
        """What a batch should give, in float64: ``[S, N, D]``."""
        query, key, value = (tensor[b].double() for tensor in self.heads_first)
        rel_h, rel_w = (table[b].transpose(0, 1).double() for table in self.args[3:])
        bias = rel_h[..., : self.grid[0]].unsqueeze(-1) + rel_w[..., : self.grid[1]].unsqueeze(-2)
        scores = query @ key.transpose(-1, -2) * HEAD_DIM**-0.5
        return ((scores + bias.view_as(scores)).softmax(-1) @ value).transpose(0, 1)

    def errors(self, calls: dict[str, Callable[[], Tensor]]) -> dict[str, float]:
        """Relative error of each call in the last batch against float64."""
        right = self.right(-1).cpu()
        return {name: relative_error(call()[-1].cpu(), right) for name, call in calls.items()}


def measure(batch: int, grid_h: int, grid_w: int, bar: float, rounds: int) -> list[Row]:
    """All calls of one shape, the same op verified first."""
    inputs = Inputs(batch, grid_h, grid_w)
    calls: dict[str, Callable[[], Tensor]] = {
        OWN: inputs.own,
        "Triton, tiles of 64": inputs.triton,
        "dense bias built, sdpa": lambda: inputs.dense().transpose(1, 2),
        "FlexAttention": inputs.flex(),
    }
    errors = inputs.errors(calls)
    others: dict[str, Inputs] = {}
    if grid_w % 16:
        for name, tables_by_head in ((WITHOUT_PADDING, False), (f"{WITHOUT_PADDING}, heads first", True)):
            others[name] = Inputs(batch, grid_h, grid_w, 1, tables_by_head)
    others[AGAIN] = rising = Inputs(batch, grid_h, grid_w)
    rising.args[3] += torch.linspace(0, STEEP, rising.args[3].shape[3], device="cuda").bfloat16()
    for name, other in others.items():
        calls[name] = other.own
        errors.update(other.errors({name: other.own}))
    for name in (OWN, *others):
        assert errors[name] < BOUND, f"{inputs.grid}, {name}: relative error {errors[name]:.2e}"
    times = replayed({name: [call] * REPLAYS for name, call in {**calls, LEAST: inputs.cudnn}.items()}, rounds=rounds)
    shape = f"{batch} x {grid_h}x{grid_w}, {HEADS} heads of {HEAD_DIM}, bf16"
    rows = []
    for name, time in times.items():
        ratio = time / times[LEAST]
        note = f"{ratio:.2f} of cuDNN without bias"
        if name in errors:
            note += f", error {errors[name]:.1e}"
        if name.startswith(OWN) and name != AGAIN:
            note += f"; {verdict(ratio, bar)}"
        rows.append(Row(shape, name, time, note))
    return rows


def main(given: Namespace) -> None:
    """Verifies, then times."""
    rows = []
    for (batch, grid_h, grid_w), bar in SHAPES.items():
        rows += measure(batch, grid_h, grid_w, bar, given.rounds)
        torch.cuda.empty_cache()
    small = Inputs(*next(iter(SHAPES)))
    host = on_host({OWN: small.own})
    rows.append(Row(rows[0].shape, f"{OWN}, host", host[OWN], f"eager call; {verdict(host[OWN], HOST_BAR)}"))
    report("attn_rel_h_rel_w_cuda", rows, given.out, limit=LEAST)
