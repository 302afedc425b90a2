"""One kernel cache, several processes: killed ones, damaged entries, entries of another version, full folders.

What builds is TileLang with nvcc, for a GPU that may be missing, and the host model with g++.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tilevl.core import cache_directory
from tilevl.testing import skip_unless

from .builder import ADDED, START

KINDS = ["cuda", "host_model"]
Filled = tuple[str, Path]
LIBRARY = {"cuda": "executable.so", "host_model": "kernel.so"}


def need(kind: str) -> None:
    tilelang = importlib.util.find_spec("tilelang") is not None
    if kind == "cuda":
        there = tilelang and shutil.which("nvcc") is not None
        skip_unless(there, "cuda_compiler", "TileLang or nvcc is missing: pip install 'tilevl-core[kernels]', CUDA")
    else:
        there = tilelang and shutil.which("g++") is not None
        skip_unless(there, "ascend", "the host model needs g++, and TileLang: pip install 'tilevl-core[kernels]'")


def start(kind: str, folder: Path, moment: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, str(Path(__file__).with_name("builder.py")), kind, *([moment] if moment else [])]
    environ = os.environ | {cache_directory.VARIABLE: str(folder)}
    return subprocess.Popen(
        command, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )


def outcome(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What a process that isn't killed says, with a right result."""
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    said: dict[str, Any] = json.loads(out.splitlines()[-1])
    assert said["values"] in ([], [value + ADDED for value in range(START)])
    return said


def build(kind: str, folder: Path) -> dict[str, Any]:
    return outcome(start(kind, folder))


def await_moment(process: subprocess.Popen[str], moment: str) -> None:
    """Waits until a process says that its moment has come; there it stays."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == moment:
            break
    else:
        pytest.fail(f"it ended before it was {moment}: {process.communicate()[1]}")


def kill(process: subprocess.Popen[str]) -> None:
    """Kills a process with the compiler that it started."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def libraries(kind: str, folder: Path) -> list[Path]:
    """The libraries of the entries, which a process may load."""
    return [path for path in folder.rglob(LIBRARY[kind]) if not any(p.startswith(".") for p in path.parts)]


@pytest.mark.parametrize("kind", KINDS)
def test_processes_killed_while_they_build_harm_neither_one_beside_them_nor_later_ones(
    kind: str, tmp_path: Path
) -> None:
    need(kind)
    victims = {moment: start(kind, tmp_path, moment) for moment in ("compiling", "publishing")}
    for moment, victim in victims.items():
        await_moment(victim, moment)
    beside = start(kind, tmp_path)  # now, lest it be done before they build
    kill(victims["compiling"])
    assert outcome(beside)["said"] == []
    kill(victims["publishing"])
    assert len(libraries(kind, tmp_path)) == 1
    assert build(kind, tmp_path) | {"values": []} == {"compilations": 0, "values": [], "said": []}


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_process_leaves_nothing_that_a_later_one_takes(kind: str, tmp_path: Path) -> None:
    need(kind)
    victim = start(kind, tmp_path, "publishing")
    await_moment(victim, "publishing")
    kill(victim)
    assert libraries(kind, tmp_path) == []
    after = build(kind, tmp_path)
    assert after["compilations"] > 0 and after["said"] == []
    assert len(libraries(kind, tmp_path)) == 1


@pytest.fixture(params=KINDS)
def filled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> tuple[str, Path]:
    """A kind, and a cache of this test's own that holds one entry; it is built once for all tests."""
    need(request.param)
    original = tmp_path_factory.getbasetemp() / f"filled-{request.param}"
    if not original.is_dir():
        assert build(request.param, original)["compilations"] > 0
    shutil.copytree(original, tmp_path / "cache", symlinks=True)
    return request.param, tmp_path / "cache"


@pytest.mark.parametrize("damage", ["truncated", "one bit", "removed"])
def test_a_damaged_entry_is_found_said_once_and_built_again(filled: Filled, damage: str) -> None:
    kind, folder = filled
    (library,) = libraries(kind, folder)
    content = bytearray(library.read_bytes())
    if damage == "one bit":
        content[len(content) // 2] ^= 1
    library.write_bytes(content[: len(content) // 2] if damage == "truncated" else content)
    if damage == "removed":
        library.unlink()
    repaired = build(kind, folder)
    assert repaired["compilations"] > 0
    if (kind, damage) != ("cuda", "removed"):  # TileLang takes that for an entry that isn't there yet
        (said,) = repaired["said"]
        assert str(library.parent) in said and ("recompiling" in said or "built again" in said)
    assert build(kind, folder) | {"values": []} == {"compilations": 0, "values": [], "said": []}


def test_an_entry_of_another_tilelang_is_neither_taken_nor_touched(tmp_path: Path) -> None:
    need("cuda")
    build("cuda", tmp_path)
    (library,) = libraries("cuda", tmp_path)
    version = next(part for part in library.relative_to(tmp_path).parts)
    (tmp_path / version).rename(tmp_path / "0.0.1")
    (older,) = libraries("cuda", tmp_path)
    older.write_bytes(b"of another version")
    after = build("cuda", tmp_path)
    assert after["compilations"] > 0 and after["said"] == []
    assert older.read_bytes() == b"of another version"
    assert {*libraries("cuda", tmp_path)} == {library, older}


def test_a_host_model_entry_of_another_source_is_neither_taken_nor_touched(tmp_path: Path) -> None:
    need("host_model")
    build("host_model", tmp_path)
    (library,) = libraries("host_model", tmp_path)
    other = library.parent.with_name("0" * 32)
    library.parent.rename(other)
    assert build("host_model", tmp_path) | {"values": []} == {"compilations": 2, "values": [], "said": []}
    assert library.is_file() and (other / "kernel.so").is_file()


@pytest.fixture
def small_folder(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    mounted = shutil.which("mount") and subprocess.run(["mount", *options], capture_output=True).returncode == 0
    if not mounted:
        pytest.skip("only root may mount a small file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_folder_is_said_once_and_kernels_go_elsewhere(small_folder: Path) -> None:
    need("cuda")
    with (small_folder / "ballast").open("wb", buffering=0) as file:
        file.write(bytes(2**17))
    full = build("cuda", small_folder)
    assert full["compilations"] > 0
    (said,) = full["said"]
    assert f"the kernel cache can't use {small_folder}" in said and "No space left on device" in said
    assert [path.name for path in small_folder.iterdir()] == ["ballast"]


def test_a_folder_that_fills_up_leaves_no_half_entry_and_the_kernel_works(small_folder: Path) -> None:
    need("cuda")
    with (small_folder / "ballast").open("wb", buffering=0) as file:
        file.write(bytes(2**15))
    for _ in range(2):
        process = build("cuda", small_folder)
        assert process["compilations"] > 0
        assert [said for said in process["said"] if "atomic cache save" in said], process["said"]
    assert libraries("cuda", small_folder) == []
