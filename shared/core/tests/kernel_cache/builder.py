"""Builds one kernel in a process of its own, with the cache that its environment names; run by the tests beside it.

``builder.py KIND [MOMENT]`` writes, as JSON, how often a compiler ran, what the kernel did, and what was warned of.
KIND is ``cuda``: TileLang and nvcc, launched where there is a GPU; or ``host_model``: g++, launched always. With a
MOMENT it writes that word and waits to be killed: ``compiling``, a compiler has just started; ``publishing``, all files
of an entry are written, and the entry isn't in its place yet.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

COMPILERS = {"nvcc", "g++", "gcc", "c++", "cc"}
ADDED, START = 41, 300

compilations: list[str] = []


def watch_compilers(moment: str) -> None:
    """Counts the runs of compilers that write a file; waits after the start of the first where that is the moment."""
    started = subprocess.Popen.__init__

    def start(process: subprocess.Popen[Any], command: Any, *rest: Any, **options: Any) -> None:
        started(process, command, *rest, **options)
        words = command.split() if isinstance(command, str) else [str(word) for word in command]
        if Path(words[0]).name in COMPILERS and "-o" in words:
            compilations.append(words[words.index("-o") + 1])
            if moment == "compiling":
                wait_to_be_killed(moment)

    subprocess.Popen.__init__ = start  # type: ignore[method-assign]


def watch_renames(moment: str) -> None:
    """Waits before the first rename where that is the moment: both caches publish an entry by one."""
    if moment == "publishing":
        os.rename = lambda *paths: wait_to_be_killed(moment)


def wait_to_be_killed(moment: str) -> None:
    """Says that the moment has come."""
    sys.stdout.write(f"{moment}\n")
    sys.stdout.flush()
    time.sleep(600)


def cuda_kernel() -> list[int]:
    """Builds for a Hopper GPU, and launches where there is one."""
    import torch

    from tilevl.core import cache_directory, cuda

    cache_directory.direct_tilelang()
    import tilelang.language as T

    @T.prim_func
    def cache_test_add(anchor: T.Tensor((1,), "uint8"), values: T.int64, count: T.int32, number: T.int32):
        with T.Kernel(T.ceildiv(count, 128), threads=128) as block:
            i = block * 128 + T.get_thread_binding()
            numbers = cuda.view(values, "int32")
            if i < count:
                numbers[i] = numbers[i] + number

    there = torch.cuda.is_available()
    launch = cuda.compiled(cache_test_add, cuda.arch_of(0) if there else "sm_90a")
    if not there:
        return []
    values = torch.arange(START, dtype=torch.int32, device="cuda")
    launch(torch.zeros(1, dtype=torch.uint8, device="cuda"), values.data_ptr(), START, ADDED)
    return values.tolist()


def host_model_kernel() -> list[int]:
    """Builds for the host model, and launches."""
    import torch

    from tilevl.testing import ascend_host

    body = f"asc_init(); for (int i = 0; i < {START}; ++i) y[i] = y[i] + {ADDED};"
    kernel = ascend_host.compile(
        f'extern "C" __global__ __vector__ void cache_test_add(__gm__ int32_t* y) {{ {body} }}'
    )
    values = torch.arange(START, dtype=torch.int32)
    kernel(1, y=values)
    return values.tolist()


def main(kind: str, moment: str = "") -> None:
    """Builds, launches, and says what was seen."""
    watch_compilers(moment)
    watch_renames(moment)
    logged: list[str] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logged.append(record.getMessage())

    if kind == "cuda":
        from tilevl.core import cache_directory

        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            cache_directory.direct_tilelang()
        logged += [str(warning.message) for warning in warned]
        import tilelang  # noqa: F401  sets up its logger

        logging.getLogger("tilelang").addHandler(Keeper(logging.WARNING))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", RuntimeWarning)
        values = cuda_kernel() if kind == "cuda" else host_model_kernel()
    logged += [str(warning.message) for warning in warned if warning.category is RuntimeWarning]
    sys.stdout.write(json.dumps({"compilations": len(compilations), "values": values, "said": logged}))


if __name__ == "__main__":
    main(*sys.argv[1:])
