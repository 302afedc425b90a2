"""Builds wheels and sdists, and says what is wrong with one. Needs hatchling in the Python that runs it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import tree


def build(package: tree.Package, out: Path, *kinds: str) -> list[Path]:
    """Builds a package into a folder, without isolation: nothing is downloaded.

    Args:
        package: what to build.
        out: the folder; older files of this package in it are removed.
        kinds: ``wheel`` and ``sdist``; both where none is named.

    Returns:
        The files.

    Raises:
        SystemExit: hatchling failed; it has said why.
    """
    out.mkdir(parents=True, exist_ok=True)
    for old in files_of(package, out):
        old.unlink()
    targets = [argument for kind in kinds or ("wheel", "sdist") for argument in ("--target", kind)]
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(out.resolve()), *targets]
    done = subprocess.run(command, cwd=package.folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{package.distribution} can't be built:\n{done.stdout}{done.stderr}")
    return files_of(package, out)


def files_of(package: tree.Package, folder: Path) -> list[Path]:
    """The wheels and sdists of a package in a folder."""
    stem = package.distribution.replace("-", "_")
    return sorted([*folder.glob(f"{stem}-*.whl"), *folder.glob(f"{stem}-*.tar.gz")])


def metadata(wheel: Path) -> Message:
    """The METADATA of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def problems(wheel: Path, package: tree.Package) -> list[str]:
    """What is wrong with a wheel; empty where nothing is."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        licences = [archive.read(name) for name in names if name.endswith(".dist-info/licenses/LICENSE")]
    root = f"{package.module.replace('.', '/')}/"
    found = [
        f"holds {name}, outside {root}" for name in names if not name.startswith(root) and ".dist-info/" not in name
    ]
    found += [f"holds {name}, which is compiled" for name in names if name.endswith((".pyc", ".pyo"))]
    found += [f"lacks {root}{name}" for name in ("__init__.py", "_version.py", "py.typed") if root + name not in names]
    if licences != [(tree.ROOT / "LICENSE").read_bytes()]:
        found.append("lacks the LICENSE of the tree")
    about = metadata(wheel)
    expected = {
        "Name": package.distribution,
        "Version": package.version,
        "License-Expression": "Apache-2.0",
        "Requires-Python": ">=3.10",
    }
    found += [f"says {key}: {about[key]}, not {value}" for key, value in expected.items() if about[key] != value]
    if not str(about.get_payload()).strip():
        found.append("has no description")
    for requirement in about.get_all("Requires-Dist", []):
        if "==" in requirement.partition(";")[0] or "@" in requirement:
            found.append(f"requires {requirement}, which is no range")
    return [f"{wheel.name} {problem}" for problem in found]
