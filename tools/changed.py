"""Lists the packages that were touched since their last tag, and the packages that depend on them.

With ``--base`` it compares with one revision instead, as CI does for a change: then the files of the tree itself (its
tools, settings and test environments) and the test kit count for every package.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import history
import tree


def reasons(root: Path, base: str | None) -> dict[str, str]:
    """Why each package is on the list, by name; packages that aren't are left out.

    Args:
        root: the tree.
        base: the revision to compare with; None for each package's last tag.
    """
    packages = tree.packages(root)
    found: dict[str, str] = {}
    if base is not None:
        files = history.touched(root, base)
        outside = [name for name in files if not name.startswith(tuple(_prefix(root, p) for p in packages))]
        for package in packages:
            count = sum(name.startswith(_prefix(root, package)) for name in files)
            if count:
                found[package.name] = f"{count} file(s) touched since {base}"
            elif outside:
                found[package.name] = f"{outside[0]} touched, which all packages share"
    else:
        for package in packages:
            versions = history.released(root, package)
            if not versions:
                found[package.name] = "never released"
                continue
            tag = history.tag_of(package, versions[0])
            count = sum(name.startswith(_prefix(root, package)) for name in history.touched(root, tag))
            if count:
                found[package.name] = f"{count} file(s) touched since {tag}"
    touched = set(found)
    for package in packages:
        below = [p.name for p in packages if p.name in touched and _stands_on(package, p, for_tests=base is not None)]
        if package.name not in found and below:
            found[package.name] = f"depends on {', '.join(below)}"
    return found


def _stands_on(package: tree.Package, other: tree.Package, *, for_tests: bool) -> bool:
    return package.requires(other) or (for_tests and other.name == "testing" and package != other)


def _prefix(root: Path, package: tree.Package) -> str:
    return f"{package.folder.relative_to(root).as_posix()}/"


def main(arguments: list[str]) -> int:
    """Prints the list, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="changed.py", description=__doc__)
    parser.add_argument("--base", metavar="REVISION", help="compare with this revision, not with each package's tag")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--names", action="store_true", help="print names only, one a line")
    form.add_argument("--json", action="store_true", help="print an object of names and reasons")
    parser.add_argument("--root", type=Path, default=tree.ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    found = reasons(options.root, options.base)
    if options.json:
        print(json.dumps(found, indent=1))
    elif options.names:
        print("".join(f"{name}\n" for name in found), end="")
    else:
        width = max(map(len, found), default=0)
        print("".join(f"{name:{width}}  {reason}\n" for name, reason in found.items()) or "nothing\n", end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
