"""The environments of the checks, in layers, so that torch is installed once.

``.nox/base`` holds torch, what the packages require beside it, and the test tools. ``.nox/tests-...`` lies over it with
all packages of the tree, editable. ``.nox/models`` lies over the base with transformers, and ``.nox/models-tests-...``
over that with the packages. ``TILEVL_ENV=system`` puts the machine's own Python below instead: torch, torch_npu,
TileLang and all else that is installed there is used as it is, and the base holds what is missing only.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import environments
import tree

CONSTRAINTS = tree.ROOT / "constraints.txt"
PLACE = tree.ROOT / ".nox"
_SYSTEM_CONSTRAINTS = PLACE / "system-constraints.txt"
CHOICE = "TILEVL_ENV"
MODELS = "models"  # the dependency group of what only the tests inside real models need
FUZZ = "fuzz"  # the one of what only the long fuzzers need
MACHINE_PYTHON = "TILEVL_PYTHON"  # set by dev.py: the Python that the user started

# TileLang: the CPU target does without it, but here it generates the kernels that run on the host model or compile for
# CUDA. It has no wheels for Windows.
_LEFT_OUT = ("kernels",) if sys.platform == "win32" else ()
_ASK_INSTALLED = (
    "from importlib import metadata; "
    "print('\\n'.join(f'{d.name}=={d.version}' for d in metadata.distributions() if d.name and d.version))"
)


def uses_system() -> bool:
    """Whether the machine's own packages lie below, by the environment variable TILEVL_ENV.

    Raises:
        SystemExit: it holds anything but ``system`` or ``private`` or nothing.
    """
    choice = os.environ.get(CHOICE, "")
    if choice not in ("", "private", "system"):
        raise SystemExit(f"{CHOICE} must be system or private (the default), got {choice!r}")
    return choice == "system"


def machine_python() -> str:
    """The Python whose packages lie below where TILEVL_ENV is system: the one that the user started."""
    return os.environ.get(MACHINE_PYTHON, sys.executable)


def base() -> Path:
    """The Python with torch and the test tools, without any package of the tree."""
    wanted = required()
    if uses_system():
        return _base_over_machine(wanted)
    key = environments.digest(CONSTRAINTS.read_text(encoding="utf-8"), *wanted)

    def fill(python: Path) -> None:
        _say("Installing torch and the test tools into .nox/base (once, some minutes)")
        environments.pip_install(python, "--constraint", str(CONSTRAINTS), *wanted)

    return environments.make(PLACE / "base", key, fill, keep=True)


def tests() -> Path:
    """The Python with everything that tests need, all packages of the tree among it."""
    return _with_packages("tests", base())


def models() -> Path:
    """The Python of ``tests`` with transformers beside it: what the tests inside real models need."""
    below, wanted = base(), groups()[MODELS]
    constraints = _SYSTEM_CONSTRAINTS if uses_system() else CONSTRAINTS

    def fill(python: Path) -> None:
        _say(f"Installing {', '.join(wanted)} into .nox/models (once)")
        environments.pip_install(python, "--constraint", str(constraints), *wanted)

    key = environments.digest(constraints.read_text(encoding="utf-8"), *wanted)
    sites = environments.sites_of(str(below))
    made = environments.make(PLACE / "models", key, fill, over=sites, with_pip=False, keep=True)
    return _with_packages("models-tests", made)


def _with_packages(name: str, python: Path) -> Path:
    """An environment over another, with all packages of the tree, editable."""
    below = environments.sites_of(str(python))
    packages = tree.packages()
    written = [
        path.read_text(encoding="utf-8") for p in packages for path in (p.folder / "pyproject.toml", p.version_file)
    ]

    def fill(python: Path) -> None:
        _say("Installing the packages of the tree, editable")
        install_editable(python, packages)

    key = environments.digest(*map(str, below), *written)
    # One folder for each state of the packages: another may be in use while the tree changes. They are small.
    return environments.make(PLACE / f"{name}-{key[:8]}", key, fill, over=below, with_pip=False)


def install_editable(python: Path, packages: list[tree.Package]) -> None:
    """Installs packages so that changes in their folders count at once, and installs nothing else."""
    folders = [argument for package in packages for argument in ("--editable", str(package.folder))]
    environments.pip_install(python, "--no-deps", "--no-index", "--no-build-isolation", *folders)


def required() -> list[str]:
    """What the packages require beside each other and the models, and the test tools of the dependency groups."""
    lines: list[str] = []
    for package in tree.packages():
        if package.is_integration:  # the library that it serves is in the environment of the models alone
            continue
        project = package.manifest["project"]
        lines += project.get("dependencies", [])
        for extra, wishes in project.get("optional-dependencies", {}).items():
            lines += wishes if extra not in _LEFT_OUT else []
    for name, group in groups().items():
        lines += group if name not in (MODELS, FUZZ) else []
    later = {tree.distribution_in(line) for line in groups()[MODELS]}
    names = {line: tree.distribution_in(line) for line in lines}
    return sorted({line for line, name in names.items() if not name.startswith("tilevl-") and name not in later})


def groups() -> dict[str, list[str]]:
    """The dependency groups of the root."""
    found: dict[str, list[str]] = tree.read_toml(tree.ROOT / "pyproject.toml")["dependency-groups"]
    return found


def _base_over_machine(wanted: list[str]) -> Path:
    machine = machine_python()
    asked = subprocess.run([machine, "-c", _ASK_INSTALLED], capture_output=True, text=True, check=True)
    installed = {tree.distribution_in(line): line for line in asked.stdout.splitlines()}
    if "torch" not in installed:
        raise SystemExit(
            f"{CHOICE}=system uses the torch that is installed, and {machine} has none: start this with a "
            f"Python that has torch, or leave {CHOICE} out"
        )
    pins = [line for line in CONSTRAINTS.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    pins = [line for line in pins if tree.distribution_in(line) not in installed] + sorted(installed.values())
    below = environments.sites_of(machine)

    def fill(python: Path) -> None:
        _say(f"Installing what {machine} lacks of the test tools into .nox/base-system")
        _SYSTEM_CONSTRAINTS.write_text("\n".join(pins) + "\n", encoding="utf-8")
        environments.pip_install(python, "--constraint", str(_SYSTEM_CONSTRAINTS), *wanted)

    key = environments.digest(*wanted, *pins, *map(str, below))
    return environments.make(PLACE / "base-system", key, fill, interpreter=machine, over=below, keep=True)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
