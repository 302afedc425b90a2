"""Launching TileLang programs on Ascend NPUs.

A program's builder is pure: it traces a ``T.prim_func`` for a number of vector cores and knows no device.
``AscendProgram`` compiles it once for each device that asks, and launches it on that device's current stream. Outputs
are made by PyTorch and passed like inputs, so a captured ACL graph finds them where PyTorch's graph pool keeps them.

Sizes that the program declares with ``T.dynamic`` are read from the tensors of each call, so one build takes any. The
last step, from a program to what launches it, can be replaced (``set_compiler``): the simulated NPU of tilevl-testing
runs the generated source on a model of the chip.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from tilevl.core import targets
from tilevl.core.lowering import lowering

CORES_VARIABLE = "TILEVL_NUM_VECTOR_CORES"
"""Environment variable: how many vector cores a launch may use at most."""

UB_BYTES = 248 * 1024
"""Unified buffer of a vector core that a kernel may use, by the documentation of the Ascend 950."""

SIMT_UB_BYTES = 216 * 1024
"""The same where the kernel has SIMT code, whose cache takes at least 32 KiB of it."""

BLOCK_BYTES = 32
"""Unit of the unified buffer: a copy into it starts at a multiple of this and fills the last unit."""

Launch = Callable[..., None]


class Compiler(Protocol):
    """Makes what launches a program. Called once for each program, device and number of cores."""

    def __call__(self, program: Any, cores: int, pass_configs: dict[str, Any]) -> Launch:
        """Compiles a program that launches ``cores`` blocks; the result takes the program's parameters in order."""


class AscendProgram:
    """A TileLang program for the vector cores, or for groups of cores, compiled once for each device that calls it.

    Safe to call from several threads. The first call on a device compiles, or loads what TileLang's cache on disk
    holds; all others only launch, on the current stream of the tensors' device, and wait for nothing.

    Args:
        op: name of the op, for messages.
        trace: makes the ``T.prim_func`` for a number of cores, which must be the extent of its ``T.Kernel``. Its first
            parameter is a tensor. Parameters are tensors, whose sizes and strides may be ``T.dynamic``, and scalars.
        pass_configs: what TileLang's ``PassContext`` should hold.
        mixed: whether a block is a group of one cube core and two vector cores; then the number that ``trace`` gets is
            one of groups.

    Example:
        >>> program = AscendProgram("replace_input_embeds", trace)
        >>> program(input_embeds, image_embeds, token_index)
    """

    def __init__(
        self, op: str, trace: Callable[[int], Any], pass_configs: dict[str, Any] | None = None, *, mixed: bool = False
    ) -> None:
        self.op = op
        self._trace = trace
        self._mixed = mixed
        self._pass_configs = dict(pass_configs or {})
        self._launches: dict[tuple[int, str | None], Launch] = {}
        self._preparing = threading.Lock()

    def __call__(self, first: Tensor, *rest: Tensor | int | float) -> None:
        """Launches on the current stream of the device of the first tensor.

        Args:
            first: the first parameter of the program.
            rest: the others, in order.

        Raises:
            RuntimeError: the first call on a device, which compiles, came inside a graph capture.
            ValueError: TILEVL_NUM_VECTOR_CORES holds no positive number.
        """
        key = first.get_device(), os.environ.get(CORES_VARIABLE)
        launch = self._launches.get(key)
        if launch is None:
            launch = self._prepare(*key)
        npu = torch.npu  # type: ignore[attr-defined]
        if key[0] == npu.current_device():
            launch(first, *rest)
            return
        with npu.device(key[0]):
            launch(first, *rest)

    def _prepare(self, device: int, limit: str | None) -> Launch:
        with self._preparing:
            launch = self._launches.get((device, limit))
            if launch is None:
                require_no_capture(self.op)
                cores = groups(self.op, device) if self._mixed else vector_cores(self.op, device)
                with lowering:
                    launch = _compiler(self._trace(cores), cores, self._pass_configs)
                self._launches[device, limit] = launch
        return launch


def require_no_capture(op: str) -> None:
    """Refuses to compile while the current stream is being captured.

    Raises:
        RuntimeError: says to warm up first.
    """
    if torch.npu.is_current_stream_capturing():  # type: ignore[attr-defined]
        raise RuntimeError(
            f"{op}: the first call of its kind compiles a kernel, which an ACL graph capture can't hold; "
            f"call it once with the same kind of tensors before the capture"
        )


def vector_cores(op: str, device: int) -> int:
    """The vector cores that a launch on a device spreads over, at most as many as TILEVL_NUM_VECTOR_CORES says.

    Args:
        op: name of the op that is called, for the message.
        device: index of the device.

    Raises:
        ValueError: the variable holds no positive number.
    """
    there: int = torch.npu.get_device_properties(device).vector_core_num  # type: ignore[attr-defined]
    limit = os.environ.get(CORES_VARIABLE)
    if limit is None:
        return there
    if not limit.isdecimal() or int(limit) == 0:
        raise ValueError(f"{op}: {CORES_VARIABLE} must be a positive number of cores, got {limit!r}")
    return min(there, int(limit))


def groups(op: str, device: int) -> int:
    """The groups of one cube core and two vector cores that a launch on a device spreads over.

    TILEVL_NUM_VECTOR_CORES limits their vector cores; at least one group works.

    Args:
        op: name of the op that is called, for the message.
        device: index of the device.

    Raises:
        ValueError: the variable holds no positive number.
    """
    there: int = torch.npu.get_device_properties(device).cube_core_num  # type: ignore[attr-defined]
    return max(1, min(there, vector_cores(op, device) // 2))


def compile_for_npu(program: Any, cores: int, pass_configs: dict[str, Any]) -> Launch:
    """Compiles a program by ``tilelang.compile`` for the NPU of this machine, by the codegen of the call's target.

    Needs CANN.
    """
    import tilelang

    kernel: Launch = tilelang.compile(
        program, out_idx=None, target=targets.npu_target(), execution_backend="tvm_ffi", pass_configs=pass_configs
    )
    return kernel


_compiler: Compiler = compile_for_npu


def set_compiler(compiler: Compiler) -> Compiler:
    """Replaces the last step for all programs that haven't compiled yet; returns what it was."""
    global _compiler
    before, _compiler = _compiler, compiler
    return before
