"""Asking all checks of a target."""

from __future__ import annotations

from tilevl.core import targets
from tilevl.core.environment.check import Check, Scene
from tilevl.core.environment.sight import InProcess, Sight
from tilevl.core.environment.table import ROWS


def checks_for(target: str, sight: Sight | None = None, *, run_tools: bool = False) -> list[Check]:
    """The checks that a target needs, in the order in which to mend what fails.

    Args:
        target: ``cpu``, ``cuda``, ``ascend`` or ``pto``.
        sight: how to look at torch, torch_npu and TileLang. By default they are imported in this process, each when a
            check first asks; ``tilevl.core.environment.child.InChildren()`` imports them in children instead.
        run_tools: whether to start the compilers that are found, to see that they run.

    Raises:
        ValueError: there is no such target.
    """
    scene = Scene(_known(target), sight or InProcess(), run_tools)
    return [row.check(scene) for row in ROWS if target in row.targets]


def can_run(target: str) -> list[Check]:
    """What keeps a target from running in this process: the failed checks, none where it can run.

    TileLang takes seconds to import, so that it is asked only where all else passes: a skip's reason needs no more.

    Raises:
        ValueError: there is no such target.
    """
    scene = Scene(_known(target), InProcess())
    failed: list[Check] = []
    for row in sorted((row for row in ROWS if target in row.targets), key=lambda row: row.costly):
        if row.costly and failed:
            break
        check = row.check(scene)
        if check.state == "failed":
            failed.append(check)
    return failed


def _known(target: str) -> str:
    if target not in targets.TARGETS:
        raise ValueError(f"environment: target must be one of {', '.join(targets.TARGETS)}, got {target!r}")
    return target
