"""The error that the ops raise beside ValueError and TypeError."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Failure(Protocol):
    """One failed environment check: what was asked, what was seen, what to do."""

    @property
    def name(self) -> str:
        """Stable name of the check."""

    @property
    def evidence(self) -> str:
        """What was seen."""

    @property
    def remedy(self) -> str:
        """One line that says what to do."""


class TargetUnavailableError(RuntimeError):
    """A device that can't run the op, with every failed check and its remedy.

    Args:
        op: name of the op that was called.
        target: one of ``tilevl.core.targets.TARGETS``.
        failures: the failed checks; all of them, not only the first.
    """

    def __init__(self, op: str, target: str, failures: Sequence[Failure]) -> None:
        self.op = op
        self.target = target
        self.failures = tuple(failures)
        lines = [f"{op}: target {target!r} can't run here; {len(self.failures)} failed:"]
        lines += [f"  - {failure.name}: {failure.evidence}. {failure.remedy}" for failure in self.failures]
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[type[TargetUnavailableError], tuple[str, str, tuple[Failure, ...]]]:
        return type(self), (self.op, self.target, self.failures)
