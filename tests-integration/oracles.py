"""The oracles of the ops, as their own tests have them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGES = Path(__file__).parents[1] / "packages"


@lru_cache
def _oracles_of(op: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"oracle_of_{op}", PACKAGES / op / "tests" / "oracle.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def oracle(op: str, name: str | None = None) -> Callable[..., Any]:
    """The function that gives an op's expected result on CPU tensors; ``name`` where a package has several."""
    function: Callable[..., Any] = getattr(_oracles_of(op), name or op)
    return function
