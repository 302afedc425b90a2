"""Writes the README's tables, or checks them: ops and targets, and the torch and Python versions that tests ran on.

The cells of the first come from each op's [tool.tilevl]: ``targets`` lists what an op has, and ``verified`` says, as in
``{ cuda = "..." }``, how a cell was verified, if not in the usual way. Those of the second were noted by supported.py.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

import supported
import tree

BEGIN = "<!-- table: begin -->"
END = "<!-- table: end -->"
RUNS_BEGIN = "<!-- supported: begin -->"
RUNS_END = "<!-- supported: end -->"
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


def runs_table(root: Path) -> str:
    """The table of the runs of supported.py, in Markdown."""
    rows = ["| torch | Python | CPU tests | machine | date |\n", "| --- | --- | --- | --- | --- |\n"]
    for run in json.loads((root / supported.RUNS).read_text(encoding="utf-8")):
        counts = f"{run['passed']} passed, {run['skipped']} skipped"
        rows.append(f"| {run['torch']} | {run['python']} | {counts} | {run['machine']} | {run['date']} |\n")
    return "".join(rows)


def written(readme: str, root: Path) -> str:
    """The README with the tables of now.

    Raises:
        SystemExit: it lacks the two marks between which a table stands.
    """
    readme = _between(BEGIN, END, table(root), readme)
    return _between(RUNS_BEGIN, RUNS_END, runs_table(root), readme)


def _between(begin: str, end: str, text: str, readme: str) -> str:
    if readme.count(begin) != 1 or readme.count(end) != 1:
        raise SystemExit(f"README.md must hold, once, a line '{begin}' and below it a line '{end}'")
    between = re.compile(f"(?<={re.escape(begin)}\n).*?(?={re.escape(end)})", re.DOTALL)
    return between.sub(lambda _: f"\n{text}\n", readme)


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
            print("a table in README.md is out of date: nox -s table", file=sys.stderr)
        return int(old != new)
    path.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
