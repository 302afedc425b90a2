"""Runs the CPU tests of the core and of every op with one torch on one Python, and notes the run for the README.

The pairs in PAIRS hold the ends of what is supported: the lowest and the highest torch, each Python. The environment,
``.nox/supported``, is one for all pairs and made anew for each, since a torch with CUDA takes 7 GB.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import environments
import results
import stack
import tree

PAIRS = (("2.10.0", "3.10"), ("2.14.1", "3.11"), ("2.13.0", "3.12"), ("2.13.0", "3.13"))
RUNS = "tools/supported.json"
_COMPILERS_AND_MODELS = {"tilelang", "transformers"}  # the CPU tests do without


def wanted() -> list[str]:
    """What the tests need beside torch."""
    lines = [line for line in stack.required() if tree.distribution_in(line) not in _COMPILERS_AND_MODELS | {"torch"}]
    return [line for line in lines if tree.distribution_in(line) not in {"mypy", "ruff"}]


def pins() -> str:
    """The tested versions without torch's and TileLang's."""
    lines = stack.CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if line and not line.startswith("#")]
    return "".join(f"{line}\n" for line in kept if tree.distribution_in(line) not in {"torch", "tilelang"})


def environment(torch: str, python: str) -> Path:
    """The Python of the environment of a pair.

    Raises:
        SystemExit: that Python isn't on the path, or pip can't install into it.
    """
    interpreter = shutil.which(f"python{python}")
    if interpreter is None:
        raise SystemExit(f"there is no python{python} on the path: install it, or choose another of the pairs")

    def fill(made: Path) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            constraints = Path(scratch) / "constraints.txt"
            constraints.write_text(pins(), encoding="utf-8")
            environments.pip_install(made, "--constraint", str(constraints), f"torch=={torch}", *wanted())
        stack.install_editable(made, [tree.find("core"), tree.find("testing"), *tree.ops()])

    key = environments.digest(torch, pins(), *wanted())
    return environments.make(stack.PLACE / "supported", key, fill, interpreter=interpreter)


def noted(root: Path, torch: str, python: str, tally: results.Tally) -> None:
    """Writes what a run gave in the place of an earlier one of the same pair."""
    path = root / RUNS
    runs = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    runs = [run for run in runs if (run["torch"], run["python"]) != (torch, python)]
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    machine = f"{platform.system()} {platform.machine()}"
    counts = {"passed": tally.passed, "skipped": tally.skipped}
    runs.append({"torch": torch, "python": python, "machine": machine, "date": today, **counts})
    runs.sort(key=lambda run: ([int(part) for part in run["torch"].split(".")], run["python"]))
    path.write_text("[\n" + ",\n".join(f"  {json.dumps(run)}" for run in runs) + "\n]\n", encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Installs, tests, notes a run without failures, and returns the exit code of pytest."""
    parser = argparse.ArgumentParser(prog="supported.py", description=__doc__)
    parser.add_argument("torch", help="its version, as pip has it")
    parser.add_argument("python", help="major and minor version; that Python must be on the path")
    options, more = parser.parse_known_args(arguments)
    python = environment(options.torch, options.python)
    tests = ["shared/core/tests", *(f"packages/{op.name}/tests" for op in tree.ops())]
    with tempfile.TemporaryDirectory() as scratch:
        junit = Path(scratch) / "junit.xml"
        command = [str(python), "-m", "pytest", *tests, "--target=cpu", f"--junit-xml={junit}", *more]
        code = subprocess.run(command, cwd=tree.ROOT).returncode
        if code == 0 and not more:
            noted(tree.ROOT, options.torch, options.python, results.tally_of(junit))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
