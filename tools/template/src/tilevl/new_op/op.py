"""Registers new_op and gives its public function."""

from __future__ import annotations

from torch import Tensor

from tilevl.core.registration import direct, register
from tilevl.new_op import contract
from tilevl.new_op._version import __version__

OP = register(
    "tilevl.new_op",
    contract.SCHEMA,
    version=__version__,
    check=contract.check,
    check_data=contract.check_data,
    specialise=contract.specialise,
)
_call = direct(OP)


def new_op(rows: Tensor, index: Tensor) -> Tensor:
    """Takes rows of a matrix by index: ``out[i, :] = rows[index[i], :]``.

    Args:
        rows: bfloat16, float16 or float32, ``[R, D]``, unit last stride, any row stride.
        index: int32 or int64, ``[M]``, contiguous, each in ``[0, R)``.

    Returns:
        dtype of ``rows``, ``[M, D]``, contiguous: the bits of the rows.

    Raises:
        TypeError: a dtype or device is wrong.
        ValueError: a rank or stride is wrong, or an index names no row (on a device only with
            ``TILEVL_CHECK_DATA=1``).
        RuntimeError: grad mode is on and an input requires grad.
        tilevl.core.TargetUnavailableError: the device can't run the op.

    Example:
        >>> new_op(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([2, 0])).tolist()
        [[3.0], [1.0]]
    """
    result: Tensor = _call(rows, index)
    return result
