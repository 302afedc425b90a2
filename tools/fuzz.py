"""Runs the fuzzers in ``packages/*/fuzz`` one after another, where atheris lies beside the test tools."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import environments
import stack
import tree


def environment() -> Path:
    """The Python of the environment: that of the tests, and atheris."""
    below = environments.sites_of(str(stack.tests()))
    wanted = stack.groups()[stack.FUZZ]

    def fill(python: Path) -> None:
        environments.pip_install(python, "--constraint", str(stack.CONSTRAINTS), *wanted)

    key = environments.digest(stack.CONSTRAINTS.read_text(encoding="utf-8"), *map(str, below))
    return environments.make(stack.PLACE / "fuzz", key, fill, over=below, with_pip=False)


def main(arguments: list[str]) -> int:
    """Runs each with the arguments given, and returns the first exit code that isn't 0."""
    python = environment()
    scripts = sorted(tree.ROOT.glob("packages/*/fuzz/fuzz_*.py"))
    codes = [subprocess.run([str(python), str(script), *arguments], cwd=tree.ROOT).returncode for script in scripts]
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
