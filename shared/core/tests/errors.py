"""What any op says when it can't be called so, or not here; shown by an op that has no kernels."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from tilevl.core import TargetUnavailableError, ascend, cuda, data_checks, registration, targets
from tilevl.testing import Refusal
from tilevl.testing.errors import ErrorTable, Rule

OP = "example_op"

RULES = [
    Rule(TypeError, "<tensor> must be a tensor, got None"),
    Rule(RuntimeError, "has no gradient, and <tensor> requires grad; call it under torch.no_grad()"),
    Rule(RuntimeError, "has no gradient, and <tensor> carries a tangent of forward-mode AD; pass its primal alone"),
    Rule(TargetUnavailableError, "target '<target>' can't run here; <number> failed:<checks, each with its remedy>"),
    Rule(ValueError, "TILELANG_DEFAULT_TARGET must be one of auto, ascend, pto, got '<text>'"),
    Rule(ValueError, "TILEVL_CHECK_DATA must be 0 or 1, got '<text>'"),
    Rule(ValueError, "TILEVL_NUM_VECTOR_CORES must be a positive number of cores, got '<text>'"),
    Rule(
        RuntimeError,
        "the first call of its kind compiles a kernel, which an ACL graph capture can't hold; call it once with the "
        "same kind of tensors before the capture",
    ),
    Rule(
        RuntimeError,
        "the first call of its kind compiles and loads a kernel, which a CUDA graph capture can't hold; call it once "
        "with the same kind of tensors before the capture",
    ),
]


PACKAGE = "tilevl.example_op"


def example_op(rows: Tensor | None) -> None:
    """An op whose package has no kernels, called."""
    call = registration.register(
        PACKAGE,
        f"{OP}(Tensor(a!) rows, Tensor index) -> ()",
        version="0",
        check=lambda rows, index: None,
        check_data=lambda rows, index: None,
        specialise=lambda rows, index: (),
    )
    with pytest.MonkeyPatch.context() as patch:
        for name in (PACKAGE, f"{PACKAGE}.kernels"):
            empty = ModuleType(name)
            empty.__path__ = []
            patch.setitem(sys.modules, name, empty)
        call(rows, torch.zeros(1))


def with_tangent() -> None:
    with forward_ad.dual_level():
        example_op(forward_ad.make_dual(torch.ones(2), torch.ones(2)))


def with_variable(name: str, value: str, call: Callable[[], Any]) -> Callable[[], None]:
    def attempt() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(name, value)
            npu = SimpleNamespace(get_device_properties=lambda device: SimpleNamespace(vector_core_num=72))
            patch.setattr(torch, "npu", npu, raising=False)
            call()

    return attempt


def in_a_capture(device: str, call: Callable[[str], None]) -> Callable[[], None]:
    def attempt() -> None:
        with pytest.MonkeyPatch.context() as patch:
            capturing = SimpleNamespace(is_current_stream_capturing=lambda: True)
            patch.setattr(torch, device, capturing, raising=False)
            call(OP)

    return attempt


def example(name: str, call: Callable[[], None], error: type[Exception]) -> Refusal:
    return Refusal(name, lambda g: (call,), error, "")


EXAMPLES = [
    example("none", lambda: example_op(None), TypeError),
    example("grad", lambda: example_op(torch.ones(2, requires_grad=True)), RuntimeError),
    example("tangent", with_tangent, RuntimeError),
    example("no_kernels", lambda: example_op(torch.ones(2)), TargetUnavailableError),
    example("target", with_variable(targets.ENVIRONMENT_VARIABLE, "gpu", lambda: targets.npu_target(OP)), ValueError),
    example(
        "check_data",
        with_variable(data_checks.ENVIRONMENT_VARIABLE, "yes", lambda: data_checks.enabled_on_devices(OP)),
        ValueError,
    ),
    example("cores", with_variable(ascend.CORES_VARIABLE, "many", lambda: ascend.vector_cores(OP, 0)), ValueError),
    example("acl_graph", in_a_capture("npu", ascend.require_no_capture), RuntimeError),
    example("cuda_graph", in_a_capture("cuda", cuda.require_no_capture), RuntimeError),
]

TABLES = [
    ErrorTable(
        OP,
        lambda call: call(),
        RULES,
        EXAMPLES,
        note="The second and third from calls in grad mode and in forward-mode AD, the others before a kernel is "
        "launched. `python -m tilevl.core.doctor` shows the checks and remedies at once.",
    )
]
