"""What an op moves on an Ascend NPU, and the time that the host model gives for it: a model, never a measurement."""

from __future__ import annotations

from collections.abc import Callable

import torch

from tilevl.testing.ascend_host import ASCEND_950DT, Chip
from tilevl.testing.benchmark import Row
from tilevl.testing.simulated_npu import simulated_npu


def npu() -> torch.device:
    """The simulated NPU.

    Raises:
        RuntimeError: torch_npu is installed: on a real device the counts of the model have no place.
    """
    simulated_npu()
    return torch.device("npu")


def modelled(
    shape: str, call: Callable[[], object], least: int, *, copied: int = 0, chip: Chip = ASCEND_950DT
) -> list[Row]:
    """Rows for one call: the modelled time, and the least that global memory would take for the bytes that must move.

    Args:
        shape: what is called.
        call: the call, with tensors of the simulated NPU.
        least: bytes that must move at least: what is read once and what is written once.
        copied: bytes that PyTorch's own copies inside the call read and write, which the model doesn't see.
        chip: whose figures the model uses.
    """
    device = simulated_npu()
    device.launches.clear()
    call()
    launches = list(device.launches)
    moved = copied + sum(launch.counters.global_bytes for launch in launches)
    costs = [launch.counters.cost(chip) for launch in launches]
    bound = ", ".join(dict.fromkeys(cost.binding for cost in costs))
    copying = chip.launch_us + copied / (chip.memory_gb_per_s * 1000) if copied else 0.0
    scheduled = copying + sum(cost.scheduled for cost in costs)
    return [
        Row(
            shape,
            f"model of {chip.name}",
            copying + sum(cost.microseconds for cost in costs),
            f"modelled, not measured; bound by {bound}, {scheduled:.1f} us with all waits; "
            f"{moved / 1e6:.2f} MB moved, {moved / least:.3f} of the least",
        ),
        Row(
            shape,
            "limit by the model",
            chip.launch_us + least / (chip.memory_gb_per_s * 1000),
            f"{least / 1e6:.2f} MB at {chip.memory_gb_per_s:.0f} GB/s and {chip.launch_us:.0f} us for the launch",
        ),
    ]
