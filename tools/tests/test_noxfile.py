from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import stack
import tree

OP = tree.ops()[0].name


def nox(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nox", "--noxfile", str(tree.ROOT / "noxfile.py"), *arguments]
    clean = {name: value for name, value in os.environ.items() if name not in ("TILEVL_REQUIRE", "TILEVL_RESULTS")}
    return subprocess.run(command, capture_output=True, text=True, env={**clean, **environ})


def listed(*arguments: str, **environ: str) -> list[dict[str, Any]]:
    done = nox("--list", "--json", *arguments, **environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def names(*arguments: str, **environ: str) -> set[str]:
    return {session["session"] for session in listed(*arguments, **environ)}


def cells(session: str) -> list[dict[str, Any]]:
    return [each for each in listed() if each["name"] == session]


def test_every_session_says_in_one_line_what_it_is() -> None:
    for session in listed():
        assert session["description"] and len(session["description"]) <= 80


def test_there_is_a_cell_for_each_declared_target_and_no_other() -> None:
    declared = {(op.name, target) for op in tree.wares() for target in op.targets}
    done = nox("--list")
    for op in tree.wares():
        for target in tree.target_names():
            assert (f"tests(op='{op.name}', target='{target}')" in done.stdout) == ((op.name, target) in declared)


def test_an_integration_has_the_cells_of_an_op() -> None:
    integrations = [package for package in tree.wares() if package.is_integration]
    assert integrations
    for package in integrations:
        cells_of_it = {f"{session}(op='{package.name}')" for session in ("api", "lean")}
        assert cells_of_it | {f"tests(op='{package.name}', target='cpu')"} <= names("-t", package.name)


def test_the_library_of_an_integration_stays_out_of_the_other_tests() -> None:
    assert "transformers" not in {tree.distribution_in(line) for line in stack.required()}


def test_a_cell_is_run_by_its_quoted_name() -> None:
    assert names("-s", f"tests(op='{OP}', target='cpu')") == {f"tests(op='{OP}', target='cpu')"}


def test_a_tag_selects_an_op_and_words_select_a_cell() -> None:
    chosen = names("-t", OP)
    assert f"tests(op='{OP}', target='cpu')" in chosen and f"lean(op='{OP}')" in chosen
    assert all(f"op='{OP}'" in name or name == "build" for name in chosen)
    assert names("-k", f"tests and {OP} and cpu") == {f"tests(op='{OP}', target='cpu')"}


def test_the_tag_of_a_target_selects_the_tests_of_all_ops_on_it() -> None:
    chosen = names("-t", "cpu")
    assert chosen == {f"tests(op='{op.name}', target='cpu')" for op in tree.wares()} | {"integration(target='cpu')"}


def test_plain_nox_leaves_out_what_takes_a_person_or_changes_the_tree() -> None:
    chosen = {name.partition("(")[0] for name in names()}
    assert {"lint", "core", "tests", "integration", "tools", "api", "lean"} <= chosen
    assert not chosen & {"demo", "bench", "new", "release", "table", "floors", "environments"}


def test_a_required_target_without_a_selected_cell_fails_the_run() -> None:
    done = nox("-s", f"tests(op='{OP}', target='cpu')", "--", "--version", TILEVL_REQUIRE="cuda")
    assert done.returncode != 0
    assert "TILEVL_REQUIRE names cuda, and no selected session tests it" in done.stderr


def test_a_required_target_with_a_selected_cell_does_not(tmp_path: Path) -> None:
    done = nox("-s", f"tests(op='{OP}', target='cpu')", "--", "--version", TILEVL_REQUIRE="cpu,compiler")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("choice", ["machine", "1"])
def test_an_unknown_choice_of_environment_is_an_error(choice: str) -> None:
    done = nox("-s", f"tests(op='{OP}', target='cpu')", TILEVL_ENV=choice)
    assert done.returncode != 0
    assert f"TILEVL_ENV must be system or private (the default), got '{choice}'" in done.stderr
