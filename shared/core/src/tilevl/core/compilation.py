"""Which backend of ``torch.compile`` suits a device."""

from __future__ import annotations

import torch

NPU_BACKEND = "npugraph_ex"
_NPU_TYPES = ("npu", "privateuseone")


def compile_backend(device: torch.device | str | int) -> str:
    """The backend to give ``torch.compile`` for work on a device.

    Args:
        device: a device, or what ``torch.device`` makes one from. ``"npu"`` is understood without torch_npu as well.

    Returns:
        ``"npugraph_ex"`` for an NPU where torch_npu brings that backend, ``"inductor"`` for everything else.

    Raises:
        RuntimeError: the string names no device, as ``torch.device`` says it.
        TypeError: neither a device, nor a string, nor an index.

    Example:
        >>> compile_backend("cpu")
        'inductor'
    """
    if isinstance(device, str) and device.partition(":")[0] == "npu":
        kind = "npu"  # torch.device knows the word only once torch_npu has registered it
    elif isinstance(device, torch.device | str | int) and not isinstance(device, bool):
        kind = torch.device(device).type
    else:
        raise TypeError(f"compile_backend: device must be a torch.device, a string or an index, got {device!r}")
    if kind in _NPU_TYPES and NPU_BACKEND in torch.compiler.list_backends():
        return NPU_BACKEND
    return "inductor"
