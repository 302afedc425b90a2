"""Rules on metadata: what an op's ``check`` says, the same in real, fake and traced calls.

Nothing here reads a tensor's data. A condition may be a ``SymBool``; a message is a function, called only on failure.
A TypeError's text never holds the word "argument": Dynamo takes such an error for a wrong call of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import SymBool, SymInt, Tensor

FLOATS = (torch.bfloat16, torch.float16, torch.float32)
INDEX_DTYPES = (torch.int32, torch.int64)

Size = int | SymInt


def require(condition: bool | SymBool, message: Callable[[], str]) -> None:
    """Raises ValueError unless the condition holds."""
    if condition is not True:
        torch._check_value(condition, message)


def require_type(condition: bool | SymBool, message: Callable[[], str]) -> None:
    """Raises TypeError unless the condition holds."""
    if condition is not True:
        torch._check_type(condition, message)


def names(dtypes: Sequence[torch.dtype]) -> str:
    """Dtypes as a user writes them, without ``torch.``."""
    return " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)


def shape_of(tensor: Tensor) -> str:
    """A shape as messages and docstrings write it: ``[2, 3]``."""
    return str(list(tensor.shape))


def check_rank(op: str, name: str, tensor: Tensor, layout: str, *ranks: int) -> None:
    """The number of dimensions; ``layout`` shows them, for example ``[T, D] or [B, T, D]``."""
    if tensor.dim() not in ranks:
        require(False, lambda: f"{op}: {name} must be {layout}, got shape {shape_of(tensor)}")


def check_dtype(op: str, name: str, tensor: Tensor, allowed: Sequence[torch.dtype]) -> None:
    """One of the allowed dtypes."""
    if tensor.dtype not in allowed:
        require_type(False, lambda: f"{op}: {name} must be {names(allowed)}, got {names([tensor.dtype])}")


def check_same(op: str, name: str, tensor: Tensor, first_name: str, first: Tensor) -> None:
    """The dtype and the device of another tensor of the call."""
    if tensor.dtype != first.dtype:
        require_type(
            False,
            lambda: (
                f"{op}: {name} must have the dtype of {first_name}, {names([first.dtype])}, got {names([tensor.dtype])}"
            ),
        )
    if tensor.device != first.device:
        check_device(op, name, tensor, first_name, first)


def check_device(op: str, name: str, tensor: Tensor, first_name: str, first: Tensor) -> None:
    """The device of another tensor of the call."""
    if tensor.device != first.device:
        require_type(
            False,
            lambda: f"{op}: {name} must be on the device of {first_name}, {first.device}, got {tensor.device}",
        )


def check_contiguous(op: str, name: str, tensor: Tensor) -> None:
    """Row-major without gaps (strides of size-1 dimensions are ignored)."""
    if not tensor.is_contiguous():
        require(
            False,
            lambda: (
                f"{op}: {name} must be contiguous, got strides {list(tensor.stride())} for shape {shape_of(tensor)}"
            ),
        )


def check_index(
    op: str, name: str, tensor: Tensor, layout: str, rank: int, allowed: Sequence[torch.dtype] = INDEX_DTYPES
) -> None:
    """An index tensor: its rank, int32 or int64, contiguous."""
    check_rank(op, name, tensor, layout, rank)
    check_dtype(op, name, tensor, allowed)
    check_contiguous(op, name, tensor)


def check_unit_last_stride(op: str, name: str, tensor: Tensor) -> None:
    """Elements of a row lie side by side; all other strides are free."""
    if tensor.is_contiguous() or tensor.stride(-1) == 1 or tensor.size(-1) == 1 or tensor.numel() == 0:
        return
    require(False, lambda: f"{op}: {name} must have a last stride of 1, got strides {list(tensor.stride())}")


def check_rows_apart(op: str, name: str, tensor: Tensor) -> None:
    """No two rows of a ``[T, D]`` or ``[B, T, D]`` tensor that is written share a byte.

    With the two outer axes sorted by stride, rows can't meet where the inner stride covers a row and the outer one
    covers a whole run of them. Layouts that fail this are settled by placing every row.
    """
    if tensor.is_contiguous() or tensor.numel() == 0:
        return
    width = tensor.size(-1)
    axes = sorted(
        ((tensor.stride(axis), tensor.size(axis)) for axis in range(tensor.dim() - 1) if tensor.size(axis) != 1),
        key=lambda axis: axis[0],
    )
    reach = width
    for stride, size in axes:
        if not stride >= reach:
            break
        reach = (size - 1) * stride + reach
    else:
        return
    apart = bool(axes[0][0] >= width)  # else a row and the next one meet
    if apart:
        starts = sorted(_row_starts(axes))
        apart = all(after - before >= width for before, after in pairwise(starts))
    require(
        apart,
        lambda: (
            f"{op}: {name} must have rows that don't overlap, got strides {list(tensor.stride())} "
            f"for shape {shape_of(tensor)}"
        ),
    )


def check_no_overlap(op: str, written_name: str, written: Tensor, **read: Tensor) -> None:
    """Tensors that are read share no byte with the one that is written; disjoint views of one storage may be mixed.

    With symbolic sizes nothing is checked: a traced graph behaves as if the tensor had been copied first.
    """
    storage = written.untyped_storage()._cdata
    for name, tensor in read.items():
        if tensor.untyped_storage()._cdata == storage and _overlap(tensor, written):
            require(
                False,
                lambda: f"{op}: {name} must not overlap {written_name}, got two views of one storage that share memory",  # noqa: B023
            )


def _overlap(read: Tensor, written: Tensor) -> bool:
    read_rows, written_rows = _byte_rows(read), _byte_rows(written)
    if read_rows is None or written_rows is None:
        return False
    ends = [0, 0]
    for start, stop, side in sorted([(*row, 0) for row in read_rows] + [(*row, 1) for row in written_rows]):
        if start < ends[1 - side]:
            return True
        ends[side] = max(ends[side], stop)
    return False


def _byte_rows(tensor: Tensor) -> list[tuple[int, int]] | None:
    """Where each row lies in the storage, in bytes; None where a size is symbolic."""
    sizes, strides, offset = tensor.shape, tensor.stride(), tensor.storage_offset()
    if not all(isinstance(number, int) for number in (*sizes, *strides, offset)):
        return None
    if 0 in sizes:
        return []
    if tensor.is_contiguous():
        starts, width = [0], int(tensor.numel())
    else:
        starts, width = _row_starts([*zip(strides[:-1], sizes[:-1], strict=True)]), int(sizes[-1])
    size, offset = tensor.element_size(), int(offset)
    return [((offset + start) * size, (offset + start + width) * size) for start in starts]


def _row_starts(axes: Sequence[tuple[Size, Size]]) -> list[int]:
    starts = [0]
    for stride, size in axes:
        starts = [start + step * int(stride) for start in starts for step in range(int(size))]
    return starts
