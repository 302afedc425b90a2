"""What needs no transformers, and runs where there is none."""

from __future__ import annotations

import subprocess
import sys

import pytest
from torch import nn

from tilevl.integrations.transformers import accelerate


def test_importing_loads_neither_transformers_nor_the_compiler() -> None:
    program = (
        "import sys, tilevl.integrations.transformers; "
        "print([name for name in ('transformers', 'torch._dynamo', 'tilelang') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_model_with_nothing_to_swap_says_so() -> None:
    with pytest.warns(UserWarning, match="Linear holds no module of a class that is supported"):
        assert accelerate(nn.Linear(2, 2)).swapped == ()


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(TypeError, match=r"accelerate: model must be a torch\.nn\.Module, got str"):
        accelerate("facebook/sam-vit-base")  # type: ignore[arg-type]
