"""Starting other programs: compilers that tell their version, and Python children that import what may break."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Finished:
    """How a program ended.

    Attributes:
        output: what it wrote to both streams, or to stdout alone where it succeeded and wrote there.
        problem: why it doesn't count as a success, for example ``"exit status 1"``; empty on success.
    """

    output: str
    problem: str = ""


def run(command: Sequence[str], *, timeout: float, environ: Mapping[str, str] | None = None) -> Finished:
    """Runs a program without input; after the timeout ends it with all that it started.

    Args:
        command: program and arguments.
        timeout: seconds to wait.
        environ: its environment variables; None for those of this process.
    """
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if environ is None else dict(environ),
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:  # not executable, for another machine, a script whose interpreter is missing
        return Finished("", f"it can't be started: {error.strerror or error}")
    with process:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            _end(process)
            process.communicate()
            return Finished("", f"no answer within {timeout:g} s")
    if process.returncode < 0:
        return Finished(out + err, f"ended by signal {_signal_name(-process.returncode)}")
    if process.returncode:
        return Finished(out + err, f"exit status {process.returncode}")
    return Finished(out if out.strip() else err)


def _end(process: subprocess.Popen[str]) -> None:
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)  # its own session: a child of its own would hold the pipes open
    else:
        process.kill()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has no name
        return str(number)
