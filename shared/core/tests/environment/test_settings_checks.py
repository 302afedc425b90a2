"""How the checks of settings fail, and what holds for every check."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilevl.core import cache_directory
from tilevl.core.environment import settings
from tilevl.core.environment.check import Check, Scene
from tilevl.core.environment.table import Row

from .conftest import Ask, Seen


@pytest.mark.parametrize("value", ["cuda", "", "Ascend", "ascend "])
def test_default_target_lists_the_valid_values(ask: Ask, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", value)
    check = ask(settings.default_target)
    assert check.state == "failed"
    assert repr(value) in check.evidence
    assert check.remedy == "Unset TILELANG_DEFAULT_TARGET, or set it to one of auto, ascend, pto"


def test_default_target_warns_where_it_chooses_another_target(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "pto")
    check = ask(settings.default_target, target="ascend")
    assert check.state == "warning"
    assert check.remedy == "Set TILELANG_DEFAULT_TARGET=ascend to run ascend"
    assert ask(settings.default_target, target="pto").state == "ok"


def test_cache_directory_warns_where_it_cannot_be_written(ask: Ask, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(cache_directory.VARIABLE, str(tmp_path / "file" / "cache"))
    check = ask(settings.cache_folder)
    assert check.state == "warning"
    assert f"{tmp_path / 'file'} is not a folder" in check.evidence
    assert check.remedy == "Make it a folder that this user may write, or set TILEVL_CACHE_DIR to one"


def test_a_check_that_breaks_is_reported_and_hides_no_other() -> None:
    def breaks(scene: Scene) -> Check:
        raise ZeroDivisionError("oops")

    check = Row("gpu", breaks, ("cuda",)).check(Scene("cuda", Seen()))
    assert (check.name, check.state) == ("gpu", "failed")
    assert check.evidence == "the check itself broke with ZeroDivisionError: oops"
    assert check.remedy.startswith("Report this as a bug of tilevl-core")


@pytest.mark.parametrize(("state", "remedy"), [("ok", "do"), ("not applicable", "do"), ("failed", ""), ("warning", "")])
def test_a_remedy_goes_with_warning_and_failed_only(state: str, remedy: str) -> None:
    with pytest.raises(ValueError, match="a remedy goes with warning and failed only"):
        Check("gpu", state, "seen", remedy)
