"""The rules of replace_input_embeds: every check and message, for fake and real calls alike."""

from __future__ import annotations

import math

from torch import Tensor

from tilevl.core import checks, data_checks

OP = "replace_input_embeds"
SCHEMA = f"{OP}(Tensor(a!) input_embeds, Tensor image_embeds, Tensor token_index) -> ()"


def check(input_embeds: Tensor, image_embeds: Tensor, token_index: Tensor) -> None:
    """Raises ValueError or TypeError where shapes, dtypes, devices or strides break the contract."""
    checks.check_rank(OP, "input_embeds", input_embeds, "[T, D] or [B, T, D]", 2, 3)
    checks.check_rank(OP, "image_embeds", image_embeds, "[M, D]", 2)
    checks.check_dtype(OP, "input_embeds", input_embeds, checks.FLOATS)
    checks.check_same(OP, "image_embeds", image_embeds, "input_embeds", input_embeds)
    checks.check_device(OP, "token_index", token_index, "input_embeds", input_embeds)
    checks.check_index(OP, "token_index", token_index, "[M]", 1)
    width = input_embeds.shape[-1]
    rows, given_width = image_embeds.shape
    checks.require(
        given_width == width,
        lambda: f"{OP}: image_embeds must have rows of {width} elements like input_embeds, got {given_width}",
    )
    checks.require(
        token_index.shape[0] == rows,
        lambda: f"{OP}: token_index must have one element per row of image_embeds, {rows}, got {token_index.shape[0]}",
    )
    checks.check_unit_last_stride(OP, "input_embeds", input_embeds)
    checks.check_unit_last_stride(OP, "image_embeds", image_embeds)
    checks.check_rows_apart(OP, "input_embeds", input_embeds)
    checks.check_no_overlap(OP, "input_embeds", input_embeds, image_embeds=image_embeds, token_index=token_index)


def check_data(input_embeds: Tensor, image_embeds: Tensor, token_index: Tensor) -> None:
    """Raises ValueError where an index lies past the last row; a negative one skips its row."""
    data_checks.check_range(OP, "token_index", token_index, None, math.prod(input_embeds.shape[:-1]))


def specialise(input_embeds: Tensor, image_embeds: Tensor, token_index: Tensor) -> tuple[()]:
    """The static key: rows, width and dtype are all read at run time on CPU."""
    return ()
