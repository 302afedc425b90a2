"""How the checks of bisheng, ld.lld and ptoas fail: programs that are missing, hidden, broken, or another one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tilevl.core.environment import cann, tools

from .conftest import Ask, folder, program


def test_bisheng_fails_where_there_is_none(ask: Ask) -> None:
    check = ask(cann.bisheng)
    assert check.state == "failed"
    assert check.evidence == "the compiler bisheng is neither in BISHENG_HOME/bin nor on PATH"
    assert check.remedy.startswith("It comes with the CANN toolkit: install the toolkit and source its set_env.sh")


@pytest.mark.parametrize("part", cann.COMPILER_FOLDERS)
def test_bisheng_that_cann_holds_but_path_does_not_is_pointed_out(ask: Ask, tmp_path: Path, part: str) -> None:
    root = folder(tmp_path / "usual" / "cann")
    hidden = program(root / part / "bin" / "bisheng")
    check = ask(cann.bisheng)
    assert check.state == "failed"
    assert check.evidence.startswith(f"{hidden} is there, but")
    assert check.remedy.endswith(f"or set BISHENG_HOME={root / part}")


def test_bisheng_of_bisheng_home_wins_over_path(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin" / "bisheng", "exit 1")
    mine = program(tmp_path / "mine" / "bin" / "bisheng")
    monkeypatch.setenv("BISHENG_HOME", str(tmp_path / "mine"))
    check = ask(cann.bisheng)
    assert (check.state, check.evidence) == ("ok", f"{mine}, version 15.0.5")


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo 'cannot execute' >&2; exit 7", "exit status 7: cannot execute"),
        ("kill -KILL $$", "ended by signal SIGKILL"),
        ("printf '\\377\\376' >&2; exit 2", "exit status 2"),
    ],
)
def test_a_compiler_that_does_not_run_is_reported_with_what_it_did(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, problem: str
) -> None:
    path = program(tmp_path / "bin" / "bisheng", script)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.defpath}")
    check = ask(cann.bisheng)
    assert check.state == "failed"
    assert check.evidence.startswith(f"{path} --version fails, {problem}")
    assert check.remedy.startswith("Reinstall the CANN toolkit for this machine, or take this bisheng off PATH")


def test_a_compiler_that_hangs_is_ended_with_all_that_it_started(ask: Ask, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tools, "TIMEOUT", 1.0)
    path = program(tmp_path / "bin" / "bisheng", "sleep 600 & sleep 600")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.defpath}")
    assert ask(cann.bisheng).evidence == f"{path} --version fails, no answer within 1 s"


def test_a_compiler_whose_interpreter_is_missing_cannot_be_started(ask: Ask, tmp_path: Path) -> None:
    path = tmp_path / "bin" / "bisheng"
    path.write_text("#!/nonexistent/interpreter\n")
    path.chmod(0o755)
    check = ask(cann.bisheng)
    assert check.state == "failed"
    assert "it can't be started" in check.evidence


@pytest.mark.parametrize("hostile", ["folder", "not executable", "dangling link"])
def test_what_is_no_program_on_path_is_passed_over(ask: Ask, tmp_path: Path, hostile: str) -> None:
    place = tmp_path / "bin" / "bisheng"
    if hostile == "folder":
        place.mkdir()
    elif hostile == "not executable":
        program(place, mode=0o644)
    else:
        place.symlink_to(tmp_path / "nowhere")
    assert ask(cann.bisheng).evidence == "the compiler bisheng is neither in BISHENG_HOME/bin nor on PATH"


@pytest.mark.parametrize("path", ["", ":", "relative:also/relative", "/nonexistent"])
def test_a_hostile_path_finds_nothing_and_raises_nothing(ask: Ask, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setenv("PATH", path)
    assert [ask(check).state for check in (cann.bisheng, cann.ld_lld, cann.pto_assembler)] == ["failed"] * 3


def test_a_bisheng_that_is_not_executable_is_named(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = program(tmp_path / "home" / "bin" / "bisheng", mode=0o644)
    monkeypatch.setenv("BISHENG_HOME", str(tmp_path / "home"))
    check = ask(cann.bisheng)
    assert (check.state, check.evidence) == ("failed", f"{path} is not executable")
    assert check.remedy.startswith("Reinstall the CANN toolkit")


def test_compilers_are_not_started_at_run_time(ask: Ask, tmp_path: Path) -> None:
    path = program(tmp_path / "bin" / "bisheng", "exit 1")
    check = ask(cann.bisheng, run_tools=False)
    assert (check.state, check.evidence) == ("ok", str(path))


def test_ld_lld_fails_where_there_is_none(ask: Ask) -> None:
    check = ask(cann.ld_lld)
    assert check.state == "failed"
    assert check.evidence.startswith("the linker ld.lld is neither beside bisheng")
    assert check.remedy.startswith("It comes with the CANN toolkit: install the toolkit and source its set_env.sh")


def test_ld_lld_from_path_may_be_llvms_own(ask: Ask, tmp_path: Path) -> None:
    program(tmp_path / "bin" / "ld.lld", "echo 'LLD 14.0.6 (compatible with GNU linkers)'")
    check = ask(cann.ld_lld)
    assert check.state == "warning"
    assert "a plain LLVM linker can't link Ascend kernels" in check.evidence
    assert check.remedy.endswith("or set BISHENG_HOME")


def test_ld_lld_beside_bisheng_is_canns(ask: Ask, tmp_path: Path) -> None:
    program(tmp_path / "bin" / "bisheng")
    program(tmp_path / "bin" / "ld.lld")
    assert ask(cann.ld_lld).state == "ok"


def test_pto_assembler_fails_where_there_is_none(ask: Ask) -> None:
    check = ask(cann.pto_assembler, target="pto")
    assert check.state == "failed"
    assert check.evidence == "the PTO assembler ptoas is not on PATH, and PTOAS_ROOT is not set"
    assert check.remedy == (
        "Install PTOAS and set PTOAS_ROOT to its folder, or set TILELANG_DEFAULT_TARGET=ascend, which needs none"
    )


def test_pto_assembler_of_a_wrong_root_is_not_replaced_by_one_on_path(ask: Ask, tmp_path: Path, monkeypatch) -> None:
    program(tmp_path / "bin" / "ptoas")
    monkeypatch.setenv("PTOAS_ROOT", str(tmp_path / "home"))
    check = ask(cann.pto_assembler, target="pto")
    assert (check.state, check.evidence) == (
        "failed",
        f"the PTO assembler ptoas is not in PTOAS_ROOT, {tmp_path / 'home'}",
    )


@pytest.mark.parametrize("part", ["ptoas", "ptoas.sh", "bin/ptoas"])
def test_pto_assembler_is_found_in_its_root(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    program(tmp_path / "root" / part, "echo 'ptoas version 0.54'")
    monkeypatch.setenv("PTOAS_ROOT", str(tmp_path / "root"))
    assert ask(cann.pto_assembler, target="pto").evidence.endswith(f"{part}, version 0.54")
