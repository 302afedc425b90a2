"""Installs one op from the wheelhouse, alone beside torch, as a user would, and checks what is there and what it does.

An integration comes with its ops and its library. It shows what is installed, runs the installed smoke test, and sees
that importing the op loads no kernel compiler, starts no device and no thread, writes no file and prints nothing. Run
``nox -s build`` first.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import environments
import stack
import tree
import wheels

WHEELHOUSE = tree.ROOT / "wheelhouse"
HEAVY = {"tilelang", "torch_npu", "triton", "tvm"}
_LIST = (
    "import json; from importlib import metadata; "
    "print(json.dumps({d.name: d.version for d in metadata.distributions() if d.name.startswith('tilevl')}))"
)


def torch_alone() -> list[Path]:
    """Where torch and nothing else is installed: an environment that all ops share, or the machine's Python."""
    if stack.uses_system():
        return environments.sites_of(stack.machine_python())
    constraints = stack.CONSTRAINTS.read_text(encoding="utf-8")
    wanted = next(line for line in tree.find("core").requirements if tree.distribution_in(line) == "torch")

    def fill(python: Path) -> None:
        print("Installing torch into .nox/lean-torch (once)", file=sys.stderr, flush=True)
        environments.pip_install(python, "--constraint", str(stack.CONSTRAINTS), wanted)

    return environments.sites_of(
        str(environments.make(stack.PLACE / "lean-torch", environments.digest(constraints, wanted), fill))
    )


def install(op: tree.Package) -> Path:
    """The Python of an environment with torch and, from the wheelhouse, the op with what it requires."""

    def fill(python: Path) -> None:
        others = {line for package in needed(op) for line in package.requirements if "tilevl-" not in line}
        pins = () if stack.uses_system() else ("--constraint", str(stack.CONSTRAINTS))
        environments.pip_install(python, *pins, *sorted(others))
        wanted = f"{op.distribution}=={op.version}"
        environments.pip_install(python, "--no-index", "--find-links", str(WHEELHOUSE), wanted)

    folder = stack.PLACE / f"lean-{op.name}"
    over = torch_alone()
    built = "".join(f"{path.name}{path.stat().st_mtime_ns}" for path in sorted(WHEELHOUSE.glob("*.whl")))
    return environments.make(folder, environments.digest(built, *map(str, over)), fill, over=over, with_pip=False)


def needed(op: tree.Package) -> list[tree.Package]:
    """The package and what it stands on: the core, and of an integration its ops."""
    return [package for package in tree.packages() if package == op or op.requires(package)]


def strangers(op: tree.Package, installed: dict[str, str]) -> list[str]:
    """What is wrong with the list of installed TileVL distributions."""
    wanted = {package.distribution: package.version for package in needed(op)}
    return [] if installed == wanted else [f"installed are {installed}, wanted are {wanted}"]


def side_effects(op: tree.Package, answer: dict[str, Any]) -> list[str]:
    """What the import did that it should not have."""
    loaded = {str(name) for name in answer["modules"]}
    own = tuple(f"{package.module}." for package in needed(op))
    foreign = {n for n in loaded - {"tilevl.integrations"} if n.startswith("tilevl.") and not f"{n}.".startswith(own)}
    found = [f"importing it loads {name}" for name in sorted((loaded & HEAVY) | foreign)]
    found += [f"importing it writes {name}" for name in answer["files"]]
    found += [f"importing it starts {answer['threads']} threads"] if answer["threads"] else []
    found += ["importing it starts CUDA"] if answer["cuda_started"] else []
    found += ["it does not work in a forked child"] if not answer["works_after_fork"] else []
    found += [f"importing it prints {answer['printed']!r}"] if answer["printed"] else []
    return found


def main(arguments: list[str]) -> int:
    """Installs, checks, prints, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="lean.py", description=__doc__)
    parser.add_argument(
        "op", metavar="OP", choices=[p.name for p in tree.wares()], help="name of the op or integration"
    )
    op = tree.find(parser.parse_args(arguments).op)
    built = [path for path in wheels.files_of(op, WHEELHOUSE) if path.suffix == ".whl"]
    if not built:
        raise SystemExit(f"no wheel of {op.distribution} in {WHEELHOUSE.name}: run nox -s build")
    wrong = [problem for wheel in built for problem in wheels.problems(wheel, op)]
    python = install(op)
    with tempfile.TemporaryDirectory() as empty:
        quiet = {"HOME": empty, "USERPROFILE": empty, "TMPDIR": empty, "TEMP": empty, "PYTHONDONTWRITEBYTECODE": "1"}
        environ = {**os.environ, **quiet, "XDG_CACHE_HOME": empty}
        command = [str(python), "-I", "-B"]
        listed = subprocess.run([*command, "-c", _LIST], capture_output=True, text=True, check=True, cwd=empty)
        installed = json.loads(listed.stdout)
        print("installed: " + ", ".join(f"{name} {version}" for name, version in sorted(installed.items())))
        wrong += strangers(op, installed)
        smoke = subprocess.run([*command, "-m", op.module], cwd=empty, env=environ)
        wrong += [f"python -m {op.module} ends with {smoke.returncode}"] if smoke.returncode else []
        probe = [*command, str(Path(__file__).with_name("import_probe.py")), op.module, empty]
        asked = subprocess.run(probe, capture_output=True, text=True, cwd=empty, env=environ)
    if asked.returncode:
        wrong.append(f"import {op.module} fails:\n{asked.stderr}")
    else:
        answer = json.loads(asked.stdout.splitlines()[-1])
        print(f"import: {answer['milliseconds']} ms over torch, loads {', '.join(answer['modules'])}")
        wrong += side_effects(op, answer)
    for problem in wrong:
        print(f"{op.distribution}: {problem}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
