"""The page of errors against what calls raise, and against the source."""

from __future__ import annotations

from pathlib import Path

from tilevl.testing.errors import ErrorSuite

from .errors import TABLES


class TestErrors(ErrorSuite):
    package = "new_op"
    tables = TABLES
    page = Path(__file__).parents[1] / "ERRORS.md"
