from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import environments
import pytest
import stack
import tree

from .conftest import Run, commit, git

NAME = "brightest_rows"


def scaffold(repository: Path, run_tool: Run, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_tool("new_op", *arguments, "--root", str(repository))


def test_a_new_op_passes_the_checks_of_the_tree_and_its_own_tests_at_once(
    repository: Path, run_tool: Run, tmp_path: Path
) -> None:
    run_tool("table", "--root", str(repository))
    before = run_tool("check_tree", "--root", str(repository)).stderr
    done = scaffold(repository, run_tool, NAME)
    assert done.returncode == 0, done.stderr
    assert f"packages/{NAME} is an op that works" in done.stdout
    assert run_tool("check_tree", "--root", str(repository)).stderr == before

    package = tree.find(NAME, repository)
    ruff = [sys.executable, "-m", "ruff"]
    assert subprocess.run([*ruff, "check", str(package.folder)], cwd=repository).returncode == 0
    assert subprocess.run([*ruff, "format", "--check", str(package.folder)], cwd=repository).returncode == 0

    wanted = [tree.find(name, repository) for name in ("core", "testing", NAME)]
    sites = environments.sites_of(str(stack.base()))
    fill = lambda python: stack.install_editable(python, wanted)  # noqa: E731
    python = environments.make(tmp_path / "env", "new op", fill, over=sites, with_pip=False)

    def run(*command: str) -> None:
        done = subprocess.run([str(python), *command], cwd=repository, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    run("-m", "pytest", "-q", f"packages/{NAME}/tests", "--target=cpu")
    run("-m", f"tilevl.{NAME}")
    run(str(repository / "tools" / "api.py"), NAME, "--check")


def test_nothing_of_the_template_s_name_is_left(repository: Path, run_tool: Run) -> None:
    assert scaffold(repository, run_tool, NAME).returncode == 0
    for path in (repository / "packages" / NAME).rglob("*"):
        assert "new_op" not in path.name
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            assert not any(name in text for name in ("new_op", "new-op", "NewOp"))


def test_only_the_package_and_the_readme_s_table_change(repository: Path, run_tool: Run) -> None:
    run_tool("table", "--root", str(repository))
    commit(repository, "Bring the table up to date")
    assert scaffold(repository, run_tool, NAME).returncode == 0
    changed = git(repository, "status", "--porcelain").splitlines()
    assert changed == [" M README.md", f"?? packages/{NAME}/"]
    assert f"[{NAME}](packages/{NAME})" in git(repository, "diff", "README.md")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["Rope"], "must be like rotate_rows"),
        (["2rope"], "must be like rotate_rows"),
        (["rotate-rows"], "must be like rotate_rows"),
        (["rotate__rows"], "must be like rotate_rows"),
        (["lambda"], "must be like rotate_rows"),
        (["core"], "there is a package core already"),
        ([tree.ops()[0].name], "already"),
        ([NAME, "--targets", "cpu,ascend"], "none for ascend"),
        ([NAME, "--targets", "tpu"], "none for tpu"),
    ],
)
def test_what_can_not_be_is_refused_and_nothing_is_written(
    arguments: list[str], reason: str, repository: Path, run_tool: Run
) -> None:
    done = scaffold(repository, run_tool, *arguments)
    assert done.returncode != 0 and reason in done.stderr
    assert git(repository, "status", "--porcelain") == ""
