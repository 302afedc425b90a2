"""A call with a program's parameters in order, as ``tilelang.compile`` takes it, by the names of the generated source.

Beside tensors and numbers the source takes the sizes and strides that the program declares as dynamic. TileLang's host
code reads these from the tensors of a call; here Python does, with the same checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor


def named_arguments(prim_func: Any, arguments: Sequence[Any], wanted: Iterable[str]) -> dict[str, Any]:
    """The arguments of a call by name.

    Args:
        prim_func: the program.
        arguments: tensors and numbers, in the order of the program's parameters.
        wanted: the names of the source's parameters.

    Raises:
        TypeError: another number of arguments than the program has parameters.
        ValueError: a tensor's rank, size or stride is not what the program declares.
    """
    kernel, parameters = str(prim_func.attrs["global_symbol"]), prim_func.params
    if len(arguments) != len(parameters):
        raise TypeError(f"{kernel}: takes {len(parameters)} parameters, got {len(arguments)}")
    named: dict[str, Any] = {}
    for parameter, value in zip(parameters, arguments, strict=True):
        if parameter not in prim_func.buffer_map:
            named[parameter.name] = value
            continue
        buffer = prim_func.buffer_map[parameter]
        named[buffer.name] = value
        _read_layout(f"{kernel}: {buffer.name}", buffer, value, named)
    return {name: named[name] for name in wanted}


def _read_layout(what: str, buffer: Any, value: Tensor, named: dict[str, Any]) -> None:
    if value.dim() != len(buffer.shape):
        raise ValueError(f"{what} must have {len(buffer.shape)} dimensions, got shape {list(value.shape)}")
    if not buffer.strides and not value.is_contiguous():
        raise ValueError(f"{what} must be contiguous, got strides {list(value.stride())}")
    for declared, size in zip(buffer.shape, value.shape, strict=True):
        _read(f"{what}: size", declared, size, named)
    for declared, stride, size in zip(buffer.strides, value.stride(), value.shape, strict=bool(buffer.strides)):
        if size > 1 or hasattr(declared, "name"):  # along one element a stride leads nowhere
            _read(f"{what}: stride", declared, stride, named)


def _read(what: str, declared: Any, actual: int, named: dict[str, Any]) -> None:
    expected = named.setdefault(declared.name, actual) if hasattr(declared, "name") else int(declared)
    if expected != actual:
        raise ValueError(f"{what} must be {declared} = {expected}, got {actual}")
