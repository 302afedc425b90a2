"""Registers shuffle_image_tokens and gives its public function."""

from __future__ import annotations

from torch import Tensor

from tilevl.core.registration import direct, register
from tilevl.shuffle_image_tokens import contract
from tilevl.shuffle_image_tokens._version import __version__

OP = register(
    "tilevl.shuffle_image_tokens",
    contract.SCHEMA,
    version=__version__,
    check=contract.check,
    check_data=contract.check_data,
    specialise=contract.specialise,
)
_call = direct(OP)


def shuffle_image_tokens(
    input_embeds: Tensor, image_start: Tensor, image_tokens: Tensor, max_image_tokens: int, groups: int = 2
) -> None:
    """Interleaves the token rows of each image, in place and bit for bit.

    The n rows of an image are taken as ``groups`` runs of n // groups rows, and one row of each run is laid down in
    turn: ``new[start + j * groups + g] = old[start + g * (n // groups) + j]``. With 2 groups ``a b c d e f`` becomes
    ``a d b e c f``. A second call with ``groups = n // groups`` restores the rows. Every byte of the storage behind
    ``input_embeds`` outside the images' rows stays as it was.

    Args:
        input_embeds: bfloat16, float16 or float32, ``[T, D]`` or ``[B, T, D]``, unit last stride, rows that don't
            overlap and may be strided. Images lie in the B * T rows, and one may reach across batch entries.
        image_start: int32 or int64, ``[num_images]``, contiguous: first row of each image, in any order. A negative
            start skips the image, whatever its count.
        image_tokens: int32 or int64, ``[num_images]``, contiguous: rows of each image, multiples of ``groups``.
            0 skips the image. No two images share a row.
        max_image_tokens: upper bound of the counts, known on the host.
        groups: runs that an image is taken as, at least 1.

    Raises:
        TypeError: a dtype or device is wrong.
        ValueError: a rank, shape, stride or scalar is wrong, the indices overlap ``input_embeds``, a count is negative,
            above ``max_image_tokens`` or no multiple of ``groups``, an image reaches past the last row, or two images
            share a row (those on data on a device only with ``TILEVL_CHECK_DATA=1``; else nothing outside
            ``input_embeds`` is touched there).
        RuntimeError: grad mode is on and an input requires grad.
        tilevl.core.TargetUnavailableError: the device can't run the op.

    Example:
        >>> embeds = torch.arange(8.0).view(8, 1)
        >>> shuffle_image_tokens(embeds, torch.tensor([1]), torch.tensor([6]), 6)
        >>> embeds.flatten().tolist()
        [0.0, 1.0, 4.0, 2.0, 5.0, 3.0, 6.0, 7.0]
    """
    _call(input_embeds, image_start, image_tokens, max_image_tokens, groups)
