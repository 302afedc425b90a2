"""Writes the ERRORS.md of packages, or checks them: every message that a call can raise, with an example of each.

The rows come from a package's ``tests/errors.py``, the examples from running its refusals. Needs the packages, torch
and the test kit.
"""

from __future__ import annotations

import argparse
import importlib
import sys

import tree


def documented() -> list[tree.Package]:
    """The packages that have a page of errors."""
    return [package for package in tree.packages() if (package.folder / "tests" / "errors.py").is_file()]


def page(package: tree.Package) -> str:
    """The text of a package's ERRORS.md."""
    from tilevl.testing import errors

    folder = ".".join(package.folder.relative_to(tree.ROOT).parts)
    return errors.page(package.name, importlib.import_module(f"{folder}.tests.errors").TABLES)


def main(arguments: list[str]) -> int:
    """Writes or checks, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="errors.py", description=__doc__)
    parser.add_argument("names", metavar="NAME", nargs="*", help="packages, all by default")
    parser.add_argument("--check", action="store_true", help="fail where a page differs, and change nothing")
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(tree.ROOT))  # the tests of a package are found as packages.<op>.tests
    old = []
    for package in [tree.find(name) for name in options.names] or documented():
        path, text = package.folder / "ERRORS.md", page(package)
        if options.check and (not path.is_file() or path.read_text(encoding="utf-8") != text):
            old.append(package.distribution)
        elif not options.check:
            path.write_text(text, encoding="utf-8")
    if old:
        print(f"ERRORS.md of {', '.join(old)} is out of date: nox -s errors", file=sys.stderr)
    return int(bool(old))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
