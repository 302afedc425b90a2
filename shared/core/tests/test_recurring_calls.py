"""Eager calls that recur, through the dispatcher and past it: nothing is lost where checks aren't repeated.

CPU tensors play CUDA's part: the kernels here take addresses, and move bytes with ``memmove``. What leaves their way
comes to a kernel that negates.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

from tilevl.core import checks, data_checks, devices, registration
from tilevl.core.registration import direct

MakeOp = Callable[..., torch._ops.OpOverload]
Way = Callable[[torch._ops.OpOverload], Callable[..., Any]]

STORE_KERNEL = """
from ctypes import memmove
from tilevl.core.plans import PlannedKernel

plans = []

def build(dtype):
    def plan(x, row, times):
        plans.append(times)
        rows, size = x.shape[0], row.numel() * row.element_size()
        def launch(x_at, row_at):
            for i in range(rows):
                memmove(x_at + i * size, row_at, size)
        return launch
    return PlannedKernel(plan)
"""
COPY_KERNEL = """
from ctypes import memmove
from tilevl.core.plans import PlannedKernel

plans = []

def build(dtype):
    def plan(x, row, times, out):
        plans.append(times)
        size = x.numel() * x.element_size()
        def launch(x_at, row_at, out_at):
            memmove(out_at, x_at, size)
        return launch
    return PlannedKernel(plan)
"""
CPU_KERNEL = """
def build(dtype):
    def kernel(x, row, times, out):
        out.copy_(-x)
    return kernel
"""
UNPLANNED_KERNEL = """
def build(dtype):
    def kernel(x, row, times, out):
        out.copy_(x + row * times)
    return kernel
"""


@pytest.fixture
def as_cuda(make_op: MakeOp, monkeypatch: pytest.MonkeyPatch) -> MakeOp:
    """Makes ops that take CPU tensors the way that CUDA tensors go, or to a kernel that negates."""
    monkeypatch.setattr(registration, "_plain_cuda", registration._plain_cpu)
    monkeypatch.setattr(devices, "_passed", {"cuda"})
    monkeypatch.delenv(data_checks.ENVIRONMENT_VARIABLE, raising=False)

    def make(kernel: str, **rules: Any) -> torch._ops.OpOverload:
        op = make_op(kernel, target="cuda", **rules)
        return make_op(CPU_KERNEL, name=op.name().partition("::")[2])  # the same op

    return make


@pytest.fixture(params=["through_the_dispatcher", "directly"])
def way(request: pytest.FixtureRequest) -> Way:
    """How an op is called."""
    return direct if request.param == "directly" else lambda op: op


def plans_of(op: torch._ops.OpOverload) -> list[int]:
    plans: list[int] = sys.modules[f"{op.name().partition('::')[2]}.kernels.cuda"].plans
    return plans


def test_calls_that_recur_launch_on_their_own_tensors_without_a_new_plan(as_cuda: MakeOp, way: Way) -> None:
    store, add = as_cuda(STORE_KERNEL, in_place=True), as_cuda(COPY_KERNEL)
    for turn in range(4):
        x, row = torch.randn(3, 4), torch.randn(4)
        result = way(add)(x, row, 2)
        assert torch.equal(result, x) and result.data_ptr() != x.data_ptr()
        assert way(store)(x, row, 2) is None
        assert torch.equal(x, row.expand(3, 4)), turn
    assert len(plans_of(store)) == len(plans_of(add)) == 2  # the first call's own, and the one that is kept
    way(store)(torch.randn(5, 4), row, 2)
    way(store)(x, row, 4)
    assert len(plans_of(store)) == 6


def test_a_kernel_without_a_plan_is_called_again(as_cuda: MakeOp, way: Way) -> None:
    call = way(as_cuda(UNPLANNED_KERNEL))
    for times in (2, 2, 4, 2):
        x, row = torch.randn(3, 4), torch.randn(4)
        assert torch.equal(call(x, row, times), x + row * times)


def test_a_direct_call_that_recurs_passes_the_dispatcher(as_cuda: MakeOp, monkeypatch: pytest.MonkeyPatch) -> None:
    op, x = as_cuda(COPY_KERNEL), torch.randn(2, 4)
    for rows in (2, 3):
        direct(op)(x[:rows], x[0], 2)
    monkeypatch.setattr(registration, "_plain_cuda", set())
    for rows in (2, 3, 2):
        assert torch.equal(direct(op)(x[:rows], x[1], 2), x[:rows])
    assert torch.equal(op(x, x[1], 2), -x)


def test_what_is_refused_is_refused_after_a_call_that_passed(as_cuda: MakeOp, way: Way) -> None:
    op, row = as_cuda(STORE_KERNEL, in_place=True), torch.ones(4)
    call = way(op)
    for _ in range(2):
        call(torch.zeros(2, 4), row, 2)
    x = torch.zeros(2, 4)
    for _ in range(2):
        with pytest.raises(ValueError, match="times must be even, got 3"):
            call(x, row, 3)
        with pytest.raises(RuntimeError, match="'float'"):
            call(x, row, 2.0)
        with pytest.raises(RuntimeError, match="'list'"):
            call(x, row, [2])
        with pytest.raises(TypeError, match="row must have the dtype of x"):
            call(x, row.double(), 2)
        with pytest.raises(ValueError, match=r"x must be \[T, D\]"):
            call(x[0], row, 2)
        with pytest.raises(RuntimeError, match="row requires grad"):
            call(x, row.clone().requires_grad_(), 2)
        with forward_ad.dual_level(), pytest.raises(RuntimeError, match="row carries a tangent"):
            call(x, forward_ad.make_dual(row, row), 2)
        with pytest.raises(RuntimeError, match="row carries a tangent"):
            torch.func.jvp(lambda given: call(x, given, 2), (row,), (row,))
    assert not x.any() and x._version == 0
    for version in (1, 2, 3):
        with torch.no_grad():
            call(x, row.clone().requires_grad_(), 2)
        assert x.all() and x._version == version
    with pytest.raises(RuntimeError, match="row requires grad"):
        call(x, row.clone().requires_grad_(), 2)


def test_each_call_bumps_the_version(as_cuda: MakeOp, way: Way) -> None:
    call, x = way(as_cuda(STORE_KERNEL, in_place=True)), torch.zeros(2, 4)
    modes = [torch.no_grad, torch.enable_grad, torch.inference_mode] * 2
    for version, mode in enumerate([*modes, *sorted(modes, key=id)], 1):
        with mode():
            call(x, torch.randn(4), 2)
        assert x._version == version


def test_memory_that_may_overlap_is_checked_each_time(as_cuda: MakeOp, way: Way) -> None:
    def check(x: Tensor, row: Tensor, times: int) -> None:
        checks.check_no_overlap("an_op", "x", x, row=row)

    op, storage = as_cuda(STORE_KERNEL, in_place=True, check=check), torch.zeros(5, 4)
    call, x = way(op), storage[1:3]
    for _ in range(2):
        call(x, torch.ones(4), 2)
        call(x, storage[0], 2)
        call(x, storage[3], 2)
        for row in (x[0], x[1]):
            with pytest.raises(ValueError, match="row must not overlap x"):
                call(x, row, 2)
    plans = len(plans_of(op))
    for _ in range(2):
        call(storage.view(5, 2, 2)[:, 0], storage[2, 2:], 2)  # interleaved
    assert plans + 3 == len(plans_of(op))


def test_data_is_checked_as_soon_as_the_variable_says_so(
    as_cuda: MakeOp, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, x, bad = way(as_cuda(COPY_KERNEL)), torch.ones(2, 4), torch.full((4,), float("nan"))
    for _ in range(2):
        for unchecked in ("", "0"):
            call(x, bad, 2)
            monkeypatch.setenv(data_checks.ENVIRONMENT_VARIABLE, unchecked)
            call(x, bad, 2)
        monkeypatch.setenv(data_checks.ENVIRONMENT_VARIABLE, "1")
        with pytest.raises(ValueError, match="row must be finite"):
            call(x, bad, 2)
        monkeypatch.setenv(data_checks.ENVIRONMENT_VARIABLE, "yes")
        with pytest.raises(ValueError, match="TILEVL_CHECK_DATA must be 0 or 1, got 'yes'"):
            call(x, bad, 2)
        monkeypatch.delenv(data_checks.ENVIRONMENT_VARIABLE)


@pytest.fixture
def recurring(as_cuda: MakeOp, way: Way) -> tuple[Callable[..., Any], torch._ops.OpOverload, tuple[Any, ...]]:
    """An op's call, the op, and arguments of a call that was made before."""
    op, args = as_cuda(COPY_KERNEL), (torch.randn(2, 4), torch.randn(4), 2)
    for _ in range(2):
        assert torch.equal(way(op)(*args), args[0])
    return way(op), op, args


Recurring = tuple[Callable[..., Any], torch._ops.OpOverload, tuple[Any, ...]]


def test_modes_see_calls_that_recur(recurring: Recurring) -> None:
    call, op, args = recurring
    functions = []

    class Dispatched(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            functions.append(func)
            return func(*args, **(kwargs or {}))

    class Called(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            functions.append(func)
            return func(*args, **(kwargs or {}))

    for mode in (Dispatched(), Called()):
        with mode:
            call(*args)
    assert functions.count(op) == 2
    assert torch.equal(call(*args), args[0])


def test_a_subclass_of_tensors_sees_calls_that_recur(recurring: Recurring) -> None:
    class Named(torch.Tensor):
        pass

    call, _, (x, row, times) = recurring
    for given, kind in (((x.as_subclass(Named), row), Named), ((x, row.as_subclass(Named)), Named), ((x, row), Tensor)):
        for _ in range(3):
            assert type(call(*given, times)) is kind


def test_fake_tensors_stay_fake(recurring: Recurring) -> None:
    call, _, (x, row, times) = recurring
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fakes = mode.from_tensor(x), mode.from_tensor(row)
        for given in ((x, row), fakes):
            assert isinstance(call(*given, times), FakeTensor)
    assert isinstance(call(*fakes, times), FakeTensor)


def test_transforms_see_calls_that_recur(recurring: Recurring) -> None:
    call, _, args = recurring
    x = torch.randn(3, 2, 4)
    for given in (x, args[0].expand(3, 2, 4)):
        assert torch.equal(torch.func.vmap(lambda one: call(one, *args[1:]))(given).abs(), given.abs())
    assert torch.equal(torch.func.functionalize(call)(*args).abs(), args[0].abs())
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(call(*args), args[0])
    assert torch.equal(call(*args), args[0])


def test_tracers_see_calls_that_recur(recurring: Recurring) -> None:
    call, op, (x, row, times) = recurring
    graphs = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    class Module(torch.nn.Module):
        def forward(self, x: Tensor, row: Tensor) -> Any:
            return call(x, row, times)

    assert torch.equal(torch.compile(Module(), fullgraph=True, backend=backend)(x, row), x)
    graphs.append(make_fx(Module())(x, row))
    graphs += [torch.export.export(Module(), (x, row), strict=strict).graph_module for strict in (False, True)]
    for graph in graphs:
        assert op in [node.target for node in graph.graph.nodes]
    assert len(graphs) == 4


def test_a_profiler_sees_calls_that_recur(recurring: Recurring) -> None:
    call, op, args = recurring
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True) as profile:
        call(*args)
    assert op.name() in [event.key for event in profile.key_averages()]


def test_threads_launch_on_their_own_tensors(as_cuda: MakeOp, way: Way) -> None:
    call = way(as_cuda(STORE_KERNEL, in_place=True))

    def work(number: int) -> bool:
        right = True
        for turn in range(200):
            x, row = torch.zeros(1 + (number + turn) % 3, 4), torch.full((4,), float(number))
            call(x, row, 2)
            right = right and bool((x == number).all())
        return right

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(1, 9)))
