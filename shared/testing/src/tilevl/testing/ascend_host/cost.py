"""A roofline: from counts to a modelled time.

For each core and pipe the cycles are bytes over the width of the path, plus a start for each copy instruction and each
contiguous piece; a vector instruction is one cycle, a SIMT access one cycle for as many threads as advance together,
the matrix unit one 16 x 16 x 32-byte step a cycle. Pipes of a core overlap fully: a core takes as long as its longest
pipe. Blocks are dealt to the chip's cores in turn, and the core with the most work decides. Global memory is a bound of
its own: all bytes over its bandwidth. No stall, no contention and no cache is modelled: the result ranks variants of
one kernel, and is never a measurement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilevl.testing.ascend_host.chip import Chip

if TYPE_CHECKING:
    from tilevl.testing.ascend_host.counters import CoreCounts


@dataclass(frozen=True)
class Cost:
    """A modelled time.

    Attributes:
        chip: the chip it is modelled for.
        microseconds: with the launch.
        binding: what decides: a pipe of a core (``MTE2``, ``V``, ``M``, ...) or ``global memory``.
        pipes: microseconds of each pipe on the core where it works longest, and of global memory.
    """

    chip: str
    microseconds: float
    binding: str
    pipes: dict[str, float]

    def __str__(self) -> str:
        return f"{self.microseconds:.1f} us on {self.chip} by the model, not measured; bound by {self.binding}"


def pipe_cycles(core: CoreCounts, chip: Chip) -> dict[str, float]:
    """Cycles of each pipe of one core of one block."""

    def copies(path: str, width: float) -> float:
        starts = core.descriptors[path] * chip.descriptor_cycles + core.bursts[path] * chip.burst_cycles
        return core.bytes[path] / width + starts

    vector = core.vector
    register_operations = sum(count for kind, count in vector.items() if kind != "mask")
    simt = core.simt
    simt_accesses = simt["loads"] + simt["stores"] + simt["atomics"] + 32 * simt["warp_operations"]
    return {
        "S": core.bytes["gm_scalar"] / 4,
        "V": register_operations + simt_accesses / chip.simt_lanes + copies("ub_ub", chip.vector_bytes),
        "M": core.matrix_cycles,
        "MTE1": copies("l1_l0a", chip.l1_to_l0_bytes) + copies("l1_l0b", chip.l1_to_l0_bytes),
        "MTE2": copies("gm_ub", chip.gm_bytes) + copies("gm_l1", chip.gm_bytes),
        "MTE3": copies("ub_gm", chip.gm_bytes) + copies("ub_l1", chip.ub_l1_bytes),
        "FIX": copies("l0c_ub", chip.l0c_out_bytes) + copies("l0c_gm", chip.gm_bytes),
    }


def cost_of(cores: Sequence[CoreCounts], chip: Chip) -> Cost:
    """The roofline over the counts of a launch."""
    mixed_or_cube = any(core.core == "cube" for core in cores)
    groups = chip.cube_cores if mixed_or_cube else chip.vector_cores
    work: dict[tuple[int, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    global_bytes = 0
    for core in cores:
        for pipe, cycles in pipe_cycles(core, chip).items():
            work[core.block % groups, core.core][pipe] += cycles
        global_bytes += sum(core.bytes[path] for path in ("gm_ub", "ub_gm", "gm_l1", "l0c_gm", "gm_scalar", "gm_simt"))
    per_microsecond = chip.clock_ghz * 1000
    pipes: dict[str, float] = defaultdict(float)
    for cycles_of in work.values():
        for pipe, cycles in cycles_of.items():
            pipes[pipe] = max(pipes[pipe], cycles / per_microsecond)
    pipes["global memory"] = global_bytes / (chip.memory_gb_per_s * 1000)
    binding = max(pipes, key=lambda pipe: pipes[pipe])
    return Cost(chip.name, chip.launch_us + pipes[binding], binding, dict(pipes))
