"""A machine of faked modules, and a way to ask one check on a machine that has nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilevl.core.environment import cann, gpu, npu
from tilevl.core.environment.check import Check, Scene
from tilevl.core.environment.sight import Broken, TileLangSeen, TorchNpuSeen, TorchSeen

from .machine import Machine

VARIABLES = (
    *("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH", "ASCEND_NPU_ARCH", "ASCEND_RT_VISIBLE_DEVICES"),
    *("BISHENG_HOME", "PTOAS_ROOT", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH"),
    *("TILELANG_DEFAULT_TARGET", "TILEVL_CACHE_DIR", "TILELANG_CACHE_DIR", "XDG_CACHE_HOME"),
)


class Seen:
    """What the imports would show: a torch for the CPU, and nothing else."""

    def __init__(self, **seen: Any) -> None:
        self.seen = {
            "torch": TorchSeen("2.13.0+cpu"),
            "torch_npu": TorchNpuSeen(broken=Broken("ImportError: no")),
            "tilelang": TileLangSeen(broken=Broken("ImportError: no")),
        } | seen

    def torch(self) -> TorchSeen:
        return self.seen["torch"]

    def torch_npu(self) -> TorchNpuSeen:
        return self.seen["torch_npu"]

    def tilelang(self) -> TileLangSeen:
        return self.seen["tilelang"]


Ask = Callable[..., Check]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine on which nothing but tilevl-core is installed."""
    return Machine(tmp_path)


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Asks one check on a machine that has nothing: no variables, no programs, no devices."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    for place in ("bin", "dev", "home"):
        (tmp_path / place).mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(npu, "DEVICE_FOLDER", tmp_path / "dev")
    monkeypatch.setattr(cann, "USUAL_ROOTS", (tmp_path / "usual" / "cann",))
    monkeypatch.setattr(gpu, "USUAL_HOME", tmp_path / "usual" / "cuda")

    def ask(check: Callable[[Scene], Check], *, target: str = "ascend", run_tools: bool = True, **seen: Any) -> Check:
        return check(Scene(target, Seen(**seen), run_tools))

    return ask


def program(path: Path, script: str = "echo 'clang version 15.0.5'", mode: int = 0o755) -> Path:
    """Writes a shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(mode)
    return path


def folder(path: Path) -> Path:
    """Makes a folder."""
    path.mkdir(parents=True)
    return path


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker of the tests that make real virtual environments."""
    config.addinivalue_line("markers", "real_environments: installs packages into virtual environments, takes minutes")
