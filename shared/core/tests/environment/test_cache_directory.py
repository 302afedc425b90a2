"""Where kernels are kept: which folder is chosen, and what happens where it can't be written."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import tempfile
import textwrap
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilevl.core import cache_directory
from tilevl.core.cache_directory import configured, direct_tilelang, kernel_cache_directory, problem_with

from .machine import CORE_SOURCE

VARIABLES = (cache_directory.VARIABLE, cache_directory.TILELANG_VARIABLE, "XDG_CACHE_HOME")


@pytest.fixture(autouse=True)
def undecided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that has chosen no folder yet, with an empty home folder."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(cache_directory, "_chosen", None)
    (tmp_path / "home").mkdir()
    yield


def test_the_default_lies_in_the_home_folder(tmp_path: Path) -> None:
    assert kernel_cache_directory() == tmp_path / "home" / ".cache" / "tilevl"


def test_the_variables_are_asked_in_the_documented_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, folder in zip(reversed(VARIABLES), ("xdg", "tilelang", "tilevl"), strict=True):
        monkeypatch.setenv(variable, str(tmp_path / folder))
        expected = tmp_path / folder / "tilevl" if folder == "xdg" else tmp_path / folder
        assert configured() == (expected, f"set by {variable}")


def test_an_empty_variable_counts_as_unset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.setenv(variable, "")
    assert configured()[0] == tmp_path / "home" / ".cache" / "tilevl"


def test_a_relative_xdg_folder_is_ignored_and_a_relative_folder_of_ours_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "somewhere")
    assert configured()[0] == tmp_path / "home" / ".cache" / "tilevl"
    monkeypatch.setenv(cache_directory.VARIABLE, "kernels")
    assert configured()[0] == tmp_path / "kernels"
    monkeypatch.setenv(cache_directory.VARIABLE, "~/kernels")
    assert configured()[0] == tmp_path / "home" / "kernels"


def test_a_missing_folder_is_made_with_its_parents_for_this_user_only(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv(cache_directory.VARIABLE, str(tmp_path / "a" / "b" / "c"))
    folder = kernel_cache_directory()
    assert folder == tmp_path / "a" / "b" / "c"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_looking_for_problems_makes_nothing(tmp_path: Path) -> None:
    assert problem_with(tmp_path / "a" / "b") == ""
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def broken_folder(kind: str, root: Path) -> Path:
    if kind == "a file in its place":
        (root / "file").write_text("")
        return root / "file"
    if kind == "a file among its parents":
        (root / "file").write_text("")
        return root / "file" / "cache" / "deep"
    if kind == "a dangling link":
        (root / "link").symlink_to(root / "nowhere" / "at all")
        return root / "link"
    assert kind == "a name that is too long"
    return root / ("x" * 300)


BROKEN = ["a file in its place", "a file among its parents", "a dangling link", "a name that is too long"]


@pytest.mark.parametrize("kind", BROKEN)
def test_a_folder_that_cannot_be_used_falls_back_with_one_warning(tmp_path: Path, monkeypatch, kind: str) -> None:
    folder = broken_folder(kind, tmp_path)
    monkeypatch.setenv(cache_directory.VARIABLE, str(folder))
    with pytest.warns(RuntimeWarning, match="Kernels of this process go") as caught:
        chosen = kernel_cache_directory()
    assert len(caught) == 1
    text = str(caught[0].message)
    assert str(folder) in text
    assert str(chosen) in text
    assert "set TILEVL_CACHE_DIR to a folder that this user may write" in text
    assert chosen.stat().st_mode & 0o777 == 0o700
    (chosen / "kernel.so").write_bytes(b"code")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kernel_cache_directory() == chosen


def test_threads_that_come_at_once_get_one_folder_and_one_warning(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv(cache_directory.VARIABLE, str(broken_folder(BROKEN[0], tmp_path)))
    start, chosen = threading.Barrier(8), []

    def choose() -> None:
        start.wait()
        chosen.append(kernel_cache_directory())

    with pytest.warns(RuntimeWarning) as caught:
        threads = [threading.Thread(target=choose) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(caught) == 1
    assert len(chosen) == 8
    assert len(set(chosen)) == 1


def test_tilelang_is_sent_to_the_chosen_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache_directory.TILELANG_VARIABLE, str(tmp_path / "theirs"))
    monkeypatch.setenv(cache_directory.VARIABLE, str(tmp_path / "ours"))
    assert direct_tilelang() == tmp_path / "ours"
    assert os.environ[cache_directory.TILELANG_VARIABLE] == str(tmp_path / "ours")


SCRIPT = """
    import os, sys, warnings
    from tilevl.core.cache_directory import kernel_cache_directory

    if len(sys.argv) > 1:  # only now: root's Python may lie where the other user can't read it
        os.setgroups([])
        os.setgid(int(sys.argv[1]))
        os.setuid(int(sys.argv[1]))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        folder = kernel_cache_directory()
        kernel_cache_directory()
    (folder / "kernel.so").write_bytes(b"code")
    print(folder, len(caught), *(str(warning.message) for warning in caught), sep="|")
"""


def run(script: str, *arguments: str, folder: Path, temporary: Path) -> list[str]:
    """Runs a script that says which folder it chose and how often it was warned, with its own temporary folder."""
    environ = {**os.environ, "PYTHONPATH": str(CORE_SOURCE), "TMPDIR": str(temporary)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        env=environ | {cache_directory.VARIABLE: str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().split("|")


def other_user() -> int:
    """A user who may not write what root made."""
    return pwd.getpwnam("nobody").pw_uid


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A folder that every user may enter; pytest keeps its own to this user, at the start of each run."""
    with tempfile.TemporaryDirectory(prefix="tilevl-test-") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


@pytest.mark.parametrize("kind", ["owned by another user", "read-only", "missing, below a folder of another user"])
def test_a_user_who_may_not_write_the_folder_falls_back_with_one_warning(open_path: Path, kind: str) -> None:
    theirs, temporary = open_path / "theirs", open_path / "temporary"
    theirs.mkdir(mode=0o755)
    temporary.mkdir()
    temporary.chmod(0o777)
    theirs.chmod(0o755 if os.getuid() == 0 else 0o555)
    arguments = []
    if os.getuid() == 0:
        arguments = [str(other_user())]
        if kind == "read-only":
            os.chown(theirs, other_user(), -1)
            theirs.chmod(0o555)
    folder = theirs / "below" if kind.startswith("missing") else theirs
    chosen, count, warning = run(SCRIPT, *arguments, folder=folder, temporary=temporary)
    theirs.chmod(0o755)
    assert Path(chosen).parent == temporary
    assert count == "1"
    assert "can't be written: Permission denied" in warning
    assert not Path(chosen).exists(), "the temporary folder is left behind"
    assert list(theirs.iterdir()) == []


def test_a_forked_child_does_not_remove_the_folder_of_its_parent(tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    script = """
        import os, sys, warnings
        from tilevl.core.cache_directory import kernel_cache_directory

        warnings.simplefilter("ignore")
        folder = kernel_cache_directory()
        child = os.fork()
        if child == 0:
            sys.exit(0)
        os.waitpid(child, 0)
        print(folder.is_dir(), folder, sep="|")
    """
    folder = broken_folder(BROKEN[0], tmp_path)
    there, chosen = run(script, folder=folder, temporary=tmp_path / "temporary")
    assert there == "True"
    assert not Path(chosen).exists()


def test_importing_the_core_makes_no_folder(tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    script = "import tilevl.core.cache_directory, tilevl.core.environment; print('imported')"
    assert run(script, folder=tmp_path / "cache", temporary=tmp_path / "temporary") == ["imported"]
    assert not (tmp_path / "cache").exists()
    assert list((tmp_path / "temporary").iterdir()) == []


def test_without_a_home_folder_kernels_go_to_a_temporary_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    assert configured() == (None, "the default")
    with pytest.warns(RuntimeWarning, match="no home folder is known"):
        assert kernel_cache_directory().is_dir()
