"""Which ``torch.compile`` backend suits a device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import tilevl.core
from tilevl.core.compilation import compile_backend

from .machine import Machine


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu"), "cuda", "cuda:1", torch.device("cuda", 0), "meta"])
def test_devices_other_than_an_npu_get_inductor(device: torch.device | str) -> None:
    assert compile_backend(device) == "inductor"


def test_an_npu_gets_inductor_where_no_torch_npu_brings_its_own_backend() -> None:
    assert "npugraph_ex" not in torch.compiler.list_backends()
    assert compile_backend("npu:3") == "inductor"


def test_it_is_a_public_name_of_the_core_whichever_module_was_imported_first() -> None:
    assert tilevl.core.compile_backend is compile_backend


@pytest.mark.parametrize("device", ["npu", "npu:0", "privateuseone:1"])
def test_an_npu_gets_npugraph_ex_where_torch_npu_registers_it(tmp_path: Path, device: str) -> None:
    machine = Machine(tmp_path)
    points = {"torch_dynamo_backends": ["npugraph_ex = torch_npu.dynamo:backend"]}
    machine.distribution("torch-npu", "2.13.0", entry_points=points)
    code = f"from tilevl.core import compile_backend; print(compile_backend({device!r}), compile_backend('cpu'))"
    environ = os.environ | {"PYTHONPATH": machine.environ["PYTHONPATH"]}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["npugraph_ex", "inductor"], done.stderr


@pytest.mark.parametrize("device", [None, 1.0, True, ["cpu"]])
def test_what_is_no_device_is_refused_with_its_value(device: object) -> None:
    with pytest.raises(TypeError, match=r"compile_backend: device must be .*, got "):
        compile_backend(device)  # type: ignore[arg-type]


def test_an_unknown_device_string_is_refused() -> None:
    with pytest.raises(RuntimeError, match="bogus"):
        compile_backend("bogus")
