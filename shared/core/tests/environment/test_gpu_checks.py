"""How the checks of the GPU and of nvcc fail, with their remedies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilevl.core.environment import gpu
from tilevl.core.environment.sight import TorchSeen

from .conftest import Ask, program


def test_gpu_fails_with_a_torch_built_without_cuda(ask: Ask) -> None:
    check = ask(gpu.gpu, target="cuda")
    assert (check.state, check.evidence) == ("failed", "torch 2.13.0+cpu is built without CUDA")
    assert check.remedy.startswith("Install a CUDA build of torch")


def test_gpu_fails_where_none_is_seen_and_names_the_variable_that_may_hide_it(ask: Ask, monkeypatch) -> None:
    check = ask(gpu.gpu, target="cuda", torch=TorchSeen("2.13.0", "13.0"))
    assert (check.state, check.evidence) == ("failed", "torch 2.13.0 sees no GPU")
    assert check.remedy.startswith("Run nvidia-smi: if it lists a GPU, see to CUDA_VISIBLE_DEVICES")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert ask(gpu.gpu, target="cuda", torch=TorchSeen("2.13.0", "13.0")).evidence.endswith("CUDA_VISIBLE_DEVICES=''")


def test_gpu_fails_with_the_drivers_error(ask: Ask) -> None:
    seen = TorchSeen("2.13.0", "13.0", gpu_error="RuntimeError: driver too old")
    check = ask(gpu.gpu, target="cuda", torch=seen)
    assert (check.state, check.evidence) == ("failed", "asking torch for GPUs fails with RuntimeError: driver too old")
    assert check.remedy == "Run nvidia-smi: the driver must be there, and new enough for torch's CUDA 13.0"


def test_gpu_warns_of_an_architecture_that_is_not_tested(ask: Ask) -> None:
    check = ask(gpu.gpu, target="cuda", torch=TorchSeen("2.13.0", "13.0", [("NVIDIA A100", 8, 0)]))
    assert (check.state, check.evidence) == ("warning", "NVIDIA A100 (sm_80)")
    assert check.remedy.endswith("tested on sm_90 only")


def test_nvcc_fails_where_there_is_none(ask: Ask) -> None:
    check = ask(gpu.nvcc, target="cuda")
    assert check.state == "failed"
    assert check.remedy.startswith("Install the CUDA toolkit, or run pip install 'tilelang[nvcc]'; set CUDA_HOME")


def test_nvcc_of_cuda_home_that_fails_is_named(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = program(tmp_path / "cuda" / "bin" / "nvcc", "echo 'Illegal instruction'; exit 132")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    check = ask(gpu.nvcc, target="cuda")
    assert check.evidence == f"{path} --version fails, exit status 132: Illegal instruction"
    assert check.remedy.endswith("set CUDA_HOME so that it is found before the broken one")


def test_nvcc_is_found_in_its_usual_folder(ask: Ask, tmp_path: Path) -> None:
    program(tmp_path / "usual" / "cuda" / "bin" / "nvcc", "echo 'Cuda compilation tools, release 12.8, V12.8.93'")
    assert ask(gpu.nvcc, target="cuda").evidence.endswith("nvcc, version 12.8")
