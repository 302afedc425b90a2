"""The list of reports names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import tree

REPORTS = Path(__file__).with_name("REPORTS.md")


def test_every_test_that_the_list_of_reports_names_exists() -> None:
    named = re.findall(r"`([\w./-]+\.py)::(\w+)`", REPORTS.read_text(encoding="utf-8"))
    assert len(named) >= 60
    missing = []
    for path, name in named:
        file = tree.ROOT / path
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
        if not re.search(rf"def {name}\(|[\"']{name}[\"']", text):  # a test, or the name of a case
            missing.append(f"{path}::{name}")
    assert missing == []
