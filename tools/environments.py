"""Virtual environments that are either finished or made anew, and that can be stacked on one another.

The folder of a finished environment holds the key it was made for, written last: one whose making was interrupted, or
whose key is another now, is made again. Standard library only, since ``dev.py`` runs it on a bare machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

_KEY_FILE = "made-for"
_STACK_FILE = "stacked_on.pth"
_ASK_SITES = (
    "import site, sys, sysconfig; "
    "sites = [sysconfig.get_path('purelib'), sysconfig.get_path('platlib'), *site.getsitepackages()]; "
    "sites += [site.getusersitepackages()] if site.ENABLE_USER_SITE else []; "
    "print('\\n'.join(dict.fromkeys(sites)))"
)
_NO_VENV = """\
{interpreter} can't make virtual environments: it has no ensurepip and no pip.
  Debian, Ubuntu: apt install python3-venv
  elsewhere: run this with another Python >= 3.10, for example one of your system's package manager"""


def make(
    folder: Path,
    key: str,
    fill: Callable[[Path], None],
    *,
    interpreter: str = sys.executable,
    over: Sequence[Path] = (),
    with_pip: bool = True,
    keep: bool = False,
) -> Path:
    """The Python of a virtual environment, which is made unless a finished one with this key is there.

    Args:
        folder: where it lies. What else is there is removed.
        key: stands for all that goes into it; see ``digest``.
        fill: installs into it, given its Python; called once.
        interpreter: the Python that it is made from.
        over: ``site-packages`` folders below it: what they hold can be imported and counts as installed.
        with_pip: whether it gets a pip of its own, which takes seconds; a folder below may bring one.
        keep: whether a finished one of this Python with another key is filled on top of what it holds.
    """
    python, made_for = python_of(folder), folder / _KEY_FILE
    # An environment's Python and the Python that it was made from are one, so that runs inside of runs agree.
    of_this_python = digest(sys.version, sys.base_prefix) if interpreter == sys.executable else digest(interpreter)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _alone(folder.with_name(f"{folder.name}.lock")):
        finished = made_for.read_text(encoding="utf-8").split() if python.exists() and made_for.is_file() else []
        if finished == [of_this_python, key]:
            return python
        if keep and finished[:1] == [of_this_python]:
            made_for.unlink()
        else:
            if folder.exists():
                shutil.rmtree(folder)
            _create(folder, interpreter, with_pip=with_pip)
        if over:
            lines = [f"import site; site.addsitedir({str(site)!r})\n" for site in over]
            (site_of(python) / _STACK_FILE).write_text("".join(lines), encoding="utf-8")
        fill(python)
        made_for.write_text(f"{of_this_python} {key}", encoding="utf-8")
    return python


def digest(*parts: str) -> str:
    """A key for an environment, from all that goes into it but its Python."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def python_of(folder: Path) -> Path:
    """The interpreter of a virtual environment."""
    return folder / "Scripts" / "python.exe" if os.name == "nt" else folder / "bin" / "python"


def site_of(python: Path) -> Path:
    """The ``site-packages`` that belongs to an interpreter."""
    return sites_of(str(python))[0]


def sites_of(interpreter: str) -> list[Path]:
    """All the ``site-packages`` folders that an interpreter looks into, its own first."""
    asked = subprocess.run([interpreter, "-c", _ASK_SITES], capture_output=True, text=True, check=True)
    return [Path(line) for line in asked.stdout.splitlines()]


def pip_install(python: Path, *arguments: str, pip: Sequence[str] = ()) -> None:
    """Runs ``pip install`` for an environment.

    Args:
        python: the environment's interpreter.
        arguments: what follows ``pip install``.
        pip: the command to use for it; None for the environment's own.

    Raises:
        SystemExit: pip failed; it has said why.
    """
    quiet = () if sys.stderr.isatty() else ("-qq",)  # errors only
    command = [*(pip or (str(python), "-m", "pip")), "install", "--disable-pip-version-check", *quiet, *arguments]
    environ = {**os.environ, "PIP_USER": "0"}  # a user's own default, which pip refuses in a virtual environment
    if subprocess.run(command, env=environ).returncode:
        raise SystemExit(f"pip could not install into {python.parents[1]}; its message is above")


def _create(folder: Path, interpreter: str, *, with_pip: bool) -> None:
    ensured = with_pip and _has(interpreter, "ensurepip")
    command = [interpreter, "-m", "venv", str(folder)] + ([] if ensured else ["--without-pip"])
    if with_pip and not ensured and not _has(interpreter, "pip"):
        raise SystemExit(_NO_VENV.format(interpreter=interpreter))
    if subprocess.run(command).returncode:
        raise SystemExit(f"{interpreter} could not make a virtual environment in {folder}; its message is above")
    if with_pip and not ensured:  # Debian's python3-pip without python3-venv: that pip can fill the environment
        python = python_of(folder)
        pip_install(python, "pip", pip=(interpreter, "-m", "pip", "--python", str(python)))


def _has(interpreter: str, module: str) -> bool:
    command = [interpreter, "-c", f"import importlib.util, sys; sys.exit(not importlib.util.find_spec({module!r}))"]
    return subprocess.run(command).returncode == 0


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Waits until no other process makes the environment; the system frees the lock of one that was ended."""
    with lock.open("w") as file:
        if sys.platform == "win32":
            import msvcrt

            while True:
                try:
                    msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
                    break
                except OSError:  # it gives up after ten seconds
                    continue
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
