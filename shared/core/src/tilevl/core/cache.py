"""The kernels of one op on one target, built once per specialisation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any

Kernel = Callable[..., None]


class KernelCache:
    """Maps a static specialisation to its built kernel.

    Threads that ask for the same new key at once wait for one build; different keys build side by side. A build that
    raises leaves nothing behind: its error reaches the thread that built, and the next one tries again.

    Args:
        build: makes the kernel of a key; called as ``build(*key)``.
    """

    def __init__(self, build: Callable[..., Kernel]) -> None:
        self._build = build
        self._kernels: dict[Hashable, Kernel] = {}
        self._building: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, key: tuple[Any, ...]) -> Kernel:
        """The kernel of a key, built on first use."""
        kernel = self._kernels.get(key)
        if kernel is not None:
            return kernel
        with self._lock:
            building = self._building.setdefault(key, threading.Lock())
        with building:
            kernel = self._kernels.get(key)
            if kernel is None:
                kernel = self._kernels[key] = self._build(*key)
        with self._lock:
            self._building.pop(key, None)
        return kernel
