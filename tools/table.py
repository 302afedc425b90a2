"""Writes the README's table of ops and targets, or checks it. The cells come from each op's [tool.tilevl].

``targets`` lists what an op has; ``verified = { cuda = "..." }`` says how a cell was verified, if not in the usual way.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import tree

BEGIN = "<!-- table: begin -->"
END = "<!-- table: end -->"
USUAL = {
    "cpu": "tests run",
    "cuda": "tests run on a GPU",
    "ascend": "generated code runs on the host model",
    "pto": "code is generated",
}


def table(root: Path) -> str:
    """The table, in Markdown."""
    targets = tree.target_names(root)
    rows = [["op", *targets]]
    for op in tree.ops(root):
        verified = op.manifest["tool"]["tilevl"].get("verified", {})
        cells = [verified.get(target, USUAL[target]) if target in op.targets else "no" for target in targets]
        rows.append([f"[{op.name}](packages/{op.name})", *cells])
    rows.insert(1, ["---"] * len(rows[0]))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def written(readme: str, root: Path) -> str:
    """The README with the table of now.

    Raises:
        SystemExit: it lacks the two marks between which the table stands.
    """
    if readme.count(BEGIN) != 1 or readme.count(END) != 1:
        raise SystemExit(f"README.md must hold, once, a line '{BEGIN}' and below it a line '{END}'")
    between = re.compile(f"(?<={re.escape(BEGIN)}\n).*?(?={re.escape(END)})", re.DOTALL)
    return between.sub(lambda _: f"\n{table(root)}\n", readme)


def main(arguments: list[str]) -> int:
    """Writes or checks, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="table.py", description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail where the README differs, and change nothing")
    parser.add_argument("--root", type=Path, default=tree.ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    path = options.root / "README.md"
    old = path.read_text(encoding="utf-8")
    new = written(old, options.root)
    if options.check:
        if old != new:
            print("the table in README.md is out of date: nox -s table", file=sys.stderr)
        return int(old != new)
    path.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
