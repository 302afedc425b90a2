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
from importlib import import_module
from typing import Any

import torch
from torch import Generator, Tensor

from tilevl.core import ascend, cuda, registration, targets
from tilevl.core.cache import Kernel, KernelCache

built: list[str] = []
compiled: list[str] = []
Args = tuple[Any, ...]


class CountingCache(KernelCache):
    """Notes each build, by the builder's module and key."""

    def __init__(self, build: Callable[..., Kernel]) -> None:
        def counted(*key: Any) -> Kernel:
            built.append(f"{build.__module__}{key}")
            return build(*key)

        super().__init__(counted)


def attention(g: Generator) -> Args:
    query, key, value = (torch.randn(1, 16, 2, 32, generator=g).half() for _ in range(3))
    return query, key, value, *(torch.randn(1, 16, 2, 8, generator=g).half() for _ in range(2)), 4, 4


def patches(g: Generator) -> Args:
    pixels = torch.randint(0, 256, (20 * 24,), dtype=torch.uint8, generator=g)
    return (
        pixels,
        torch.tensor([[0, 24, 8, 8], [19 * 24, -24, 8, 4]]),
        torch.tensor([0, 4, 6]),
        7,
        4,
        (0.5,) * 3,
        (0.5,) * 3,
    )


def position_ids(g: Generator) -> Args:
    grid = torch.randint(1, 6, (4, 2), generator=g)
    sums = torch.cat([torch.zeros(1, dtype=torch.int64), grid.prod(1).cumsum(0)])
    return grid, sums, 100


def replaced(g: Generator) -> Args:
    index = torch.randperm(40, generator=g)[:9]
    return torch.randn(40, 16, generator=g).bfloat16(), torch.randn(9, 16, generator=g).bfloat16(), index


def token_index(g: Generator) -> Args:
    return torch.rand(60, generator=g) < 0.3, 60


def shuffled(g: Generator) -> Args:
    count = 2 * int(torch.randint(1, 9, (), generator=g))
    return torch.randn(40, 16, generator=g).bfloat16(), torch.tensor([3, 30]), torch.tensor([count, 6]), 20


CALLS: dict[tuple[str, str], Callable[[Generator], Args]] = {
    ("attn_rel_h_rel_w", "attn_rel_h_rel_w"): attention,
    ("bmp_to_patches", "bmp_to_patches"): patches,
    ("prepare_image_attn_pos_id", "prepare_image_attn_pos_id"): position_ids,
    ("replace_input_embeds", "replace_input_embeds"): replaced,
    ("replace_input_embeds", "image_token_index"): token_index,
    ("shuffle_image_tokens", "shuffle_image_tokens"): shuffled,
}


def call(package: str, name: str, args: Args) -> Tensor:
    """The outcome of a call, on the CPU: the result, or what was written."""
    result = getattr(import_module(f"tilevl.{package}"), name)(*args)
    outcome: Tensor = args[0] if result is None else result
    return outcome.cpu()


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
    names = [key for key in CALLS if targets.has_kernel(f"tilevl.{key[0]}", target)]
    inputs = [
        [CALLS[key](torch.Generator().manual_seed(100 * thread + i)) for i, key in enumerate(names)]
        for thread in range(threads)
    ]
    start, outcomes = threading.Barrier(threads), [dict[int, Tensor]() for _ in range(threads)]
    errors: list[str] = []

    def work(thread: int) -> None:
        start.wait()
        for turn in range(len(names)):
            i = (thread + turn) % len(names)
            try:
                outcomes[thread][i] = call(*names[i], moved(inputs[thread][i], device))
            except Exception as error:  # whatever it is, the test shall say it
                errors.append(f"{names[i][1]}: {type(error).__name__}: {error}")

    workers = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    wrong = [
        f"{names[i][1]} in thread {thread}"
        for thread, seen in enumerate(outcomes)
        for i, outcome in seen.items()
        if not torch.equal(outcome, call(*names[i], moved(inputs[thread][i], device)))
    ]
    said = {"ops": len(names), "calls": sum(map(len, outcomes)), "built": Counter(built), "compiled": Counter(compiled)}
    sys.stdout.write(json.dumps(said | {"wrong": wrong, "errors": errors}))


def counted(program: Any, compile: Callable[..., Any], *rest: Any) -> Any:
    """Compiles a program, and notes its name and a digest of it."""
    script = str(program.script(show_meta=True))
    compiled.append(f"{program.attrs['global_symbol']} {hashlib.sha256(script.encode()).hexdigest()[:8]}")
    return compile(program, *rest)


def moved(args: Args, device: torch.device) -> Args:
    """Copies of the tensors on a device, and the other arguments as they are."""
    return tuple(arg.clone().to(device) if isinstance(arg, Tensor) else arg for arg in args)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
