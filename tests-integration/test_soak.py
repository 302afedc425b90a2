"""The short form of soak.py: each op, called and replayed some hundred times in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

CALLS = {"cpu": 500, "cuda": 500, "ascend": 100}


@pytest.mark.targets("cpu", "cuda", "ascend")
def test_memory_stays_flat_and_results_stay_equal(target: str, device: torch.device) -> None:
    counts = ["--calls", str(CALLS[target]), "--replays", str(CALLS[target] if device.type == "cuda" else 0)]
    command = [sys.executable, str(Path(__file__).with_name("soak.py")), "--target", target, *counts]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    soaked = re.findall(
        rf"^(\w+): {CALLS[target]} (?:calls|replays) in .* 0 results differ$", done.stdout, re.MULTILINE
    )
    assert len({*soaked}) >= 4 and len(soaked) == len({*soaked}) * (2 if device.type == "cuda" else 1), done.stdout
