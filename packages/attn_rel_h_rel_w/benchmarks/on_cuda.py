"""The CUDA part of the benchmark: replays beside cuDNN without any bias, the limit to chase, and a dense bias."""

from __future__ import annotations

from argparse import Namespace

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from tilevl.attn_rel_h_rel_w import attn_rel_h_rel_w
from tilevl.testing import relative_error
from tilevl.testing.benchmark import Row, report
from tilevl.testing.cuda_benchmark import on_host, replayed

HEADS, HEAD_DIM, BOUND = 12, 64, 4e-3
REPLAYS = 10  # calls in one graph
SHAPES = ((2, 14, 14), (25, 14, 14), (1, 40, 40), (1, 48, 48), (1, 64, 64), (4, 64, 64))  # batch, rows, columns


class Inputs:
    """One layer's tensors; tables with padding to 16 columns."""

    def __init__(self, batch: int, grid_h: int, grid_w: int) -> None:
        self.grid = grid_h, grid_w
        tokens = grid_h * grid_w
        widths = (HEAD_DIM,) * 3 + tuple(-(-side // 16) * 16 for side in self.grid)
        self.args = [torch.randn(batch, tokens, HEADS, width, device="cuda").bfloat16() for width in widths]
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

    def verify(self) -> float:
        """Relative error of the first and last batch against float64."""
        result, worst = self.own(), 0.0
        for b in (0, -1):
            query, key, value = (tensor[b].double() for tensor in self.heads_first)
            rel_h, rel_w = (table[b].transpose(0, 1).double() for table in self.args[3:])
            bias = rel_h[..., : self.grid[0]].unsqueeze(-1) + rel_w[..., : self.grid[1]].unsqueeze(-2)
            scores = query @ key.transpose(-1, -2) * HEAD_DIM**-0.5
            right = (scores + bias.view_as(scores)).softmax(-1) @ value
            worst = max(worst, relative_error(result[b].transpose(0, 1).cpu(), right.cpu()))
        return worst


def main(given: Namespace) -> None:
    """Verifies, then times."""
    rows = []
    for batch, grid_h, grid_w in SHAPES:
        inputs = Inputs(batch, grid_h, grid_w)
        error = inputs.verify()
        assert error < BOUND, f"{inputs.grid}: relative error {error:.2e}"
        calls = {
            "attn_rel_h_rel_w": inputs.own,
            "cuDNN, no bias: another result": inputs.cudnn,
            "dense bias built, sdpa": inputs.dense,
        }
        times = replayed({name: [call] * REPLAYS for name, call in calls.items()}, rounds=given.rounds)
        shape = f"{batch} x {grid_h}x{grid_w}, {HEADS} heads of {HEAD_DIM}, bf16"
        least = times["cuDNN, no bias: another result"]
        rows += [Row(shape, name, time, f"{time / least:.2f} of cuDNN without bias") for name, time in times.items()]
        if (batch, grid_h) == SHAPES[0][:2]:
            host = on_host({"attn_rel_h_rel_w": inputs.own})
            rows.append(Row(shape, "attn_rel_h_rel_w, host", host["attn_rel_h_rel_w"], "eager call"))
    report("attn_rel_h_rel_w_cuda", rows, given.out)
