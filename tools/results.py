"""Adds up what the sessions of one run of nox tested. Standard library only."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

FOLDER = "TILEVL_RESULTS"  # environment variable: where each session that runs pytest leaves its junit file


@dataclass(frozen=True)
class Tally:
    """Tests of pytest sessions; a session without pytest counts as one."""

    passed: int
    failed: int
    skipped: int

    @property
    def line(self) -> str:
        """The closing line."""
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def add_up(folder: Path, report: Path) -> Tally | None:
    """The sum over a run.

    Args:
        folder: the junit files, one for each session that ran pytest, named by ``file_name``.
        report: what ``nox --report`` wrote.

    Returns:
        None where no session ran pytest.
    """
    if not report.is_file() or not any(folder.glob("*.xml")):
        return None
    passed = failed = skipped = 0
    for session in json.loads(report.read_text(encoding="utf-8"))["sessions"]:
        ok = session["result"] == "success"
        path = folder / file_name(session["signatures"][0] if session["signatures"] else session["name"])
        if session["result"] == "skipped":
            skipped += 1
            continue
        if not path.is_file():
            passed, failed = passed + ok, failed + (not ok)
            continue
        tally = tally_of(path)
        passed += tally.passed
        failed += tally.failed or not ok  # a session can fail beside its tests, by a warning at its end for example
        skipped += tally.skipped
    return Tally(passed, failed, skipped)


def tally_of(path: Path) -> Tally:
    """What one run of pytest gave, by its junit file.

    Raises:
        SystemExit: it is no junit file.
    """
    suite = ElementTree.parse(path).getroot().find("testsuite")
    if suite is None:
        raise SystemExit(f"{path} is no junit file")
    bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
    skips = int(suite.get("skipped", 0))
    return Tally(int(suite.get("tests", 0)) - bad - skips, bad, skips)


def file_name(session: str) -> str:
    """The junit file of a session, by nox's name for it."""
    return "".join(c if c.isalnum() else "-" for c in session) + ".xml"
