from __future__ import annotations

import json
from pathlib import Path

import pytest
import results
import stack
import supported
import table
import tree
from packaging.requirements import Requirement
from packaging.version import Version


def test_the_pairs_hold_the_floor_that_packages_ask_for_and_every_python() -> None:
    torches = [Version(torch) for torch, _ in supported.PAIRS]
    for package in (tree.find("core"), *tree.ops()):
        floor = next(Requirement(line) for line in package.requirements if tree.distribution_in(line) == "torch")
        assert [f"{spec.operator}{spec.version}" for spec in floor.specifier] == [
            f">={min(torches).major}.{min(torches).minor}"
        ]
    assert sorted(python for _, python in supported.PAIRS) == ["3.10", "3.11", "3.12", "3.13"]
    tested = next(line for line in stack.CONSTRAINTS.read_text(encoding="utf-8").splitlines() if "torch==" in line)
    assert max(torches) >= Version(tested.partition("==")[2])


def test_pins_leave_out_what_a_pair_chooses_itself() -> None:
    names = {tree.distribution_in(line) for line in supported.pins().splitlines()}
    assert "pytest" in names and not names & {"torch", "tilelang"}
    assert {"pytest", "numpy"} <= {tree.distribution_in(line) for line in supported.wanted()}


def test_a_python_that_is_missing_is_named() -> None:
    with pytest.raises(SystemExit, match=r"no python2\.99 on the path"):
        supported.environment("2.10.0", "2.99")


def test_a_run_takes_the_place_of_an_earlier_one_and_stands_in_the_readme(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    for torch, python, passed in (("2.10.0", "3.12", 5), ("2.9.1", "3.10", 7), ("2.10.0", "3.12", 8)):
        supported.noted(tmp_path, torch, python, results.Tally(passed, 0, 2))
    runs = json.loads((tmp_path / supported.RUNS).read_text(encoding="utf-8"))
    assert [(run["torch"], run["python"], run["passed"]) for run in runs] == [
        ("2.9.1", "3.10", 7),
        ("2.10.0", "3.12", 8),
    ]
    rows = table.runs_table(tmp_path).splitlines()
    assert rows[2].startswith("| 2.9.1 | 3.10 | 7 passed, 2 skipped | ") and len(rows) == 4
