"""The kernel cache: one build per key, whatever asks for it at once."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from tilevl.core.cache import Kernel, KernelCache


def kernel_of(*key: Any) -> Kernel:
    def kernel(*args: Any) -> None:
        del args

    kernel.key = key  # type: ignore[attr-defined]
    return kernel


def ask_at_once(cache: KernelCache, keys: list[tuple[Any, ...]]) -> list[Any]:
    barrier, found = threading.Barrier(len(keys)), [None] * len(keys)

    def work(i: int) -> None:
        barrier.wait()
        found[i] = cache.get(keys[i])  # type: ignore[call-overload]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(keys))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_sixteen_threads_that_ask_for_one_key_build_it_once() -> None:
    builds: list[tuple[Any, ...]] = []

    def build(*key: Any) -> Kernel:
        builds.append(key)
        time.sleep(0.02)
        return kernel_of(*key)

    found = ask_at_once(KernelCache(build), [(8, "bf16")] * 16)
    assert builds == [(8, "bf16")]
    assert all(kernel is found[0] for kernel in found)


def test_different_keys_build_side_by_side() -> None:
    both_inside = threading.Barrier(2, timeout=20)

    def build(*key: Any) -> Kernel:
        both_inside.wait()  # raises BrokenBarrierError where the second key has to wait for the first
        return kernel_of(*key)

    first, second = ask_at_once(KernelCache(build), [(1,), (2,)])
    assert (first.key, second.key) == ((1,), (2,))


def test_a_failed_build_is_tried_again() -> None:
    outcomes = [RuntimeError("the compiler was killed"), None]

    def build(*key: Any) -> Kernel:
        error = outcomes.pop(0)
        if error is not None:
            raise error
        return kernel_of(*key)

    cache = KernelCache(build)
    with pytest.raises(RuntimeError, match="the compiler was killed"):
        cache.get((1,))
    assert cache.get((1,)) is cache.get((1,))
    assert outcomes == []


def test_threads_that_waited_for_a_failed_build_build_themselves() -> None:
    lock, builds = threading.Lock(), []

    def build(*key: Any) -> Kernel:
        with lock:
            builds.append(key)
            first = len(builds) == 1
        if first:
            time.sleep(0.05)
            raise RuntimeError("no space left")
        return kernel_of(*key)

    cache = KernelCache(build)
    errors: list[str] = []

    def work() -> None:
        try:
            cache.get((1,))
        except RuntimeError as error:  # the one thread whose build failed
            errors.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == ["no space left"]
    assert len(builds) == 2
