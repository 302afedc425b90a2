from __future__ import annotations

from pathlib import Path

import errors
import pytest
import tree


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tree.Package:
    probe = tree.Package("probe", tmp_path, is_op=True)
    monkeypatch.setattr(tree, "find", lambda name: probe)
    monkeypatch.setattr(errors, "page", lambda package: f"# Errors of {package.name}\n")
    return probe


def test_a_check_finds_an_old_page_and_leaves_it_and_writing_ends_it(
    package: tree.Package, capsys: pytest.CaptureFixture[str]
) -> None:
    page = package.folder / "ERRORS.md"
    assert errors.main(["probe", "--check"]) == 1 and not page.exists()
    page.write_text("# Old\n", encoding="utf-8")
    assert errors.main(["probe", "--check"]) == 1 and page.read_text(encoding="utf-8") == "# Old\n"
    assert "ERRORS.md of tilevl-probe is out of date: nox -s errors" in capsys.readouterr().err
    assert errors.main(["probe"]) == 0 and page.read_text(encoding="utf-8") == "# Errors of probe\n"
    assert errors.main(["probe", "--check"]) == 0


def test_every_op_and_the_core_have_a_page() -> None:
    names = {package.name for package in errors.documented()}
    assert names == {"core", *(op.name for op in tree.ops())}
    assert all((package.folder / "ERRORS.md").is_file() for package in errors.documented())
