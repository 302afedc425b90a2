"""A device ``npu`` without an NPU: tensors in host memory, kernels on the host model.

``simulated_npu()`` makes PyTorch's PrivateUse1 key a backend named ``npu`` that is written in Python. Calls with its
tensors take the way they take on a machine with torch_npu, through dispatcher, registration and kernel cache, to the
launch of a kernel, which runs on ``tilevl.testing.ascend_host``. Nothing here happens by import, nor beside an
installed torch_npu.
"""

from __future__ import annotations

import importlib.util
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils import backend_registration

from tilevl.core import ascend
from tilevl.core.environment import gate
from tilevl.testing import ascend_host
from tilevl.testing.ascend_host import ASCEND_950DT, Chip, Counters
from tilevl.testing.simulated_launch import named_arguments
from tilevl.testing.simulated_memory import host_tensor, register_kernels

_KEPT_LAUNCHES = 1024

_active: SimulatedNpu | None = None


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel on the simulated device: its name, grid, and what it did."""

    kernel: str
    grid: int
    counters: Counters


@dataclass(frozen=True)
class SimulatedKernel:
    """A kernel for tensors of the simulated device."""

    kernel: ascend_host.Kernel
    npu: SimulatedNpu = field(repr=False)

    def __call__(self, grid: int, /, **given: Any) -> Counters:
        """Runs the kernel in place; as ``ascend_host.Kernel``, with ``npu`` tensors."""
        kernel = self.kernel.with_options(**self.npu.options)
        counters = kernel(grid, **{name: host_tensor(value) for name, value in given.items()})
        self.npu.launches.append(Launch(self.kernel.signature.name, grid, counters))
        return counters


class Event:
    """A point in the host's time: what TileLang's profiler takes from ``torch.npu`` when it is imported."""

    def __init__(self, enable_timing: bool = False) -> None:
        self._recorded = 0.0

    def record(self, stream: Any = None) -> None:
        """Takes the time."""
        self._recorded = time.perf_counter()

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds on the host, not on the modelled chip."""
        return (end._recorded - self._recorded) * 1000


class SimulatedNpu:
    """What ``torch.npu`` is while the simulated device is there.

    Attributes:
        chip: whose core counts the device reports.
        launches: the last launches, oldest first.
        options: how launches run, as ``ascend_host.Kernel.with_options`` takes them: order, seed, options of the model.
    """

    Event = Event

    def __init__(self, chip: Chip) -> None:
        self.chip = chip
        self.launches: deque[Launch] = deque(maxlen=_KEPT_LAUNCHES)
        self.options: dict[str, Any] = {}

    def compile(self, prim_func: Any, options: Mapping[str, str] | None = None) -> SimulatedKernel:
        """Lowers a TileLang program and builds it for the host model.

        Args:
            prim_func: a ``tilelang.ascend.language`` program.
            options: the model's choices, as ``ascend_host.Kernel.with_options`` takes them.
        """
        kernel = ascend_host.compile(ascend_host.lower(prim_func))
        return SimulatedKernel(kernel.with_options(None, None, **(options or {})), self)

    def launch_of(self, program: Any, cores: int, pass_configs: dict[str, Any]) -> ascend.Launch:
        """The last step of ``tilevl.core.ascend``: what launches a program, here on the host model."""
        kernel = SimulatedKernel(ascend_host.compile(ascend_host.lower(program, pass_configs)), self)
        names = [parameter.name for parameter in kernel.kernel.signature.parameters]

        def launch(*arguments: Any) -> None:
            kernel(cores, **named_arguments(program, arguments, names))

        return launch

    def is_current_stream_capturing(self) -> bool:
        """Never: there is nothing to capture with."""
        return False

    def is_available(self) -> bool:
        """Always: the device is there."""
        return True

    def is_initialized(self) -> bool:
        """Always."""
        return True

    def device_count(self) -> int:
        """One device."""
        return 1

    def current_device(self) -> int:
        """Its index."""
        return 0

    def set_device(self, device: Any) -> None:
        """Nothing to choose from."""

    def synchronize(self, device: Any = None) -> None:
        """Nothing to wait for: a launch returns when the kernel has ended."""

    def current_stream(self, device: Any = None) -> SimpleNamespace:
        """A stream with the handle 0."""
        return SimpleNamespace(npu_stream=0)

    def get_device_name(self, device: Any = None) -> str:
        """The name that torch_npu gives a chip of the modelled kind."""
        return self.chip.name.replace(" ", "")

    def get_device_properties(self, device: Any = None) -> SimpleNamespace:
        """Name and core counts of the modelled chip."""
        return SimpleNamespace(
            name=self.get_device_name(), cube_core_num=self.chip.cube_cores, vector_core_num=self.chip.vector_cores
        )

    def manual_seed_all(self, seed: int) -> None:
        """The device draws no numbers."""

    def _is_in_bad_fork(self) -> bool:  # asked by torch.manual_seed
        return False


def simulated_npu(chip: Chip = ASCEND_950DT) -> SimulatedNpu:
    """Makes ``npu`` a device of this process, until it ends; a second call returns what is there.

    Args:
        chip: whose core counts ``torch.npu.get_device_properties`` reports.

    Returns:
        The module ``torch.npu``.

    Raises:
        RuntimeError: torch_npu is installed, or the process has another backend in this place.
    """
    global _active
    if _active is not None:
        return _active
    if importlib.util.find_spec("torch_npu") is not None:
        raise RuntimeError("simulated_npu: must not run beside torch_npu, and torch_npu is installed")
    other = torch._C._get_privateuse1_backend_name()
    if other != "privateuseone":
        raise RuntimeError(f"simulated_npu: PyTorch's place for a backend must be free, got {other!r} in it")
    npu = SimulatedNpu(chip)
    backend_registration._setup_privateuseone_for_python_backend("npu", backend_module=npu)
    register_kernels()
    gate._passed.add("ascend")  # the checks ask for CANN and a driver, which the host model does without
    ascend.set_compiler(npu.launch_of)
    _active = npu
    return npu
