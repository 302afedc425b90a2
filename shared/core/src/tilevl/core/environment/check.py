"""What one environment check answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tilevl.core.environment.sight import Sight

State = Literal["ok", "warning", "failed", "not applicable"]


@dataclass(frozen=True)
class Check:
    """One fact about the environment.

    Attributes:
        name: stable name, the same in the table, in JSON, in errors and in skip reasons.
        state: ``ok``; ``warning`` (works, but worth knowing); ``failed`` (the target can't run); ``not applicable``
            (the target doesn't need it, or it can't be asked before another check passes).
        evidence: what was seen, without a final full stop.
        remedy: one line that says what to do; empty unless the state is ``warning`` or ``failed``.
    """

    name: str
    state: State
    evidence: str
    remedy: str = ""

    def __post_init__(self) -> None:
        if bool(self.remedy) != (self.state in ("warning", "failed")):
            raise ValueError(f"check {self.name}: a remedy goes with warning and failed only, got {self.state!r}")


@dataclass(frozen=True)
class Scene:
    """What the checks look at.

    Attributes:
        target: the target that is asked for: ``cpu``, ``cuda``, ``ascend`` or ``pto``.
        sight: looks at what must be imported to be seen, in this process or in a child.
        run_tools: whether to start the compilers found, to see that they run and which version they are.
    """

    target: str
    sight: Sight
    run_tools: bool = False
