"""How the checks of torch_npu and of the NPU fail, with their remedies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilevl.core.environment import npu
from tilevl.core.environment.sight import Broken, TorchNpuSeen

from .conftest import Ask, folder
from .machine import Machine


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        (
            "ImportError: libhccl.so: cannot open",
            "libhccl.so belongs to CANN, and the loader doesn't find it: do what cann-root",
        ),
        ("ImportError: /x/libascend_hal.so: cannot open", "libascend_hal.so belongs to the Ascend driver: install it"),
        ("OSError: libtorch_cpu.so: cannot open", "libtorch_cpu.so belongs to torch: see torch-npu-version"),
        ("ImportError: /x/_C.so: undefined symbol: _ZN3c10", "torch_npu, torch and CANN don't fit together"),
        ("ModuleNotFoundError: No module named 'yaml'", "Run pip install --force-reinstall torch-npu"),
        ("AttributeError: module 'torch' has no attribute 'x'", "Run python -c 'import torch_npu' for the whole error"),
    ],
)
def test_torch_npu_import_gives_the_remedy_for_what_it_raised(machine: Machine, message: str, remedy: str) -> None:
    error, _, text = message.partition(": ")
    text = text.replace("cannot open", "cannot open shared object file: No such file or directory")
    machine.torch()
    machine.broken_torch_npu(f"raise {error}({text!r})")
    check = machine.diagnose("ascend")["by_name"]["torch-npu-import"]
    assert check["state"] == "failed"
    assert check["evidence"] == f"import torch_npu raises {error}: {text}"
    assert check["remedy"].startswith(remedy)


def test_torch_npu_import_says_which_script_to_source_where_cann_is_there(
    ask: Ask, tmp_path: Path, monkeypatch
) -> None:
    (folder(tmp_path / "usual" / "cann") / "set_env.sh").touch()
    monkeypatch.setattr("tilevl.core.environment.sight.importable", lambda module: True)
    broken = Broken("RuntimeError: x", "ImportError: libhccl.so: ...", missing_library="libhccl.so")
    check = ask(npu.torch_npu_import, torch_npu=TorchNpuSeen(broken=broken))
    assert check.evidence == "import torch_npu raises ImportError: libhccl.so: ..."
    assert check.remedy.endswith(f"source {tmp_path / 'usual' / 'cann' / 'set_env.sh'} in the shell that starts Python")


def test_npu_visible_fails_without_a_device(ask: Ask, tmp_path: Path) -> None:
    check = ask(npu.visible)
    assert (check.state, check.evidence) == ("failed", f"no NPU: {tmp_path / 'dev'} has no davinci device")
    assert "npu-smi info" in check.remedy
    assert "--device /dev/davinci0" in check.remedy


def test_npu_visible_does_not_take_the_manager_for_a_device(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "dev" / "davinci_manager").touch()
    assert ask(npu.visible).state == "failed"


def test_npu_visible_warns_where_a_device_is_there_but_torch_npu_is_not(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "dev" / "davinci0").touch()
    check = ask(npu.visible)
    assert check.state == "warning"
    assert check.evidence.endswith("has davinci0; torch_npu can't be asked yet")
    assert "torch-npu-installed" in check.remedy


def test_npu_visible_points_at_the_variable_that_hides_the_npus(ask: Ask, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "dev" / "davinci0").touch()
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "7")
    check = ask(npu.visible, torch_npu=TorchNpuSeen("2.13.0"))
    assert check.state == "failed"
    assert "ASCEND_RT_VISIBLE_DEVICES='7'" in check.evidence
    assert check.remedy.startswith("Unset ASCEND_RT_VISIBLE_DEVICES")


@pytest.mark.parametrize(
    ("error", "evidence"),
    [("", "but torch_npu sees none"), ("RuntimeError: drvErr=87", "and torch_npu says RuntimeError: drvErr=87")],
)
def test_npu_visible_sends_to_the_driver_where_torch_npu_sees_no_device(
    ask: Ask, tmp_path: Path, error: str, evidence: str
) -> None:
    (tmp_path / "dev" / "davinci3").touch()
    check = ask(npu.visible, torch_npu=TorchNpuSeen("2.13.0", device_error=error))
    assert check.state == "failed"
    assert check.evidence.endswith(evidence)
    assert check.remedy.startswith("Run npu-smi info")


@pytest.mark.parametrize("device", ["Ascend910B3", "Ascend310P3", "Ascend910_9392", "Ascend95"])
def test_npu_soc_refuses_other_npus(ask: Ask, device: str) -> None:
    check = ask(npu.soc, torch_npu=TorchNpuSeen("2.13.0", 1, device))
    assert (check.state, check.evidence) == ("failed", f"{device} is not supported")
    assert check.remedy == "The kernels are for Ascend 950PR and 950DT (dav-3510): use such an NPU, or the CPU"


@pytest.mark.parametrize("device", ["Ascend950PR_9589", "Ascend950DT_9582", "Ascend910_9589", "Ascend910_95A3"])
def test_npu_soc_accepts_the_950_by_its_new_and_old_names(ask: Ask, device: str) -> None:
    assert ask(npu.soc, torch_npu=TorchNpuSeen("2.13.0", 1, device)).state == "ok"


def test_npu_soc_refuses_an_architecture_for_another_npu(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_NPU_ARCH", "dav-2201")
    check = ask(npu.soc, torch_npu=TorchNpuSeen("2.13.0", 1, "Ascend950PR_9589"))
    assert check.state == "failed"
    assert "ASCEND_NPU_ARCH=dav-2201" in check.evidence
    assert check.remedy == "Unset ASCEND_NPU_ARCH"
