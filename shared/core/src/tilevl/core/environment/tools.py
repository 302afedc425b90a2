"""Finding a compiler and seeing that it runs."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from tilevl.core.environment.check import Check, Scene
from tilevl.core.environment.processes import run

TIMEOUT = 20.0

_VERSION = re.compile(r"(?i)\b(?:release|version)\s+v?(\d[\w.]*)")


def find(name: str, candidates: Iterable[Path]) -> Path | None:
    """The program that TileLang would start: the first candidate that is a file, else the one on PATH."""
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    found = shutil.which(name)
    return Path(found) if found else None


def folders(*variables: str) -> list[Path]:
    """The folders that environment variables name, those that are set."""
    return [Path(value) for variable in variables if (value := os.environ.get(variable))]


def checked(check: str, path: Path, scene: Scene, *, remedy: str) -> Check:
    """The check of a program that was found: it may be run, and where ``run_tools`` is set it answers ``--version``."""
    if not os.access(path, os.X_OK):
        return Check(check, "failed", f"{path} is not executable", remedy)
    if not scene.run_tools:
        return Check(check, "ok", str(path))
    finished = run([str(path), "--version"], timeout=TIMEOUT)
    if finished.problem:
        first = finished.output.strip().splitlines()[:1]
        said = f": {first[0][:200]}" if first else ""
        return Check(check, "failed", f"{path} --version fails, {finished.problem}{said}", remedy)
    version = _VERSION.search(finished.output)
    return Check(check, "ok", f"{path}{f', version {version.group(1)}' if version else ''}")
