"""From counts to a modelled time.

Each pipe of a core takes, by a set of rates (``rates.py``), so many cycles for what it did. Two times come of that:

The *bound*: pipes of a core overlap fully, and a core takes as long as its longest pipe. The *schedule*: an instruction
starts when the one before it on its pipe has ended and everything it waits for (flags, locks, arrivals of other cores)
has happened; the runtime keeps this time while it runs a block. Blocks are dealt to the chip's cores in turn, and the
core with the most work decides. Global memory is a bound of its own: all bytes over its bandwidth. No contention, no
queue's depth and no cache is modelled: the result ranks variants of one kernel, and is never a measurement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilevl.testing.ascend_host.chip import Chip
from tilevl.testing.ascend_host.rates import PATHS, PIPE_OF_PATH, RATE_SETS, Rates

if TYPE_CHECKING:
    from tilevl.testing.ascend_host.counters import CoreCounts


@dataclass(frozen=True)
class Cost:
    """A modelled time.

    Attributes:
        chip: the chip it is modelled for.
        rates: the set of rates.
        microseconds: by the bound, with the launch.
        scheduled: microseconds by the schedule, with the launch; at least ``microseconds``.
        binding: what decides the bound: a pipe of a core (``MTE2``, ``V``, ``M``, ...) or ``global memory``.
        pipes: microseconds of each pipe on the core where it works longest, and of global memory.
    """

    chip: str
    rates: str
    microseconds: float
    scheduled: float
    binding: str
    pipes: dict[str, float]

    def __str__(self) -> str:
        return (
            f"{self.microseconds:.1f} us on {self.chip} by the model, not measured; bound by {self.binding}; "
            f"{self.scheduled:.1f} us with all waits"
        )


def pipe_cycles(core: CoreCounts, rates: Rates) -> dict[str, float]:
    """Cycles of each pipe of one core of one block."""
    cycles = dict.fromkeys(("S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX"), 0.0)
    for path in PATHS:
        if path in PIPE_OF_PATH:
            cycles[PIPE_OF_PATH[path]] += (
                core.bytes[path] * rates.of_bytes(path)
                + core.descriptors[path] * rates.of_descriptor(path)
                + core.bursts[path] * rates.of_burst(path)
            )
    cycles["V"] += sum(count * rates.of_vector(kind) for kind, count in core.vector.items())
    cycles["V"] += sum(count * rates.of_simt(kind) for kind, count in core.simt.items())
    cycles["M"] += core.matrix_cycles * rates.matrix
    return cycles


def cost_of(cores: Sequence[CoreCounts], chip: Chip, rates: Rates) -> Cost:
    """Both times over the counts of a launch.

    Raises:
        ValueError: the runtime keeps no time by these rates.
    """
    if rates not in RATE_SETS:
        raise ValueError(f"cost: rates must be one of {', '.join(known.name for known in RATE_SETS)}, got {rates.name}")
    mixed_or_cube = any(core.core == "cube" for core in cores)
    groups = chip.cube_cores if mixed_or_cube else chip.vector_cores
    work: dict[tuple[int, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    ends: dict[int, float] = defaultdict(float)  # of each block: when its last core is done
    global_bytes = 0
    for core in cores:
        for pipe, cycles in pipe_cycles(core, rates).items():
            work[core.block % groups, core.core][pipe] += cycles
        ends[core.block] = max(ends[core.block], core.cycles[rates.name])
        global_bytes += sum(core.bytes[path] for path in ("gm_ub", "ub_gm", "gm_l1", "l0c_gm", "gm_scalar", "gm_simt"))
    per_microsecond = chip.clock_ghz * 1000
    pipes: dict[str, float] = defaultdict(float)
    for cycles_of in work.values():
        for pipe, cycles in cycles_of.items():
            pipes[pipe] = max(pipes[pipe], cycles / per_microsecond)
    pipes["global memory"] = global_bytes / (chip.memory_gb_per_s * 1000)
    busy: dict[int, float] = defaultdict(float)
    for block, end in ends.items():
        busy[block % groups] += end / per_microsecond
    binding = max(pipes, key=lambda pipe: pipes[pipe])
    scheduled = max(pipes[binding], *busy.values())
    return Cost(
        chip.name, rates.name, chip.launch_us + pipes[binding], chip.launch_us + scheduled, binding, dict(pipes)
    )
