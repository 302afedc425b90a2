"""The suite that every op passes on every target: subclass it in ``tests/test_standard.py`` and name the op.

A test of it may be overridden only as an expected failure with a reason.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode

from tilevl.core import schemas
from tilevl.testing.bits import same_bits
from tilevl.testing.case import Case, Refusal
from tilevl.testing.graphs import capture, export_and_load, need_tracing, traces_below_dynamo
from tilevl.testing.guards import Guarded
from tilevl.testing.require import cpp_compiler, skip_unless

Args = tuple[Any, ...]

_CHECKS_WITHOUT_TRACING = ("test_schema", "test_autograd_registration", "test_faketensor")


class StandardSuite:
    """Values, storage, fakes, tracing, refusals, threads and capture of one op.

    Attributes:
        function: the public function.
        op: the overload, ``torch.ops.tilevl.<op>.default``.
        cases: calls that must work.
        refusals: calls that must be refused.
        oracle: called with the arguments as CPU tensors, returns the expected result, or for an in-place op the
            expected content of the written tensor. Shares no code with the op.
        compare: raises AssertionError where a result isn't the oracle's; the default asks for equal bits.
        series: draws the arguments of one call for a count; counts 2, 3, 4, 1 and 0 share graphs.
    """

    function: ClassVar[Callable[..., Tensor | None]]
    op: ClassVar[torch._ops.OpOverload]
    cases: ClassVar[Sequence[Case]]
    refusals: ClassVar[Sequence[Refusal]]
    oracle: ClassVar[Callable[..., Tensor]]
    series: ClassVar[Callable[[torch.Generator, int], Args]]

    @staticmethod
    def compare(result: Tensor, expected: Tensor) -> None:
        """Equal shape, dtype and bits."""
        assert result.dtype == expected.dtype and result.shape == expected.shape
        if not same_bits(result, expected):
            where = torch.nonzero((result.cpu() != expected).flatten()).flatten()
            raise AssertionError(
                f"{where.numel()} of {expected.numel()} elements differ, the first at {where[:1].tolist()}"
            )

    @property
    def written(self) -> tuple[int, ...]:
        """Positions of the arguments that the op writes, from its schema."""
        return schemas.written(self.op._schema)

    def outcome(self, call: Callable[..., Tensor | None], args: Args) -> Tensor:
        """What a call gives: its result, or for an in-place op the tensor it wrote."""
        result = call(*args)
        if self.written:
            assert result is None
            written: Tensor = args[self.written[0]]
            return written
        assert isinstance(result, Tensor)
        return result

    def test_result_is_the_oracle_s_and_nothing_else_is_touched(
        self, case: Case, target: str, device: torch.device, rng: torch.Generator
    ) -> None:
        guarded = _guarded(case, device, rng)
        expected = type(self).oracle(*_on_cpu(guarded.args))
        result = self.outcome(type(self).function, guarded.args)
        self.compare(result, expected)
        assert guarded.changed_bytes(self.written) == []
        if not self.written:
            assert result.is_contiguous() and result.storage_offset() == 0 and result.device.type == device.type

    def test_fake_has_the_metadata_of_the_real_result(
        self, case: Case, target: str, device: torch.device, rng: torch.Generator
    ) -> None:
        args = _guarded(case, device, rng).args
        with FakeTensorMode() as mode:
            fake = type(self).function(*(mode.from_tensor(a) if isinstance(a, Tensor) else a for a in args))
        real = type(self).function(*args)
        assert (fake is None) == (real is None)
        if fake is not None and real is not None:
            assert (fake.shape, fake.dtype, fake.stride(), fake.device, fake.storage_offset()) == (
                (real.shape, real.dtype, real.stride(), real.device, real.storage_offset())
            )

    def test_opcheck(self, checked_case: Case, target: str, device: torch.device, rng: torch.Generator) -> None:
        args = _guarded(checked_case, device, rng).args
        if traces_below_dynamo(device):
            torch.library.opcheck(self.op, args)
        else:
            torch.library.opcheck(self.op, args, test_utils=_CHECKS_WITHOUT_TRACING)

    @pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
    @pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
    def test_compiled_is_eager_also_on_new_storage(
        self,
        traced_case: Case,
        backend: str,
        dynamic: bool,
        target: str,
        device: torch.device,
        rng: torch.Generator,
    ) -> None:
        if backend == "inductor":
            skip_unless(cpp_compiler() is not None, "compiler", "inductor needs a C++ compiler, for example g++")
        need_tracing(device, backend)
        compiler = CompileCounterWithBackend(backend)
        compiled = torch.compile(type(self).function, fullgraph=True, backend=compiler, dynamic=dynamic)
        compiles = []
        for _ in range(2):
            guarded = _guarded(traced_case, device, rng)
            expected = type(self).oracle(*_on_cpu(guarded.args))
            self.compare(self.outcome(compiled, guarded.args), expected)
            assert guarded.changed_bytes(self.written) == []
            compiles.append(compiler.frame_count)
        assert compiles[1] == compiles[0]  # not 1: with dynamic=True torch starts again once it has seen a float

    def test_counts_share_graphs(self, target: str, device: torch.device, rng: torch.Generator) -> None:
        compiler = CompileCounterWithBackend("aot_eager" if traces_below_dynamo(device) else "eager")
        compiled = torch.compile(type(self).function, fullgraph=True, backend=compiler, dynamic=True)
        for count in (2, 3, 4, 1, 0, 7, 5):
            guarded = Guarded(type(self).series(rng, count), device, rng)
            expected = type(self).oracle(*_on_cpu(guarded.args))
            self.compare(self.outcome(compiled, guarded.args), expected)
        assert compiler.frame_count <= 3

    def test_exported_saved_and_loaded_is_eager(
        self, traced_case: Case, target: str, device: torch.device, rng: torch.Generator, tmp_path: Path
    ) -> None:
        need_tracing(device)
        loaded = export_and_load(type(self).function, _guarded(traced_case, device, rng).args, tmp_path)
        guarded = _guarded(traced_case, device, rng)
        expected = type(self).oracle(*_on_cpu(guarded.args))
        self.compare(self.outcome(loaded, guarded.args), expected)

    def test_refusal_names_the_rule_and_changes_nothing(
        self, refusal: Refusal, target: str, device: torch.device, rng: torch.Generator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TILEVL_CHECK_DATA", "1")
        guarded = Guarded(refusal.make(rng), device, rng)
        with pytest.raises(refusal.error) as caught:
            type(self).function(*guarded.args)
        assert type(caught.value) is refusal.error
        _check_text(self.op, refusal, str(caught.value))
        assert guarded.changed_bytes() == []

    def test_fake_and_export_refuse_like_the_real_call(
        self, metadata_refusal: Refusal, target: str, device: torch.device, rng: torch.Generator
    ) -> None:
        args = Guarded(metadata_refusal.make(rng), device, rng).args
        with pytest.raises(metadata_refusal.error) as real:
            type(self).function(*args)
        with FakeTensorMode() as mode, pytest.raises(metadata_refusal.error) as fake:
            type(self).function(*(mode.from_tensor(a) if isinstance(a, Tensor) else a for a in args))
        assert str(fake.value) == str(real.value)
        if not traces_below_dynamo(device):
            return
        with pytest.raises(metadata_refusal.error) as exported:
            export_and_load(type(self).function, args, None)
        assert str(exported.value) == str(real.value)

    @pytest.mark.targets("cuda", "ascend", "pto")
    def test_a_tensor_left_on_the_cpu_is_refused(
        self, case: Case, target: str, device: torch.device, rng: torch.Generator
    ) -> None:
        """Whatever its size, the first of them too: https://github.com/vllm-project/vllm/pull/43844."""
        args = _guarded(case, device, rng).args
        places = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]
        for i in places if len(places) > 1 else []:
            mixed = [arg.cpu() if place == i else arg for place, arg in enumerate(args)]
            with pytest.raises(TypeError, match=f"^{_name(self.op)}: .* must be on the device of "):
                type(self).function(*mixed)

    def test_what_is_no_tensor_is_refused(
        self, case: Case, target: str, device: torch.device, rng: torch.Generator
    ) -> None:
        args = _guarded(case, device, rng).args
        for i, arg in enumerate(args):
            if isinstance(arg, Tensor):
                for other in (None, 3.5, [arg]):
                    with pytest.raises((TypeError, RuntimeError), match=_name(self.op)):
                        type(self).function(*args[:i], other, *args[i + 1 :])

    @pytest.mark.targets("cuda")
    def test_another_device_than_the_current_one(
        self, case: Case, target: str, device: torch.device, rng: torch.Generator
    ) -> None:
        if torch.cuda.device_count() < 2:
            pytest.skip("needs two GPUs")
        for other in ("cuda:0", "cuda:1", "cuda:0"):  # nothing that the first call left on its device serves the second
            guarded = _guarded(case, torch.device(other), rng)
            expected = type(self).oracle(*_on_cpu(guarded.args))
            result = self.outcome(type(self).function, guarded.args)
            assert result.device == torch.device(other) and torch.cuda.current_device() == 0
            self.compare(result, expected)

    def test_compiled_refusal_holds_the_text(
        self, metadata_refusal: Refusal, target: str, device: torch.device, rng: torch.Generator
    ) -> None:
        args = Guarded(metadata_refusal.make(rng), device, rng).args
        with pytest.raises(metadata_refusal.error) as real:
            type(self).function(*args)
        with pytest.raises(Exception) as compiled:
            torch.compile(type(self).function, fullgraph=True, backend="eager")(*args)
        assert str(real.value) in str(compiled.value)

    def test_bad_data_passes_the_fake(
        self, data_refusal: Refusal, target: str, device: torch.device, rng: torch.Generator
    ) -> None:
        args = data_refusal.make(rng)
        with FakeTensorMode() as mode:
            type(self).function(*(mode.from_tensor(a) if isinstance(a, Tensor) else a for a in args))

    def test_grad_mode_with_an_input_that_requires_grad_is_refused(
        self, target: str, device: torch.device, rng: torch.Generator
    ) -> None:
        case = next(case for case in self.cases if case.traced)
        args = _guarded(case, device, rng).args
        floats = [i for i, arg in enumerate(args) if isinstance(arg, Tensor) and arg.is_floating_point()]
        for i in floats:
            tracked = [arg.clone() if isinstance(arg, Tensor) else arg for arg in args]
            tracked[i].requires_grad_()
            name = self.op._schema.arguments[i].name
            with pytest.raises(RuntimeError, match=f"{name} requires grad"):
                type(self).function(*tracked)
            with torch.no_grad():
                type(self).function(*tracked)
            with torch.inference_mode():
                type(self).function(*tracked)

    def test_a_written_tensor_saved_for_backward_is_caught(
        self, target: str, device: torch.device, rng: torch.Generator
    ) -> None:
        if not self.written:
            pytest.skip("the op writes no tensor in place")
        case = next(case for case in self.cases if case.traced)
        for mode in (torch.no_grad, torch.inference_mode):
            args = _guarded(case, device, rng).args
            written = args[self.written[0]]
            weight = torch.ones_like(written, requires_grad=True)
            loss = (weight * written).sum()
            version = written._version
            with mode():
                type(self).function(*args)
            assert written._version > version
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                loss.backward()

    def test_eight_threads_first_calls_agree(self, target: str, device: torch.device, rng: torch.Generator) -> None:
        case = next(case for case in self.cases if case.traced)
        calls = [_guarded(case, device, rng) for _ in range(8)]
        expected = [type(self).oracle(*_on_cpu(call.args)) for call in calls]
        barrier, results = threading.Barrier(8), [None] * 8

        def work(i: int) -> None:
            barrier.wait()
            results[i] = self.outcome(type(self).function, calls[i].args)  # type: ignore[call-overload]

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for result, right in zip(results, expected, strict=True):
            assert isinstance(result, Tensor)
            self.compare(result, right)

    @pytest.mark.targets("cuda")
    def test_captured_graph_replays_on_new_contents(
        self, traced_case: Case, target: str, device: torch.device, rng: torch.Generator
    ) -> None:
        guarded = _guarded(traced_case, device, rng)
        replay = capture(lambda: self.outcome(type(self).function, guarded.args))
        for _ in range(2):
            fresh = traced_case.make(rng)
            for old, new in zip(guarded.args, fresh, strict=True):
                if isinstance(old, Tensor):
                    old.copy_(new)
            expected = type(self).oracle(*_on_cpu(guarded.args))
            self.compare(replay(), expected)


def _guarded(case: Case, device: torch.device, rng: torch.Generator) -> Guarded:
    return Guarded(case.make(rng), device, rng)


def _on_cpu(args: Args) -> Args:
    return tuple(arg.detach().cpu().clone() if isinstance(arg, Tensor) else arg for arg in args)


def _name(op: torch._ops.OpOverload) -> str:
    return op._schema.name.partition("::")[2]


def _check_text(op: torch._ops.OpOverload, refusal: Refusal, text: str) -> None:
    assert text.startswith(f"{_name(op)}: "), text
    assert refusal.text in text, text
    if refusal.error is TypeError:
        assert "argument" not in text, text
