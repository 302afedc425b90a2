"""Whether this machine and this Python can run a target, and what to do where they can't.

``checks_for`` answers for one target, ``can_run`` gives what fails (a skip's reason), and ``require_npu`` is the gate
that the first NPU call of a process passes. ``python -m tilevl.core.doctor`` shows the same checks to a person.
Importing this package imports neither torch nor torch_npu nor TileLang.
"""

from __future__ import annotations

from tilevl.core.environment.ask import can_run, checks_for
from tilevl.core.environment.check import Check, State
from tilevl.core.environment.gate import require_npu

__all__ = ["Check", "State", "can_run", "checks_for", "require_npu"]
