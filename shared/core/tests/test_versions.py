"""Versions that don't fit together are refused when an op registers: the core's range, two versions of one op."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tilevl.core import __version__
from tilevl.core.registration import register
from tilevl.core.requirements import check_core_range, core_range, distribution_of

_numbers = itertools.count()
Install = Callable[..., str]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts the metadata of an op where pip would, and gives the name of its package."""
    monkeypatch.syspath_prepend(tmp_path)

    def put(*requirements: str) -> str:
        name = f"tilevl.version_probe_{next(_numbers)}"
        folder = tmp_path / f"{name.replace('.', '_')}-0.1.0.dist-info"
        folder.mkdir()
        lines = ["Metadata-Version: 2.4", f"Name: {distribution_of(name)}", "Version: 0.1.0"]
        lines += [f"Requires-Dist: {requirement}" for requirement in requirements]
        (folder / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return name

    return put


def register_probe(package: str, version: str = "0.1.0") -> torch._ops.OpOverload:
    rules: dict[str, Any] = {
        "check": lambda x: (x.shape, x.dtype),
        "check_data": lambda x: None,
        "specialise": lambda x: (),
    }
    return register(package, f"{package.rpartition('.')[2]}(Tensor x) -> Tensor", version=version, **rules)


def above(version: str) -> str:
    major, minor, _ = version.split(".")
    return f"{major}.{int(minor) + 1}"


@pytest.mark.parametrize(
    "wanted", [f">={__version__}", f">=0.0.1,<{above(__version__)}", ">=0.0.1", f"=={__version__}"]
)
def test_an_op_whose_range_holds_this_core_registers(wanted: str, install: Install) -> None:
    package = install("torch>=2.10", f"tilevl-core{wanted}")
    assert register_probe(package)._schema.name == f"tilevl::{package.rpartition('.')[2]}"


@pytest.mark.parametrize("wanted", [f">={above(__version__)},<9", "<0.0.1", f"!={__version__}", "==0.0.7.*"])
def test_an_op_that_wants_another_core_is_refused_with_what_to_install(wanted: str, install: Install) -> None:
    package = install("torch>=2.10", f"tilevl-core{wanted}")
    with pytest.raises(RuntimeError) as caught:
        register_probe(package)
    text = str(caught.value)
    assert text.startswith(f"{distribution_of(package)} needs tilevl-core")
    assert f"tilevl-core {__version__} is imported" in text and "pip install 'tilevl-core" in text
    assert not hasattr(torch.ops.tilevl, package.rpartition(".")[2])


def test_an_op_that_was_refused_registers_once_its_range_fits(install: Install, tmp_path: Path) -> None:
    package = install(f"tilevl-core<{__version__}")
    with pytest.raises(RuntimeError, match="needs tilevl-core"):
        register_probe(package)
    metadata = next(tmp_path.glob(f"{package.replace('.', '_')}-*/METADATA"))
    metadata.write_text(metadata.read_text(encoding="utf-8").replace("core<", "core>="), encoding="utf-8")
    register_probe(package)


def test_a_requirement_of_an_extra_or_of_another_name_does_not_count(install: Install) -> None:
    package = install(
        'tilevl-core[kernels]<0.0.1; extra == "kernels"', "tilevl-core-extras<0.0.1", "tilevl-core>=0.0.1"
    )
    assert core_range(distribution_of(package)) == ">=0.0.1"
    check_core_range(package)


def test_a_source_tree_that_nobody_installed_is_taken() -> None:
    assert core_range("tilevl-nowhere") is None
    check_core_range("tilevl.nowhere")


def test_the_same_version_registers_twice_as_one_op(install: Install) -> None:
    package = install("tilevl-core>=0.0.1")
    assert register_probe(package) is register_probe(package)


def test_two_versions_of_one_op_in_a_process_are_refused_by_name(install: Install) -> None:
    package = install("tilevl-core>=0.0.1")
    first = register_probe(package, "0.1.0")
    with pytest.raises(RuntimeError) as caught:
        register_probe(package, "0.2.0")
    assert f"{package} 0.1.0 is registered in this process, so {package} 0.2.0 can't be" in str(caught.value)
    assert register_probe(package, "0.1.0") is first


def test_one_name_from_two_packages_is_refused(install: Install) -> None:
    package = install("tilevl-core>=0.0.1")
    register_probe(package)
    with pytest.raises(RuntimeError, match=r"other\.version_probe_\d+ 0\.1\.0 can't be"):
        register_probe(f"other.{package.rpartition('.')[2]}")
