"""The folders of the host model's cache: whole, damaged, and left over."""

from __future__ import annotations

import os
import threading
import time
import warnings
from pathlib import Path

import pytest

from tilevl.testing.ascend_host import compiler


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the folders lie."""
    monkeypatch.setattr(compiler, "kernel_cache_directory", lambda: tmp_path)
    return tmp_path / "ascend_host"


def write(folder: Path) -> None:
    (folder / "kernel.so").write_text("code")


def fail(folder: Path) -> None:
    pytest.fail(f"built again in {folder}")


def test_a_whole_folder_is_not_built_again(place: Path) -> None:
    folder = compiler._built("k", write)
    assert folder == place / "k" and (folder / "kernel.so").read_text() == "code"
    assert compiler._built("k", fail) == folder


@pytest.mark.parametrize("damage", ["another content", "a file less", "a file more", "no list", "no JSON"])
def test_a_damaged_folder_is_said_and_built_again(place: Path, damage: str) -> None:
    folder = compiler._built("k", write)
    if damage == "another content":
        (folder / "kernel.so").write_text("c0de")
    elif damage == "a file less":
        (folder / "kernel.so").unlink()
    elif damage == "a file more":
        (folder / "other.so").write_text("")
    elif damage == "no list":
        (folder / "contents.json").unlink()
    else:
        (folder / "contents.json").write_text("{")
    with pytest.warns(RuntimeWarning, match=f"{folder} was damaged and is built again") as caught:
        assert compiler._built("k", write) == folder
    assert len(caught) == 1
    assert compiler._built("k", fail) == folder
    assert sorted(path.name for path in folder.iterdir()) == ["contents.json", "kernel.so"]


def test_threads_that_find_one_damage_all_get_a_whole_folder(place: Path) -> None:
    folder = compiler._built("k", write)
    (folder / "kernel.so").write_text("")
    start, seen = threading.Barrier(8), []

    def work() -> None:
        start.wait()
        seen.append((compiler._built("k", write) / "kernel.so").read_text())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert seen == ["code"] * 8


def test_a_build_that_fails_leaves_nothing(place: Path) -> None:
    def broken(folder: Path) -> None:
        write(folder)
        raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space left"):
        compiler._built("k", broken)
    assert list(place.iterdir()) == []


def test_what_killed_processes_left_goes_after_an_hour(place: Path) -> None:
    for name, age in ((".k-old", 3700), (".k-young", 3500)):
        (place / name).mkdir(parents=True)
        os.utime(place / name, (time.time() - age,) * 2)
    compiler._built("k", write)
    assert sorted(path.name for path in place.iterdir()) == [".k-young", "k"]
