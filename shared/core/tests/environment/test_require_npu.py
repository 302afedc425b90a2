"""The gate of NPU calls: what it raises, that it checks once, and that threads wait for one verdict."""

from __future__ import annotations

import json
import textwrap
from typing import Any

import pytest

from .machine import Machine

REPORT = """
    import json

    def outcome(target="ascend", op="tilevl.rope"):
        from tilevl.core.environment import require_npu
        from tilevl.core.errors import TargetUnavailableError

        try:
            require_npu(op, target)
        except TargetUnavailableError as error:
            cause = error.__cause__
            return {
                "message": str(error),
                "failed": [failure.name for failure in error.failures],
                "remedies": [failure.remedy for failure in error.failures],
                "cause": f"{type(cause).__name__}: {cause}" if cause else None,
            }
        return "passed"
"""


def python(machine: Machine, code: str, **environ: str) -> list[Any]:
    """Runs code that prints JSON lines, after the definition of ``outcome``."""
    done = machine.run(textwrap.dedent(REPORT) + textwrap.dedent(code), **environ)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_an_environment_that_has_everything_passes(machine: Machine) -> None:
    machine.npu("ascend", "pto")
    machine.tool("ptoas")
    assert python(machine, "print(json.dumps([outcome(), outcome('pto')]))") == [["passed", "passed"]]


def test_all_failed_checks_are_listed_with_their_remedies(machine: Machine) -> None:
    machine.torch()
    (error,) = python(machine, "print(json.dumps(outcome()))")
    assert error["failed"] == ["npu-visible", "cann-root", "torch-npu-installed", "bisheng", "ld-lld", "tilelang"]
    assert error["message"].startswith("tilevl.rope: target 'ascend' can't run here; 6 failed:\n")
    for name, remedy in zip(error["failed"], error["remedies"], strict=True):
        assert f"  - {name}: " in error["message"]
        assert remedy in error["message"]


def test_pto_needs_what_ascend_needs_and_its_own_codegen_and_assembler(machine: Machine) -> None:
    machine.npu()
    ascend, pto = python(machine, "print(json.dumps(outcome())); print(json.dumps(outcome('pto')))")
    assert ascend == "passed"
    assert pto["failed"] == ["pto-codegen", "pto-assembler"]


@pytest.mark.parametrize(
    "error",
    [
        "ImportError: libhccl.so: cannot open shared object file: No such file or directory",
        "OSError: libascendcl.so: cannot open shared object file: No such file or directory",
        "RuntimeError: driver version mismatch",
        "AttributeError: module 'torch' has no attribute '_npu'",
    ],
)
def test_the_error_of_the_import_of_torch_npu_is_the_cause(machine: Machine, error: str) -> None:
    kind, _, text = error.partition(": ")
    machine.npu()
    (machine.site / "torch_npu" / "__init__.py").write_text(f"raise {kind}({text!r})")
    (raised,) = python(machine, "print(json.dumps(outcome()))", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert raised["cause"] == error
    assert raised["failed"] == ["npu-visible", "torch-npu-import"]


def test_the_checks_run_once_and_a_pass_is_kept(machine: Machine) -> None:
    machine.npu()
    code = """
        from tilevl.core.environment import gate
        asked, real = [], gate.checks_for
        gate.checks_for = lambda *arguments: asked.append(arguments[0]) or real(*arguments)
        print(json.dumps([outcome() for _ in range(3)] + [outcome(op="tilevl.other")]))
        print(json.dumps(asked))
    """
    assert python(machine, code) == [["passed"] * 4, ["ascend"]]


def test_a_failure_is_kept_too_and_raised_anew_with_the_name_of_the_op(machine: Machine) -> None:
    machine.torch()
    code = """
        from tilevl.core.environment import gate
        asked, real = [], gate.checks_for
        gate.checks_for = lambda *arguments: asked.append(arguments[0]) or real(*arguments)
        print(json.dumps(outcome()))
        print(json.dumps(outcome(op="tilevl.other")))
        print(json.dumps(asked))
    """
    first, second, asked = python(machine, code)
    assert asked == ["ascend"]
    assert first["failed"] == second["failed"]
    assert second["message"].startswith("tilevl.other: target 'ascend' can't run here")


def test_threads_that_call_at_once_wait_for_one_verdict(machine: Machine) -> None:
    machine.npu()
    code = """
        import threading, time
        from tilevl.core.environment import gate
        asked, real, outcomes = [], gate.checks_for, []

        def slow(*arguments):
            asked.append(arguments[0])
            time.sleep(0.2)
            return real(*arguments)

        gate.checks_for = slow
        start = threading.Barrier(8)

        def call():
            start.wait()
            outcomes.append(outcome())

        threads = [threading.Thread(target=call) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(json.dumps(outcomes))
        print(json.dumps(asked))
    """
    assert python(machine, code) == [["passed"] * 8, ["ascend"]]


def test_warnings_do_not_stop_a_call(machine: Machine) -> None:
    machine.npu()
    (machine.home / "file").touch()
    code = "import warnings; warnings.simplefilter('ignore'); print(json.dumps(outcome()))"
    assert python(machine, code, TILEVL_CACHE_DIR=str(machine.home / "file")) == ["passed"]


def test_tilelang_gets_a_cache_folder_that_can_be_written_before_it_is_imported(machine: Machine) -> None:
    machine.npu()
    init = machine.site / "tilelang" / "__init__.py"
    init.write_text("import os; os.makedirs(os.environ['TILELANG_CACHE_DIR'], exist_ok=True)\n" + init.read_text())
    (machine.home / "file").touch()
    code = "import warnings; warnings.simplefilter('ignore'); print(json.dumps(outcome()))"
    assert python(machine, code, TILELANG_CACHE_DIR=str(machine.home / "file")) == ["passed"]


def test_can_run_gives_the_failed_checks_and_leaves_tilelang_alone_where_others_fail(machine: Machine) -> None:
    machine.torch()
    machine.tilelang(codegens=["cuda"])
    code = """
        import sys
        from tilevl.core.environment import can_run
        for target in ("cpu", "cuda", "ascend"):
            print(json.dumps([check.name for check in can_run(target)]))
        print(json.dumps("tilelang" in sys.modules))
    """
    cpu, cuda, ascend, imported = python(machine, code)
    assert cpu == []
    assert cuda == ["gpu", "nvcc"]
    assert ascend == ["npu-visible", "cann-root", "torch-npu-installed", "bisheng", "ld-lld"]
    assert imported is False


def test_can_run_asks_tilelang_where_all_else_passes(machine: Machine) -> None:
    machine.npu("cuda")
    code = "from tilevl.core.environment import can_run; print(json.dumps([c.name for c in can_run('ascend')]))"
    assert python(machine, code) == [["ascend-codegen"]]


@pytest.mark.parametrize("function", ["can_run", "checks_for"])
def test_an_unknown_target_is_refused_with_the_valid_ones(machine: Machine, function: str) -> None:
    code = f"""
        from tilevl.core import environment
        try:
            environment.{function}("tpu")
        except ValueError as error:
            print(json.dumps(str(error)))
    """
    message = "environment: target must be one of cpu, cuda, ascend, pto, got 'tpu'"
    assert python(machine, code) == [message]
