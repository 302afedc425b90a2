"""The rules of image_token_index: every check and message, for fake and real calls alike."""

from __future__ import annotations

import torch
from torch import SymInt, Tensor

from tilevl.core import checks

OP = "image_token_index"
SCHEMA = f"{OP}(Tensor is_image_token, SymInt num_image_tokens) -> Tensor"


def check(is_image_token: Tensor, num_image_tokens: int | SymInt) -> tuple[tuple[int | SymInt], torch.dtype]:
    """Shape and dtype of the result; raises ValueError or TypeError where the contract is broken."""
    checks.check_rank(OP, "is_image_token", is_image_token, "[T] or [B, T]", 1, 2)
    checks.check_dtype(OP, "is_image_token", is_image_token, (torch.bool,))
    checks.require(num_image_tokens >= 0, lambda: f"{OP}: num_image_tokens must be at least 0, got {num_image_tokens}")
    return (num_image_tokens,), torch.int64


def check_data(is_image_token: Tensor, num_image_tokens: int) -> None:
    """Raises ValueError where the mask marks more tokens than the result holds."""
    marked = int(is_image_token.count_nonzero())
    if marked > num_image_tokens:
        first = int(torch.nonzero(is_image_token.flatten())[num_image_tokens])
        raise ValueError(
            f"{OP}: is_image_token must mark at most num_image_tokens, {num_image_tokens}, tokens, got {marked}; "
            f"the first too many is token {first}"
        )


def specialise(is_image_token: Tensor, num_image_tokens: int) -> tuple[()]:
    """The static key: all sizes are read at run time."""
    return ()
