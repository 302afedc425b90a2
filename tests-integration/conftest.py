"""Wheels of the tree, and environments to install them into, for the packaging tests."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import environments
import pytest
import stack
import tree
import wheels


@dataclass(frozen=True)
class Installation:
    """An environment with torch and without any TileVL package, which pip fills.

    Attributes:
        python: its interpreter.
        wheelhouse: where its pip finds TileVL packages, and the only place where it looks.
    """

    python: Path
    wheelhouse: Path

    def pip(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs pip with arguments."""
        return self.run("-m", "pip", "--disable-pip-version-check", *arguments)

    def install(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs ``pip install``, offline."""
        return self.pip("install", "--no-index", "--find-links", str(self.wheelhouse), *arguments)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs Python, away from the tree."""
        command = [str(self.python), *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=self.python.parents[1])


@pytest.fixture(scope="session")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels and sdists of all packages, built from the tree as it is."""
    out = tmp_path_factory.mktemp("wheelhouse")
    for package in tree.packages():
        wheels.build(package, out)
    return out


@pytest.fixture
def installation(wheelhouse: Path, tmp_path: Path) -> Callable[..., Installation]:
    """Makes an environment with torch, and installs what is named from the wheelhouse."""
    sites = environments.sites_of(str(stack.base()))

    def make(*names: str, house: Path = wheelhouse) -> Installation:
        folder = tmp_path / f"env{len(list(tmp_path.glob('env*')))}"
        python = environments.make(folder, "once", lambda python: None, over=sites, with_pip=False)
        made = Installation(python, house)
        for name in names:
            done = made.install(name)
            assert done.returncode == 0, done.stderr
        return made

    return make
