"""The gate that NPU calls pass: the first one of a process is checked, the others cost one look into a set."""

from __future__ import annotations

import threading

from tilevl.core.environment.ask import checks_for
from tilevl.core.environment.check import Check
from tilevl.core.environment.sight import InProcess
from tilevl.core.errors import TargetUnavailableError

_passed: set[str] = set()
_failed: dict[str, tuple[list[Check], Exception | None]] = {}
_lock = threading.Lock()


def require_npu(op_name: str, target: str) -> None:
    """Lets an NPU call pass where the environment can run its target.

    The first call of a process for a target runs every check of it; threads that come meanwhile wait for the verdict.
    A verdict holds as long as the process: what fails here (a missing library, a variable of the shell) is mended
    outside of it, and an import that broke half-way can't be repeated reliably. So a mended environment needs a new
    process, and a failed one raises the same error again at once.

    Args:
        op_name: the op that was called, for the error.
        target: ``ascend`` or ``pto``.

    Raises:
        TargetUnavailableError: with all checks that failed and their remedies. Its cause is the error that the import
            of torch_npu raised, where it did.
    """
    if target in _passed:
        return
    with _lock:
        if target in _passed:
            return
        if target not in _failed:
            sight = InProcess()
            failed = [check for check in checks_for(target, sight) if check.state == "failed"]
            if not failed:
                _passed.add(target)
                return
            broken = sight.torch_npu().broken
            _failed[target] = (failed, broken.exception if broken else None)
        failed, cause = _failed[target]
    raise TargetUnavailableError(op_name, target, failed) from cause
