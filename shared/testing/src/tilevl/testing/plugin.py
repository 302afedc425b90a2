"""The pytest plugin: a test that takes ``target`` or ``device`` runs once for each target of its package.

Targets come from ``[tool.tilevl] targets`` of the nearest ``pyproject.toml`` above the test, or from ``--target``. One
that can't run here is a skip with the doctor's reason; one that was asked for, by ``--target`` or ``TILEVL_REQUIRE``,
is a failure. Where torch_npu isn't installed, ``ascend`` runs on a simulated NPU.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from tilevl.core import targets
from tilevl.testing import fuzz_profiles, require
from tilevl.testing.case import Case, Refusal

if TYPE_CHECKING:
    from tilevl.testing.simulated_npu import SimulatedNpu

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--target``."""
    parser.addoption(
        "--target",
        action="append",
        choices=list(targets.TARGETS),
        default=[],
        help="run the tests of this target only, and fail where it can't run (may be given several times)",
    )


@lru_cache
def declared_targets(folder: Path) -> tuple[str, ...]:
    """``[tool.tilevl] targets`` of the nearest pyproject.toml that has them, at or above a folder; else all targets."""
    for place in (folder, *folder.parents):
        manifest = place / "pyproject.toml"
        if manifest.is_file():
            tool = tomllib.loads(manifest.read_text(encoding="utf-8")).get("tool", {}).get("tilevl")
            if tool is not None:
                return tuple(tool["targets"])
    return tuple(targets.TARGETS)


def selected_targets(config: pytest.Config, folder: Path) -> list[str]:
    """The targets that a test below ``folder`` runs on."""
    declared = declared_targets(folder)
    asked = config.getoption("--target")
    if asked:
        return [name for name in targets.TARGETS if name in asked]
    wanted = {*declared, *(require.required() & set(targets.TARGETS))}
    return [name for name in targets.TARGETS if name in wanted]


_ROWS: dict[str, Callable[[Any], list[Any]]] = {
    "case": lambda suite: list(suite.cases),
    "traced_case": lambda suite: [case for case in suite.cases if case.traced],
    "checked_case": lambda suite: [case for case in suite.cases if case.traced or case.layout],
    "refusal": lambda suite: list(suite.refusals),
    "metadata_refusal": lambda suite: [refusal for refusal in suite.refusals if not refusal.data],
    "data_refusal": lambda suite: [refusal for refusal in suite.refusals if refusal.data],
}
"""The fixtures of a standard suite, and the rows that each takes."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One run per target for tests that use a target, one per case or refusal for those of a standard suite."""
    if "target" in metafunc.fixturenames:
        names = selected_targets(metafunc.config, Path(metafunc.definition.path).parent)
        metafunc.parametrize("target", names, indirect=True, scope="session")
    suite = metafunc.cls
    if hasattr(suite, "cases"):
        for fixture in _ROWS.keys() & set(metafunc.fixturenames):
            rows = _ROWS[fixture](suite) or [None]  # left out below, where an op has no such rows
            metafunc.parametrize(fixture, rows, ids=[row.name if row else "none" for row in rows])


@pytest.hookimpl(tryfirst=True)  # before Hypothesis loads what --hypothesis-profile names
def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker ``targets``, loads the profile of fuzzed tests, and refuses a TILEVL_REQUIRE of strangers."""
    require.required()
    fuzz_profiles.load_profile()
    config.addinivalue_line("markers", "targets(*names): the test has a meaning on these targets only")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what has no meaning: on a target, by the marker ``targets`` or ``Case.targets``, or for an op.

    A test that uses no target is about the package. It runs beside the target ``cpu``, not again beside each other one.
    """
    asked = config.getoption("--target")
    elsewhere = bool(asked) and "cpu" not in asked
    out = {item: None for item in items if _meaningless(item, elsewhere)}
    if out:
        config.hook.pytest_deselected(items=list(out))
        items[:] = [item for item in items if item not in out]


def _meaningless(item: pytest.Item, elsewhere: bool) -> bool:
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    if any(name in _ROWS and row is None for name, row in params.items()):
        return True
    if "target" not in params:
        return elsewhere
    marker = item.get_closest_marker("targets")
    limits = [marker.args if marker else ()]
    limits += [value.targets for value in params.values() if isinstance(value, Case | Refusal)]
    return any(limit and params["target"] not in limit for limit in limits)


def reasons_against(target: str, folder: Path) -> list[str]:
    """Why a target can't run the tests below a folder; empty where it can."""
    if target not in declared_targets(folder):
        return [f"the package declares {', '.join(declared_targets(folder))}, not {target}"]
    if target == "cpu":
        return []
    if _simulated(target):
        return _reasons_against_the_host_model()
    from tilevl.core.environment import can_run

    return [f"{check.name}: {check.evidence}. {check.remedy}" for check in can_run(target)]


def _simulated(target: str) -> bool:
    """Whether a target's device is simulated here: its kernels then run on the host model. Only without torch_npu."""
    return target == "ascend" and importlib.util.find_spec("torch_npu") is None


def _reasons_against_the_host_model() -> list[str]:
    parts = (
        ("tilelang", importlib.util.find_spec("tilelang"), "pip install 'tilevl-core[kernels]'"),
        ("g++", shutil.which("g++"), "install GCC's C++ compiler"),
    )
    return [
        f"neither torch_npu nor {name}, which the host model needs: {cure}" for name, found, cure in parts if not found
    ]


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> str:
    """Name of the target under test; skips or fails where it can't run."""
    name: str = request.param
    return name


@pytest.fixture
def device(target: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """Device of the target under test, with the environment set so that its tensors reach that target."""
    reasons = reasons_against(target, Path(request.node.path).parent)
    if reasons:
        text = f"target {target} can't run here: " + "; ".join(reasons)
        if target in request.config.getoption("--target") or target in require.required():
            pytest.fail(text, pytrace=False)
        pytest.skip(text)
    if targets.TARGETS[target].device_type == "npu":
        monkeypatch.setenv(targets.ENVIRONMENT_VARIABLE, target)
    if _simulated(target):
        from tilevl.testing.simulated_npu import simulated_npu

        simulated_npu()
    return torch.device(targets.TARGETS[target].device_type)


@pytest.fixture
def simulated(device: torch.device) -> Iterator[SimulatedNpu]:
    """The simulated NPU, with no launch noted yet; skips on any other device. Its options hold for one test."""
    from tilevl.testing.simulated_npu import SimulatedNpu

    npu = getattr(torch, device.type)
    if not isinstance(npu, SimulatedNpu):
        pytest.skip("counts and orders are those of the host model, and this is a real device")
    npu.launches.clear()
    npu.options = {}
    yield npu
    npu.options = {}


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> torch.Generator:
    """A CPU generator seeded from the test's id: other tests draw other numbers, a rerun draws the same."""
    return torch.Generator().manual_seed(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> Iterator[None]:
    """Compiled code of one test doesn't count against the recompile limit of the next."""
    yield
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is not None:
        dynamo.reset()
