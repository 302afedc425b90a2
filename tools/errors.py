"""Writes an op's ERRORS.md, or checks it: every message that its calls can raise, with an example of each.

The rows come from the package's ``tests/errors.py``, the examples from running its refusals. Needs the package, torch
and the test kit.
"""

from __future__ import annotations

import argparse
import importlib
import sys

import tree


def page(package: tree.Package) -> str:
    """The text of a package's ERRORS.md."""
    from tilevl.testing import errors

    sys.path.insert(0, str(tree.ROOT))  # the tests are found as packages.<op>.tests
    folder = ".".join(package.folder.relative_to(tree.ROOT).parts)
    return errors.page(package.name, importlib.import_module(f"{folder}.tests.errors").TABLES)


def main(arguments: list[str]) -> int:
    """Writes or checks, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="errors.py", description=__doc__)
    parser.add_argument("name", metavar="NAME", help="an op")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true", help="write ERRORS.md")
    what.add_argument("--check", action="store_true", help="fail where ERRORS.md differs")
    options = parser.parse_args(arguments)
    package = tree.find(options.name)
    path, text = package.folder / "ERRORS.md", page(package)
    if options.write:
        path.write_text(text, encoding="utf-8")
        return 0
    written = path.read_text(encoding="utf-8") if path.is_file() else ""
    if written != text:
        print(f"ERRORS.md of {package.distribution} is out of date: nox -s \"errors(op='{package.name}')\"")
    return int(written != text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
