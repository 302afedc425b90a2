"""From addresses in a library to lines of the generated source."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from tilevl.testing.ascend_host.errors import Fault

_PLACE = re.compile(r"@\{([0-9a-f]+)\.([0-9a-f]+)\}")  # of an access, and of the call it belongs to


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


class _Lines:
    """Places as text, with lines of the generated source where they have one."""

    def __init__(self, frames: dict[str, list[tuple[str, int]]], source: str) -> None:
        self._frames = frames
        self._source = source.splitlines()

    def number(self, place: tuple[str, str]) -> int | None:
        """The line of an access, or else of the call that it belongs to."""
        for code in place:
            for name, number in self._frames.get(code, []):
                if name == "kernel.cpp" and number <= len(self._source):
                    return number
        return None

    def text(self, place: tuple[str, str]) -> str:
        number = self.number(place)
        if number is not None:
            return f"line {number} (`{self._source[number - 1].strip()}`)"
        frames = self._frames.get(place[0], [])
        return f"{frames[-1][0]}:{frames[-1][1]}" if frames else "an unknown line"


def read_outcome(outcome: bytes, library: Path, source: str) -> tuple[Fault, ...]:
    """The faults in what the runtime reports: texts that end in a zero byte, each with its kind on the first line."""
    texts = [text for text in outcome.decode(errors="replace").split("\0") if text]
    codes = sorted({code for text in texts for pair in _PLACE.findall(text) for code in pair})
    frames = _frames(library, codes)
    lines = _Lines(frames, source)
    faults: list[Fault] = []
    for text in texts:
        kind, _, message = text.partition("\n")
        numbers = [lines.number(place) for place in _PLACE.findall(message)]
        message = _PLACE.sub(lambda match: lines.text((match[1], match[2])), message)
        fault = Fault(kind, message, tuple(number for number in numbers if number is not None))
        # An unrolled loop is many places in the code, and one pair of lines.
        if len(fault.lines) < 2 or all((fault.kind, fault.lines) != (old.kind, old.lines) for old in faults):
            faults.append(fault)
    return tuple(faults)
