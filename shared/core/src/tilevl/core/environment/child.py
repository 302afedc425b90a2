"""Looks from a child process: an import that raises, hangs or crashes there can't hurt this one."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from tilevl.core import cache_directory
from tilevl.core.environment import sight
from tilevl.core.environment.processes import Finished, run
from tilevl.core.environment.sight import Broken, TileLangSeen, TorchNpuSeen, TorchSeen

TIMEOUT = 120.0
AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"

_MARK = "tilevl-sight:"
_LOOKS: dict[str, Callable[[], Any]] = {
    "torch": sight.look_at_torch,
    "torch_npu": sight.look_at_torch_npu,
    "tilelang": sight.look_at_tilelang,
}
# The child searches where this process searches, whatever the working directory and the start-up files say.
_START = (
    "import json, sys; what, path = sys.argv[1:]; sys.path[:] = json.loads(path); "
    "from tilevl.core.environment.child import report; report(what)"
)


def report(what: str) -> None:
    """What the child does: look, and write what it saw on one marked line, since imports may print as well."""
    seen = _LOOKS[what]()
    if seen.broken is not None:
        seen = dataclasses.replace(seen, broken=dataclasses.replace(seen.broken, exception=None))
    sys.stdout.write(f"\n{_MARK}{json.dumps(dataclasses.asdict(seen))}\n")
    sys.stdout.flush()


def _ask(what: str, *, autoload: bool) -> dict[str, Any]:
    environ = dict(os.environ)
    if not autoload:
        environ[AUTOLOAD] = "0"
    command = [sys.executable, "-c", _START, what, json.dumps(sys.path)]
    with tempfile.TemporaryDirectory(prefix="tilevl-") as scratch:  # TileLang makes its cache folder on import
        environ[cache_directory.VARIABLE] = scratch
        finished = run(command, timeout=TIMEOUT, environ=environ)
    lines = [line for line in finished.output.splitlines() if line.startswith(_MARK)]
    if not lines:
        return {"broken": Broken(_ending(what, finished))}
    # A crash after the answer, while Python shuts down, doesn't make the answer wrong.
    answer: dict[str, Any] = json.loads(lines[-1].removeprefix(_MARK))
    if answer["broken"] is not None:
        answer["broken"] = Broken(**answer["broken"])
    return answer


def _ending(what: str, finished: Finished) -> str:
    last = finished.output.strip().splitlines()[-1:]
    said = f"; its last words: {last[0][:200]}" if last else ""
    return f"a Python process that imports {what} gave no answer ({finished.problem or 'it just ended'}){said}"


def _torch() -> TorchSeen:
    answer = _ask("torch", autoload=True)
    if answer["broken"] is None or os.environ.get(AUTOLOAD) == "0":
        return TorchSeen(**answer)
    alone = _ask("torch", autoload=False)
    if alone["broken"] is not None:
        return TorchSeen(**alone)
    return dataclasses.replace(TorchSeen(**alone), autoload_broken=answer["broken"])


def _torch_npu() -> TorchNpuSeen:
    return TorchNpuSeen(**_ask("torch_npu", autoload=False))


def _tilelang() -> TileLangSeen:
    return TileLangSeen(**_ask("tilelang", autoload=False))


class InChildren:
    """Looks from children, all at once: each takes seconds, and starts when this object is made."""

    def __init__(self) -> None:
        self._torch = _start(_torch)
        self._torch_npu = _start(_torch_npu) if sight.importable("torch_npu") else None
        self._tilelang = _start(_tilelang) if sight.importable("tilelang") else None

    def torch(self) -> TorchSeen:
        """Imports torch in a child; if that fails, a second time without torch's autoload of device backends."""
        seen: TorchSeen = self._torch.result()
        return seen

    def torch_npu(self) -> TorchNpuSeen:
        """Imports torch_npu in a child and asks for devices."""
        return self._torch_npu.result() if self._torch_npu else TorchNpuSeen(broken=Broken("not installed"))

    def tilelang(self) -> TileLangSeen:
        """Imports TileLang in a child and asks its registry."""
        return self._tilelang.result() if self._tilelang else TileLangSeen(broken=Broken("not installed"))


def _start(look: Callable[[], Any]) -> Future[Any]:
    future: Future[Any] = Future()

    def work() -> None:
        try:
            future.set_result(look())
        except BaseException as error:  # handed to whoever asks for the result
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future
