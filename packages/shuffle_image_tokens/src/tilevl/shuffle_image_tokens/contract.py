"""The rules of shuffle_image_tokens: every check and message, for fake and real calls alike."""

from __future__ import annotations

import math
from bisect import bisect

from torch import SymInt, Tensor

from tilevl.core import checks

OP = "shuffle_image_tokens"
SCHEMA = (
    f"{OP}(Tensor(a!) input_embeds, Tensor image_start, Tensor image_tokens, SymInt max_image_tokens, "
    "SymInt groups=2) -> ()"
)

_SHORT = 64  # up to here Python ints are faster than the passes of torch


def check(
    input_embeds: Tensor,
    image_start: Tensor,
    image_tokens: Tensor,
    max_image_tokens: int | SymInt,
    groups: int | SymInt,
) -> None:
    """Raises ValueError or TypeError where shapes, dtypes, devices, strides or scalars break the contract."""
    checks.check_rank(OP, "input_embeds", input_embeds, "[T, D] or [B, T, D]", 2, 3)
    checks.check_dtype(OP, "input_embeds", input_embeds, checks.FLOATS)
    for name, index in (("image_start", image_start), ("image_tokens", image_tokens)):
        checks.check_device(OP, name, index, "input_embeds", input_embeds)
        checks.check_index(OP, name, index, "[num_images]", 1)
    checks.require(
        image_tokens.shape[0] == image_start.shape[0],
        lambda: (
            f"{OP}: image_tokens must have one element per element of image_start, {image_start.shape[0]}, "
            f"got {image_tokens.shape[0]}"
        ),
    )
    checks.require(max_image_tokens >= 0, lambda: f"{OP}: max_image_tokens must be at least 0, got {max_image_tokens}")
    checks.require(groups >= 1, lambda: f"{OP}: groups must be at least 1, got {groups}")
    checks.check_unit_last_stride(OP, "input_embeds", input_embeds)
    checks.check_rows_apart(OP, "input_embeds", input_embeds)
    checks.check_no_overlap(OP, "input_embeds", input_embeds, image_start=image_start, image_tokens=image_tokens)


def check_data(
    input_embeds: Tensor, image_start: Tensor, image_tokens: Tensor, max_image_tokens: int, groups: int
) -> None:
    """Raises ValueError for a count, a place or an overlap that breaks the contract; skipped images are ignored."""
    rows = math.prod(input_embeds.shape[:-1])
    if image_start.shape[0] > _SHORT and _many_agree(image_start, image_tokens, rows, max_image_tokens, groups):
        return
    taken: list[tuple[int, int, int]] = []  # first row, row past the last one and image, in order of rows
    for image, (start, count) in enumerate(zip(image_start.tolist(), image_tokens.tolist(), strict=True)):
        if start < 0 or not count:
            continue
        if not 0 <= count <= max_image_tokens:
            raise ValueError(
                f"{OP}: image_tokens[{image}] must be in [0, {max_image_tokens}], up to max_image_tokens, got {count}"
            )
        if count % groups:
            raise ValueError(f"{OP}: image_tokens[{image}] must be a multiple of groups, {groups}, got {count}")
        if count > rows:
            raise ValueError(
                f"{OP}: image_tokens[{image}] must be at most the {rows} rows of input_embeds, got {count}"
            )
        if start + count > rows:
            raise ValueError(
                f"{OP}: image_start[{image}] must be at most {rows - count}, so that {count} rows end in the "
                f"{rows} rows of input_embeds, got {start}"
            )
        place = bisect(taken, (start, start + count, image))
        for first, stop, other in taken[max(place - 1, 0) : place + 1]:
            if start < stop and first < start + count:
                raise ValueError(
                    f"{OP}: image_start[{image}] must leave the images disjoint: rows [{start}, {start + count}) of "
                    f"image {image} overlap rows [{first}, {stop}) of image {other}, got {start}"
                )
        taken.insert(place, (start, start + count, image))


def _many_agree(image_start: Tensor, image_tokens: Tensor, rows: int, max_image_tokens: int, groups: int) -> bool:
    """Whether all rules hold, in a few passes; nothing overflows, since each is taken once those before it hold."""
    starts, counts = image_start.long(), image_tokens.long()
    kept = (starts >= 0) & (counts != 0)
    starts, counts = starts[kept], counts[kept]
    if not len(starts):
        return True
    if bool(((counts < 0) | (counts > min(max_image_tokens, rows))).any()):
        return False
    if bool((counts % groups).any()) or bool((starts > rows - counts).any()):
        return False
    starts, order = starts.sort()
    return bool((starts[:-1] + counts[order[:-1]] <= starts[1:]).all())


def specialise(
    input_embeds: Tensor, image_start: Tensor, image_tokens: Tensor, max_image_tokens: int, groups: int
) -> tuple[()]:
    """The static key: sizes, dtypes and groups are all read at run time on CPU."""
    return ()
