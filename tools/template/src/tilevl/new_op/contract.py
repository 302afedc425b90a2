"""The rules of new_op: every check and message, for fake and real calls alike."""

from __future__ import annotations

import torch
from torch import SymInt, Tensor

from tilevl.core import checks, data_checks

OP = "new_op"
SCHEMA = f"{OP}(Tensor rows, Tensor index) -> Tensor"


def check(rows: Tensor, index: Tensor) -> tuple[tuple[int | SymInt, int | SymInt], torch.dtype]:
    """Shape and dtype of the result; raises ValueError or TypeError where the contract is broken."""
    checks.check_rank(OP, "rows", rows, "[R, D]", 2)
    checks.check_dtype(OP, "rows", rows, checks.FLOATS)
    checks.check_unit_last_stride(OP, "rows", rows)
    checks.check_device(OP, "index", index, "rows", rows)
    checks.check_index(OP, "index", index, "[M]", 1)
    return (index.shape[0], rows.shape[1]), rows.dtype


def check_data(rows: Tensor, index: Tensor) -> None:
    """Raises ValueError where an index names no row."""
    data_checks.check_range(OP, "index", index, 0, rows.shape[0])


def specialise(rows: Tensor, index: Tensor) -> tuple[()]:
    """The static key: sizes and dtypes are all read at run time on CPU."""
    return ()
