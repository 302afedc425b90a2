"""The cells of the noxfile, read from the tree: an op on a target that it doesn't declare is no cell."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import nox
import results
import stack
import supported
import tree

REQUIRE = "TILEVL_REQUIRE"

# What lies in the file system where a target's device is there; the tests themselves ask the doctor.
_DEVICES = {"cuda": "/dev/nvidiactl", "ascend": "/dev/davinci_manager", "pto": "/dev/davinci_manager"}
_HOST_MODEL = {"ascend": "g++"}  # what runs a target's kernels where its device is missing


def of_packages() -> list[nox.param]:
    """A cell for each package."""
    return [nox.param(p.name, id=f"op='{p.name}'", tags=[p.name]) for p in tree.packages()]


def of_wares(*, tagged: bool = True) -> list[nox.param]:
    """A cell for each op and integration; without tags for what a tag shouldn't select, since it is slow."""
    return [nox.param(p.name, id=f"op='{p.name}'", tags=[p.name] if tagged else []) for p in tree.wares()]


def of_targets() -> list[nox.param]:
    """A cell for each target that two ops or more have: what they can be together on."""
    declared = Counter(target for op in tree.ops() for target in op.targets)
    return [nox.param(t, id=f"target='{t}'", tags=[t]) for t in tree.target_names() if declared[t] > 1]


def of_wares_and_targets(*, tagged: bool = True) -> list[nox.param]:
    """A cell for each op or integration and each target that it declares; tags as above."""
    return [
        nox.param(p.name, target, id=f"op='{p.name}', target='{target}'", tags=[p.name, target] if tagged else [])
        for p in tree.wares()
        for target in p.targets
    ]


def of_pairs() -> list[nox.param]:
    """A cell for each torch and Python that tools/supported.py names."""
    return [nox.param(t, p, id=f"torch='{t}', interpreter='{p}'") for t, p in supported.PAIRS]


def source_folders() -> list[str]:
    """The folders that hold parts of the namespace ``tilevl``, the template's among them."""
    return [*(str(package.folder / "src") for package in tree.packages()), "tools/template/src"]


def run_here(*sessions: str) -> list[str]:
    """Names of sessions and their cells, without those of a target that this machine has neither device nor model for.

    A target that TILEVL_REQUIRE names stays in, so that its tests fail and say what is missing.
    """
    out = [t for t in _DEVICES if not _can_run(t) and t not in required_targets()]
    targets = [t for t in tree.target_names() if t not in out]
    names: list[str] = []
    for session in sessions:
        if session == "tests":
            cells = [(p.name, target) for p in tree.wares() for target in p.targets if target in targets]
            names += [f"tests(op='{op}', target='{target}')" for op, target in cells]
        elif session == "integration":
            names += [f"integration({param.id})" for param in of_targets() if param.args[0] in targets]
        else:
            names.append(session)
    return names


def _can_run(target: str) -> bool:
    model = _HOST_MODEL.get(target)
    return Path(_DEVICES[target]).exists() or (model is not None and shutil.which(model) is not None)


def required_targets() -> set[str]:
    """The targets among what TILEVL_REQUIRE names."""
    names = {name.strip() for name in os.environ.get(REQUIRE, "").split(",")}
    return names & set(tree.target_names())


def run_pytest(session: nox.Session, *paths: str, target: str | None = None, with_models: bool = False) -> None:
    """Runs pytest in the shared environment on paths, with what follows ``--``; for one target where one is given.

    Args:
        session: the session that runs.
        paths: what pytest collects.
        target: for ``--target``.
        with_models: whether transformers is there.
    """
    refuse_unselected_targets(session)
    arguments = [f"--target={target}"] if target else []
    folder = os.environ.get(results.FOLDER)
    if folder:
        arguments.append(f"--junit-xml={Path(folder) / results.file_name(session.name)}")
    inner = {stack.MACHINE_PYTHON: stack.machine_python()}  # for the tests that run nox themselves
    python = stack.models() if with_models else stack.tests()
    session.run(str(python), "-m", "pytest", *paths, *arguments, *session.posargs, env=inner)


def refuse_unselected_targets(session: nox.Session) -> None:
    """Fails a run that was told to require a target and has no cell for it: it would pass without having tested it."""
    runner = session._runner  # nox has no public way to ask what else is selected
    if required_targets() and runner.global_config.parallel_worker:
        session.error(f"{REQUIRE} can't be checked with --parallel: leave one of the two out")
    selected = [s for s, _ in runner.manifest.list_all_sessions() if s in runner.manifest]
    missing = sorted(required_targets() - {tag for s in selected for tag in s.tags})
    if missing:
        session.error(
            f"{REQUIRE} names {', '.join(missing)}, and no selected session tests it: select one with "
            f"-t {missing[0]}, take it out of {REQUIRE}, or let an op declare it in [tool.tilevl] targets"
        )
