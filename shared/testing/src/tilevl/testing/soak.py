"""Whether memory stays flat over many calls: what a process holds, sampled, and the slope of the line through it.

The slope is that of least squares; beside it stands half the width of its 95 % interval, as for independent errors.
Memory grows in steps, so that the interval is a little too narrow, and a slope counts as flat by what it adds up to.
"""

from __future__ import annotations

import gc
import os
import sys
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

SAMPLES = 100
_NORMAL_95 = 1.96


@dataclass(frozen=True)
class Trend:
    """How one measure of memory went.

    Attributes:
        name: what is measured.
        unit: its unit.
        slope: units per call, by least squares.
        half_width: of the slope's 95 % interval.
        growth: units by which the line rises over all calls.
        allowed: the growth up to which it counts as flat.
    """

    name: str
    unit: str
    slope: float
    half_width: float
    growth: float
    allowed: float

    @property
    def is_flat(self) -> bool:
        """Whether the line rises by no more than is allowed."""
        return self.growth <= self.allowed

    def __str__(self) -> str:
        flat = "flat" if self.is_flat else f"NOT FLAT, allowed are {self.allowed:g}"
        return f"{self.name}: {self.slope:+.3f} +- {self.half_width:.3f} {self.unit}/call, {self.growth:+.0f}: {flat}"


def fitted(samples: Sequence[float], calls_per_sample: float) -> tuple[float, float]:
    """Slope per call of the line of least squares through samples at equal distances, and half its 95 % interval.

    Raises:
        ValueError: there are fewer than three samples.
    """
    count = len(samples)
    if count < 3:
        raise ValueError(f"fitted: samples must be at least 3, got {count}")
    middle, mean = (count - 1) / 2, sum(samples) / count
    spread = sum((i - middle) ** 2 for i in range(count))
    slope = sum((i - middle) * (sample - mean) for i, sample in enumerate(samples)) / spread
    left = sum((sample - mean - slope * (i - middle)) ** 2 for i, sample in enumerate(samples))
    deviation = (left / (count - 2) / spread) ** 0.5
    return slope / calls_per_sample, _NORMAL_95 * deviation / calls_per_sample


def _resident() -> float:
    return float(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# Name, unit, what reads it, and the growth that counts as flat: pages, arenas and free lists fill up for a while. One
# object kept by each of 500 calls is more.
_Measure = tuple[str, str, Callable[[], float], float]
_HOST: tuple[_Measure, ...] = (
    ("resident memory", "B", _resident, 2.0**20),
    ("Python's blocks", "blocks", lambda: float(sys.getallocatedblocks()), 300.0),
)
# Torch's own counts: the driver's would count the other processes on the device too.
_CUDA: tuple[_Measure, ...] = (
    ("CUDA memory in use", "B", lambda: float(torch.cuda.memory_allocated()), 0.0),
    ("CUDA memory reserved", "B", lambda: float(torch.cuda.memory_reserved()), 0.0),
)


def soaked(call: Callable[[int], object], calls: int, device: torch.device) -> list[Trend]:
    """Calls many times, and fits a line to each measure of memory.

    Args:
        call: takes the number of the call, counted from 0. What is made once should have been made before.
        calls: how many; a multiple of ``SAMPLES``.
        device: what it runs on; on CUDA, its memory is measured too.

    Returns:
        A trend for each measure.
    """
    if calls < SAMPLES or calls % SAMPLES:
        raise ValueError(f"soaked: calls must be a multiple of {SAMPLES}, got {calls}")
    measures = _HOST + (_CUDA if device.type == "cuda" else ())
    samples = {name: array("d", bytes(8 * SAMPLES)) for name, *_ in measures}  # an array keeps no object per sample
    step = calls // SAMPLES
    gc.collect()
    gc.freeze()  # what is there stays, so that a collection looks at new objects alone
    try:
        for i in range(calls):
            call(i)
            if (i + 1) % step == 0:
                if device.type == "cuda":
                    torch.cuda.synchronize()
                gc.collect()
                for name, _, read, _ in measures:
                    samples[name][i // step] = read()
    finally:
        gc.unfreeze()
    trends = []
    for name, unit, _, allowed in measures:
        slope, half_width = fitted(samples[name], step)
        trends.append(Trend(name, unit, slope, half_width, slope * calls, allowed))
    return trends
