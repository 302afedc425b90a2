"""Threads that make the first calls of all ops at once, in a process of their own; run by test_first_calls.py.

``first_calls.py TARGET THREADS`` writes, as JSON, how often each kernel was built and each program compiled, and in
which threads a result differed from the one that the same call gives afterwards, alone.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import every_op
import torch
from torch import Tensor

from tilevl.core import ascend, cuda, registration, targets
from tilevl.core.cache import Kernel, KernelCache

built: list[str] = []
compiled: list[str] = []


class CountingCache(KernelCache):
    """Notes each build, by the builder's module and key."""

    def __init__(self, build: Callable[..., Kernel]) -> None:
        def counted(*key: Any) -> Kernel:
            built.append(f"{build.__module__}{key}")
            return build(*key)

        super().__init__(counted)


def main(target: str, threads: int) -> None:
    """Calls from threads, then alone, and writes what was seen."""
    registration.KernelCache = CountingCache  # type: ignore[misc]
    if target == "ascend":
        from tilevl.testing.simulated_npu import simulated_npu

        simulated_npu()
        before = ascend.set_compiler(lambda program, cores, configs: counted(program, before, cores, configs))
    device = torch.device(targets.TARGETS[target].device_type)
    compile_for_cuda = cuda.compiled
    cuda.compiled = lambda program, *rest: counted(program, compile_for_cuda, *rest)
    ops = every_op.with_target(target)
    start, outcomes = threading.Barrier(threads), [dict[str, Tensor]() for _ in range(threads)]
    errors: list[str] = []

    def work(thread: int) -> None:
        start.wait()
        for turn in range(len(ops)):
            op = ops[(thread + turn) % len(ops)]
            try:
                outcomes[thread][op] = every_op.call(op, every_op.draw(op, thread, device)).cpu()
            except Exception as error:  # whatever it is, the test shall say it
                errors.append(f"{op}: {type(error).__name__}: {error}")

    workers = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    wrong = [
        f"{op} in thread {thread}"
        for thread, seen in enumerate(outcomes)
        for op, outcome in seen.items()
        if not torch.equal(outcome, every_op.call(op, every_op.draw(op, thread, device)).cpu())
    ]
    said = {"ops": len(ops), "calls": sum(map(len, outcomes)), "built": Counter(built), "compiled": Counter(compiled)}
    sys.stdout.write(json.dumps(said | {"wrong": wrong, "errors": errors}))


def counted(program: Any, compile: Callable[..., Any], *rest: Any) -> Any:
    """Compiles a program, and notes its name and a digest of it."""
    script = str(program.script(show_meta=True))
    compiled.append(f"{program.attrs['global_symbol']} {hashlib.sha256(script.encode()).hexdigest()[:8]}")
    return compile(program, *rest)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
