from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tree

TOOLS = ("build", "changed", "check_tree", "floors", "lean", "new_op", "release", "table", "api")


def stand_in(folder: Path, noxfile: str) -> Path:
    """A small tree whose dev.py is ours and whose nox is the one that runs these tests."""
    (folder / "tools").mkdir()
    for name in ("dev.py", "environments.py", "results.py"):
        (folder / "tools" / name).write_bytes((tree.ROOT / "tools" / name).read_bytes())
    (folder / "constraints.txt").write_bytes((tree.ROOT / "constraints.txt").read_bytes())
    (folder / "noxfile.py").write_text(noxfile, encoding="utf-8")
    return folder


NOXFILE = """
import os
import nox
nox.options.default_venv_backend = "none"

@nox.session
def good(session):
    body = '<testsuites><testsuite tests="3" failures="0" errors="0" skipped="1"/></testsuites>'
    open(os.path.join(os.environ["TILEVL_RESULTS"], "good.xml"), "w").write(body)
    session.log(f"the user started {os.environ['TILEVL_PYTHON']} with {session.posargs}")

@nox.session(default=False)
def bad(session):
    session.error("no")
"""


def dev(root: Path, *arguments: str, cwd: Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "tools" / "dev.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env={**os.environ, **environ})


@pytest.fixture(scope="module")
def small_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stand_in(tmp_path_factory.mktemp("tree"), NOXFILE)


def test_it_makes_nox_on_a_bare_machine_and_passes_everything_on(small_tree: Path, tmp_path: Path) -> None:
    done = dev(small_tree, "-s", "good", "--", "-x", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"the user started {sys.executable} with ['-x']" in done.stderr
    assert done.stdout.splitlines()[-1] == "2 passed, 0 failed, 1 skipped"
    again = dev(small_tree, "-s", "good", cwd=tmp_path)
    assert "Installing nox" in done.stderr and "Installing nox" not in again.stderr


def test_a_failed_session_is_in_the_exit_code_and_in_the_sum(small_tree: Path) -> None:
    done = dev(small_tree, "-s", "good", "bad")
    assert done.returncode != 0
    assert done.stdout.splitlines()[-1] == "2 passed, 1 failed, 1 skipped"


def test_without_tests_there_is_no_sum(small_tree: Path) -> None:
    done = dev(small_tree, "-l")
    assert done.returncode == 0 and "passed" not in done.stdout


def test_it_says_that_git_is_missing(small_tree: Path, tmp_path: Path) -> None:
    done = dev(small_tree, "-l", PATH=str(tmp_path))
    assert done.returncode != 0 and "needs git on the PATH" in done.stderr


@pytest.mark.parametrize("name", TOOLS)
def test_every_tool_explains_itself(name: str) -> None:
    command = [sys.executable, str(tree.ROOT / "tools" / f"{name}.py"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and f"usage: {name}.py" in done.stdout and len(done.stdout.splitlines()) > 5
