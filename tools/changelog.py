"""Reads and dates a package's CHANGELOG.md, in the form of Keep a Changelog. Standard library only."""

from __future__ import annotations

import itertools
import re

UNRELEASED = "## [Unreleased]"
KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
_HEADING = re.compile(r"## \[(\d+)\.(\d+)\.(\d+)\] - (\d{4}-\d{2}-\d{2})")


def unreleased(text: str) -> str:
    """What stands under the Unreleased heading."""
    after = text.partition(f"{UNRELEASED}\n")[2]
    return re.split(r"^## ", after, maxsplit=1, flags=re.MULTILINE)[0].strip()


def dated(text: str, version: str, date: str) -> str:
    """The text with what is unreleased moved under a heading of its version, and an empty Unreleased above."""
    return text.replace(f"{UNRELEASED}\n", f"{UNRELEASED}\n\n## [{version}] - {date}\n", 1)


def problems(text: str, distribution: str) -> list[str]:
    """What breaks the form; empty where nothing does."""
    lines = text.splitlines()
    headings = [line for line in lines if line.startswith("## ")]
    found = []
    if not lines or lines[0] != f"# Changelog of {distribution}":
        found.append(f"must start with '# Changelog of {distribution}'")
    if headings[:1] != [UNRELEASED]:
        found.append(f"must have '{UNRELEASED}' as its first heading")
    versions = []
    for heading in headings[1:]:
        match = _HEADING.fullmatch(heading)
        if match is None:
            found.append(f"has the heading '{heading}', which is not '## [1.2.3] - 2026-01-31'")
        else:
            versions.append(tuple(int(part) for part in match.groups()[:3]))
    if any(newer <= older for newer, older in itertools.pairwise(versions)):
        found.append("must have its versions in order, the newest on top")
    kinds = [line.removeprefix("### ") for line in lines if line.startswith("### ")]
    found += [
        f"has the heading '### {kind}', which is none of {', '.join(KINDS)}" for kind in kinds if kind not in KINDS
    ]
    return found
