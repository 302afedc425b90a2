"""The smoke test that every op brings along: ``python -m tilevl.<op>`` says what is installed and checks one value."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable

from tilevl.core import __version__, targets
from tilevl.core.errors import TargetUnavailableError
from tilevl.core.requirements import CORE, distribution_of


def run(package: str, check: Callable[[], tuple[object, object]]) -> int:
    """Prints versions and targets, runs one worked example on CPU, and returns the exit code of the process.

    Args:
        package: import name of the op's package, for example ``"tilevl.bmp_to_patches"``.
        check: calls the op once on CPU and returns what came out and what the contract says should have, as plain
            Python values that ``==`` compares.

    Returns:
        0 where the two are equal, else 1.
    """
    import torch

    version = importlib.import_module(package).__version__
    lines = [f"{distribution_of(package)} {version}", f"{CORE} {__version__}", f"torch {torch.__version__}"]
    lines += [f"target {name}: {_state(package, name)}" for name in targets.TARGETS]
    got, expected = check()
    passed = got == expected
    lines.append(f"worked value: {got}, as it should be" if passed else f"worked value: got {got}, must be {expected}")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if passed else 1


def _state(package: str, target: str) -> str:
    import torch

    from tilevl.core.devices import require_target

    if not targets.has_kernel(package, target):
        return "no kernels in this version"
    if target == "cuda" and not torch.cuda.is_available():
        return "not available here, torch sees no GPU"
    try:
        require_target(package.rpartition(".")[2], target)
    except TargetUnavailableError as error:
        return "not available here, " + "; ".join(f"{failure.name}: {failure.evidence}" for failure in error.failures)
    return "available here"
