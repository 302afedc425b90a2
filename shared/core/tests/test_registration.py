"""What one call to ``register`` gives, tried on small ops made on the spot."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from tilevl.core import TargetUnavailableError, schemas, targets

ADD_KERNEL = """
def build(dtype):
    def kernel(x, row, times, out):
        out.copy_(x + row * times)
    return kernel
"""
STORE_KERNEL = """
def build(dtype):
    def kernel(x, row, times):
        x.copy_(row * times)
    return kernel
"""


MakeOp = Callable[..., torch._ops.OpOverload]


def test_result_and_defaults(make_op: MakeOp) -> None:
    op = make_op(ADD_KERNEL)
    x, row = torch.randn(3, 4), torch.randn(4)
    assert torch.equal(op(x, row), x + row * 2)
    assert torch.equal(op(x, row, 4), x + row * 4)
    assert torch.equal(op(row=row, times=6, x=x), x + row * 6)
    torch.library.opcheck(op, (x, row, 4))


def test_defaults_of_a_schema_are_what_a_caller_would_write() -> None:
    schema = torch._C.parse_schema(
        "f(Tensor(a!) x, int n=3, ScalarType d=bfloat16, ScalarType e=float, float[3] m=[0.5, 0.5, 0.5], "
        "int? k=None) -> ()"
    )
    assert schemas.defaults(schema) == (None, 3, torch.bfloat16, torch.float32, [0.5, 0.5, 0.5], None)
    assert (schemas.tensors(schema), schemas.written(schema)) == ((0,), (0,))


def test_a_kernel_is_imported_on_first_use_and_never_for_an_empty_result(make_op: MakeOp) -> None:
    op = make_op("raise RuntimeError('imported')")
    assert op(torch.empty(0, 4), torch.ones(4)).shape == (0, 4)
    with pytest.raises(RuntimeError, match="imported"):
        op(torch.empty(1, 4), torch.ones(4))


def test_checks_run_before_the_kernel_and_data_after_metadata(make_op: MakeOp) -> None:
    op = make_op(STORE_KERNEL, in_place=True)
    x = torch.ones(2, 4)
    with pytest.raises(ValueError, match="times must be even, got 3"):
        op(x, torch.full((4,), float("nan")), 3)
    with pytest.raises(ValueError, match="row must be finite"):
        op(x, torch.full((4,), float("nan")), 2)
    with pytest.raises(TypeError, match="row must have the dtype of x, float32, got float64"):
        op(x, torch.ones(4).double())
    assert (x == 1).all()
    with torch._subclasses.fake_tensor.FakeTensorMode() as mode, pytest.raises(ValueError, match="must be even, got 3"):
        op(mode.from_tensor(x), mode.from_tensor(torch.ones(4)), 3)


@pytest.mark.parametrize("position", [0, 1])
def test_an_input_that_requires_grad_is_refused_in_grad_mode_only(make_op: MakeOp, position: int) -> None:
    op = make_op(ADD_KERNEL)
    args = [torch.randn(3, 4), torch.randn(4)]
    args[position].requires_grad_()
    name = ("x", "row")[position]
    with pytest.raises(RuntimeError, match=rf"has no gradient, and {name} requires grad; call it under torch.no_grad"):
        op(*args)
    with pytest.raises(Exception, match=f"{name} requires grad"):
        torch.compile(lambda *given: op(*given), fullgraph=True, backend="aot_eager")(*args)
    with torch.no_grad():
        assert not op(*args).requires_grad
    with torch.inference_mode():
        assert op(*args).is_inference()


@pytest.mark.parametrize("in_place", [False, True], ids=["result", "in_place"])
@pytest.mark.parametrize("position", [0, 1])
def test_an_input_with_a_forward_mode_tangent_is_refused(make_op: MakeOp, position: int, in_place: bool) -> None:
    op = make_op(STORE_KERNEL if in_place else ADD_KERNEL, in_place=in_place)
    inputs = [torch.randn(3, 4), torch.randn(4)]
    name = ("x", "row")[position]

    def of_one(value: Tensor) -> Tensor:
        args = [*inputs]
        args[position] = value.clone()
        result = op(*args)
        return args[0] if in_place else result

    with pytest.raises(RuntimeError, match=f"has no gradient, and {name} carries a tangent of forward-mode AD"):
        torch.func.jvp(of_one, (inputs[position],), (torch.ones_like(inputs[position]),))
    with forward_ad.dual_level():
        with pytest.raises(RuntimeError, match=f"{name} carries a tangent"):
            of_one(forward_ad.make_dual(inputs[position], torch.ones_like(inputs[position])))
        assert of_one(inputs[position]).shape == (3, 4)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_a_write_bumps_the_version_so_that_a_saved_tensor_is_caught(make_op: MakeOp, mode: Any) -> None:
    op = make_op(STORE_KERNEL, in_place=True)
    x, weight = torch.randn(2, 4), torch.randn(2, 4, requires_grad=True)
    loss = (weight * x).sum()
    before = x._version
    with mode():
        op(x, torch.randn(4))
    assert x._version > before
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_a_refused_write_leaves_the_version_as_it_was(make_op: MakeOp, mode: Any) -> None:
    op = make_op(STORE_KERNEL, in_place=True)
    x, weight = torch.randn(2, 4), torch.randn(2, 4, requires_grad=True)
    loss = (weight * x).sum()
    with mode(), pytest.raises(ValueError, match="must be even"):
        op(x, torch.randn(4), 3)
    with mode(), pytest.raises(ValueError, match="row must be finite"):
        op(x, torch.full((4,), float("inf")))
    loss.backward()
    assert torch.equal(weight.grad, x)


def test_an_inference_tensor_is_written_in_inference_mode(make_op: MakeOp) -> None:
    op = make_op(STORE_KERNEL, in_place=True)
    row = torch.randn(4)
    with torch.inference_mode():
        x = torch.zeros(2, 4)
        op(x, row)
        assert torch.equal(x, (row * 2).expand(2, 4))


def test_modes_still_see_the_call(make_op: MakeOp) -> None:
    op = make_op(ADD_KERNEL)
    seen = []

    class Recorder(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Recorder():
        op(torch.ones(2, 4), torch.ones(4))
    assert op in seen


def test_the_same_version_registers_again_and_another_is_refused(make_op: MakeOp) -> None:
    op = make_op(ADD_KERNEL, name="probe_twice")
    assert make_op(ADD_KERNEL, name="probe_twice") is op
    with pytest.raises(RuntimeError, match=r"probe_twice 1.0 is registered in this process, so probe_twice 1.1 can"):
        make_op(ADD_KERNEL, name="probe_twice", version="1.1")


def test_a_name_that_a_stranger_took_is_refused(make_op: MakeOp) -> None:
    stranger = torch.library.Library("tilevl", "FRAGMENT")
    stranger.define("probe_taken(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="probe_taken: tilevl::probe_taken can't be defined, is it taken"):
        make_op(ADD_KERNEL, name="probe_taken")


def test_a_target_without_kernels_says_which_there_are(make_op: MakeOp) -> None:
    op = make_op("raise RuntimeError('never imported')", target="cuda")
    with pytest.raises(TargetUnavailableError, match="has kernels for cuda, none for cpu") as caught:
        op(torch.ones(2, 4), torch.ones(4))
    assert (caught.value.target, len(caught.value.failures)) == ("cpu", 1)


def test_pto_uses_the_builders_of_ascend() -> None:
    assert targets.kernel_module("tilevl.x", "pto") == targets.kernel_module("tilevl.x", "ascend")


@pytest.mark.parametrize(
    ("value", "expected"), [(None, "ascend"), ("auto", "ascend"), ("ascend", "ascend"), ("pto", "pto")]
)
def test_npu_target_by_the_variable(value: str | None, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(targets.ENVIRONMENT_VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(targets.ENVIRONMENT_VARIABLE, value)
    assert targets.npu_target() == expected


@pytest.mark.parametrize("value", ["", "cuda", "Ascend", "npu"])
def test_npu_target_refuses_other_values(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(targets.ENVIRONMENT_VARIABLE, value)
    with pytest.raises(ValueError, match=f"TILELANG_DEFAULT_TARGET must be one of auto, ascend, pto, got '{value}'"):
        targets.npu_target()


def test_the_variable_never_redirects_a_cpu_tensor(make_op: MakeOp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(targets.ENVIRONMENT_VARIABLE, "nonsense")
    assert make_op(ADD_KERNEL)(torch.ones(2, 4), torch.ones(4)).sum() == 24


def test_an_error_survives_pickling(make_op: MakeOp) -> None:
    import pickle

    from tilevl.core.devices import MissingKernel

    error = TargetUnavailableError("op", "cuda", [MissingKernel("none there", "Install one")])
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error) and copy.failures == error.failures
    assert "kernel: none there. Install one" in str(error)


def test_importing_the_core_loads_no_torch() -> None:
    import subprocess

    code = "import sys, tilevl.core, tilevl.core.targets, tilevl.core.errors; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
