"""A compiled kernel, and the ways to run it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from tilevl.testing.ascend_host import compiler
from tilevl.testing.ascend_host import options as option_table
from tilevl.testing.ascend_host.counters import Counters
from tilevl.testing.ascend_host.errors import HostModelError, KernelFaultError
from tilevl.testing.ascend_host.launch import ORDERS, Library, check_names, scratch_like
from tilevl.testing.ascend_host.places import read_outcome
from tilevl.testing.ascend_host.source import Signature, prepare, read_signature

_MAX_GRID = 65535


@dataclass(frozen=True)
class Kernel:
    """A kernel that runs on the host model.

    Attributes:
        source: the AscendC source, as it was given.
        signature: name, cores and parameters.
        order: how the pipes of a core advance: ``eager`` (each instruction as soon as it can), ``lazy`` (each as late
            as it can) or ``random`` (a legal order drawn from the seed; two blocks are interleaved).
        seed: of the random order.
        options: names and values of the model's choices; see ``DESIGN.md``.
    """

    source: str
    signature: Signature
    library: Library
    order: str = "eager"
    seed: int = 0
    options: Mapping[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def with_options(self, order: str | None = None, seed: int | None = None, **options: str) -> Kernel:
        """The same kernel, run in another way.

        Raises:
            ValueError: an unknown order, option or value.
        """
        if order is not None and order not in ORDERS:
            raise ValueError(f"ascend_host: order must be one of {', '.join(ORDERS)}, got {order!r}")
        option_table.check(options)
        return replace(
            self,
            order=self.order if order is None else order,
            seed=self.seed if seed is None else seed,
            options={**self.options, **options},
        )

    def __call__(self, grid: int, /, **given: Any) -> Counters:
        """Runs the kernel over CPU tensors, in place.

        Args:
            grid: number of blocks, 1 to 65535.
            **given: a tensor or number for each parameter, by name. A kernel may touch the bytes from a tensor's first
                to its last element. Tensors of one storage share memory, as on the device; an address in one of them is
                in bounds, whichever pointer it came from.

        Returns:
            What the launch moved and computed.

        Raises:
            TypeError: a name is missing or unknown, or a dtype is not the parameter's.
            ValueError: the grid or a number is out of range.
            KernelFaultError: the kernel did what it must not; no tensor was changed.
        """
        check_names(self.signature, given)
        if not 1 <= grid <= _MAX_GRID:
            raise ValueError(f"{self.signature.name}: grid must be 1 to {_MAX_GRID}, got {grid}")
        with self._lock:  # the library's state is one
            result = self.library.launch(self.signature, grid, self.order, self.seed, self.options, given)
        if isinstance(result, Counters):
            return result
        raise KernelFaultError(self.signature.name, read_outcome(result, self.library.path, self.source))

    def in_every_order(self, grid: int, /, seeds: int = 3, **given: Any) -> Counters:
        """Runs the kernel eagerly in place, and on copies in lazy order and ``seeds`` random ones.

        Returns:
            The counters of the eager run.

        Raises:
            HostModelError: an order gives other bits than the eager one.
            Others as for a plain call.
        """
        ways = [
            self.with_options(order="lazy"),
            *(self.with_options(order="random", seed=seed) for seed in range(seeds)),
        ]
        copies = [_copies(given) for _ in ways]
        counters = self.with_options(order="eager")(grid, **given)
        for way, copy in zip(ways, copies, strict=True):
            way(grid, **copy)
            for name, value in given.items():
                if isinstance(value, torch.Tensor) and not _same_bits(value, copy[name]):
                    raise HostModelError(
                        f"{self.signature.name}: {name} differs between the eager and the {way.order} order, "
                        f"seed {way.seed}"
                    )
        return counters


def _copies(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: scratch_like(value) if isinstance(value, torch.Tensor) else value for name, value in given.items()}


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def compile(source: str) -> Kernel:  # the name of the step, as in torch.compile
    """Builds a kernel from AscendC source, as ``lower`` gives it; quick where the same source was built before.

    Raises:
        ValueError: the source does not hold exactly one kernel.
        CompilerMissingError: there is no g++.
        CompilationError: g++ refuses the source.
    """
    signature = read_signature(source)
    return Kernel(source, signature, Library(compiler.build(prepare(source, signature))))
