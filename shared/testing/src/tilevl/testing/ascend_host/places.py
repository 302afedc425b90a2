"""From addresses in a library to lines of the generated source."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from tilevl.testing.ascend_host.errors import Fault

_PLACE = re.compile(r"@\{([0-9a-f]+)\}")


def _frames(library: Path, codes: list[str]) -> dict[str, list[tuple[str, int]]]:
    """For each address the chain of inlined calls, innermost first, as (file name, line)."""
    tool = shutil.which("addr2line")
    if tool is None or not codes:
        return {code: [] for code in codes}
    done = subprocess.run([tool, "-a", "-i", "-e", str(library), *codes], capture_output=True, text=True, check=True)
    frames: dict[str, list[tuple[str, int]]] = {}
    current: list[tuple[str, int]] = []
    for line in done.stdout.splitlines():
        if line.startswith("0x"):
            current = frames.setdefault(format(int(line, 16), "x"), [])
            continue
        path, _, number = line.partition(" ")[0].rpartition(":")
        if number.isdigit():
            current.append((Path(path).name, int(number)))
    return frames


def _text(frames: list[tuple[str, int]], source: list[str]) -> tuple[str, int | None]:
    own = [number for name, number in frames if name == "kernel.cpp" and number <= len(source)]
    if own:
        return f"line {own[0]} (`{source[own[0] - 1].strip()}`)", own[0]
    outer = [
        frame for frame in frames if not (frame[0].startswith("vector") or frame[0] in ("dma.h", "cube.h", "sync.h"))
    ]
    return (f"{outer[0][0]}:{outer[0][1]}", None) if outer else ("an unknown line", None)


def read_outcome(outcome: bytes, library: Path, source: str) -> tuple[Fault, ...]:
    """The faults in what the runtime reports: texts that end in a zero byte, each with its kind on the first line."""
    texts = [text for text in outcome.decode(errors="replace").split("\0") if text]
    codes = sorted({code for text in texts for code in _PLACE.findall(text)})
    frames = _frames(library, codes)
    lines = source.splitlines()
    faults = []
    for text in texts:
        kind, _, message = text.partition("\n")
        numbers = [_text(frames.get(code, []), lines)[1] for code in _PLACE.findall(message)]
        message = _PLACE.sub(lambda match: _text(frames.get(match[1], []), lines)[0], message)
        faults.append(Fault(kind, message, tuple(number for number in numbers if number is not None)))
    return tuple(faults)
