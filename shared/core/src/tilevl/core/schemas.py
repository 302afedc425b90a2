"""What a registered schema says of its arguments."""

from __future__ import annotations

from typing import Any

import torch

_DTYPE_NAMES = {"bfloat16": torch.bfloat16, "half": torch.float16, "float": torch.float32, "double": torch.float64}


def defaults(schema: torch._C.FunctionSchema) -> tuple[Any, ...]:
    """The default of each argument, None where it has none; a dtype as a dtype, which a schema keeps as a number."""
    return tuple(_default(argument) for argument in schema.arguments)


def tensors(schema: torch._C.FunctionSchema) -> tuple[int, ...]:
    """Positions of the tensors."""
    return tuple(i for i, argument in enumerate(schema.arguments) if isinstance(argument.type, torch.TensorType))


def written(schema: torch._C.FunctionSchema) -> tuple[int, ...]:
    """Positions of the tensors that the op writes."""
    return tuple(i for i in tensors(schema) if getattr(schema.arguments[i].alias_info, "is_write", False))


def _default(argument: Any) -> Any:
    value = argument.default_value
    if value is None or str(argument.real_type) != "ScalarType":
        return value
    for name, dtype in _DTYPE_NAMES.items():
        if torch._C.parse_schema(f"f(ScalarType dtype={name}) -> ()").arguments[0].default_value == value:
            return dtype
    raise ValueError(f"the default of {argument.name} must be one of {', '.join(_DTYPE_NAMES)}, got number {value}")
