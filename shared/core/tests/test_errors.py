"""The page of errors that any op can raise, against what calls raise."""

from __future__ import annotations

from pathlib import Path

from tilevl.testing.errors import ErrorPageSuite

from .errors import TABLES


class TestErrors(ErrorPageSuite):
    package = "core"
    tables = TABLES
    page = Path(__file__).parents[1] / "ERRORS.md"
