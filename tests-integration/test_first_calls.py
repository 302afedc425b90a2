"""Sixteen threads, a forked child: first calls of all ops where a process does more than one thing at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

THREADS = 16


@pytest.mark.targets("cpu", "cuda", "ascend")
def test_threads_first_calls_of_all_ops_build_each_kernel_once_and_agree(
    target: str, device: torch.device, tmp_path: Path
) -> None:
    script = Path(__file__).with_name("first_calls.py")
    environ = os.environ | {"TILEVL_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, str(script), target, str(THREADS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environ)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["errors"] == [] and said["wrong"] == []
    assert said["ops"] >= 5 and said["calls"] == THREADS * said["ops"]
    assert len(said["built"]) == said["ops"] and {*said["built"].values()} == {1}, said["built"]
    assert (len(said["compiled"]) >= said["ops"] - 1) == (target != "cpu")
    assert {*said["compiled"].values()} <= {1}, said["compiled"]


@pytest.mark.parametrize("before", ["imported", "called"])
def test_a_forked_child_runs_every_op_on_the_cpu(before: str) -> None:
    command = [sys.executable, str(Path(__file__).with_name("after_fork.py")), before]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
