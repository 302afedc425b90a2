"""Registers attn_rel_h_rel_w and gives its public function."""

from __future__ import annotations

from torch import Tensor

from tilevl.attn_rel_h_rel_w import contract
from tilevl.attn_rel_h_rel_w._version import __version__
from tilevl.core.registration import direct, register

OP = register(
    "tilevl.attn_rel_h_rel_w",
    contract.SCHEMA,
    version=__version__,
    check=contract.check,
    check_data=contract.check_data,
    specialise=contract.specialise,
)
_call = direct(OP)


def attn_rel_h_rel_w(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    rel_h: Tensor,
    rel_w: Tensor,
    grid_h: int | None = None,
    grid_w: int | None = None,
    scale: float | None = None,
) -> Tensor:
    """Softmax attention over a grid of tokens, with a bias for each key's row and one for each key's column.

    ``score[b,n,i,j] = scale * <query[b,i,n], key[b,j,n]> + rel_h[b,i,n, j // grid_w] + rel_w[b,i,n, j % grid_w]`` and
    ``out[b,i,n] = softmax_j(score) @ value[b,:,n]``: the decomposed relative position of MViTv2, as SAM's and
    DeepSeek-OCR's image encoders use it, without a dense S x S bias. Scores, bias and softmax are float32; the
    probabilities are rounded to the dtype of ``query`` for the second product. A row whose scores are all -inf gives
    zeros.

    Args:
        query: bfloat16 or float16, on CPU also float32, ``[B, S, N, D]`` (batch, tokens, heads, head dim), unit last
            stride, any other strides: slices of a packed ``[B, S, 3, N, D]`` are taken as they are. D is a multiple of
            16, from 16 to 128.
        key: as ``query``, same shape, dtype and device.
        value: as ``query``, same shape, dtype and device.
        rel_h: ``[B, S, N, >=grid_h]``, dtype and device of ``query``, unit last stride, any other strides: the bias of
            each query for each row of keys. What lies past column ``grid_h`` is padding and never read as a number.
        rel_w: ``[B, S, N, >=grid_w]``, the same for each column of keys.
        grid_h: rows of the token grid; tokens are in row-major order and ``S == grid_h * grid_w``. With both None the
            grid is a square; with one None the other follows. 0 only where S is 0.
        grid_w: columns of the token grid.
        scale: any finite number; None for ``D ** -0.5``.

    Returns:
        ``[B, S, N, D]``, contiguous, dtype of ``query``.

    Raises:
        TypeError: a dtype or device is wrong.
        ValueError: a rank, shape, stride or scalar is wrong, or the grid doesn't have S tokens.
        RuntimeError: grad mode is on and an input requires grad.
        tilevl.core.TargetUnavailableError: the device can't run the op.

    Example:
        >>> import math, torch
        >>> query = torch.zeros(1, 4, 1, 16)
        >>> value = torch.arange(4.0).view(1, 4, 1, 1).expand(1, 4, 1, 16).contiguous()
        >>> rel_h = torch.tensor([0.0, math.log(3)]).expand(1, 4, 1, 2)  # the second row of keys counts three times
        >>> rel_w = torch.zeros(1, 4, 1, 2)
        >>> attn_rel_h_rel_w(query, query, value, rel_h, rel_w)[0, 0, 0, 0]
        tensor(2.)
    """
    result: Tensor = _call(query, key, value, rel_h, rel_w, grid_h, grid_w, scale)
    return result
