"""Launching on NPUs as far as it goes without one: a stand-in for ``torch.npu`` notes what it is asked."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tilevl.core import ascend, cuda

OP = "an_op"


class Npu:
    """Two devices of 72 vector cores and 36 cube cores."""

    def __init__(self) -> None:
        self.current, self.capturing = 0, False

    def current_device(self) -> int:
        return self.current

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def get_device_properties(self, device: int) -> SimpleNamespace:
        return SimpleNamespace(vector_core_num=72, cube_core_num=36)

    @contextmanager
    def device(self, index: int) -> Iterator[None]:
        before, self.current = self.current, index
        yield
        self.current = before


class Compiler:
    """Notes what is compiled, and each launch with the device that was current."""

    def __init__(self, npu: Npu) -> None:
        self.npu = npu
        self.compiled: list[tuple[Any, int, dict[str, Any]]] = []
        self.launched: list[tuple[int, tuple[Any, ...]]] = []

    def __call__(self, program: Any, cores: int, pass_configs: dict[str, Any]) -> ascend.Launch:
        self.compiled.append((program, cores, pass_configs))
        return lambda *arguments: self.launched.append((self.npu.current, arguments))


@pytest.fixture
def npu(monkeypatch: pytest.MonkeyPatch) -> Npu:
    npu = Npu()
    monkeypatch.setattr(torch, "npu", npu, raising=False)
    return npu


@pytest.fixture
def compiler(npu: Npu) -> Iterator[Compiler]:
    compiler = Compiler(npu)
    before = ascend.set_compiler(compiler)
    yield compiler
    assert ascend.set_compiler(before) is compiler


def tensor_on(device: int) -> Any:
    return SimpleNamespace(get_device=lambda: device)


def test_a_program_compiles_once_for_each_device_and_launches_with_its_arguments(npu: Npu, compiler: Compiler) -> None:
    program = ascend.AscendProgram(OP, lambda cores: f"for {cores}", {"a": 1})
    first, second = tensor_on(0), tensor_on(1)
    for tensor in (first, second, first, second):
        program(tensor, 5, 2.5)
    assert compiler.compiled == [("for 72", 72, {"a": 1})] * 2
    assert compiler.launched == [(0, (first, 5, 2.5)), (1, (second, 5, 2.5))] * 2
    assert npu.current == 0


def test_eight_threads_first_calls_compile_once(compiler: Compiler) -> None:
    program, barrier = ascend.AscendProgram(OP, lambda cores: cores), threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        program(tensor_on(0))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(compiler.compiled) == 1 and len(compiler.launched) == 8


def test_programs_of_any_target_are_traced_and_compiled_one_at_a_time(
    npu: Npu, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of six threads one fails now and then: TileLang lowers a reduction for another target than it was asked for."""
    at_work, most, traced, start = [0], [0], [], threading.Barrier(9)

    def trace(cores: int = 0) -> int:
        at_work[0] += 1
        most[0] = max(most[0], at_work[0])
        time.sleep(0.02)
        at_work[0] -= 1
        traced.append(cores)
        return cores

    def call(program: Callable[..., None], device: Any) -> None:
        start.wait()
        program(device)

    monkeypatch.setattr(torch.cuda, "device", lambda index: nullcontext())
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 0, raising=False)
    for name in ("require_no_capture", "arch_of", "_kept"):
        monkeypatch.setattr(cuda, name, lambda *of: None)
    monkeypatch.setattr(cuda, "compiled", lambda *of: lambda *arguments: None)
    programs: list[tuple[Callable[..., None], Any]] = [
        (ascend.AscendProgram(OP, trace), tensor_on(0)) for _ in range(6)
    ]
    programs += [(cuda.CudaProgram(OP, trace), 0) for _ in range(3)]
    threads = [threading.Thread(target=call, args=program) for program in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(compiler.compiled) == 6 and sorted(traced) == [0] * 3 + [72] * 6 and most == [1]


@pytest.mark.parametrize(("limit", "cores"), [("1", 1), ("71", 71), ("72", 72), ("500", 72)])
def test_the_variable_bounds_the_cores(
    limit: str, cores: int, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = ascend.AscendProgram(OP, lambda cores: cores)
    program(tensor_on(0))
    monkeypatch.setenv(ascend.CORES_VARIABLE, limit)
    program(tensor_on(0))
    assert [made for made, _, _ in compiler.compiled] == [72, cores]


@pytest.mark.parametrize(("limit", "groups"), [("1", 1), ("2", 1), ("9", 4), ("72", 36), ("500", 36)])
def test_a_mixed_program_gets_groups_of_a_cube_core_and_two_vector_cores(
    limit: str, groups: int, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = ascend.AscendProgram(OP, lambda groups: groups, mixed=True)
    program(tensor_on(0))
    monkeypatch.setenv(ascend.CORES_VARIABLE, limit)
    program(tensor_on(0))
    assert [made for made, _, _ in compiler.compiled] == [36, groups]


@pytest.mark.parametrize("limit", ["0", "-3", "1.5", "all", ""])
def test_a_limit_that_is_no_number_of_cores_is_refused(
    limit: str, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ascend.CORES_VARIABLE, limit)
    with pytest.raises(ValueError, match=f"{ascend.CORES_VARIABLE} must be a positive number of cores, got {limit!r}"):
        ascend.AscendProgram(OP, lambda cores: cores)(tensor_on(0))
    assert compiler.compiled == []


def test_a_first_call_inside_a_capture_says_to_warm_up(npu: Npu, compiler: Compiler) -> None:
    program, npu.capturing = ascend.AscendProgram(OP, lambda cores: cores), True
    with pytest.raises(RuntimeError, match=f"{OP}: the first call of its kind compiles a kernel.* before the capture"):
        program(tensor_on(0))
    npu.capturing = False
    program(tensor_on(0))
    npu.capturing = True
    program(tensor_on(0))
    assert len(compiler.compiled) == 1 and len(compiler.launched) == 2


def test_a_compilation_that_fails_is_tried_again(compiler: Compiler) -> None:
    answers = iter([RuntimeError("no bisheng"), None])

    def trace(cores: int) -> int:
        error = next(answers)
        if error is not None:
            raise error
        return cores

    program = ascend.AscendProgram(OP, trace)
    with pytest.raises(RuntimeError, match="no bisheng"):
        program(tensor_on(0))
    program(tensor_on(0))
    assert len(compiler.launched) == 1


@pytest.mark.parametrize(("choice", "codegen"), [("auto", "ascend"), ("ascend", "ascend"), ("pto", "pto")])
def test_tilelang_is_asked_for_a_kernel_whose_outputs_pytorch_makes(
    choice: str, codegen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Any, dict[str, Any]]] = []
    fake = SimpleNamespace(compile=lambda program, **options: asked.append((program, options)) or "a kernel")
    monkeypatch.setitem(sys.modules, "tilelang", fake)
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", choice)
    assert ascend.compile_for_npu("a program", 72, {"a": 1}) == "a kernel"
    options = {"out_idx": None, "target": codegen, "execution_backend": "tvm_ffi", "pass_configs": {"a": 1}}
    assert asked == [("a program", options)]
