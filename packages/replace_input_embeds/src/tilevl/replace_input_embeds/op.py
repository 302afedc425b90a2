"""Registers replace_input_embeds and gives its public function."""

from __future__ import annotations

from torch import Tensor

from tilevl.core.registration import direct, register
from tilevl.replace_input_embeds import contract
from tilevl.replace_input_embeds._version import __version__

OP = register(
    "tilevl.replace_input_embeds",
    contract.SCHEMA,
    version=__version__,
    check=contract.check,
    check_data=contract.check_data,
    specialise=contract.specialise,
)
_call = direct(OP)


def replace_input_embeds(input_embeds: Tensor, image_embeds: Tensor, token_index: Tensor) -> None:
    """Writes row i of ``image_embeds`` to row ``token_index[i]`` of ``input_embeds``, in place.

    Every other byte of the storage behind ``input_embeds`` stays as it was.

    Args:
        input_embeds: bfloat16, float16 or float32, ``[T, D]`` or ``[B, T, D]``, unit last stride, rows that don't
            overlap and may be strided. Indices run over the B * T rows.
        image_embeds: ``[M, D]``, dtype of ``input_embeds``, unit last stride, any row stride. Must not overlap
            ``input_embeds``; disjoint views of one storage are valid.
        token_index: int32 or int64, ``[M]``, contiguous. A negative index skips its row, so that a fixed M serves
            fewer image tokens. Of equal indices the row of one wins whole.

    Raises:
        TypeError: a dtype or device is wrong.
        ValueError: a rank, shape or stride is wrong, the tensors overlap, or an index lies past the last row
            (on a device only with ``TILEVL_CHECK_DATA=1``; else such a row is skipped there).
        RuntimeError: grad mode is on and an input requires grad.
        tilevl.core.TargetUnavailableError: the device can't run the op.

    Example:
        >>> embeds = torch.zeros(4, 2)
        >>> replace_input_embeds(embeds, torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([2, -1]))
        >>> embeds.tolist()
        [[0.0, 0.0], [0.0, 0.0], [1.0, 2.0], [0.0, 0.0]]
    """
    _call(input_embeds, image_embeds, token_index)
