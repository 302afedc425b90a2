"""The Ascend part of the benchmark: what the op's kernel and the published structure move, and the host model's times.

Nothing is timed. The published times were measured elsewhere, on an Ascend 950DT.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from ascend_published import KEYS, ROWS, Published
from torch import Tensor

from tilevl.attn_rel_h_rel_w import attn_rel_h_rel_w
from tilevl.testing import relative_error
from tilevl.testing.ascend_benchmark import npu
from tilevl.testing.ascend_host import ASCEND_950DT, DEAR_PIECES, FITTED, NAIVE, Counters
from tilevl.testing.benchmark import Row, report
from tilevl.testing.simulated_npu import simulated_npu

HEADS, HEAD_DIM = 12, 64
BOUND = 4e-3
SHAPES = {  # batch, side: microseconds published, where there are some
    (2, 14): 12.1,
    (25, 14): None,
    (1, 40): 89.5,
    (1, 48): None,
    (1, 64): 287.5,
}
REDONE = (1, 40)  # once more with scores that the kernel can't do in one go
MEMORY = ("gm_ub", "ub_gm", "gm_l1", "l0c_gm")


@dataclass(frozen=True)
class Modelled(Row):
    """A row with what was counted.

    Attributes:
        counts: whole numbers by name, and bytes by path.
        pipes: microseconds of each pipe where it works longest.
    """

    counts: dict[str, float] = field(default_factory=dict)
    pipes: dict[str, float] = field(default_factory=dict)


def draw(batch: int, side: int) -> list[Tensor]:
    """Contiguous query, key, value, rel_h, rel_w."""
    widths = (HEAD_DIM, HEAD_DIM, HEAD_DIM, side, side)
    return [torch.randn(batch, side * side, HEADS, width).bfloat16() for width in widths]


def verify(name: str, result: Tensor, query: Tensor, key: Tensor, value: Tensor, rel_h: Tensor, rel_w: Tensor) -> None:
    """Some queries of the last image against float64."""
    some = torch.randperm(query.shape[1])[:64]
    rows, columns = (table[-1, some].transpose(0, 1).double() for table in (rel_h, rel_w))
    bias = (rows.unsqueeze(-1) + columns.unsqueeze(-2)).flatten(-2)
    scores = torch.einsum("inc,jnc->nij", query[-1, some].double(), key[-1].double()) * HEAD_DIM**-0.5 + bias
    expected = torch.einsum("nij,jnc->inc", scores.softmax(-1), value[-1].double())
    error = relative_error(result[-1, some], expected)
    assert error < BOUND, f"{name}: relative error {error:.2e}"


def of_all_heads(counters: Counters, heads: int) -> Counters:
    """The counts of a launch whose blocks are alike for each head, from those of one head."""
    cores = [replace(core, block=core.block + head * counters.grid) for head in range(heads) for core in counters.cores]
    return Counters(counters.kernel, heads * counters.grid, tuple(cores))


def modelled(shape: str, name: str, batch: int, side: int, counters: Counters) -> list[Modelled]:
    """A row for each set of rates."""
    tokens = side * side
    blocks = batch * HEADS * -(-tokens // ROWS) * -(-tokens // KEYS)
    instructions = sum(counters.vector.values()) / blocks
    moved = sum(counters.bytes[path] for path in MEMORY)
    burst = moved / sum(counters.bursts[path] for path in MEMORY)
    counts: dict[str, float] = {
        "vector instructions a key block": round(instructions, 1),
        "multiply-adds": counters.macs,
        "mean burst": round(burst, 1),
        **{f"bytes {path}": count for path, count in counters.bytes.items() if count},
    }
    rows = []
    for rates in (NAIVE, FITTED, DEAR_PIECES):
        cost = counters.cost(ASCEND_950DT, rates)
        busy = cost.pipes[cost.binding] / (cost.scheduled - ASCEND_950DT.launch_us)
        note = f"modelled; {cost.binding} busy {busy:.0%}"
        rows.append(Modelled(shape, f"{name}, {rates.name}", cost.scheduled, note, counts, cost.pipes))
    return rows


def print_counts(rows: Sequence[Row]) -> None:
    """A table of what each kernel does at each shape."""
    from rich.console import Console
    from rich.table import Table

    kernels = {(row.shape, row.name.rpartition(", ")[0]): row.counts for row in rows if isinstance(row, Modelled)}
    names = list(dict.fromkeys(name for counts in kernels.values() for name in counts))
    table = Table("shape", "kernel", *names, title="counts of a launch")
    for who, counts in kernels.items():
        table.add_row(*who, *(f"{counts.get(name, 0):,}" for name in names))
    Console(width=240).print(table)


def compared(batch: int, side: int) -> list[Row]:
    """The published time, the published structure, and the op."""
    shape = f"{batch} x {side}x{side}, {HEADS} heads of {HEAD_DIM}, bf16"
    inputs = draw(batch, side)
    published = SHAPES[batch, side]
    rows: list[Row] = [Row(shape, "published", published, "measured elsewhere")] if published else []

    first = [tensor[:, :, :1].contiguous() for tensor in inputs]
    result, counters = Published(batch, side, side, 1)(*first)
    verify("published structure", result, *first)
    rows += modelled(shape, "its structure", batch, side, of_all_heads(counters, HEADS))

    rows += modelled(shape, "attn_rel_h_rel_w", batch, side, counted(inputs))
    if (batch, side) == REDONE:
        inputs[3][..., side // 2 :] += 150  # so far above its first keys, no row can keep the reference from there
        rows += modelled(shape, "attn_rel_h_rel_w, all tiles done again", batch, side, counted(inputs))
    return rows


def counted(inputs: list[Tensor]) -> Counters:
    """Runs the op, and verifies it."""
    device = simulated_npu()
    device.launches.clear()
    result = attn_rel_h_rel_w(*(tensor.to(npu()) for tensor in inputs))
    verify("attn_rel_h_rel_w", result.cpu(), *inputs)
    (launch,) = device.launches
    return launch.counters


def main(given: Namespace) -> None:
    """Verifies, then asks the model."""
    rows = [row for shape in SHAPES for row in compared(*shape)]
    print_counts(rows)
    report("attn_rel_h_rel_w_ascend_model", rows, given.out, "modelled but for those published")
