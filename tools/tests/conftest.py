"""A copy of the tree as a repository of its own, and the tools as a person runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import tree

Run = Callable[..., subprocess.CompletedProcess[str]]
_SOMEBODY = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org")


@pytest.fixture
def run_tool() -> Run:
    """Runs ``tools/<name>.py`` with arguments and gives what it printed."""

    def run(name: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        names = ("AUTHOR", "COMMITTER")
        identity = {f"GIT_{n}_NAME": "Somebody" for n in names} | {f"GIT_{n}_EMAIL": "s@example.org" for n in names}
        command = [sys.executable, str(tree.ROOT / "tools" / f"{name}.py"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **identity, **environ})

    return run


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The tree as it is now, uncommitted work too, as one commit of a new repository without tags."""
    root = tmp_path / "repository"
    listed = subprocess.run(
        ["git", "-C", str(tree.ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (tree.ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(tree.ROOT / name, root / name)
    git(root, "init", "--quiet", "--initial-branch=main")
    commit(root, "Start")
    return root


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *_SOMEBODY, *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def commit(root: Path, message: str) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--allow-empty", "--message", message)
