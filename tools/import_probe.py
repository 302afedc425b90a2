"""What importing a package does to a process that has torch, as JSON on stdout.

Runs in the environment under test, as ``python -I import_probe.py tilevl.<op> FOLDER...``. Needs torch only.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import runpy
import sys
import tempfile
import threading
import time
from collections.abc import Callable

import torch


def threads() -> int:
    """Threads of this process, those of native code too where the system lists them."""
    return len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else threading.active_count()


def files(folders: list[str]) -> set[str]:
    """All files below the folders."""
    return {os.path.join(place, name) for folder in folders for place, _, names in os.walk(folder) for name in names}


def printed_by(action: Callable[[], object]) -> str:
    """What an action writes to stdout and stderr, native code's output included."""
    kept = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            action()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os.dup2(kept[0], 1)
            os.dup2(kept[1], 2)
        file.seek(0)
        return file.read().decode(errors="replace")


def works_after_fork(package: str) -> bool:
    """Whether the package's smoke test passes in a forked child."""
    child = os.fork()
    if child == 0:
        code: object = 1
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                runpy.run_module(package, run_name="__main__", alter_sys=True)
        except SystemExit as leaving:
            code = leaving.code
        finally:
            os._exit(0 if code == 0 else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def main(package: str, folders: list[str]) -> None:
    """Imports the package and prints what changed."""
    modules, before, there = set(sys.modules), threads(), files(folders)
    sys.argv = [package]
    start = time.perf_counter()
    printed = printed_by(lambda: importlib.import_module(package))
    seconds = time.perf_counter() - start
    new = set(sys.modules) - modules
    answer = {
        "milliseconds": round(1000 * seconds, 1),
        "modules": sorted({name.partition(".")[0] for name in new} | {n for n in new if n.startswith("tilevl.")}),
        "printed": printed,
        "threads": threads() - before,
        "files": sorted(files(folders) - there),
        "cuda_started": torch.cuda.is_initialized(),
        "works_after_fork": works_after_fork(package) if hasattr(os, "fork") else True,
    }
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
