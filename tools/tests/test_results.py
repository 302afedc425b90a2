from __future__ import annotations

import json
from pathlib import Path

import results

JUNIT = '<testsuites><testsuite tests="{}" failures="{}" errors="{}" skipped="{}"/></testsuites>'


def session(folder: Path, name: str, result: str, *counts: int) -> dict[str, object]:
    if counts:
        (folder / results.file_name(name)).write_text(JUNIT.format(*counts), encoding="utf-8")
    return {"name": name.partition("(")[0], "signatures": [name], "result": result}


def report(folder: Path, *sessions: dict[str, object]) -> Path:
    path = folder / "nox.json"
    path.write_text(json.dumps({"sessions": sessions}), encoding="utf-8")
    return path


def test_tests_of_all_sessions_are_added_and_other_sessions_count_as_one(tmp_path: Path) -> None:
    path = report(
        tmp_path,
        session(tmp_path, "lint", "success"),
        session(tmp_path, "core", "success", 10, 0, 0, 3),
        session(tmp_path, "tests(op='a', target='cpu')", "failed", 20, 2, 1, 4),
        session(tmp_path, "tests(op='b', target='cpu')", "success", 5, 0, 0, 0),
    )
    tally = results.add_up(tmp_path, path)
    assert tally is not None
    assert tally.line == "26 passed, 3 failed, 7 skipped"


def test_a_session_that_failed_beside_its_tests_is_a_failure(tmp_path: Path) -> None:
    tally = results.add_up(tmp_path, report(tmp_path, session(tmp_path, "core", "failed", 10, 0, 0, 0)))
    assert tally == results.Tally(passed=10, failed=1, skipped=0)


def test_a_session_that_died_before_it_wrote_is_a_failure(tmp_path: Path) -> None:
    path = report(tmp_path, session(tmp_path, "core", "success", 3, 0, 0, 0), session(tmp_path, "tests", "failed"))
    assert results.add_up(tmp_path, path) == results.Tally(passed=3, failed=1, skipped=0)


def test_a_run_without_tests_has_no_sum(tmp_path: Path) -> None:
    assert results.add_up(tmp_path, report(tmp_path, session(tmp_path, "demo", "success"))) is None
    assert results.add_up(tmp_path, tmp_path / "missing.json") is None


def test_each_cell_has_a_file_of_its_own() -> None:
    cells = [f"tests(op='{op}', target='{target}')" for op in ("a", "a_b", "b") for target in ("cpu", "pto")]
    assert len({results.file_name(cell) for cell in cells}) == len(cells)
