"""How the checks of CANN fail, with the evidence that they show and the remedies that they give."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilevl.core.environment import cann
from tilevl.core.environment.sight import TorchNpuSeen

from .conftest import Ask, folder


def test_cann_root_says_how_to_install_cann_where_there_is_none(ask: Ask) -> None:
    check = ask(cann.root)
    assert check.state == "failed"
    assert "ASCEND_HOME_PATH and ASCEND_TOOLKIT_HOME are not set" in check.evidence
    assert check.remedy == (
        "Install the CANN toolkit for Ascend 950 and source its set_env.sh in the shell that starts Python; "
        "in a container, start from an image that has it"
    )


def test_cann_root_only_warns_where_torch_npu_imports_all_the_same(ask: Ask) -> None:
    check = ask(cann.root, torch_npu=TorchNpuSeen("2.13.0"))
    assert check.state == "warning"
    assert check.remedy.startswith("Install the CANN toolkit")


@pytest.mark.parametrize("variable", cann.ROOT_VARIABLES)
def test_cann_root_fails_where_a_variable_names_no_folder(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "gone"))
    check = ask(cann.root)
    assert check.state == "failed"
    assert check.evidence == f"{variable} is {tmp_path / 'gone'}, and there is no such folder"
    assert check.remedy.startswith(f"Unset {variable} and let CANN set it: source its set_env.sh")


def test_cann_root_takes_the_usual_folder_without_variables(ask: Ask, tmp_path: Path) -> None:
    root = folder(tmp_path / "usual" / "cann")
    check = ask(cann.root)
    assert (check.state, check.evidence) == ("ok", str(root))


def test_cann_version_warns_without_a_version_file(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_HOME_PATH", str(folder(tmp_path / "cann")))
    check = ask(cann.version)
    assert check.state == "warning"
    assert "its <machine>-linux folder should hold ascend_toolkit_install.info" in check.remedy


@pytest.mark.parametrize(
    ("file", "text", "version"),
    [
        (
            "aarch64-linux/ascend_toolkit_install.info",
            "package_name=Ascend-cann-toolkit\nversion=9.1.0\narch=aarch64\n",
            "9.1.0",
        ),
        ("compiler/version.info", "Version=8.5.0\nversion_dir=8.5.0\n", "8.5.0"),
    ],
)
def test_cann_version_is_read_from_its_files(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, version: str
) -> None:
    path = tmp_path / "cann" / file
    folder(path.parent)
    path.write_text(text)
    monkeypatch.setenv("ASCEND_TOOLKIT_HOME", str(tmp_path / "cann"))
    check = ask(cann.version)
    assert (check.state, check.evidence) == ("ok", f"CANN {version}, by {path}")


def test_cann_environment_names_the_script_to_source_and_what_is_missing(ask: Ask, tmp_path: Path) -> None:
    root = folder(tmp_path / "usual" / "cann")
    (root / "set_env.sh").touch()
    check = ask(cann.environment)
    assert check.state == "failed"
    assert check.evidence == (
        "set_env.sh was not sourced: ASCEND_HOME_PATH, ASCEND_OPP_PATH, CANN's lib64 in LD_LIBRARY_PATH are missing"
    )
    assert check.remedy == f"Source {root / 'set_env.sh'} in the shell that starts Python"


def test_cann_environment_finds_the_script_beside_a_folder_named_latest(ask: Ask, tmp_path: Path, monkeypatch) -> None:
    root = folder(tmp_path / "ascend-toolkit" / "latest")
    (root.parent / "set_env.sh").touch()
    monkeypatch.setenv("ASCEND_HOME_PATH", str(root))
    monkeypatch.setenv("ASCEND_OPP_PATH", str(root / "opp"))
    monkeypatch.setenv("LD_LIBRARY_PATH", "/usr/lib:")
    check = ask(cann.environment)
    assert check.evidence == "set_env.sh was not sourced: CANN's lib64 in LD_LIBRARY_PATH is missing"
    assert check.remedy == f"Source {root.parent / 'set_env.sh'} in the shell that starts Python"


def test_cann_environment_only_warns_where_torch_npu_imports_all_the_same(ask: Ask, tmp_path: Path) -> None:
    folder(tmp_path / "usual" / "cann")
    assert ask(cann.environment, torch_npu=TorchNpuSeen("2.13.0")).state == "warning"
