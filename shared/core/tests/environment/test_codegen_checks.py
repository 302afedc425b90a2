"""How the checks of TileLang fail, with their remedies."""

from __future__ import annotations

import pytest

from tilevl.core.environment import codegen
from tilevl.core.environment.sight import TileLangSeen

from .conftest import Ask
from .machine import Machine


def test_tilelang_says_how_to_install_it(machine: Machine) -> None:
    machine.torch()
    by_name = machine.diagnose("ascend")["by_name"]
    assert by_name["tilelang"]["evidence"] == "TileLang is not installed"
    assert by_name["tilelang"]["remedy"] == "Run pip install 'tilevl-core[kernels]'"
    assert by_name["ascend-codegen"]["state"] == "not applicable"


def test_tilelang_that_is_too_old_is_named_with_the_range(machine: Machine) -> None:
    machine.torch()
    machine.tilelang("0.1.9")
    check = machine.diagnose("ascend")["by_name"]["tilelang"]
    assert check["evidence"] == "TileLang 0.1.9, and the kernels need tilelang>=0.1.15"
    assert check["remedy"] == "Run pip install 'tilevl-core[kernels]'"


def test_tilelang_that_does_not_import_is_named_with_the_error(machine: Machine) -> None:
    machine.torch()
    machine.tilelang()
    (machine.site / "tilelang" / "__init__.py").write_text("raise OSError('libtvm.so: cannot open shared object file')")
    check = machine.diagnose("ascend")["by_name"]["tilelang"]
    assert check["evidence"].endswith("import tilelang raises OSError: libtvm.so: cannot open shared object file")
    assert check["remedy"].startswith("If import torch fails too, see to that first; else run pip install")


def test_the_code_generators_are_asked_of_the_registry_not_of_the_version(machine: Machine) -> None:
    machine.torch()
    machine.tilelang("99.0", codegens=["cuda"])
    by_name = machine.diagnose("pto")["by_name"]
    assert by_name["tilelang"]["state"] == "ok"
    assert by_name["ascend-codegen"]["evidence"] == "TileLang's registry has no code generator 'ascend', only cuda"
    assert by_name["ascend-codegen"]["remedy"].startswith("Install a TileLang for Linux with the Ascend backend")
    assert by_name["pto-codegen"]["remedy"] == (
        "Build TileLang from a source that has the PTO backend, or set TILELANG_DEFAULT_TARGET=ascend"
    )


@pytest.mark.parametrize(("codegens", "declared"), [(["ascend"], ["ascend", "pto"]), (["ascend", "pto"], ["ascend"])])
def test_a_code_generator_counts_only_where_it_is_declared_and_in_the_library(
    machine: Machine, codegens: list[str], declared: list[str]
) -> None:
    machine.torch()
    machine.tilelang(codegens=codegens, declared=declared)
    by_name = machine.diagnose("pto")["by_name"]
    assert (by_name["ascend-codegen"]["state"], by_name["pto-codegen"]["state"]) == ("ok", "failed")


def test_a_tilelang_with_another_registry_is_told_apart(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilevl.core.environment.sight.importable", lambda module: True)
    seen = TileLangSeen(
        "0.1.6", "/opt/tilelang", registry_error="ModuleNotFoundError: No module named 'tilelang.backend'"
    )
    check = ask(codegen.ascend, tilelang=seen)
    assert check.state == "failed"
    assert "tile-ai/tilelang-ascend, which have the same pip name" in check.evidence
    assert check.remedy.startswith("Install a TileLang for Linux")


def test_cuda_codegen_gives_its_own_remedy(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilevl.core.environment.sight.importable", lambda module: True)
    check = ask(codegen.cuda, target="cuda", tilelang=TileLangSeen("0.1.15", "/opt/tilelang", ["ascend"]))
    assert check.remedy == "Install a TileLang built with CUDA: pip install 'tilevl-core[kernels]' --force-reinstall"
