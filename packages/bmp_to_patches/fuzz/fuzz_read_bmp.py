"""Fuzzes read_bmp, guided by the lines that each file reaches: no crash, no hang, little memory, Pillow's pixels.

``nox -s fuzz -- --seconds 3600 --findings findings``, or this file itself where atheris, which it needs, is installed.
A file that breaks a rule is kept in the folder of findings, one for each kind of failure, and makes the run fail.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import hashlib
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import tracemalloc
import warnings
from pathlib import Path
from typing import NoReturn

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

with atheris.instrument_imports(include=["tilevl.bmp_to_patches"]):
    import tilevl.bmp_to_patches  # noqa: F401  instrumented here, before the rules import it

from tests import bmp_mutations, reading_rules

_ROOM = 2**29  # bytes of address space beside what is mapped at the start
_LONGEST_FILE = 2**16
_SECONDS_PER_FILE = 10  # of this process's own time: another may hold the machine for longer


class Run:
    """What was seen so far, and when to stop."""

    def __init__(self, seconds: float, findings: Path) -> None:
        self._started = self._said = time.monotonic()
        self._seconds = seconds
        self._findings = findings
        self._outcomes: collections.Counter[str] = collections.Counter()
        self._kinds: collections.Counter[str] = collections.Counter()
        self._slowest = 0.0

    def one(self, content: bytes) -> None:
        """Judges one file, whose bytes also choose the size of patch and window."""
        digest = hashlib.sha256(content).digest()
        patch_size, window = (1, 1, 2, 3)[digest[0] % 4], 1 + digest[1] % 2
        start = time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS_PER_FILE)
        try:
            self._outcomes[reading_rules.judge(content, patch_size, window)] += 1
        except Exception as error:  # whatever it is, it is a finding
            self._keep(content, error)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        self._slowest = max(self._slowest, time.process_time() - start)
        now = time.monotonic()
        if now - self._said > 60:
            self._said = now
            print(self.summary(), flush=True)
        if now - self._started > self._seconds:
            print(self.summary(), flush=True)
            os._exit(1 if self._kinds else 0)  # libFuzzer would end the process itself, with no word from us

    def _keep(self, content: bytes, error: Exception) -> None:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        kind = f"{type(error).__name__}-{Path(frame.filename).stem}-{frame.lineno}"
        self._kinds[kind] += 1
        if self._kinds[kind] == 1:
            self._findings.mkdir(parents=True, exist_ok=True)
            (self._findings / f"{kind}.bmp").write_bytes(content)
            (self._findings / f"{kind}.txt").write_text(traceback.format_exc(), encoding="utf-8")
            print(f"finding {kind}: {error}", flush=True)

    def summary(self) -> str:
        """One line of figures."""
        outcomes = ", ".join(f"{name}: {count}" for name, count in sorted(self._outcomes.items()))
        kinds = ", ".join(f"{name}: {count}" for name, count in sorted(self._kinds.items())) or "none"
        return (
            f"{time.monotonic() - self._started:.0f} s, {sum(self._outcomes.values())} files ({outcomes}); "
            f"slowest {self._slowest * 1000:.0f} ms of CPU; findings: {kinds}"
        )


def mutated(content: bytes, max_size: int, seed: int) -> bytes:
    """Another file: a field of the header changed, the end cut off or made longer, or what libFuzzer does by itself."""
    rng = random.Random(seed)
    choice = rng.random()
    if choice < 0.5:
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            value = rng.choice((*bmp_mutations.VALUES, len(content), rng.getrandbits(32), rng.randrange(64)))
            content = bmp_mutations.with_field(content, rng.choice([*bmp_mutations.FIELDS]), value)
    elif choice < 0.6:
        content = content[: rng.randrange(len(content) + 1)]
    elif choice < 0.65:
        content += rng.randbytes(rng.randrange(200))
    else:
        content = atheris.Mutate(content, max_size)
    return content[:max_size]


def main() -> None:
    """Fuzzes for the time that is asked for."""
    parser = argparse.ArgumentParser(prog="fuzz_read_bmp.py", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long (60)")
    parser.add_argument(
        "--findings", type=Path, default=Path("fuzz-findings"), help="folder for files that break rules"
    )
    parser.add_argument("--seed", type=int, default=0, help="of libFuzzer; 0 chooses one")
    options = parser.parse_args()
    signal.signal(signal.SIGVTALRM, too_slow)
    warnings.simplefilter("ignore")  # Pillow warns of large images
    tracemalloc.start()
    judged_once(bmp_mutations.seeds()[0])
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + _ROOM, mapped + _ROOM))
    with tempfile.TemporaryDirectory() as corpus:
        for i, content in enumerate(bmp_mutations.seeds()):
            (Path(corpus) / f"seed-{i:03d}").write_bytes(content)
        options.findings.mkdir(parents=True, exist_ok=True)
        arguments = [
            sys.argv[0], corpus, f"-seed={options.seed}", f"-max_len={_LONGEST_FILE}", "-rss_limit_mb=0",
            f"-timeout={60 * _SECONDS_PER_FILE}", f"-artifact_prefix={options.findings}/", "-verbosity=0",
        ]  # fmt: skip
        run = Run(options.seconds, options.findings)
        atheris.Setup(arguments, run.one, custom_mutator=mutated)
        atheris.Fuzz()


def too_slow(number: int, frame: object) -> NoReturn:
    """Ends the reading of a file that takes too long."""
    raise TimeoutError(f"a file takes longer than {_SECONDS_PER_FILE} s")


def judged_once(content: bytes) -> None:
    """Judges a good file, so that what is imported and built on first use doesn't count as the memory of another."""
    with contextlib.suppress(AssertionError):
        reading_rules.judge(content)
    reading_rules.judge(content)


if __name__ == "__main__":
    main()
