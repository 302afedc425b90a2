"""A kernel that lets the next one start before it has ended, as those of CUDA's libraries do."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from tilevl.core import cuda

_BLOCKS, _THREADS = 8, 256  # few, so that there is room for the next kernel beside them
_NAPS, _NAP = 10, 20_000  # of so many nanoseconds


def need_early_starts(device: torch.device) -> None:
    """Skips the running test where no kernel can start before the one ahead has ended."""
    if not cuda.has_clusters(device.index or 0):
        pytest.skip("kernels start early on Hopper and later only")


def late_copy(source: Tensor, into: Tensor) -> None:
    """Launches a kernel that lets the next one start at once, if that one can, and copies after 0.2 ms.

    A kernel that starts early has to wait by itself for what the one ahead writes.

    Args:
        source: contiguous uint8 on a CUDA device.
        into: the same shape, on the same device.
    """
    _late_copy()(source.get_device(), source.data_ptr(), into.data_ptr(), source.numel())


@cache
def _late_copy() -> cuda.CudaProgram:
    def trace() -> Any:
        import tilelang.language as T

        @T.prim_func
        def late_copy(anchor: T.Tensor((1,), "uint8"), source: T.int64, into: T.int64, count: T.int64):
            with T.Kernel(_BLOCKS, threads=_THREADS) as block:
                T.pdl_trigger()
                for _ in T.serial(_NAPS):
                    T.call_extern("handle", "__nanosleep", T.uint32(_NAP))
                for k in T.serial(T.ceildiv(count, _BLOCKS * _THREADS)):
                    at = (k * _BLOCKS + block) * _THREADS + T.get_thread_binding()
                    if at < count:
                        cuda.view(into, "uint8")[at] = cuda.view(source, "uint8")[at]

        return late_copy

    return cuda.CudaProgram("late_copy", trace)
