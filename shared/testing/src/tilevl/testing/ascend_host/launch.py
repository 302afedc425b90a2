"""The call into a kernel's library: structures that mirror ``runtime/launch.cpp``, and the tensors behind them."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tilevl.testing.ascend_host import options as option_table
from tilevl.testing.ascend_host.chip import DEFAULT_CHIP
from tilevl.testing.ascend_host.counters import Counters
from tilevl.testing.ascend_host.rates import RATE_SETS
from tilevl.testing.ascend_host.source import Parameter, Signature

ORDERS = ("eager", "lazy", "random")

_TENSOR_TYPES = {
    "float": torch.float32,
    "double": torch.float64,
    "half": torch.float16,
    "bfloat16_t": torch.bfloat16,
    "int8_t": torch.int8,
    "int16_t": torch.int16,
    "int32_t": torch.int32,
    "int": torch.int32,
    "int64_t": torch.int64,
    "uint8_t": torch.uint8,
    "uchar": torch.uint8,
    "uint16_t": torch.uint16,
    "uint32_t": torch.uint32,
    "uint": torch.uint32,
    "uint64_t": torch.uint64,
    "bool": torch.bool,
    "float8_e4m3_t": torch.float8_e4m3fn,
    "float8_e5m2_t": torch.float8_e5m2,
    "fp8_e4_t": torch.float8_e4m3fn,
    "fp8_e5_t": torch.float8_e5m2,
}
_SCALAR_FORMATS = {
    "float": "<f", "double": "<d", "int8_t": "<b", "int16_t": "<h", "int32_t": "<i", "int": "<i", "int64_t": "<q",
    "uint8_t": "<B", "uint16_t": "<H", "uint32_t": "<I", "uint": "<I", "uint64_t": "<Q", "bool": "<?",
}  # fmt: skip


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("allocation", ctypes.c_int32),
        ("begin", ctypes.c_int64),
        ("end", ctypes.c_int64),
    )


class _Allocation(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("begin", ctypes.c_int64), ("end", ctypes.c_int64))


class _Argument(ctypes.Structure):
    _fields_ = (("tensor", ctypes.c_int32), ("bits", ctypes.c_uint64))


class _Request(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int32) for name in ("grid", "order", "kind", "mixed", "uses_simt", "max_blocks")),
        ("seed", ctypes.c_uint64),
        ("options", ctypes.POINTER(ctypes.c_int32)),
        ("rates", ctypes.POINTER(ctypes.c_double)),
        *((name, ctypes.c_int32) for name in ("tensor_count", "allocation_count", "argument_count")),
        ("tensors", ctypes.POINTER(_Tensor)),
        ("allocations", ctypes.POINTER(_Allocation)),
        ("arguments", ctypes.POINTER(_Argument)),
    )


@dataclass(frozen=True)
class _Extent:
    """Bytes of a storage that a tensor covers, gaps of its strides included."""

    begin: int
    end: int


def _extent(tensor: torch.Tensor) -> _Extent:
    begin = int(tensor.storage_offset()) * tensor.element_size()
    if tensor.numel() == 0:
        return _Extent(begin, begin)
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return _Extent(begin, begin + (last + 1) * tensor.element_size())


def _check_tensor(kernel: str, parameter: Parameter, value: Any) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{kernel}: {parameter.name} must be a tensor, got {type(value).__name__}")
    expected = _TENSOR_TYPES.get(parameter.type)
    if expected is None:
        raise TypeError(f"{kernel}: {parameter.name} has elements of type {parameter.type}, which no tensor has")
    as_bytes = value.dtype == torch.bool and expected == torch.int8  # TileLang declares bool tensors so
    if value.dtype != expected and not as_bytes:
        raise TypeError(f"{kernel}: {parameter.name} must be of dtype {expected}, got {value.dtype}")
    if value.device.type != "cpu" or value.layout != torch.strided:
        raise ValueError(
            f"{kernel}: {parameter.name} must be a strided tensor on the CPU, got {value.layout} on {value.device}"
        )
    return value


def _scalar_bits(kernel: str, parameter: Parameter, value: Any) -> int:
    if isinstance(value, torch.Tensor) or not isinstance(value, int | float):
        raise TypeError(f"{kernel}: {parameter.name} must be a number, got {type(value).__name__}")
    if parameter.type not in _SCALAR_FORMATS:
        raise TypeError(f"{kernel}: {parameter.name} is of type {parameter.type}, which no number has")
    layout = _SCALAR_FORMATS[parameter.type]
    try:
        packed = struct.pack(layout, value)
    except struct.error:
        raise ValueError(f"{kernel}: {parameter.name} must fit {parameter.type}, got {value}") from None
    return int.from_bytes(packed.ljust(8, b"\0"), "little")


def check_names(signature: Signature, given: Mapping[str, Any]) -> None:
    """Whether a call passes what the kernel takes.

    Raises:
        TypeError: a name is missing, or too many.
    """
    names = [parameter.name for parameter in signature.parameters]
    missing = [name for name in names if name not in given]
    strangers = [name for name in given if name not in names]
    if missing or strangers:
        raise TypeError(
            f"{signature.name}: takes {', '.join(names)}; missing {missing or 'none'}, unknown {strangers or 'none'}"
        )


class _Arguments:
    """The tensors and numbers of a call, as the runtime takes them. Tensors of one storage share an allocation."""

    def __init__(self, signature: Signature, given: Mapping[str, Any]) -> None:
        self.tensors: list[_Tensor] = []
        self.allocations: list[_Allocation] = []
        self.arguments: list[_Argument] = []
        self._by_storage: dict[int, int] = {}
        for parameter in signature.parameters:
            value = given[parameter.name]
            if parameter.is_tensor:
                self._add_tensor(parameter, _check_tensor(signature.name, parameter, value))
            else:
                self.arguments.append(_Argument(-1, _scalar_bits(signature.name, parameter, value)))

    def _add_tensor(self, parameter: Parameter, tensor: torch.Tensor) -> None:
        extent = _extent(tensor)
        data = tensor.untyped_storage().data_ptr()
        index = self._by_storage.get(data) if data else None
        if index is None:
            index = len(self.allocations)
            self.allocations.append(_Allocation(data, extent.begin, extent.end))
            if data:
                self._by_storage[data] = index
        else:
            old = self.allocations[index]
            old.begin, old.end = min(old.begin, extent.begin), max(old.end, extent.end)
        self.arguments.append(_Argument(len(self.tensors), 0))
        self.tensors.append(_Tensor(parameter.name.encode(), index, extent.begin, extent.end))


def _array(kind: Any, values: Sequence[Any]) -> Any:
    return (kind * max(1, len(values)))(*values)


class Library:
    """A kernel's shared library."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._library = ctypes.CDLL(str(path))
        self._library.tilevl_host_launch.argtypes = [ctypes.POINTER(_Request)]
        self._library.tilevl_host_outcome.restype = ctypes.c_void_p
        self._library.tilevl_host_counts.restype = ctypes.POINTER(ctypes.c_uint64)
        self._library.tilevl_host_vector_option.argtypes = [ctypes.c_char_p, ctypes.c_int]

    def launch(
        self,
        signature: Signature,
        grid: int,
        order: str,
        seed: int,
        options: Mapping[str, str],
        given: Mapping[str, Any],
    ) -> bytes | Counters:
        """Runs the kernel once. Not to be called from two threads at a time.

        Returns:
            The counters, or the faults as the runtime tells them; then no tensor was changed.
        """
        arguments = _Arguments(signature, given)
        for name, value in option_table.vector_numbers(options).items():
            if not self._library.tilevl_host_vector_option(name.encode(), value):
                raise ValueError(f"ascend_host: the headers don't know the option {name}")
        numbers = option_table.copy_and_cube_numbers(options)
        request = _Request(
            grid=grid,
            order=ORDERS.index(order),
            kind=int(signature.kind == "cube"),
            mixed=int(signature.kind == "mixed"),
            uses_simt=int(signature.uses_simt),
            max_blocks=DEFAULT_CHIP.vector_cores if signature.kind == "vector" else DEFAULT_CHIP.cube_cores,
            seed=seed,
            options=_array(ctypes.c_int32, numbers),
            rates=_array(ctypes.c_double, [number for rates in RATE_SETS for number in rates.as_numbers()]),
            tensor_count=len(arguments.tensors),
            allocation_count=len(arguments.allocations),
            argument_count=len(arguments.arguments),
            tensors=_array(_Tensor, arguments.tensors),
            allocations=_array(_Allocation, arguments.allocations),
            arguments=_array(_Argument, arguments.arguments),
        )
        failed = self._library.tilevl_host_launch(ctypes.byref(request))
        size = ctypes.c_uint64()
        if failed:
            address = self._library.tilevl_host_outcome(ctypes.byref(size))
            return ctypes.string_at(address, size.value)
        words = self._library.tilevl_host_counts(ctypes.byref(size))
        return Counters.from_words(signature, words[: size.value], grid)


def scratch_like(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of a tensor with the strides and the offset modulo 512 bytes of the original."""
    extent = _extent(tensor)
    lead = extent.begin % 512
    buffer = torch.empty(lead + max(0, extent.end - extent.begin), dtype=torch.uint8)
    span = math.ceil((extent.end - extent.begin) / tensor.element_size())
    flat = tensor.as_strided((span,), (1,), tensor.storage_offset()) if span else tensor.flatten()
    view = buffer[lead:].view(tensor.dtype)
    view.copy_(flat)
    return view.as_strided(tensor.shape, tensor.stride()) if span else view.view(tensor.shape)
