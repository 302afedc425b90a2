"""The pytest plugin: which targets a test runs on, and that no skip can hide a target that was asked for."""

from __future__ import annotations

import importlib.util
import re

import pytest

pytest_plugins = ["pytester"]

TEST = """
import torch

def test_on_a_device(device, target):
    assert isinstance(device, torch.device)

def test_without_one():
    pass
"""


@pytest.fixture
def package(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A package that declares the targets cpu and cuda, on a machine whose GPU nobody sees."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.delenv("TILEVL_REQUIRE", raising=False)
    pytester.makepyprojecttoml('[tool.tilevl]\ntargets = ["cpu", "cuda"]\n')
    pytester.makepyfile(test_it=TEST)
    return pytester


def test_a_target_that_cannot_run_is_a_skip_with_its_reason(package: pytest.Pytester) -> None:
    result = package.runpytest_inprocess("-rs")
    result.assert_outcomes(passed=2, skipped=1)
    result.stdout.fnmatch_lines(["*target cuda can't run here: *"])


def test_a_required_target_that_cannot_run_is_a_failure(
    package: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEVL_REQUIRE", "cuda")
    result = package.runpytest_inprocess()
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*target cuda can't run here: *"])


def test_a_required_target_that_the_package_lacks_is_a_failure(
    package: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEVL_REQUIRE", "ascend")
    result = package.runpytest_inprocess()
    result.assert_outcomes(passed=2, skipped=1, errors=1)
    result.stdout.fnmatch_lines(["*target ascend can't run here: the package declares cpu, cuda, not ascend"])


def test_an_asked_target_runs_alone_and_must_run(package: pytest.Pytester) -> None:
    package.runpytest_inprocess("--target", "cpu").assert_outcomes(passed=2)
    package.runpytest_inprocess("--target", "cuda").assert_outcomes(errors=1, deselected=1)
    result = package.runpytest_inprocess("--target", "tpu")
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_a_stranger_in_tilevl_require_is_a_usage_error(
    package: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEVL_REQUIRE", "cpu,tpu")
    result = package.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*TILEVL_REQUIRE must name some of *, got tpu"])


def test_a_missing_resource_skips_unless_it_is_required(
    package: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    package.makepyfile(
        test_it="""
        from tilevl.testing import skip_unless

        def test_suite():
            skip_unless(False, "bmp_suite", "lay it beside the checkout")
        """
    )
    result = package.runpytest_inprocess("-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*bmp_suite: lay it beside the checkout"])
    monkeypatch.setenv("TILEVL_REQUIRE", "bmp_suite")
    package.runpytest_inprocess().assert_outcomes(failed=1)


def test_what_has_no_meaning_on_a_target_is_left_out(package: pytest.Pytester) -> None:
    package.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.targets("cuda")
        def test_capture(device):
            pass
        """
    )
    result = package.runpytest_inprocess("--target", "cpu")
    result.assert_outcomes(deselected=1)


def test_random_numbers_differ_between_tests_and_repeat_between_runs(package: pytest.Pytester) -> None:
    package.makepyfile(
        test_it="""
        import torch

        def test_one(rng):
            print("drew", torch.randint(0, 2**40, (1,), generator=rng).item())

        def test_two(rng):
            print("drew", torch.randint(0, 2**40, (1,), generator=rng).item())
        """
    )
    runs = []
    for _ in range(2):
        lines = package.runpytest_inprocess("-s").stdout.lines
        runs.append(re.findall(r"drew (\d+)", "\n".join(lines)))
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 2


@pytest.mark.skipif(importlib.util.find_spec("torch_npu") is not None, reason="beside torch_npu nothing is simulated")
def test_without_a_compiler_ascend_can_not_be_simulated(
    package: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    package.makepyprojecttoml('[tool.tilevl]\ntargets = ["ascend"]\n')
    monkeypatch.setenv("PATH", "")
    result = package.runpytest_inprocess("-rs", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(
        ["*target ascend can't run here: *neither torch_npu nor g++*install GCC's C++ compiler*"]
    )
