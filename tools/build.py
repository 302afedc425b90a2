"""Builds the wheel and the sdist of packages, and checks what the wheels hold."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import tree
import wheels


def main(arguments: list[str]) -> int:
    """Builds, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="build.py", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a package: core, testing or an op; all by default")
    parser.add_argument("--out", type=Path, default=tree.ROOT / "wheelhouse", help="the folder to build into")
    options = parser.parse_args(arguments)
    chosen = [tree.find(name) for name in options.names] or tree.packages()
    wrong: list[str] = []
    for package in chosen:
        for path in wheels.build(package, options.out):
            print(f"{path.name}  {path.stat().st_size / 1024:,.1f} KiB")
            wrong += wheels.problems(path, package) if path.suffix == ".whl" else []
    for problem in wrong:
        print(problem, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
