"""Scaffolds an op: a small package that works and passes its own tests at once, to be turned into the real one.

It copies tools/template under the new name. Nothing else has to be edited: the noxfile, the tools and the README's
table read the tree.
"""

from __future__ import annotations

import argparse
import importlib.util
import keyword
import re
import shutil
import subprocess
import sys
from pathlib import Path

import stack
import table
import tree

TEMPLATE = Path("tools") / "template"
STAND_IN = "new_op"


def scaffold(root: Path, name: str, targets: list[str]) -> Path:
    """Writes the package and returns its folder.

    Raises:
        SystemExit: the name or a target can't be; nothing is written.
    """
    taken = {package.name for package in tree.packages(root)}
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) or keyword.iskeyword(name):
        raise SystemExit(f"the name must be like rotate_rows: lower case, digits, single underscores, got {name!r}")
    if name in taken:
        raise SystemExit(f"there is a package {name} already")
    template = root / TEMPLATE
    kernels = template / "src" / "tilevl" / STAND_IN / "kernels"
    there = sorted(path.stem for path in kernels.glob("*.py") if path.stem != "__init__")
    missing = [target for target in targets if target not in there]
    if missing:
        raise SystemExit(
            f"the template has kernels for {', '.join(there)}, none for {', '.join(missing)}: scaffold without, then "
            f"add kernels/{missing[0]}.py with a build() and name it in [tool.tilevl] targets"
        )
    folder = root / "packages" / name
    if folder.exists():
        raise SystemExit(f"packages/{name} is there already")
    for path in sorted(template.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            copy = folder / _renamed(path.relative_to(template).as_posix(), name)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(_renamed(path.read_text(encoding="utf-8"), name), encoding="utf-8")
    shutil.copy(root / "LICENSE", folder / "LICENSE")
    tidy(folder)
    readme = root / "README.md"
    readme.write_text(table.written(readme.read_text(encoding="utf-8"), root), encoding="utf-8")
    return folder


def tidy(folder: Path) -> None:
    """Sorts imports and formats anew: another name stands elsewhere and has another length.

    Raises:
        SystemExit: ruff fails; it has said why.
    """
    python = sys.executable if importlib.util.find_spec("ruff") else str(stack.base())
    for command in (["check", "--quiet", "--fix", "--select", "I"], ["format", "--quiet"]):
        if subprocess.run([python, "-m", "ruff", *command, str(folder)]).returncode:
            raise SystemExit(f"ruff {command[0]} fails on {folder}, see above")


def _renamed(text: str, name: str) -> str:
    spellings = {
        STAND_IN: name,
        STAND_IN.replace("_", "-"): name.replace("_", "-"),
        _camel(STAND_IN): _camel(name),
    }
    for old, new in spellings.items():
        text = text.replace(old, new)
    return text


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def main(arguments: list[str]) -> int:
    """Scaffolds, says what comes next, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="new_op.py", description=__doc__)
    parser.add_argument("name", metavar="NAME", help="the op's name, a Python identifier such as rotate_rows")
    parser.add_argument("--targets", default="cpu", help="what it runs on, with commas; the template has cpu")
    parser.add_argument("--root", type=Path, default=tree.ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    name, root = options.name, options.root.resolve()
    folder = scaffold(root, name, [target.strip() for target in options.targets.split(",")])
    print(f"{folder.relative_to(root).as_posix()} is an op that works. Run its tests, then make it yours:")
    print(f"  python3 tools/dev.py -s \"tests(op='{name}', target='cpu')\"")
    print("  tests/oracle.py and tests/cases.py first, then contract.py, op.py, kernels/cpu.py, README.md, api.txt")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
