"""The examples in the READMEs run as they stand, and their docstrings' too."""

from __future__ import annotations

import doctest
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

ROOT = Path(__file__).parents[1]
READMES = [ROOT / "README.md", *sorted(ROOT.glob("packages/*/README.md"))]
OPS = sorted(path.parent.name for path in ROOT.glob("packages/*/pyproject.toml"))


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that the examples read."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(3)
    for name in ("page.bmp", "page-1.bmp", "page-2.bmp"):
        Image.fromarray(random.integers(0, 256, (64, 96, 3), dtype=np.uint8)).save(name)


@pytest.mark.usefixtures("pages")
@pytest.mark.parametrize("path", READMES, ids=lambda path: path.parent.name)
def test_examples_run(path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(path), "exec"), names)


@pytest.mark.usefixtures("pages")
@pytest.mark.parametrize("op", OPS)
def test_docstring_examples_give_what_they_say(op: str) -> None:
    module = import_module(f"tilevl.{op}")
    found = [
        test
        for name in module.__all__
        for test in doctest.DocTestFinder(recurse=False).find(
            getattr(module, name), name, module=False, globs={"torch": torch, **vars(module)}
        )
        if test.examples
    ]
    assert found
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for test in found:
        assert runner.run(test).failed == 0, test.name
