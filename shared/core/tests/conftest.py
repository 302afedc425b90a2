"""Small ops made on the spot, with their package on disk."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tilevl.core import checks
from tilevl.core.registration import register

_numbers = itertools.count()


def refuse_odd_times(name: str, times: int) -> None:
    checks.require(times % 2 == 0, lambda: f"{name}: times must be even, got {times}")


@pytest.fixture
def make_op(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., torch._ops.OpOverload]:
    """Makes an op of two tensors and an int, with its package on disk, and registers it."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(
        kernel: str, *, in_place: bool = False, target: str = "cpu", version: str = "1.0", name: str = "", **rules: Any
    ) -> torch._ops.OpOverload:
        name = name or f"probe_{next(_numbers)}"
        folder = tmp_path / name / "kernels"
        folder.mkdir(parents=True, exist_ok=True)
        for init in (folder.parent, folder):
            (init / "__init__.py").touch()
        (folder / f"{target}.py").write_text(kernel, encoding="utf-8")
        written, result = ("(a!)", "()") if in_place else ("", "Tensor")

        def check(x: Tensor, row: Tensor, times: int) -> tuple[Any, torch.dtype] | None:
            checks.check_same(name, "row", row, "x", x)
            checks.check_rank(name, "x", x, "[T, D]", 2)
            refuse_odd_times(name, times)
            return None if in_place else (x.shape, x.dtype)

        def check_data(x: Tensor, row: Tensor, times: int) -> None:
            if not row.isfinite().all():
                raise ValueError(f"{name}: row must be finite")

        rules = {"check": check, "check_data": check_data, "specialise": lambda x, row, times: (x.dtype,), **rules}
        schema = f"{name}(Tensor{written} x, Tensor row, SymInt times=2) -> {result}"
        return register(name, schema, version=version, **rules)

    return make
