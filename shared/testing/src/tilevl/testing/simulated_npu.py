"""A device ``npu`` without an NPU: tensors in host memory, kernels on the host model.

``simulated_npu()`` makes PyTorch's PrivateUse1 key a backend named ``npu`` that is written in Python. Calls with its
tensors take the way they take on a machine with torch_npu, through dispatcher, registration and kernel cache, to the
launch of a kernel, which runs on ``tilevl.testing.ascend_host``. Nothing here happens by import, nor beside an
installed torch_npu.

A backend in Python can't give its tensors storage of its own: their storages are empty shells that carry the size, and
the bytes lie in a table by storage. Tensors that share a storage share memory, as elsewhere.
"""

from __future__ import annotations

import importlib.util
import math
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import backend_registration
from torch.utils._pytree import tree_map

from tilevl.core import ascend
from tilevl.core.environment import gate
from tilevl.testing import ascend_host
from tilevl.testing.ascend_host import ASCEND_950DT, Chip, Counters
from tilevl.testing.simulated_launch import named_arguments

_KEPT_LAUNCHES = 1024
_UNINITIALISED = 0x7F  # a large number in every dtype, so that reading what nobody wrote shows

_host_kernels = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_lock = threading.Lock()
_memory: dict[int, tuple[StorageWeakRef, torch.UntypedStorage]] = {}
_libraries: list[torch.library.Library] = []
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
        counters = self.kernel(grid, **{name: host_tensor(value) for name, value in given.items()})
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
    """

    Event = Event

    def __init__(self, chip: Chip) -> None:
        self.chip = chip
        self.launches: deque[Launch] = deque(maxlen=_KEPT_LAUNCHES)

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


def host_tensor(value: Any) -> Any:
    """The CPU tensor over the same bytes as a tensor of the simulated device; anything else as it is."""
    if not isinstance(value, torch.Tensor) or value.device.type != "npu":
        return value
    with _lock:
        _, memory = _memory[value.untyped_storage()._cdata]
    empty = torch.empty(0, dtype=value.dtype)
    return empty.set_(memory, value.storage_offset(), value.shape, value.stride())


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
    _register_kernels()
    gate._passed.add("ascend")  # the checks ask for CANN and a driver, which the host model does without
    ascend.set_compiler(npu.launch_of)
    _active = npu
    return npu


def _new_tensor(size: Sequence[int], stride: Sequence[int] | None, dtype: torch.dtype) -> torch.Tensor:
    """An uninitialised tensor with memory."""
    span = math.prod(size)
    if span and stride is not None:
        span = 1 + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    tensor: torch.Tensor = torch._C._acc.create_empty_tensor((0,), dtype)
    _give_memory(tensor, span)
    strides = torch.empty(size, device="meta").stride() if stride is None else stride
    torch.ops.aten.as_strided_.default(tensor, list(size), list(strides), 0)
    return tensor


def _give_memory(tensor: torch.Tensor, elements: int) -> None:
    """Resizes a tensor to one row of elements and puts uninitialised memory behind its storage."""
    torch.ops.aten.resize_.default.redispatch(
        _host_kernels, tensor, [elements]
    )  # gives the storage its size, not bytes
    memory = torch.full((elements * tensor.element_size(),), _UNINITIALISED, dtype=torch.uint8).untyped_storage()
    storage = tensor.untyped_storage()
    with _lock:
        for key in [key for key, (reference, _) in _memory.items() if reference.expired()]:
            del _memory[key]
        _memory[storage._cdata] = (StorageWeakRef(storage), memory)  # a live reference, so no address comes twice


def _to_npu(value: torch.Tensor) -> torch.Tensor:
    result = _new_tensor(value.shape, value.stride(), value.dtype)
    host_tensor(result).copy_(value)
    return result


def _alias(tensor: torch.Tensor, size: Sequence[int], stride: Sequence[int], offset: int) -> torch.Tensor:
    view = tensor.data  # keeps the device, which a view made by the CPU's kernels would not
    torch.ops.aten.as_strided_.default(view, list(size), list(stride), offset)
    return view


def _dtype(dtype: torch.dtype | None) -> torch.dtype:
    return torch.get_default_dtype() if dtype is None else dtype


def _empty(size: Sequence[int], dtype: torch.dtype | None = None, *rest: Any, **kwargs: Any) -> torch.Tensor:
    memory_format = kwargs.get("memory_format") or torch.contiguous_format
    like = torch.empty(size, device="meta", memory_format=memory_format)
    return _new_tensor(size, like.stride(), _dtype(dtype))


def _empty_strided(
    size: Sequence[int], stride: Sequence[int], dtype: torch.dtype | None = None, **kwargs: Any
) -> torch.Tensor:
    return _new_tensor(size, stride, _dtype(dtype))


def _as_strided(
    tensor: torch.Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> torch.Tensor:
    offset = int(tensor.storage_offset()) if storage_offset is None else storage_offset
    return _alias(tensor, size, stride, offset)


def _view(tensor: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    view = host_tensor(tensor).view(size)
    return _alias(tensor, view.shape, view.stride(), view.storage_offset())


def _copy(destination: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    host_tensor(destination).copy_(host_tensor(source))
    return destination


def _on_host(op: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> Any:
    """Any other op of PyTorch: computed on the host, over the same bytes where it writes."""
    if op.namespace not in ("aten", "prims"):
        raise NotImplementedError(f"{op}: has no kernel for the simulated NPU")
    hosts: list[tuple[torch.Tensor, torch.Tensor]] = []

    def down(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.device.type == "npu":
            hosts.append((host_tensor(value), value))
            return hosts[-1][0]
        return torch.device("cpu") if isinstance(value, torch.device) and value.type == "npu" else value

    def up(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        for host, original in hosts:
            if value is host:
                return original
        return _to_npu(value)

    result = op(*tree_map(down, args), **tree_map(down, kwargs))
    for host, original in hosts:
        if host.shape != original.shape:  # an output that the op resized
            _give_memory(original, host.numel())
            torch.ops.aten.as_strided_.default(original, host.shape, host.stride(), 0)
            host_tensor(original).copy_(host)
    return tree_map(up, result)


def _register_kernels() -> None:
    aten = torch.library.Library("aten", "IMPL")
    for name, kernel in (
        ("empty.memory_format", _empty),
        ("empty_strided", _empty_strided),
        ("as_strided", _as_strided),
        ("view", _view),
        ("_reshape_alias", lambda tensor, size, stride: _as_strided(tensor, size, stride)),
        ("alias", lambda tensor: tensor.data),
        ("detach", lambda tensor: tensor.data),
        ("copy_", _copy),
    ):
        aten.impl(name, kernel, "PrivateUse1")
    others = torch.library.Library("_", "IMPL")
    others.fallback(_on_host, "PrivateUse1")
    _libraries.extend((aten, others))  # a library that is collected takes its kernels along
