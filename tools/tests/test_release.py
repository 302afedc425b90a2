from __future__ import annotations

import re
from pathlib import Path

import pytest
import release
import tree

from .conftest import Run, commit, git

OP = tree.ops()[0].name


@pytest.fixture(autouse=True)
def fresh(request: pytest.FixtureRequest) -> None:
    """The op as it was before its first release, whatever has been released since."""
    if "repository" in request.fixturenames:
        root = request.getfixturevalue("repository")
        package = tree.find(OP, root)
        package.version_file.write_text('__version__ = "0.1.0"\n', encoding="utf-8")
        log = f"# Changelog of {package.distribution}\n\n## [Unreleased]\n\n### Added\n\n- The op.\n"
        (package.folder / "CHANGELOG.md").write_text(log, encoding="utf-8")
        git(root, "commit", "--quiet", "--all", "--allow-empty", "--message", "Before the first release")


def add_note(root: Path, name: str = OP, note: str = "- Something for users.") -> None:
    path = tree.find(name, root).folder / "CHANGELOG.md"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("## [Unreleased]\n", f"## [Unreleased]\n\n### Fixed\n\n{note}\n", 1), encoding="utf-8")


def state(root: Path) -> tuple[str, str, str]:
    return git(root, "rev-parse", "HEAD"), git(root, "tag"), git(root, "status", "--porcelain")


def test_a_release_is_one_commit_of_that_package_and_its_tag(repository: Path, run_tool: Run) -> None:
    git(repository, "tag", f"{OP}-v0.1.0")
    add_note(repository)
    commit(repository, "Work")
    done = run_tool("release", OP, "minor", "--skip-tests", "--root", str(repository))
    assert done.returncode == 0, done.stdout + done.stderr
    assert git(repository, "status", "--porcelain") == ""
    assert git(repository, "log", "--format=%s", "-1") == f"Release {tree.find(OP).distribution} 0.2.0\n"
    files = git(repository, "show", "--name-only", "--format=").split()
    assert files == [f"packages/{OP}/CHANGELOG.md", f"packages/{OP}/src/tilevl/{OP}/_version.py"]
    assert tree.find(OP, repository).version == "0.2.0"
    assert git(repository, "tag", "--points-at", "HEAD").split() == [f"{OP}-v0.2.0"]
    assert "- Something for users." in git(repository, "for-each-ref", "--format=%(contents)", f"refs/tags/{OP}-v0.2.0")
    log = (repository / "packages" / OP / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(
        r"## \[Unreleased\]\n\n## \[0\.2\.0\] - \d{4}-\d\d-\d\d\n\n### Fixed\n\n- Something for users\.\n", log
    )
    built = sorted(path.name for path in (repository / "wheelhouse").iterdir())
    assert built == [f"tilevl_{OP}-0.2.0-py3-none-any.whl", f"tilevl_{OP}-0.2.0.tar.gz"]


def test_a_dry_run_shows_the_release_and_changes_nothing(repository: Path, run_tool: Run) -> None:
    before = state(repository)
    done = run_tool("release", OP, "0.1.0", "--dry-run", "--skip-tests", "--root", str(repository))
    assert done.returncode == 0, done.stdout + done.stderr
    assert state(repository) == before
    assert not (repository / "wheelhouse").exists()
    for expected in (f"tag {OP}-v0.1.0", "+## [0.1.0] - ", f"tilevl_{OP}-0.1.0-py3-none-any.whl", "nothing is written"):
        assert expected in done.stdout


def dirty(root: Path) -> None:
    (root / "new.txt").write_text("x", encoding="utf-8")


def nothing_new(root: Path) -> None:
    path = root / "packages" / OP / "CHANGELOG.md"
    path.write_text(f"# Changelog of {tree.find(OP).distribution}\n\n## [Unreleased]\n", encoding="utf-8")
    commit(root, "Empty the changelog")


def heading_without_notes(root: Path) -> None:
    nothing_new(root)
    path = root / "packages" / OP / "CHANGELOG.md"
    path.write_text(path.read_text(encoding="utf-8") + "\n### Fixed\n", encoding="utf-8")
    commit(root, "Leave a bare heading")


def tag_elsewhere(root: Path) -> None:
    git(root, "switch", "--quiet", "--orphan", "other")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "Elsewhere")
    git(root, "tag", f"{OP}-v0.1.0")
    git(root, "switch", "--quiet", "main")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (dirty, "the tree is not clean"),
        (nothing_new, "nothing under Unreleased"),
        (heading_without_notes, "nothing under Unreleased"),
        (tag_elsewhere, f"the tag {OP}-v0.1.0 is there already"),
    ],
)
def test_what_is_not_ready_is_refused_and_left_alone(repository: Path, run_tool: Run, spoil, reason: str) -> None:
    spoil(repository)
    before = state(repository)
    for dry in ([], ["--dry-run"]):
        done = run_tool("release", OP, "0.1.0", "--skip-tests", "--root", str(repository), *dry)
        assert done.returncode != 0
        assert reason in done.stderr
        assert state(repository) == before


def test_a_package_that_can_not_be_built_is_not_released(repository: Path, run_tool: Run) -> None:
    (repository / "packages" / OP / "src" / "tilevl" / OP / "py.typed").unlink()
    commit(repository, "Lose the type marker")
    before = state(repository)
    done = run_tool("release", OP, "0.1.0", "--skip-tests", "--root", str(repository))
    assert done.returncode != 0 and "py.typed" in done.stderr and "is not released" in done.stderr
    assert state(repository) == before


@pytest.mark.parametrize(
    ("wanted", "last", "version"),
    [
        ("patch", "0.1.9", "0.1.10"),
        ("minor", "0.9.3", "0.10.0"),
        ("major", "0.9.3", "1.0.0"),
        ("1.2.3", "1.2.2", "1.2.3"),
        ("1.10.0", "1.9.0", "1.10.0"),
        ("0.1.0", None, "0.1.0"),
        ("0.2.0", None, "0.2.0"),
    ],
)
def test_versions_count_from_the_last_release(wanted: str, last: str | None, version: str) -> None:
    assert release.next_version(wanted, "0.1.0", last) == version


@pytest.mark.parametrize(
    ("wanted", "last", "reason"),
    [
        ("0.1.0", "0.1.0", "must be newer than 0.1.0"),
        ("0.9.0", "0.10.0", "must be newer than 0.10.0"),
        ("0.0.9", None, "must be newer than 0.1.0"),
        ("1.0", "0.1.0", "like 1.2.3"),
        ("1.02.0", "0.1.0", "like 1.2.3"),
        ("v1.0.0", "0.1.0", "like 1.2.3"),
        ("minor", None, "name the version, for example 0.1.0"),
    ],
)
def test_a_version_that_can_not_follow_is_refused(wanted: str, last: str | None, reason: str) -> None:
    with pytest.raises(SystemExit, match=re.escape(reason)):
        release.next_version(wanted, "0.1.0", last)


def test_an_unknown_package_is_an_error_that_lists_the_packages(repository: Path, run_tool: Run) -> None:
    done = run_tool("release", "nothing", "minor", "--root", str(repository))
    assert done.returncode != 0
    assert "there is no package 'nothing'" in done.stderr and OP in done.stderr
