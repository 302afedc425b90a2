"""What a launch moved and computed."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilevl.testing.ascend_host.chip import DEFAULT_CHIP, Chip
from tilevl.testing.ascend_host.cost import Cost, cost_of
from tilevl.testing.ascend_host.rates import NAIVE, PATHS, RATE_SETS, SIMT_KINDS, VECTOR_KINDS, Rates
from tilevl.testing.ascend_host.source import Signature

CORE_NAMES = ("cube", "vector0", "vector1")
_WORDS = 3 * len(PATHS) + len(VECTOR_KINDS) + len(SIMT_KINDS) + 2 + len(RATE_SETS)


@dataclass(frozen=True)
class CoreCounts:
    """Counts of one core in one block.

    Attributes:
        block: index of the block.
        core: ``cube``, ``vector0`` or ``vector1``.
        bytes: payload by path (``gm_ub``, ``ub_gm``, ``gm_l1``, ...). ``gm_scalar``, ``gm_simt`` and ``ub_simt`` are
            accesses made one by one.
        descriptors: copy instructions by path.
        bursts: contiguous pieces of these copies by path.
        vector: vector instructions by kind.
        simt: what SIMT functions did, by kind.
        macs: multiply-adds of the matrix unit.
        matrix_cycles: cycles of the matrix unit, at one 16 x 16 x 32-byte step a cycle.
        cycles: from the start of the block until the core is done, all waits included, by name of the set of rates.
    """

    block: int
    core: str
    bytes: Mapping[str, int]
    descriptors: Mapping[str, int]
    bursts: Mapping[str, int]
    vector: Mapping[str, int]
    simt: Mapping[str, int]
    macs: int
    matrix_cycles: int
    cycles: Mapping[str, float]


@dataclass(frozen=True)
class Counters:
    """Counts of a launch.

    Attributes:
        kernel: its name.
        grid: number of blocks.
        cores: the counts of each core of each block, by block.
    """

    kernel: str
    grid: int
    cores: tuple[CoreCounts, ...]

    @classmethod
    def from_words(cls, signature: Signature, words: Sequence[int], grid: int) -> Counters:
        """From the numbers of the runtime: block, core and counts for each core."""
        cores = [_core(words[start : start + 2 + _WORDS]) for start in range(0, len(words), 2 + _WORDS)]
        return cls(signature.name, grid, tuple(sorted(cores, key=lambda core: (core.block, core.core))))

    def _sum(self, pick: Callable[[CoreCounts], Mapping[str, int]], names: Sequence[str]) -> dict[str, int]:
        return {name: sum(pick(core)[name] for core in self.cores) for name in names}

    @property
    def bytes(self) -> dict[str, int]:
        """Bytes by path, all cores together."""
        return self._sum(lambda core: core.bytes, PATHS)

    @property
    def descriptors(self) -> dict[str, int]:
        """Copy instructions by path, all cores together."""
        return self._sum(lambda core: core.descriptors, PATHS)

    @property
    def bursts(self) -> dict[str, int]:
        """Contiguous pieces of copies by path, all cores together."""
        return self._sum(lambda core: core.bursts, PATHS)

    @property
    def vector(self) -> dict[str, int]:
        """Vector instructions by kind, all cores together."""
        return self._sum(lambda core: core.vector, VECTOR_KINDS)

    @property
    def simt(self) -> dict[str, int]:
        """SIMT operations by kind, all cores together."""
        return self._sum(lambda core: core.simt, SIMT_KINDS)

    @property
    def macs(self) -> int:
        """Multiply-adds of the matrix units."""
        return sum(core.macs for core in self.cores)

    @property
    def global_bytes(self) -> int:
        """Bytes between global memory and the cores, both ways."""
        moved = self.bytes
        return sum(moved[path] for path in ("gm_ub", "ub_gm", "gm_l1", "l0c_gm", "gm_scalar", "gm_simt"))

    def cost(self, chip: Chip = DEFAULT_CHIP, rates: Rates = NAIVE) -> Cost:
        """A modelled time; see ``cost.py`` for the formula. Not a measurement.

        Args:
            chip: number of cores, clock and bandwidth.
            rates: one of the sets of ``rates.py``.
        """
        return cost_of(self.cores, chip, rates)


def _core(words: Sequence[int]) -> CoreCounts:
    block, core, *rest = words
    groups = iter(rest)

    def take(names: Sequence[str]) -> dict[str, int]:
        return {name: next(groups) for name in names}

    return CoreCounts(
        block=block,
        core=CORE_NAMES[core],
        bytes=take(PATHS),
        descriptors=take(PATHS),
        bursts=take(PATHS),
        vector=take(VECTOR_KINDS),
        simt=take(SIMT_KINDS),
        macs=next(groups),
        matrix_cycles=next(groups),
        cycles={rates.name: struct.unpack("<d", struct.pack("<Q", next(groups)))[0] for rates in RATE_SETS},
    )
