"""Graphs of a call: exported and loaded again, and captured in a CUDA graph."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor


class _Call(torch.nn.Module):
    def __init__(self, function: Callable[..., Any], scalars: dict[int, Any]) -> None:
        super().__init__()
        self.function = function
        self.scalars = scalars

    def forward(self, *tensors: Tensor) -> Any:
        rest = iter(tensors)
        count = len(self.scalars) + len(tensors)
        return self.function(*(self.scalars[i] if i in self.scalars else next(rest) for i in range(count)))


def traces_below_dynamo(device: torch.device) -> bool:
    """Whether AOTAutograd and export can trace calls with a device's tensors.

    Not on the simulated NPU: PyTorch makes fake tensors of a backend through its kernels for views, and those of a
    backend in Python return Python objects, which can't become fake ones.
    """
    return device.type != "npu" or importlib.util.find_spec("torch_npu") is not None


def need_tracing(device: torch.device, backend: str = "export") -> None:
    """Skips the running test where a backend of ``torch.compile``, or export, can't trace a device's tensors."""
    if backend != "eager" and not traces_below_dynamo(device):
        pytest.skip(f"the simulated NPU runs under Dynamo, and {backend} can't trace its tensors")


def export_and_load(function: Callable[..., Any], args: tuple[Any, ...], folder: Path | None) -> Callable[..., Any]:
    """Exports a call (not strict), saves and loads it, and returns what runs it.

    Args:
        function: the op's public function.
        args: what it is traced with; whatever isn't a tensor becomes a constant of the graph.
        folder: where the file goes; None skips saving and loading.
    """
    scalars = {i: arg for i, arg in enumerate(args) if not isinstance(arg, Tensor)}
    tensors = tuple(arg for arg in args if isinstance(arg, Tensor))
    program = torch.export.export(_Call(function, scalars), tensors, strict=False)
    if folder is not None:
        torch.export.save(program, folder / "call.pt2")
        program = torch.export.load(folder / "call.pt2")
    module = program.module()
    return lambda *given: module(*(arg for i, arg in enumerate(given) if i not in scalars))


def capture(call: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """Captures a call in a CUDA graph, after one warm-up on a side stream; what is returned replays it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call()

    def replay() -> Tensor:
        graph.replay()
        torch.cuda.synchronize()
        return result

    return replay
