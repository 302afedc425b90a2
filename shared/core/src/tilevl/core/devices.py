"""What a call on a device needs before its kernel runs: kernels for the target, an environment that can run them."""

from __future__ import annotations

from dataclasses import dataclass

from tilevl.core import cache_directory, targets
from tilevl.core.errors import TargetUnavailableError
from tilevl.core.requirements import distribution_of

_passed: set[str] = set()  # spares every call an import statement, which costs more than the look


@dataclass(frozen=True)
class MissingKernel:
    """An op that has no kernels for a target, in the form of a failed check."""

    evidence: str
    remedy: str
    name: str = "kernel"


def require_kernel(op: str, package: str, target: str) -> None:
    """Refuses a target that the installed version of an op has no kernels for, and tells TileLang where to keep files.

    Raises:
        TargetUnavailableError: names the targets that it has.
    """
    if targets.has_kernel(package, target):
        if target != "cpu":
            cache_directory.direct_tilelang()  # the builder that is imported next imports TileLang
        return
    there = [name for name in targets.TARGETS if targets.has_kernel(package, name)]
    raise TargetUnavailableError(
        op,
        target,
        [
            MissingKernel(
                evidence=f"{distribution_of(package)} has kernels for {', '.join(there) or 'no target'}, "
                f"none for {target}",
                remedy=f"Move the tensors to a device of one of these targets, or install a version with {target}",
            )
        ],
    )


def require_target(op: str, target: str) -> None:
    """Refuses a device whose environment can't build and run kernels; the first call of a process looks.

    Raises:
        TargetUnavailableError: with every check that failed.
    """
    if target in _passed:
        return
    if targets.TARGETS[target].device_type == "npu":
        from tilevl.core.environment import require_npu

        require_npu(op, target)
    elif target == "cuda":
        from tilevl.core.environment import can_run

        failed = can_run(target)
        if failed:
            raise TargetUnavailableError(op, target, failed)
    _passed.add(target)
