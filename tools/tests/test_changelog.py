from __future__ import annotations

import changelog
import pytest

TEXT = """\
# Changelog of tilevl-x

Form: Keep a Changelog.

## [Unreleased]

### Fixed

- The last row.

## [0.2.0] - 2026-02-01

### Added

- Windows.

## [0.1.0] - 2026-01-31

### Added

- All of it.
"""


def test_unreleased_is_what_stands_before_the_next_version() -> None:
    assert changelog.unreleased(TEXT) == "### Fixed\n\n- The last row."


def test_unreleased_without_any_version_is_the_rest() -> None:
    assert changelog.unreleased("# C\n\n## [Unreleased]\n\n### Added\n\n- It.\n") == "### Added\n\n- It."


def test_dating_moves_what_was_unreleased_and_keeps_the_rest() -> None:
    dated = changelog.dated(TEXT, "0.2.1", "2026-03-04")
    assert changelog.unreleased(dated) == ""
    assert changelog.problems(dated, "tilevl-x") == []
    assert dated.replace("\n\n## [0.2.1] - 2026-03-04\n", "\n", 1) == TEXT


def test_the_form_itself_has_no_problems() -> None:
    assert changelog.problems(TEXT, "tilevl-x") == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("# Changelog of tilevl-x", "# Changes", "must start with '# Changelog of tilevl-x'"),
        ("## [Unreleased]", "## Unreleased", "must have '## [Unreleased]' as its first heading"),
        ("## [0.2.0] - 2026-02-01", "## 0.2.0", "has the heading '## 0.2.0'"),
        ("## [0.2.0] - 2026-02-01", "## [0.2.0] - 1 Feb", "has the heading '## [0.2.0] - 1 Feb'"),
        ("[0.2.0]", "[0.0.9]", "must have its versions in order"),
        ("[0.2.0]", "[0.1.0]", "must have its versions in order"),
        ("### Fixed", "### Bugs", "has the heading '### Bugs'"),
    ],
)
def test_a_broken_form_is_named(old: str, new: str, problem: str) -> None:
    assert any(problem in found for found in changelog.problems(TEXT.replace(old, new), "tilevl-x"))


def test_versions_are_compared_as_numbers() -> None:
    assert changelog.problems(TEXT.replace("[0.2.0]", "[0.10.0]"), "tilevl-x") == []
    text = TEXT.replace("[0.2.0]", "[0.9.0]").replace("[0.1.0]", "[0.10.0]")
    assert changelog.problems(text, "tilevl-x") == ["must have its versions in order, the newest on top"]
