"""Runs an op's tests against the lowest core that its range allows, so that a floor which is too low is found.

The lowest is looked for among the core's tags in this history and the core of the tree. It is built from its tag.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import environments
import history
import stack
import tree
import wheels
from packaging.requirements import Requirement
from packaging.version import Version


def lowest_core(op: tree.Package, released: list[str], current: str) -> str:
    """The lowest of the core's versions that an op's range allows.

    Args:
        op: the op.
        released: versions that have a tag.
        current: the version of the tree.

    Raises:
        SystemExit: the range allows none of them.
    """
    wanted = next(Requirement(line) for line in op.requirements if tree.distribution_in(line) == "tilevl-core")
    versions = sorted({*released, current}, key=Version)
    allowed = list(wanted.specifier.filter(versions, prereleases=True))
    if not allowed:
        raise SystemExit(f"{op.distribution} asks for {wanted}, and there are only {', '.join(versions)}")
    return allowed[0]


def core_at(version: str, folder: Path) -> tree.Package:
    """The core as it was released under a version, or the one of the tree where that is its version."""
    core = tree.find("core")
    tag = history.tag_of(core, version)
    if not history.git(tree.ROOT, "tag", "--list", tag).strip():
        return core
    archive = folder / "core.tar"
    history.git(tree.ROOT, "archive", "--output", str(archive), tag, "shared/core", "LICENSE")
    subprocess.run(["tar", "-xf", str(archive), "-C", str(folder)], check=True)
    return tree.find("core", folder)


def main(arguments: list[str]) -> int:
    """Builds, installs, tests, and returns the exit code of pytest."""
    parser = argparse.ArgumentParser(prog="floors.py", description=__doc__)
    parser.add_argument("op", metavar="OP", choices=[p.name for p in tree.wares()], help="name of the op")
    parser.add_argument("pytest", nargs="*", metavar="PYTEST", help="arguments for pytest")
    options, more = parser.parse_known_args(arguments)
    op, core = tree.find(options.op), tree.find("core")
    version = lowest_core(op, history.released(tree.ROOT, core), core.version)
    print(f"{op.distribution} {op.version} with tilevl-core {version}", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        built = wheels.build(core_at(version, folder), folder / "wheels", "wheel")

        def fill(python: Path) -> None:
            environments.pip_install(python, "--no-deps", "--no-index", *map(str, built))
            stack.install_editable(python, [tree.find("testing"), op])

        below = environments.sites_of(str(stack.base()))
        python = environments.make(folder / "env", "once", fill, over=below, with_pip=False)
        tests = [f"packages/{op.name}/tests", "--target=cpu", *options.pytest, *more]
        return subprocess.run([str(python), "-m", "pytest", *tests], cwd=tree.ROOT).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
