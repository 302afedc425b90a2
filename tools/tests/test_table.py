from __future__ import annotations

from pathlib import Path

import pytest
import table
import tree

from .conftest import Run


def manifest(root: Path, name: str) -> Path:
    return root / "packages" / name / "pyproject.toml"


def readme_rows(root: Path) -> dict[str, list[str]]:
    text = (root / "README.md").read_text(encoding="utf-8")
    lines = text.partition(table.BEGIN)[2].partition(table.END)[0].strip().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0].strip("[").partition("]")[0]: row[1:] for row in cells}


def test_each_op_has_a_row_and_each_target_a_column(repository: Path, run_tool: Run) -> None:
    assert run_tool("table", "--root", str(repository)).returncode == 0
    rows = readme_rows(repository)
    assert list(rows) == ["op", "---", *(op.name for op in tree.ops())]
    assert rows["op"] == ["cpu", "cuda", "ascend", "pto"]
    assert all(len(row) == 4 for row in rows.values())


def test_a_cell_says_how_it_was_verified_or_that_it_is_not_there(repository: Path, run_tool: Run) -> None:
    op = tree.ops()[0].name
    text = manifest(repository, op).read_text(encoding="utf-8")
    text = text.partition("[tool.tilevl]")[0]
    text += '[tool.tilevl]\ntargets = ["cpu", "ascend"]\nverified = { ascend = "seen on a 950" }\n'
    manifest(repository, op).write_text(text, encoding="utf-8")
    assert run_tool("table", "--root", str(repository)).returncode == 0
    assert readme_rows(repository)[op] == [table.USUAL["cpu"], "no", "seen on a 950", "no"]


def test_a_check_finds_an_old_table_and_leaves_it(repository: Path, run_tool: Run) -> None:
    assert run_tool("table", "--root", str(repository)).returncode == 0
    assert run_tool("table", "--check", "--root", str(repository)).returncode == 0
    readme = repository / "README.md"
    old = readme.read_text(encoding="utf-8").replace(table.USUAL["cpu"], "guessed", 1)
    readme.write_text(old, encoding="utf-8")
    done = run_tool("table", "--check", "--root", str(repository))
    assert done.returncode == 1 and "out of date" in done.stderr
    assert readme.read_text(encoding="utf-8") == old


def test_what_stands_around_the_table_is_kept(repository: Path) -> None:
    text = f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n{table.RUNS_BEGIN}\n{table.RUNS_END}\n"
    new = table.written(text, repository)
    assert new.startswith(f"before\n{table.BEGIN}\n\n| op |") and f"|\n\n{table.END}\nafter\n{table.RUNS_BEGIN}" in new
    assert new.endswith(f"|\n\n{table.RUNS_END}\n")
    assert table.written(new, repository) == new


@pytest.mark.parametrize("text", ["", table.BEGIN, f"{table.BEGIN}\n{table.BEGIN}\n{table.END}\n"])
def test_a_readme_without_the_two_marks_is_an_error(text: str, repository: Path) -> None:
    with pytest.raises(SystemExit, match="must hold, once"):
        table.written(text, repository)
