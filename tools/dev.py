"""Runs the checks of this tree: ``python3 tools/dev.py`` is plain ``nox``, ``tools/dev.py -s demo`` is ``nox -s demo``.

Needs git and Python >= 3.10 on the machine, nothing else: nox goes into a private environment in ``.tilevl``. All that
follows is passed on to nox (``-l`` lists the checks). At the end it prints the sum of all tests, on one line.
"""

from __future__ import annotations

import sys

if sys.version_info < (3, 10):  # noqa: UP036  this runs on whatever python3 is
    sys.exit(f"tools/dev.py needs Python >= 3.10, this is {sys.version.split()[0]}: run it with another python3")

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import environments
import results

ROOT = Path(__file__).resolve().parents[1]
PRIVATE = ROOT / ".tilevl"
CONSTRAINTS = ROOT / "constraints.txt"


def nox_python() -> Path:
    """The Python of the private environment with nox, which is made on the first run."""

    def fill(python: Path) -> None:
        print(f"Installing nox into {PRIVATE.name}{os.sep}env (once)", file=sys.stderr)
        environments.pip_install(python, "--constraint", str(CONSTRAINTS), "nox")

    pin = next(line for line in CONSTRAINTS.read_text(encoding="utf-8").splitlines() if line.startswith("nox=="))
    return environments.make(PRIVATE / "env", environments.digest(pin), fill)


def main(arguments: list[str]) -> int:
    """Hands over to nox, prints the sum of the tests, and returns the exit code."""
    if shutil.which("git") is None:
        sys.exit("tools/dev.py needs git on the PATH, for the tools that read tags and changes")
    python = nox_python()
    with tempfile.TemporaryDirectory(dir=PRIVATE) as folder:
        report = Path(folder) / "nox.json"
        environ = {**os.environ, results.FOLDER: folder, "TILEVL_PYTHON": sys.executable}
        command = [str(python), "-m", "nox", "--noxfile", str(ROOT / "noxfile.py"), "--report", str(report), *arguments]
        code = subprocess.run(command, env=environ).returncode
        tally = results.add_up(Path(folder), report)
    if tally is not None:
        print(tally.line, flush=True)
        code = code or int(tally.failed > 0)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
