"""Rules on data: what an op's ``check_data`` says of index tensors, with the first offending element.

They read the tensors, so they run where that costs no synchronisation: always on CPU, and on a device only with
``TILEVL_CHECK_DATA=1``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch
from torch import Tensor

ENVIRONMENT_VARIABLE = "TILEVL_CHECK_DATA"

_environ = os.environ
_variables = _environ._data  # type: ignore[attr-defined]  # a name that isn't there takes os.environ 0.7 us, this 0.05
_encoded_name = _environ.encodekey(ENVIRONMENT_VARIABLE)

_SHORT = 512  # up to here a Python list is faster than three passes of torch


def enabled_on_devices(op: str) -> bool:
    """Whether data is checked on devices too, by the environment variable TILEVL_CHECK_DATA.

    Args:
        op: name of the op that is called, for the message.

    Raises:
        ValueError: the variable holds anything but ``0``, ``1`` or nothing.
    """
    if os.environ is _environ and _encoded_name not in _variables:
        return False
    choice = os.environ.get(ENVIRONMENT_VARIABLE, "")
    if choice not in ("", "0", "1"):
        raise ValueError(f"{op}: {ENVIRONMENT_VARIABLE} must be 0 or 1, got {choice!r}")
    return choice == "1"


def check_range(op: str, name: str, index: Tensor, low: int | None, high: int) -> None:
    """Every element of a 1-D index tensor lies in ``[low, high)``; ``low`` None leaves the lower end open."""
    if index.numel() <= _SHORT:
        values = index.tolist()
        if not values or (max(values) < high and (low is None or min(values) >= low)):
            return
        position = next(i for i, value in enumerate(values) if value >= high or (low is not None and value < low))
    else:
        outside = index >= high
        if low is not None:
            outside |= index < low
        if not outside.any():
            return
        position = int(outside.to(torch.uint8).argmax())
    allowed = f"less than {high}" if low is None else f"in [{low}, {high})"
    raise ValueError(f"{op}: {name}[{position}] must be {allowed}, got {int(index[position])}")


def check_prefix_sums(
    op: str, name: str, sums: Sequence[int], counts: Sequence[int], total: int, total_name: str
) -> None:
    """``sums`` starts at 0, grows by ``counts``, and ends at ``total`` or below."""
    expected = 0
    for position, value in enumerate(sums):
        if position:
            expected += counts[position - 1]
        if value != expected:
            raise ValueError(
                f"{op}: {name}[{position}] must be {expected}, the prefix sum of the counts so far, got {value}"
            )
    if expected > total:
        raise ValueError(f"{op}: {total_name} must be at least {name}[{len(sums) - 1}], {expected}, got {total}")
