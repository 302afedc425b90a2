"""Where the files of generated kernels go.

The folder is the first of these that is set: the environment variable ``TILEVL_CACHE_DIR``; TileLang's own
``TILELANG_CACHE_DIR``; ``$XDG_CACHE_HOME/tilevl``; ``~/.cache/tilevl``. Where it can't be written, a private temporary
folder takes its place until the process ends, with one warning. Nothing is created before the first kernel needs it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
import warnings
from pathlib import Path

VARIABLE = "TILEVL_CACHE_DIR"
TILELANG_VARIABLE = "TILELANG_CACHE_DIR"

_lock = threading.Lock()
_chosen: Path | None = None


def configured() -> tuple[Path | None, str]:
    """The folder that the settings ask for, and what sets it; None where no home folder is known.

    A relative ``XDG_CACHE_HOME`` is ignored, as the XDG base directory specification asks; a relative folder in the
    other variables is taken from the working directory.
    """
    for variable in (VARIABLE, TILELANG_VARIABLE):
        value = os.environ.get(variable)
        if value:
            return Path(os.path.abspath(os.path.expanduser(value))), f"set by {variable}"
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):
        return Path(base) / "tilevl", "set by XDG_CACHE_HOME"
    try:
        return Path.home() / ".cache" / "tilevl", "the default"
    except RuntimeError:  # HOME is unset and this user has no entry in the password database
        return None, "the default"


def problem_with(folder: Path) -> str:
    """Why files can't be written to a folder, or to the place where it would be made; empty where they can.

    Leaves nothing behind: what is missing isn't made, and the file that is written has no name.
    """
    place = folder
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    if not place.is_dir():
        return f"{place} is not a folder"
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(b"tilevl")
    except OSError as error:  # read-only, not this user's, full, ...
        return f"{place} can't be written: {error.strerror or error}"
    return ""


def kernel_cache_directory() -> Path:
    """The folder for the files of generated kernels, made where it was missing.

    The first call decides for the process. Safe to call from several threads.

    Warns:
        RuntimeWarning: once in a process, where the folder that the settings ask for can't be written.
    """
    global _chosen
    with _lock:
        if _chosen is None:
            folder, origin = configured()
            problem = "no home folder is known" if folder is None else _make(folder)
            _chosen = _temporary(folder, origin, problem) if folder is None or problem else folder
        return _chosen


def _make(folder: Path) -> str:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        return problem_with(folder) or f"it can't be made: {error.strerror or error}"
    return problem_with(folder)


def _temporary(folder: Path | None, origin: str, problem: str) -> Path:
    temporary = Path(tempfile.mkdtemp(prefix="tilevl-"))  # 0o700: nobody else may put code there
    atexit.register(_remove, temporary, os.getpid())
    warnings.warn(
        f"tilevl: the kernel cache can't use {folder or 'a folder'} ({origin}): {problem}. Kernels of this process go "
        f"to {temporary} and are lost when it ends; set {VARIABLE} to a folder that this user may write",
        RuntimeWarning,
        stacklevel=3,
    )
    return temporary


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child must not remove what its parent uses
        shutil.rmtree(folder, ignore_errors=True)


def direct_tilelang() -> Path:
    """Has TileLang keep its compiled kernels in ``kernel_cache_directory()``. Call it before TileLang is imported.

    TileLang makes its folder while it is imported, without looking whether it may, so that a home folder that can't be
    written breaks the import. It reads the variable that is set here, in this process and in those that it starts.
    """
    folder = kernel_cache_directory()
    os.environ[TILELANG_VARIABLE] = str(folder)
    return folder
