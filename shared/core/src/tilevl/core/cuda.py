"""Launching TileLang programs on CUDA devices.

A program's builder is pure: it traces a ``T.prim_func`` and knows no device. ``CudaProgram`` compiles it for the
architecture of each device that asks, once, and launches it on the current stream of that device. A launch hands over
one tensor, which tells TVM's FFI the device and the stream, and numbers: sizes, strides, and addresses that the program
turns into memory with ``view``. So a launch costs about as much as its integers, and one build takes any alignment.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import torch

from tilevl.core.lowering import lowering

WIDEST = 16
"""Bytes of the widest load and store."""
UNITS = (16, 8, 4, 2, 1)
"""Bytes of all loads and stores."""

_EVERYWHERE = 2**62  # extent of a view: what is in bounds is the program's business, so no extent is checked
_PASS_CONFIGS = {"tl.disable_safe_memory_legalize": True}  # guards of views would compare with _EVERYWHERE


class CudaProgram:
    """A TileLang program, compiled once for each device that calls it.

    Safe to call from several threads. The first call on a device compiles, or loads what TileLang's cache on disk
    holds, and loads the code into the device; all others only launch.

    Args:
        op: name of the op, for messages.
        trace: makes the ``T.prim_func``, which starts with the parameter ``anchor: T.Tensor((1,), "uint8")``. Called
            once for each architecture. One with ``cluster_dims`` begins with ``T.pdl_sync()``: TVM lets clusters start
            before the kernel ahead has ended, and this waits for its results.
        pass_configs: what TileLang's ``PassContext`` should hold beside the defaults of this module.

    Example:
        >>> program = CudaProgram("replace_input_embeds", trace)
        >>> program(tensor.get_device(), tensor.data_ptr(), tensor.shape[0])
    """

    def __init__(self, op: str, trace: Callable[[], Any], pass_configs: dict[str, Any] | None = None) -> None:
        self.op = op
        self._trace = trace
        self._pass_configs = pass_configs
        self._launchers: dict[int, tuple[Callable[..., None], torch.Tensor]] = {}
        self._preparing = threading.Lock()

    def __call__(self, device: int, *numbers: int | float) -> None:
        """Launches on the current stream of a device.

        Args:
            device: index of the device, as ``tensor.get_device()`` gives it.
            numbers: the parameters after ``anchor``.

        Raises:
            RuntimeError: the first call on a device, which compiles and loads, came inside a CUDA graph capture.
        """
        launcher = self._launchers.get(device)
        if launcher is None:
            launcher = self._prepare(device)
        launch, anchor = launcher
        if device == torch._C._cuda_getDevice():
            launch(anchor, *numbers)
            return
        with torch.cuda.device(device):  # TVM makes the anchor's device current and leaves it so
            launch(anchor, *numbers)

    def _prepare(self, device: int) -> tuple[Callable[..., None], torch.Tensor]:
        with self._preparing, torch.cuda.device(device):
            launcher = self._launchers.get(device)
            if launcher is None:
                require_no_capture(self.op)
                with lowering:
                    launch = compiled(self._trace(), arch_of(device), self._pass_configs)
                anchor = _kept(torch.zeros(1, dtype=torch.uint8, device="cpu"), device)
                launcher = self._launchers[device] = launch, anchor
        return launcher


def _kept(value: torch.Tensor, device: int) -> torch.Tensor:
    """A copy of a CPU tensor that outlives every graph.

    ``torch.compile``'s warm-up runs with the allocator set to a graph's pool, whose memory is taken back. The setting
    holds for one thread and stream, so that another thread allocates.
    """
    with ThreadPoolExecutor(1) as other:
        return other.submit(value.to, f"cuda:{device}").result()


def require_no_capture(op: str) -> None:
    """Refuses to compile or to load code while the current stream is being captured.

    Raises:
        RuntimeError: says to warm up first.
    """
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            f"{op}: the first call of its kind compiles and loads a kernel, which a CUDA graph capture can't hold; "
            f"call it once with the same kind of tensors before the capture"
        )


def arch_of(device: int) -> str:
    """TileLang's name for the architecture of a device: ``sm_90a`` for Hopper, ``sm_80`` for an A100."""
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


@cache
def has_clusters(device: int) -> bool:
    """Whether blocks of a device can form clusters, and copy in bulk: Hopper and later."""
    return torch.cuda.get_device_capability(device)[0] >= 9


def compiled(program: Any, arch: str, pass_configs: dict[str, Any] | None = None) -> Callable[..., None]:
    """Compiles a ``T.prim_func`` for an architecture; needs no GPU, but TileLang, nvcc and a C compiler.

    Args:
        program: the function.
        arch: for example ``sm_90a``.
        pass_configs: what TileLang's ``PassContext`` should hold beside the defaults of this module.

    Returns:
        What launches it, with the parameters of the function.
    """
    import tilelang

    with lowering:
        kernel = tilelang.compile(
            program,
            target={"kind": "cuda", "arch": arch},
            execution_backend="tvm_ffi",
            pass_configs={**_PASS_CONFIGS, **(pass_configs or {})},
        )
        executable = kernel.adapter.get_exportable_executable()
        module = executable.jit() if hasattr(executable, "jit") else executable  # from the cache it comes as a module
    launch: Callable[..., None] = module["main"]
    return launch


def view(address: Any, dtype: str) -> Any:
    """Memory at an address, for use while a program is traced; indices are 64-bit and unchecked.

    Args:
        address: an ``int64`` parameter of the program.
        dtype: TileLang's name of an element, for example ``int32x4`` for 16 bytes.
    """
    import tilelang.language as T

    return T.make_tensor(T.reinterpret(address, "handle"), (_EVERYWHERE,), dtype)


def widest_unit(bits: int) -> int:
    """Bytes of the widest load, up to 16, for addresses, strides and lengths in bytes, given as their bitwise or."""
    bits |= WIDEST
    return bits & -bits


def filled(value: int, length: int, device: int) -> torch.Tensor:
    """An int32 vector on a device, for one call; like ``scratch``, but filled."""
    return torch.full((length,), value, dtype=torch.int32, device=f"cuda:{device}")


def scratch(size: int, device: int) -> torch.Tensor:
    """Bytes on a device, for one call, from torch's allocator: inside a graph capture from the graph's own pool.

    It may be dropped as soon as what uses it is launched: torch hands the memory on in the order of the stream.
    """
    return torch.empty(size, dtype=torch.uint8, device=f"cuda:{device}")


class DeviceConstant:
    """A constant of a kernel, copied once to each device that asks.

    Args:
        op: name of the op, for messages.
        value: the constant, on the CPU.
    """

    def __init__(self, op: str, value: torch.Tensor) -> None:
        self._op, self._value = op, value
        self._copies: dict[int, torch.Tensor] = {}
        self._copying = threading.Lock()

    def on(self, device: int) -> torch.Tensor:
        """The copy on a device.

        Raises:
            RuntimeError: the first call for a device came inside a CUDA graph capture.
        """
        copy = self._copies.get(device)
        if copy is None:
            with self._copying:
                copy = self._copies.get(device)
                if copy is None:
                    require_no_capture(self._op)
                    copy = self._copies[device] = _kept(self._value, device)
        return copy


class IndexView:
    """An index tensor at an address, int32 or int64 as a run-time number says; reads as int64.

    Args:
        address: an ``int64`` parameter of the program.
        wide: an ``int32`` parameter: 1 for int64 elements, 0 for int32.
    """

    def __init__(self, address: Any, wide: Any) -> None:
        self._wide, self._long, self._int = wide, view(address, "int64"), view(address, "int32")

    def __getitem__(self, position: Any) -> Any:
        import tilelang.language as T

        return T.if_then_else(self._wide != 0, self._long[position], T.Cast("int64", self._int[position]))
