"""Tensors of the simulated NPU: memory behind PyTorch's PrivateUse1 key, and the few ops that make and read it.

A storage of the device is a shell around host memory that it doesn't own; a table by storage keeps the memory as long
as the storage lives. Tensors that share a storage share memory, as elsewhere.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_map

_UNINITIALISED = 0x7F  # a large number in every dtype, so that reading what nobody wrote shows

_host_kernels = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_lock = threading.Lock()
_memory: dict[int, tuple[StorageWeakRef, torch.UntypedStorage]] = {}
_libraries: list[torch.library.Library] = []


def host_tensor(value: Any) -> Any:
    """The CPU tensor over the same bytes as a tensor of the simulated device; anything else as it is."""
    if not isinstance(value, torch.Tensor) or value.device.type != "npu":
        return value
    with _lock:
        _, memory = _memory[value.untyped_storage()._cdata]
    empty = torch.empty(0, dtype=value.dtype)
    return empty.set_(memory, value.storage_offset(), value.shape, value.stride())


def _new_tensor(size: Sequence[int], stride: Sequence[int] | None, dtype: torch.dtype) -> torch.Tensor:
    """An uninitialised tensor with memory."""
    span = math.prod(size)
    if span and stride is not None:
        span = 1 + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    tensor: torch.Tensor = torch._C._acc.create_empty_tensor((0,), dtype)
    strides = torch.empty(size, device="meta").stride() if stride is None else stride
    _give_memory(tensor, span, size, strides)
    return tensor


def _give_memory(tensor: torch.Tensor, elements: int, size: Sequence[int], stride: Sequence[int]) -> None:
    """Puts a new storage with uninitialised memory behind a tensor."""
    memory = torch.full(
        (max(1, elements * tensor.element_size()),), _UNINITIALISED, dtype=torch.uint8
    ).untyped_storage()
    storage = torch._C._construct_storage_from_data_pointer(memory.data_ptr(), torch.device("npu", 0), memory.nbytes())
    with _lock:
        for key in [key for key, (reference, _) in _memory.items() if reference.expired()]:
            del _memory[key]
        _memory[storage._cdata] = (StorageWeakRef(storage), memory)  # a live reference, so no address comes twice
    set_storage = torch.ops.aten.set_.source_Storage_storage_offset
    set_storage.redispatch(_host_kernels, tensor, storage, 0, list(size), list(stride))


def _to_npu(value: torch.Tensor) -> torch.Tensor:
    result = _new_tensor(value.shape, value.stride(), value.dtype)
    host_tensor(result).copy_(value)
    return result


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
    view: torch.Tensor = torch.ops.aten.as_strided.default.redispatch(
        _host_kernels, tensor, size, stride, storage_offset
    )
    return view  # it has looked at no data


def _view(tensor: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    view = host_tensor(tensor).view(size)
    return _as_strided(tensor, view.shape, view.stride(), int(view.storage_offset()))


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

    # PyTorch hands a number that it wrapped in a tensor to a kernel in Python as the number.
    given = [
        torch.tensor(value)
        if isinstance(declared.type, torch.TensorType) and isinstance(value, bool | int | float)
        else value
        for declared, value in zip(op._schema.arguments, args, strict=False)
    ]
    result = op(*tree_map(down, given), **tree_map(down, kwargs))
    for host, original in hosts:
        if host.shape != original.shape:  # an output that the op resized
            _give_memory(original, host.numel(), host.shape, host.stride())
            host_tensor(original).copy_(host)
    return tree_map(up, result)


def register_kernels() -> None:
    """Gives the device its tensors. Once in a process, before the first of them."""
    aten = torch.library.Library("aten", "IMPL")
    for name, kernel in (
        ("empty.memory_format", _empty),
        ("empty_strided", _empty_strided),
        ("as_strided", _as_strided),
        ("view", _view),
        ("_reshape_alias", lambda tensor, size, stride: _as_strided(tensor, size, stride)),
        ("copy_", _copy),
    ):
        aten.impl(name, kernel, "PrivateUse1")
    others = torch.library.Library("_", "IMPL")
    others.fallback(_on_host, "PrivateUse1")
    _libraries.extend((aten, others))  # a library that is collected takes its kernels along
