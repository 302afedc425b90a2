"""Building kernels with g++, once per content."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

from tilevl.core.cache_directory import kernel_cache_directory
from tilevl.testing.ascend_host.errors import CompilationError, CompilerMissingError, HostModelError

_HERE = Path(__file__).resolve().parent
INCLUDE = _HERE / "include"
RUNTIME = _HERE / "runtime"

_COMMON_FLAGS = ("-std=c++20", "-fPIC", "-g1", "-ffp-contract=off", "-fno-strict-aliasing", "-fvisibility=hidden")
_RUNTIME_FLAGS = (*_COMMON_FLAGS, "-O2", "-Wall", "-Wextra")
# A warp operation is known by its address in the code, and the lanes that are behind are those at the lowest one: so a
# call must be neither copied nor merged, and blocks stay in the order of the source.
_IN_ORDER = (
    "-fno-reorder-blocks",
    "-fno-guess-branch-probability",
    "-fno-thread-jumps",
    "-fno-tree-dominator-opts",
    "-fno-tree-tail-merge",
    "-fno-crossjumping",
)
# The callbacks of -fsanitize=thread are the runtime's own: libtsan is not linked.
_KERNEL_FLAGS = (
    *_COMMON_FLAGS,
    "-O1",
    "-w",
    "-fstack-clash-protection",  # a large frame meets the end of its stack
    "-fsanitize=thread",
    "--param",
    "tsan-instrument-func-entry-exit=0",
    *_IN_ORDER,
)
_SHOWN_ERRORS = 12

_CONTENTS = "contents.json"  # in each folder of the cache: its files and their digests, written last
_LEFT_OVER = 3600  # seconds after which a folder that wasn't finished belongs to a process that was killed


@cache
def compiler() -> Path:
    """The C++ compiler.

    Raises:
        CompilerMissingError: there is no g++ on the path.
    """
    found = shutil.which("g++")
    if found is None:
        raise CompilerMissingError(
            "ascend_host: needs g++ (12 or newer, for C++20) on PATH to build kernels; install it, "
            "such as by `apt-get install g++`"
        )
    return Path(found)


@cache
def _compiler_version() -> str:
    return subprocess.run([str(compiler()), "--version"], capture_output=True, text=True, check=True).stdout


@cache
def template_directory() -> Path:
    """The folder that holds ``tl_templates`` in the installed TileLang.

    Raises:
        HostModelError: TileLang isn't installed, or has no Ascend templates.
    """
    spec = importlib.util.find_spec("tilelang")
    if spec is None or spec.origin is None:
        raise HostModelError("ascend_host: needs TileLang for its templates; install it by `pip install tilelang`")
    folder = Path(spec.origin).parent / "src"
    if not (folder / "tl_templates" / "ascend" / "common.h").is_file():
        raise HostModelError(f"ascend_host: the installed TileLang has no Ascend templates in {folder}")
    return folder


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.suffix in (".h", ".cpp"))


def _digest(parts: Sequence[str], folders: Sequence[Path]) -> str:
    digest = hashlib.sha256(_CONTENTS.encode())
    for part in parts:
        digest.update(part.encode() + b"\0")
    for folder in folders:
        for path in _files(folder):
            digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:32]


def _run(command: Sequence[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return
    lines = done.stderr.splitlines()
    errors = [line for line in lines if "error:" in line] or lines
    raise CompilationError(f"ascend_host: {what} does not compile:\n" + "\n".join(errors[:_SHOWN_ERRORS]))


def _built(name: str, build: Callable[[Path], None]) -> Path:
    """A folder of the cache, filled by ``build`` in another place first: it is there whole or not at all.

    Warns:
        RuntimeWarning: a file in it was damaged since; it is built again.
    """
    parent = kernel_cache_directory() / "ascend_host"
    folder = parent / name
    if folder.is_dir() and (_is_whole(folder) or _kept_by_another(folder)):
        return folder
    parent.mkdir(parents=True, exist_ok=True)
    _remove_left_over(parent)
    temporary = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=parent))
    try:
        build(temporary)
        (temporary / _CONTENTS).write_text(json.dumps(_contents(temporary)), encoding="utf-8")
        try:
            os.rename(temporary, folder)
        except OSError:  # another process was faster: its folder holds the same
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _contents(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.iterdir()) if path.name != _CONTENTS)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _is_whole(folder: Path) -> bool:
    try:
        written: object = json.loads((folder / _CONTENTS).read_text(encoding="utf-8"))
        return written == _contents(folder)
    except (OSError, ValueError):  # a file is gone or can't be read, or the list is no JSON
        return False


def _kept_by_another(folder: Path) -> bool:
    """Removes a damaged folder, unless another process has just done that and built it again."""
    with (folder.parent / ".repair").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_whole(folder):
            return True
        shutil.rmtree(folder, ignore_errors=True)
    warnings.warn(f"ascend_host: {folder} was damaged and is built again", RuntimeWarning, stacklevel=2)
    return False


def _remove_left_over(parent: Path) -> None:
    """Removes what processes that were killed have left."""
    for path in parent.glob(".*-*"):
        try:
            old = time.time() - path.stat().st_mtime > _LEFT_OVER
        except FileNotFoundError:  # another process was faster
            continue
        if old:
            shutil.rmtree(path, ignore_errors=True)


@cache
def _runtime() -> Path:
    key = _digest([_compiler_version(), *_RUNTIME_FLAGS], [RUNTIME, INCLUDE])

    def build(folder: Path) -> None:
        command = [str(compiler()), *_RUNTIME_FLAGS, f"-I{INCLUDE}", f"-I{RUNTIME}", "-c", str(RUNTIME / "runtime.cpp")]
        _run([*command, "-o", str(folder / "runtime.o")], "the runtime")

    return _built(f"runtime-{key}", build) / "runtime.o"


@cache
def _shared_key() -> str:
    templates = template_directory() / "tl_templates" / "ascend"
    return _digest([_compiler_version(), *_RUNTIME_FLAGS, *_KERNEL_FLAGS], [RUNTIME, INCLUDE, templates])


@cache
def _headers() -> Path:
    """A precompiled header: most of the time of a small kernel goes into the headers otherwise."""

    def build(folder: Path) -> None:
        header = folder / "headers.h"
        header.write_text("#include <tl_templates/ascend/common.h>\n")
        command = [str(compiler()), *_KERNEL_FLAGS, *_include_flags(), "-x", "c++-header", str(header)]
        _run([*command, "-o", f"{header}.gch"], "the header of TileLang's templates")

    return _built(f"headers-{_shared_key()}", build) / "headers.h"


def _include_flags() -> list[str]:
    return [f"-I{INCLUDE}", f"-I{template_directory()}"]


def build(source: str) -> Path:
    """Compiles a prepared source.

    Returns:
        The shared library; ``kernel.cpp`` lies beside it.

    Raises:
        CompilerMissingError: there is no g++.
        CompilationError: it refuses the source; the first errors are in the message.
    """
    key = _digest([_shared_key(), source], [])

    def compile_and_link(folder: Path) -> None:
        text, unit, library = folder / "kernel.cpp", folder / "kernel.o", folder / "kernel.so"
        text.write_text(source)
        include = [*_include_flags(), "-include", str(_headers())]
        _run([str(compiler()), *_KERNEL_FLAGS, *include, "-c", str(text), "-o", str(unit)], "the kernel")
        _run(
            [str(compiler()), "-shared", "-Wl,-Bsymbolic", str(unit), str(_runtime()), "-o", str(library)],
            "the library",
        )
        unit.unlink()

    return _built(key, compile_and_link) / "kernel.so"
