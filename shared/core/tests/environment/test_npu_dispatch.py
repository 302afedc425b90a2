"""Target selection through the dispatcher: calls with a PrivateUse1 tensor of torch's Python backend for that key."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from .machine import PRELUDE, Machine

OP = '''
    """An op that says which of its kernels ran."""

    from tilevl.core.registration import register

    RAN = []
    OP = register(
        "tilevl.echo",
        "echo(Tensor(a!) x) -> ()",
        version="1.0.0",
        check=lambda x: None,
        check_data=lambda x: None,
        specialise=lambda x: (),
    )
'''
KERNEL = """
    import os
    from tilevl.echo import RAN
    from tilevl.core.targets import npu_target

    def build():
        return lambda x: RAN.append("cpu" if x.device.type == "cpu" else npu_target())
"""
CALL = """
    import json, sys
    import torch
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    _setup_privateuseone_for_python_backend("npu")
    from tilevl.core.environment import gate
    from tilevl.core.errors import TargetUnavailableError
    from tilevl.echo import OP, RAN

    def call(x):
        try:
            OP(x)
        except (TargetUnavailableError, ValueError) as error:
            return {"error": type(error).__name__, "text": str(error), "cause": repr(error.__cause__)}
        return {"ran": RAN.pop() if RAN else None}

    def npu():
        return torch._C._acc.create_empty_tensor((4, 2), torch.float32)

    def verdicts():
        return sorted(gate._passed | gate._failed.keys())
"""


class Npu:
    """Real torch with an op of this test, and a faked torch_npu, TileLang and CANN."""

    def __init__(self, folder: Path) -> None:
        self.machine = Machine(folder)
        self.machine.module("tilevl.echo.__init__", OP)
        self.machine.module("tilevl.echo.kernels.__init__", "")
        for target in ("cpu", "ascend"):
            self.machine.module(f"tilevl.echo.kernels.{target}", KERNEL)
        self.machine.distribution("tilevl-echo", "1.0.0", requires=["tilevl-core>=0.1"])

    def complete(self, *codegens: str) -> None:
        self.machine.torch_npu(real_torch_release())
        self.machine.cann()
        self.machine.tilelang(codegens=codegens or ("ascend",))

    def run(self, code: str, **environ: str) -> list[Any]:
        """Runs code that prints JSON lines in a Python with the real site-packages behind the faked ones."""
        full = {**self.machine.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", **environ}
        code = "".join(map(textwrap.dedent, (PRELUDE, CALL, code)))
        done = subprocess.run([sys.executable, "-c", code], env=full, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]


def real_torch_release() -> str:
    from importlib.metadata import version

    return version("torch").partition("+")[0]


@pytest.fixture
def npu(tmp_path: Path) -> Npu:
    """An op, and as yet no NPU."""
    return Npu(tmp_path)


def test_the_variable_chooses_the_target_of_an_npu_tensor(npu: Npu) -> None:
    npu.complete("ascend", "pto")
    npu.machine.tool("ptoas")
    code = """
        import os

        print(json.dumps(call(npu())))
        for setting in ("auto", "ascend", "pto"):
            os.environ["TILELANG_DEFAULT_TARGET"] = setting
            print(json.dumps(call(npu())))
    """
    assert npu.run(code) == [{"ran": "ascend"}, {"ran": "ascend"}, {"ran": "ascend"}, {"ran": "pto"}]


@pytest.mark.parametrize("setting", ["ascend", "pto"])
def test_only_the_target_that_is_called_is_checked(npu: Npu, setting: str) -> None:
    npu.complete("ascend", "pto")
    npu.machine.tool("ptoas")
    code = "print(json.dumps([call(npu()), verdicts()]))"
    assert npu.run(code, TILELANG_DEFAULT_TARGET=setting) == [[{"ran": setting}, [setting]]]


def test_a_bad_value_raises_with_the_valid_ones_and_only_for_npu_tensors(npu: Npu) -> None:
    npu.complete()
    code = "print(json.dumps([call(npu()), call(torch.ones(2)), verdicts()]))"
    ((on_npu, on_cpu, verdicts),) = npu.run(code, TILELANG_DEFAULT_TARGET="cuda")
    assert on_npu["error"] == "ValueError"
    assert "TILELANG_DEFAULT_TARGET must be one of auto, ascend, pto, got 'cuda'" in on_npu["text"]
    assert on_cpu == {"ran": "cpu"}
    assert verdicts == []


def test_pto_without_its_codegen_is_an_error_by_name_and_never_becomes_ascend(npu: Npu) -> None:
    npu.complete()
    ((outcome, ran),) = npu.run("print(json.dumps([call(npu()), RAN]))", TILELANG_DEFAULT_TARGET="pto")
    assert outcome["error"] == "TargetUnavailableError"
    assert "pto-codegen: TileLang's registry has no code generator 'pto', only ascend" in outcome["text"]
    assert ran == []


def test_an_npu_tensor_without_torch_npu_is_an_error_with_every_remedy(npu: Npu) -> None:
    ((outcome, ran),) = npu.run("print(json.dumps([call(npu()), RAN]))")
    assert outcome["error"] == "TargetUnavailableError"
    for name in ("npu-visible", "cann-root", "torch-npu-installed", "bisheng", "ld-lld", "tilelang"):
        assert f"- {name}: " in outcome["text"]
    assert ran == []


@pytest.mark.parametrize("error", ["ImportError", "OSError", "RuntimeError", "AttributeError"])
def test_with_a_broken_torch_npu_the_cpu_path_works_and_the_npu_error_has_the_cause(npu: Npu, error: str) -> None:
    npu.machine.broken_torch_npu(f"raise {error}('broken on purpose')", real_torch_release())
    code = "print(json.dumps([call(torch.ones(2)), 'torch_npu' in sys.modules, call(npu())]))"
    ((on_cpu, imported, on_npu),) = npu.run(code)
    assert on_cpu == {"ran": "cpu"}
    assert not imported
    assert on_npu["error"] == "TargetUnavailableError"
    assert on_npu["cause"] == f"{error}('broken on purpose')"
    assert f"import torch_npu raises {error}: broken on purpose" in on_npu["text"]


def test_meta_fake_and_cpu_tensors_trigger_no_check(npu: Npu) -> None:
    code = """
        from torch._subclasses.fake_tensor import FakeTensorMode

        outcomes = [call(torch.ones(2)), call(torch.ones(2, device="meta"))]
        with FakeTensorMode():
            outcomes += [call(torch.ones(2)), call(torch.ones(2, device="cuda"))]
        loaded = sorted({"torch_npu", "tilelang"} & sys.modules.keys())
        print(json.dumps([outcomes, verdicts(), loaded]))
    """
    ((outcomes, verdicts, loaded),) = npu.run(code)
    assert outcomes == [{"ran": "cpu"}, {"ran": None}, {"ran": None}, {"ran": None}]
    assert verdicts == []
    assert loaded == []


def test_a_fake_npu_tensor_triggers_no_check(npu: Npu) -> None:
    code = """
        from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

        with FakeTensorMode() as mode:
            fake = FakeTensor(mode, torch.empty(4, 2, device="meta"), torch.device("npu", 0))
            print(json.dumps([str(fake.device), call(fake), verdicts()]))
    """
    assert npu.run(code) == [["npu:0", {"ran": None}, []]]


def test_the_first_call_checks_and_later_calls_do_not(npu: Npu) -> None:
    npu.complete()
    code = """
        asked, real = [], gate.checks_for
        gate.checks_for = lambda *arguments: asked.append(arguments[0]) or real(*arguments)
        print(json.dumps([[call(npu()) for _ in range(4)], asked]))
    """
    assert npu.run(code) == [[[{"ran": "ascend"}] * 4, ["ascend"]]]


def test_an_npu_call_sends_tilelang_to_the_kernel_folder_and_a_cpu_call_makes_none(npu: Npu) -> None:
    npu.complete()
    code = """
        import os

        for x in (torch.ones(2), npu()):
            call(x)
            print(json.dumps([os.environ.get("TILELANG_CACHE_DIR"), os.path.isdir(os.environ["TILEVL_CACHE_DIR"])]))
    """
    folder = str(npu.machine.home / "kernels")
    assert npu.run(code, TILEVL_CACHE_DIR=folder) == [[None, False], [folder, True]]
