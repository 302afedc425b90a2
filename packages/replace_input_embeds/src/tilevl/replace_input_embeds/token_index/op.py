"""Registers image_token_index and gives its public function."""

from __future__ import annotations

from torch import Tensor

from tilevl.core.registration import direct, register
from tilevl.replace_input_embeds._version import __version__
from tilevl.replace_input_embeds.token_index import contract

OP = register(
    "tilevl.replace_input_embeds.token_index",
    contract.SCHEMA,
    version=__version__,
    check=contract.check,
    check_data=contract.check_data,
    specialise=contract.specialise,
)
_call = direct(OP)


def image_token_index(is_image_token: Tensor, num_image_tokens: int) -> Tensor:
    """Positions of the image tokens, in order, as the ``token_index`` that ``replace_input_embeds`` takes.

    The length is fixed by the host, so nothing is synchronised. A ``masked_scatter`` merge becomes two lines::

        token_index = image_token_index(input_ids == image_token_id, image_embeds.shape[0])
        replace_input_embeds(input_embeds, image_embeds, token_index)

    Args:
        is_image_token: bool, ``[T]`` or ``[B, T]``, any strides; True marks an image token. Positions run over all
            B * T tokens, row-major.
        num_image_tokens: length of the result; at least the number of True entries.

    Returns:
        int64, ``[num_image_tokens]``; entries past the last image token are -1, which skips a row.

    Raises:
        TypeError: the mask isn't bool.
        ValueError: a wrong rank, a negative length, or more True entries than the result holds (on a device only
            with ``TILEVL_CHECK_DATA=1``; else those past it are left out there).

    Example:
        >>> image_token_index(torch.tensor([False, True, True, False]), 3).tolist()
        [1, 2, -1]
    """
    index: Tensor = _call(is_image_token, num_image_tokens)
    return index
