"""The examples in the READMEs run as they stand, and their docstrings' too."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
import tree
from PIL import Image

from .readmes import ROOT, examples
from .small_models import need_transformers

READMES = [ROOT / "README.md", *sorted(ROOT.glob("packages/*/README.md"))]
WARES = {package.name: package for package in tree.wares()}


def need_what_it_is_for(name: str) -> None:
    """Skips the running test where a package puts ops into a library that isn't there."""
    if name in WARES and WARES[name].is_integration:
        need_transformers()


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
    need_what_it_is_for(path.parent.name)
    blocks = examples(path)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(path), "exec"), names)


@pytest.mark.usefixtures("pages")
@pytest.mark.parametrize("name", WARES)
def test_docstring_examples_give_what_they_say(name: str) -> None:
    need_what_it_is_for(name)
    module = import_module(WARES[name].module)
    found = [
        test
        for public in module.__all__
        for test in doctest.DocTestFinder(recurse=False).find(
            getattr(module, public), public, module=False, globs={"torch": torch, **vars(module)}
        )
        if test.examples
    ]
    assert found
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for test in found:
        assert runner.run(test).failed == 0, test.name
