"""What stays dynamic in a traced graph, and what makes it a graph of one size."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Generator, Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from tilevl.attn_rel_h_rel_w import attn_rel_h_rel_w
from tilevl.testing.graphs import need_tracing

from . import oracle
from .cases import FP16, FP32, tensors
from .test_standard import compare


def test_grid_given_as_numbers_is_dynamic(target: str, device: torch.device, rng: Generator) -> None:
    compiler = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(attn_rel_h_rel_w, fullgraph=True, backend=compiler, dynamic=True)
    for grid in ((3, 4), (5, 7), (6, 2), (9, 3)):
        inputs = tensors(rng, *grid, dtype=FP16)
        result = compiled(*(tensor.to(device) for tensor in inputs), *grid)
        compare(result, oracle.attn_rel_h_rel_w(*inputs, *grid))
    assert compiler.frame_count <= 2


def test_a_square_left_to_be_found_makes_a_graph_of_its_size(target: str, device: torch.device, rng: Generator) -> None:
    compiler = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(attn_rel_h_rel_w, fullgraph=True, backend=compiler, dynamic=True)
    for side in (3, 5, 3, 5):
        inputs = tensors(rng, side, side, dtype=FP16)
        compare(compiled(*(tensor.to(device) for tensor in inputs)), oracle.attn_rel_h_rel_w(*inputs))
    assert compiler.frame_count == 2


class OneRowOfTables(torch.nn.Module):
    """Queries over a grid of four columns."""

    def forward(self, query: Tensor, rel_h: Tensor, rel_w: Tensor) -> Tensor:
        return attn_rel_h_rel_w(query, query, query, rel_h, rel_w, grid_w=4)


def test_exported_with_dynamic_batch_and_rows(
    target: str, device: torch.device, rng: Generator, tmp_path: Path
) -> None:
    need_tracing(device)
    batch = torch.export.Dim("batch", min=1, max=64)
    rows = torch.export.Dim("rows", min=1, max=64)
    sizes = {0: batch, 1: 4 * rows}
    shapes = {"query": sizes, "rel_h": {**sizes, 3: rows}, "rel_w": sizes}

    def draw(batch: int, rows: int) -> list[Tensor]:
        query, _, _, rel_h, rel_w = tensors(rng, rows, 4, batch=batch, dtype=FP16)
        return [query, rel_h, rel_w]

    example = tuple(tensor.to(device) for tensor in draw(2, 3))
    program = torch.export.export(OneRowOfTables(), example, dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "attention.pt2")
    loaded = torch.export.load(tmp_path / "attention.pt2").module()
    for sizes in ((2, 3), (5, 7), (3, 2)):
        query, rel_h, rel_w = draw(*sizes)
        result = loaded(*(tensor.to(device) for tensor in (query, rel_h, rel_w)))
        compare(result, oracle.attn_rel_h_rel_w(query, query, query, rel_h, rel_w, None, 4))


@pytest.mark.targets("cpu")
def test_result_is_contiguous_where_inputs_aren_t(rng: Generator) -> None:
    """An encoder's next layer views the result as [B, S, N * D], in eager mode and in a graph."""
    inputs = [tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in tensors(rng, 3, 3, dtype=FP32)]

    def layer(*args: Tensor) -> Tensor:
        return attn_rel_h_rel_w(*args).view(2, 9, 48) * 2

    assert torch.equal(torch.compile(layer, fullgraph=True, backend="aot_eager")(*inputs), layer(*inputs))
