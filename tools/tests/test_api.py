from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import api
import pytest
import tree

SOURCE = """
from __future__ import annotations
from dataclasses import dataclass
__version__ = "0.1.0"
__all__ = ["Batch", "LIMIT", "__version__", "take"]
LIMIT = 3
def take(rows: list[int], *, count: int | None = None) -> tuple[int, ...]: ...
def _hidden() -> None: ...
def unlisted() -> None: ...
@dataclass
class Batch:
    total: int
    window: int = 1
    def test_nothing(self) -> None: ...
    def trimmed(self, to: int) -> Batch: ...
    @property
    def empty(self) -> bool: ...
"""
OP = """
class OP:
    _schema = "tilevl::take(Tensor rows) -> Tensor"
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tree.Package]:
    folder = tmp_path / "interface_probe"
    source = folder / "src" / "tilevl" / "interface_probe"
    source.mkdir(parents=True)
    (source / "__init__.py").write_text(SOURCE, encoding="utf-8")
    (source / "op.py").write_text(OP, encoding="utf-8")
    (folder / "pyproject.toml").write_text('[tool.tilevl]\ntargets = ["cpu", "cuda"]\n', encoding="utf-8")
    import tilevl

    monkeypatch.setattr(tilevl, "__path__", [*tilevl.__path__, str(source.parent)])
    yield tree.Package("interface_probe", folder, is_op=True)
    for name in [name for name in sys.modules if name.startswith("tilevl.interface_probe")]:
        del sys.modules[name]


def test_the_interface_is_targets_schemas_and_listed_names_as_they_are_written(package: tree.Package) -> None:
    probe = "tilevl.interface_probe"
    assert api.interface(package).splitlines() == [
        "# Public interface of tilevl-interface-probe, written by tools/api.py",
        "targets: cpu, cuda",
        "op tilevl::take(Tensor rows) -> Tensor",
        f"class {probe}.Batch(total: int, window: int = 1)",
        f"{probe}.Batch.empty",
        f"{probe}.Batch.trimmed(self, to: int) -> Batch",
        f"{probe}.LIMIT",
        f"{probe}.take(rows: list[int], *, count: int | None = None) -> tuple[int, ...]",
    ]


def test_a_check_shows_the_change_and_writing_ends_it(
    package: tree.Package, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tree, "find", lambda name: package)
    assert api.main(["interface_probe", "--write"]) == 0
    assert api.main(["interface_probe", "--check"]) == 0
    path = package.folder / "api.txt"
    path.write_text(path.read_text(encoding="utf-8").replace("window: int = 1", "window: int"), encoding="utf-8")
    capsys.readouterr()
    assert api.main(["interface_probe", "--check"]) == 1
    shown = capsys.readouterr().out
    assert "-class tilevl.interface_probe.Batch(total: int, window: int)" in shown
    assert "+class tilevl.interface_probe.Batch(total: int, window: int = 1)" in shown
    assert "api(op='interface_probe')" in shown


def test_what_was_never_written_is_out_of_date(package: tree.Package, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "find", lambda name: package)
    assert api.main(["interface_probe", "--check"]) == 1
