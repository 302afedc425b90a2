"""CPU: an image's rows are copied, in their new order, to a small scratch buffer and back.

Both copies are strided views of whole rows, or for a large image of strips of columns: then the second copy finds what
the first one read and wrote in the cache. Equal images at equal distances go together, and so do small ones.

Extra memory: up to 16 MiB, or some 260 bytes per row of an image where that is more.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from tilevl.core.cache import Kernel

_WHOLE = 16 << 20  # bytes up to which an image is faster whole than in strips (measured, as all of these)
_BLOCK = 4 << 20  # bytes of a strip of columns, and of small images that go together: they stay in the cache
_TOGETHER = 2 << 20  # bytes of equal images that go together
_STRIP = 256  # least bytes of a row that are worth a copy of their own
_SMALL = 16 << 10  # bytes up to which a run of images isn't worth two strided copies of its own
_INDEX = 128  # bytes of indices per row where small images go by gather and scatter, no less
_FEW = 8  # small images from which one gather and one scatter are cheaper

Span = tuple[int, int]  # first row and number of rows of an image


def build() -> Kernel:
    """The kernel; any dtype, width, stride, number of images and groups."""
    return shuffle


def shuffle(
    input_embeds: Tensor, image_start: Tensor, image_tokens: Tensor, max_image_tokens: int, groups: int
) -> None:
    """Interleaves the rows; spans are disjoint, inside the rows, and multiples of ``groups``."""
    if groups == 1:
        return
    spans = sorted(
        (start, count)
        for start, count in zip(image_start.tolist(), image_tokens.tolist(), strict=True)
        if start >= 0 and count > groups  # with as many rows as groups each row stays where it is
    )
    if input_embeds.dim() == 2:
        _shuffle_rows(input_embeds, spans, groups)
        return
    batch, tokens, width = input_embeds.shape
    if batch == 1 or input_embeds.stride(0) == tokens * input_embeds.stride(1):
        rows = input_embeds.as_strided((batch * tokens, width), (input_embeds.stride(1), 1))
        _shuffle_rows(rows, spans, groups)
        return
    inside: dict[int, list[Span]] = {}
    for start, count in spans:
        entry, first = divmod(start, tokens)
        if first + count <= tokens:
            inside.setdefault(entry, []).append((first, count))
        else:
            _shuffle_across(input_embeds, start, count, groups)
    for entry, local in inside.items():
        _shuffle_rows(input_embeds[entry], local, groups)


def _shuffle_rows(rows: Tensor, spans: list[Span], groups: int) -> None:
    """Interleaves images in order of their rows, all in one ``[rows, width]`` view."""
    row_bytes = rows.shape[1] * rows.element_size()
    small: list[Span] = []
    for start, count, distance, images in _runs(spans):
        if images * count * row_bytes <= _SMALL:
            small += [(start + i * distance, count) for i in range(images)]
        else:
            _shuffle_run(rows, start, count, distance, images, groups)
    if len(small) > _FEW:
        for block in _blocks(small, _BLOCK // max(row_bytes, _INDEX)):
            _shuffle_small(rows, block, groups)
        return
    for start, count in small:
        _shuffle_run(rows, start, count, count, 1, groups)


def _runs(spans: list[Span]) -> Iterator[tuple[int, int, int, int]]:
    """Runs of equal images at equal distances: first row, rows of an image, distance, number of images."""
    first = 0
    while first < len(spans):
        start, count = spans[first]
        last, distance = first + 1, count
        if last < len(spans) and spans[last][1] == count:
            distance = spans[last][0] - start
            while last < len(spans) and spans[last] == (start + (last - first) * distance, count):
                last += 1
        yield start, count, distance, last - first
        first = last


def _columns(count: int, width: int, element_size: int) -> int:
    """How many columns of an image to take at once."""
    if count * width * element_size <= _WHOLE:
        return width
    return min(width, max(_BLOCK // count, _STRIP) // element_size)


def _shuffle_run(rows: Tensor, start: int, count: int, distance: int, images: int, groups: int) -> None:
    """Interleaves equal images at equal distances; the scratch buffer holds as many whole ones as fit, or a strip."""
    width, stride, size = rows.shape[1], rows.stride(0), rows.element_size()
    each, apart = count // groups, distance * stride
    columns = _columns(count, width, size)
    step = min(images, max(1, _TOGETHER // (count * columns * size)))
    scratch = rows.new_empty((step, each, groups, columns))
    for column in range(0, width, columns):
        for image in range(0, images, step):
            part = scratch[: images - image, :, :, : width - column]
            offset = rows.storage_offset() + (start + image * distance) * stride + column
            part.copy_(rows.as_strided(part.shape, (apart, stride, each * stride, 1), offset))
            rows.as_strided(part.shape, (apart, groups * stride, stride, 1), offset).copy_(part)


def _blocks(spans: list[Span], limit: int) -> Iterator[list[Span]]:
    """The images in blocks of at most ``limit`` rows, or of one image."""
    block: list[Span] = []
    held = 0
    for span in spans:
        if block and held + span[1] > limit:
            yield block
            block, held = [], 0
        block.append(span)
        held += span[1]
    yield block


def _shuffle_small(rows: Tensor, spans: list[Span], groups: int) -> None:
    """Interleaves images of a few rows each by one gather and one scatter."""
    starts, counts = torch.tensor(spans).unbind(1)
    image = torch.repeat_interleave(counts)
    token = torch.arange(len(image)) - (counts.cumsum(0) - counts)[image]
    start, each = starts[image], (counts // groups)[image]
    source = start + token % groups * each + token // groups
    rows.index_copy_(0, start + token, rows.index_select(0, source))


def _shuffle_across(embeds: Tensor, start: int, count: int, groups: int) -> None:
    """Interleaves an image that reaches over entries of a batch whose rows have no common stride."""
    _, tokens, width = embeds.shape
    size = embeds.element_size()
    columns = _columns(count, width, size)
    place = torch.arange(count).view(-1, groups).t().reshape(-1)  # where each old row of the image goes
    pieces = []  # of one entry each: first and last row of the image, and its rows
    first = 0
    while first < count:
        entry, row = divmod(start + first, tokens)
        last = min(count, first + tokens - row)
        pieces.append((first, last, embeds[entry, row : row + last - first]))
        first = last
    scratch = embeds.new_empty((count, columns))
    for column in range(0, width, columns):
        part = scratch[:, : width - column]
        for first, last, piece in pieces:
            part.index_copy_(0, place[first:last], piece[:, column : column + columns])
        for first, last, piece in pieces:
            piece[:, column : column + columns].copy_(part[first:last])
