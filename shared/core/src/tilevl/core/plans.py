"""Kernels in two steps: what metadata settles is worked out once, and each launch brings only its addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

Launch = Callable[..., None]


class PlannedKernel:
    """A kernel that a builder may return in place of a function: eager calls that recur keep its plan.

    Args:
        plan: called with what a kernel is called with: all arguments of the op, then its result if it has one. It
            reads metadata and numbers, no element and no address, and returns ``launch``, which serves every call whose
            metadata and numbers are the same. ``launch`` is called with the address of each tensor, in the order of the
            arguments, the result's last. It holds numbers, never a tensor of the call that it was planned for.

    Example:
        >>> def build():
        ...     program = CudaProgram("negate", trace)
        ...
        ...     def plan(x, out):
        ...         device, count = x.get_device(), x.numel()
        ...         return lambda x_at, out_at: program(device, x_at, out_at, count)
        ...
        ...     return PlannedKernel(plan)
    """

    def __init__(self, plan: Callable[..., Launch]) -> None:
        self.plan = plan

    def __call__(self, *args: Any) -> None:
        """Plans for these tensors and launches, as any kernel does."""
        self.plan(*args)(*(arg.data_ptr() for arg in args if isinstance(arg, Tensor)))
