"""Launching on CUDA: units and names of architectures everywhere, builds and launches on a GPU."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from importlib import util
from typing import Any

import pytest
import torch

from tilevl.core import cuda
from tilevl.core.registration import direct
from tilevl.testing import skip_unless

OP = "an_op"
RECORDING_KERNEL = """
from tilevl.core.plans import PlannedKernel

plans, launches = [], []

def build(dtype):
    def plan(x, row, times, out):
        plans.append(times)
        return lambda *addresses: launches.append(addresses)
    return PlannedKernel(plan)
"""


@pytest.mark.parametrize(
    ("bits", "unit"), [(0, 16), (16, 16), (48 | 64, 16), (8, 8), (8 | 4096, 8), (4, 4), (2 | 16, 2), (1, 1), (7, 1)]
)
def test_widest_unit_divides_all(bits: int, unit: int) -> None:
    assert cuda.widest_unit(bits) == unit


@pytest.mark.parametrize(("capability", "name"), [((8, 0), "sm_80"), ((9, 0), "sm_90a"), ((10, 0), "sm_100a")])
def test_architecture_is_named_as_tilelang_does(
    capability: tuple[int, int], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert cuda.arch_of(0) == name


def adding_program() -> object:
    import tilelang.language as T

    @T.prim_func
    def core_test_add(anchor: T.Tensor((1,), "uint8"), values: T.int64, count: T.int32, number: T.int32):
        with T.Kernel(T.ceildiv(count, 128), threads=128) as block:
            i = block * 128 + T.get_thread_binding()
            numbers = cuda.view(values, "int32")
            if i < count:
                numbers[i] = numbers[i] + number

    return core_test_add


@pytest.fixture
def gpu() -> torch.device:
    there = torch.cuda.is_available() and util.find_spec("tilelang") is not None
    skip_unless(there, "cuda", "no GPU, or no TileLang: pip install 'tilevl-core[kernels]'")
    return torch.device("cuda", torch.cuda.current_device())


def test_program_is_traced_once_by_eight_threads(gpu: torch.device) -> None:
    traced = []
    program = cuda.CudaProgram(OP, lambda: traced.append(1) or adding_program())
    values = [torch.arange(300, dtype=torch.int32, device=gpu) for _ in range(8)]
    torch.cuda.synchronize()
    barrier = threading.Barrier(8)

    def work(i: int) -> None:
        barrier.wait()
        program(values[i].get_device(), values[i].data_ptr(), 300, i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    assert len(traced) == 1
    assert all(torch.equal(v.cpu(), torch.arange(300, dtype=torch.int32) + i) for i, v in enumerate(values))


def test_first_call_inside_a_capture_says_to_warm_up(gpu: torch.device) -> None:
    program, values = cuda.CudaProgram(OP, adding_program), torch.zeros(8, dtype=torch.int32, device=gpu)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        with pytest.raises(RuntimeError, match=f"{OP}: the first call of its kind compiles .* before the capture"):
            program(values.get_device(), values.data_ptr(), 8, 1)
        values += 2
    graph.replay()
    assert values.tolist() == [2] * 8
    program(values.get_device(), values.data_ptr(), 8, 1)
    assert values.tolist() == [3] * 8


def test_constant_is_copied_once_and_not_inside_a_capture(gpu: torch.device) -> None:
    constant = cuda.DeviceConstant(OP, torch.arange(5))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), pytest.raises(RuntimeError, match="before the capture"):
        constant.on(gpu.index)
    copy = constant.on(gpu.index)
    assert copy.tolist() == [0, 1, 2, 3, 4] and constant.on(gpu.index) is copy


def test_another_device_than_the_current_one(gpu: torch.device) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    values = torch.zeros(8, dtype=torch.int32, device="cuda:1")
    cuda.CudaProgram(OP, adding_program)(1, values.data_ptr(), 8, 4)
    assert torch.cuda.current_device() == 0
    assert values.tolist() == [4] * 8


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_calls_recur_in_every_mode(gpu: torch.device, make_op: Callable[..., torch._ops.OpOverload], mode: Any) -> None:
    op = make_op(RECORDING_KERNEL, target="cuda")
    with mode():
        for call in (op, direct(op), op, direct(op)):
            x, row = torch.randn(3, 4, device=gpu), torch.randn(4, device=gpu)
            out = call(x, row, 2)
            kernels = sys.modules[f"{op.name().partition('::')[2]}.kernels.cuda"]
            assert kernels.launches[-1] == (x.data_ptr(), row.data_ptr(), out.data_ptr())
            assert out.shape == x.shape and out.is_inference() is torch.is_inference_mode_enabled()
    assert len(kernels.plans) == 2  # the first call's own, and the one that is kept
