from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import environments
import pytest


def run(python: Path, code: str) -> str:
    return subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def marked(python: Path) -> None:
    (environments.site_of(python) / "marked.py").write_text("times = 1\n", encoding="utf-8")


def test_a_finished_environment_is_used_again(tmp_path: Path) -> None:
    filled: list[Path] = []
    for _ in range(2):
        python = environments.make(tmp_path / "env", "key", filled.append, with_pip=False)
    assert filled == [python]
    assert run(python, "import sys; print(sys.prefix != sys.base_prefix)") == "True"


def test_another_key_makes_it_anew_without_what_was_there(tmp_path: Path) -> None:
    python = environments.make(tmp_path / "env", "first", marked, with_pip=False)
    assert run(python, "import marked; print(marked.times)") == "1"
    python = environments.make(tmp_path / "env", "second", lambda python: None, with_pip=False)
    assert run(python, "import importlib.util; print(importlib.util.find_spec('marked'))") == "None"


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_one_whose_making_was_interrupted_is_not_trusted(tmp_path: Path, interruption: type[BaseException]) -> None:
    def half(python: Path) -> None:
        marked(python)
        raise interruption

    with pytest.raises(interruption):
        environments.make(tmp_path / "env", "key", half, with_pip=False)
    filled: list[Path] = []
    python = environments.make(tmp_path / "env", "key", filled.append, with_pip=False)
    assert filled == [python]
    assert run(python, "import importlib.util; print(importlib.util.find_spec('marked'))") == "None"


def test_one_killed_between_creation_and_its_key_is_not_trusted(tmp_path: Path) -> None:
    script = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); import environments; from pathlib import Path; "
        "environments.make(Path(sys.argv[2]), 'key', lambda python: os._exit(9), with_pip=False)"
    )
    folder = tmp_path / "env"
    tools = str(Path(environments.__file__).parent)
    assert subprocess.run([sys.executable, "-c", script, tools, str(folder)]).returncode == 9
    assert environments.python_of(folder).exists()
    filled: list[Path] = []
    environments.make(folder, "key", filled.append, with_pip=False)
    assert len(filled) == 1


def test_one_whose_interpreter_is_gone_is_made_anew(tmp_path: Path) -> None:
    python = environments.make(tmp_path / "env", "key", marked, with_pip=False)
    python.unlink()
    assert environments.make(tmp_path / "env", "key", marked, with_pip=False).exists()


def test_a_stacked_one_sees_what_lies_below_and_hides_it_by_its_own(tmp_path: Path) -> None:
    below = environments.make(tmp_path / "below", "key", marked, with_pip=False)
    sites = [environments.site_of(below)]
    above = environments.make(tmp_path / "above", "key", lambda python: None, over=sites, with_pip=False)
    assert run(above, "import marked; print(marked.times)") == "1"
    (environments.site_of(above) / "marked.py").write_text("times = 2\n", encoding="utf-8")
    assert run(above, "import marked; print(marked.times)") == "2"
    assert run(below, "import marked; print(marked.times)") == "1"


def test_two_processes_make_one_environment_once(tmp_path: Path) -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import environments; from pathlib import Path; "
        "log = Path(sys.argv[2]).parent / 'log'; "
        "fill = lambda python: log.open('a').write('filled\\n'); "
        "environments.make(Path(sys.argv[2]), 'key', fill, with_pip=False)"
    )
    command = [sys.executable, "-c", script, str(Path(environments.__file__).parent), str(tmp_path / "env")]
    both = [subprocess.Popen(command), subprocess.Popen(command)]
    assert [process.wait() for process in both] == [0, 0]
    assert (tmp_path / "log").read_text(encoding="utf-8") == "filled\n"


def python_without(tmp_path: Path, *modules: str) -> str:
    """A Python that finds some of its modules missing, as Debian's is without its packages."""
    blocker = tmp_path / "blocker"
    blocker.mkdir()
    (blocker / "sitecustomize.py").write_text(
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] in {modules!r}:\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        "import importlib.util as util\n"
        "find = util.find_spec\n"
        f"util.find_spec = lambda name, package=None: None if name in {modules!r} else find(name, package)\n",
        encoding="utf-8",
    )
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={blocker} exec {sys.executable} "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return str(script)


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script stands in for Python")
def test_a_python_that_cannot_make_environments_says_what_to_install(tmp_path: Path) -> None:
    python = python_without(tmp_path, "ensurepip", "pip")
    with pytest.raises(SystemExit, match=r"no ensurepip and no pip[^$]*apt install python3-venv"):
        environments.make(tmp_path / "env", "key", lambda python: None, interpreter=python)
    assert not (tmp_path / "env").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script stands in for Python")
def test_a_python_with_pip_but_without_ensurepip_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        environments, "pip_install", lambda python, *arguments, pip=(): asked.append((*pip, *arguments))
    )
    python = python_without(tmp_path, "ensurepip")
    made = environments.make(tmp_path / "env", "key", lambda python: None, interpreter=python)
    assert asked == [(python, "-m", "pip", "--python", str(made), "pip")]


def test_one_that_is_kept_is_filled_on_top_unless_that_was_interrupted(tmp_path: Path) -> None:
    folder = tmp_path / "env"
    environments.make(folder, "first", marked, with_pip=False, keep=True)

    def half(python: Path) -> None:
        raise KeyboardInterrupt

    python = environments.make(folder, "second", lambda python: None, with_pip=False, keep=True)
    assert run(python, "import marked; print(marked.times)") == "1"
    with pytest.raises(KeyboardInterrupt):
        environments.make(folder, "third", half, with_pip=False, keep=True)
    python = environments.make(folder, "third", lambda python: None, with_pip=False, keep=True)
    assert run(python, "import importlib.util; print(importlib.util.find_spec('marked'))") == "None"
