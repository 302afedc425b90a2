"""Hypothesis strategies for calls of ops: tensors in any layout, numbers at every edge, and calls that are spoiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

Args = tuple[Any, ...]

DTYPES = (
    torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.int64, torch.int32, torch.int16, torch.uint8,
    torch.bool,
)  # fmt: skip
FLOATS = st.sampled_from([torch.bfloat16, torch.float16, torch.float32])
INDICES = st.sampled_from([torch.int64, torch.int32])


def contents(draw: st.DrawFn, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """A contiguous tensor of random elements, from one drawn seed."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.4
    return torch.randint(0, 256, shape, generator=generator).to(dtype)


@st.composite
def layouts(draw: st.DrawFn, shape: tuple[int, ...], dtype: torch.dtype, shared: bool = True) -> Tensor:
    """A tensor whose last axis is dense: its other axes in some order, with room between and before them.

    Args:
        draw: as Hypothesis gives it.
        shape: of the tensor, at least one axis.
        dtype: of its elements.
        shared: whether axes but the last may be expanded, so that their elements share memory.
    """
    outer = len(shape) - 1
    if draw(st.booleans()):
        return contents(draw, shape, dtype)
    expanded = [shared and draw(st.integers(0, 3)) == 3 for _ in range(outer)]
    order = draw(st.permutations(range(outer)))
    room = [draw(st.integers(0, 2)) for _ in range(outer + 1)]
    kept = [1 if expand else size for size, expand in zip(shape, expanded, strict=False)] + [shape[-1]]
    whole = tuple(kept[axis] + room[axis] for axis in (*order, outer))
    inner = contents(draw, whole, dtype)[tuple(slice(room[axis], None) for axis in (*order, outer))]
    return inner.permute(*[order.index(axis) for axis in range(outer)], outer).expand(shape)


def indices(values: list[int], dtype: torch.dtype, offset: int = 0) -> Tensor:
    """A contiguous index tensor, at an offset in its storage; values that a narrow dtype can't hold are cut to it."""
    limits = torch.iinfo(dtype)
    held = [min(max(value, limits.min), limits.max) for value in values]
    return torch.tensor([7] * offset + held, dtype=dtype)[offset:]


NUMBERS = st.sampled_from([-(2**63), -(2**31) - 1, -2, -1, 0, 1, 2, 3, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1])
"""Integers at the edges of what an int64 and an int32 hold."""


def hostile(most: int) -> st.SearchStrategy[int]:
    """Contents of an index tensor: mostly up to a number, the rest anywhere."""
    return st.integers(-2, most) | st.integers(0, most) | NUMBERS | st.integers(-(2**63), 2**63 - 1)


def _axis(draw: st.DrawFn, tensor: Tensor) -> int:
    return draw(st.integers(0, tensor.dim() - 1))


def _cut(draw: st.DrawFn, tensor: Tensor) -> Tensor:
    axis = _axis(draw, tensor)
    return tensor.narrow(axis, 0, draw(st.sampled_from([0, tensor.shape[axis] // 2, max(0, tensor.shape[axis] - 1)])))


def _doubled(draw: st.DrawFn, tensor: Tensor) -> Tensor:
    return torch.cat([tensor, tensor], _axis(draw, tensor))


def _expanded(draw: st.DrawFn, tensor: Tensor) -> Tensor:
    axis = _axis(draw, tensor)
    return tensor.narrow(axis, 0, min(1, tensor.shape[axis])).expand(tensor.shape)


def _stepped(draw: st.DrawFn, tensor: Tensor) -> Tensor:
    axis = _axis(draw, tensor)
    return torch.cat([tensor, tensor], axis)[(slice(None),) * axis + (slice(None, None, 2),)]


def _axes_swapped_in_memory(draw: st.DrawFn, tensor: Tensor) -> Tensor:
    first, second = _axis(draw, tensor), _axis(draw, tensor)
    return tensor.transpose(first, second).contiguous().transpose(first, second)


def _overlapping(draw: st.DrawFn, tensor: Tensor) -> Tensor:
    axis, strides = _axis(draw, tensor), list(tensor.contiguous().stride())
    strides[axis] = draw(st.integers(0, max(0, strides[axis] - 1)))
    return tensor.clone(memory_format=torch.contiguous_format).as_strided(tensor.shape, strides)


def _odd_stride_of_size_one(draw: st.DrawFn, tensor: Tensor) -> Tensor:
    strides = [
        draw(st.integers(0, 9)) if size == 1 else s for s, size in zip(tensor.stride(), tensor.shape, strict=True)
    ]
    return tensor.as_strided(tensor.shape, strides)


_CHANGES: tuple[Callable[[st.DrawFn, Tensor], Tensor], ...] = (
    _cut, _doubled, _expanded, _stepped, _axes_swapped_in_memory, _overlapping, _odd_stride_of_size_one,
    lambda draw, tensor: tensor.unsqueeze(draw(st.integers(0, tensor.dim()))),
    lambda draw, tensor: tensor.flatten() if draw(st.booleans()) or 0 in tensor.shape else tensor.select(0, 0),
    lambda draw, tensor: tensor.to(draw(st.sampled_from(DTYPES))),
    lambda draw, tensor: tensor.to("meta"),
)  # fmt: skip


def _alias(draw: st.DrawFn, tensor: Tensor, other: Tensor) -> Tensor:
    """A tensor of the same shape in the memory of another; the tensor where that is too small or of another dtype."""
    if other.dtype != tensor.dtype or other.device != tensor.device:
        return tensor
    room = other.untyped_storage().nbytes() // tensor.element_size() - tensor.numel()
    if room < 0:
        return tensor
    storage = torch.empty(0, dtype=tensor.dtype).set_(other.untyped_storage())
    return storage[draw(st.integers(0, room)) :][: tensor.numel()].view(tensor.shape)


@st.composite
def spoiled(draw: st.DrawFn, args: Args, numbers: Mapping[int, st.SearchStrategy[Any]]) -> Args:
    """A call with up to two of its arguments changed: some changes keep it valid, most don't.

    Args:
        draw: as Hypothesis gives it.
        args: a valid call.
        numbers: what takes the place of the arguments that are no tensors, by position.
    """
    changed = list(args)
    for _ in range(draw(st.integers(0, 2))):
        position = draw(st.integers(0, len(args) - 1))
        argument = changed[position]
        if not isinstance(argument, Tensor):
            changed[position] = draw(numbers[position])
            continue
        others = [other for other in changed if isinstance(other, Tensor) and other is not argument]
        if others and draw(st.integers(0, 6)) == 0:
            changed[position] = _alias(draw, argument, draw(st.sampled_from(others)))
        elif argument.dim():
            changed[position] = draw(st.sampled_from(_CHANGES))(draw, argument)
    return tuple(changed)
