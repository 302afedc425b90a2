"""CPU: a (row, column) pair is one 64-bit word, and a band of ``window`` rows is one sum of two short tables.

The order inside a band depends on the window alone, so one table of words serves every image; a band adds the row it
starts at. Equal images that follow each other are one broadcast sum; runs too short for that share one gather.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from tilevl.core.cache import Kernel

_ROW, _COLUMN = (1, 1 << 32) if sys.byteorder == "little" else (1 << 32, 1)
_FEW = 8  # up to this many images, looking for equal ones costs more than it saves
_LONG = 1024  # tokens from which a run gets a sum of its own (measured)


def build() -> Kernel:
    """The kernel; any number of images, grid and window."""
    return prepare


def prepare(grid_hw: Tensor, cu_seqlens_vit: Tensor, total_seqlens_vit: int, window: int, out: Tensor) -> None:
    """Fills ``out``; every grid is a multiple of the window, and the sums are those of the grids."""
    words = out.view(torch.int64).view(-1)
    if grid_hw.shape[0] > _FEW:
        end = _fill_many(words, grid_hw.long(), cu_seqlens_vit.long(), window)
    else:
        end = _fill_few(words, grid_hw.tolist(), cu_seqlens_vit.tolist(), window)
    if end < total_seqlens_vit:
        words[end:] = 0


class _Tables(NamedTuple):
    """Words that every image is summed from, for the tallest and the widest of them."""

    rows: Tensor  # [height / window, 1]: the row each band starts at
    band: Tensor  # [width * window]: a band that starts at row 0
    window: int
    sum: Callable[..., Tensor]


def _tables(height: int, width: int, window: int) -> _Tables:
    rows = torch.arange(0, height * _ROW, window * _ROW).unsqueeze(1)
    band = torch.arange(0, width * _COLUMN, _COLUMN)
    if window > 1:
        band = (band.view(-1, 1, window) + torch.arange(0, window * _ROW, _ROW).unsqueeze(1)).flatten()
    # With a power of two the tables have no bit in common, and an int64 add takes four times as long as bitwise_or.
    return _Tables(rows, band, window, torch.add if window & (window - 1) else torch.bitwise_or)


def _fill_run(words: Tensor, start: int, images: int, height: int, width: int, tables: _Tables) -> None:
    """Writes equal images that follow each other."""
    bands, length = height // tables.window, width * tables.window
    rows = tables.rows[:bands]
    if images == 1:
        block = words.as_strided((bands, length), (length, 1), start)
    else:
        block = words.as_strided((images, bands, length), (bands * length, length, 1), start)
        rows = rows.expand(images, bands, 1)
    tables.sum(rows, tables.band[:length], out=block)


def _fill_few(words: Tensor, grids: list[list[int]], sums: list[int], window: int) -> int:
    """Writes images in order, each by one sum, and returns where the last one stops."""
    filled = [grid for grid in grids if all(grid)]  # an empty image may have one huge side: no table is made for it
    if filled:
        tables = _tables(max(height for height, _ in filled), max(width for _, width in filled), window)
        for (height, width), start in zip(grids, sums, strict=False):
            if height and width:
                _fill_run(words, start, 1, height, width, tables)
    return sums[-1]


def _fill_many(words: Tensor, grids: Tensor, sums: Tensor, window: int) -> int:
    """Writes images in order, long runs of equal ones each by one sum, and returns where the last one stops."""
    filled = sums.diff().nonzero().flatten()
    if not len(filled):
        return 0
    grids, sums = grids[filled], torch.cat([sums[:1], sums[filled + 1]])
    tallest, widest = grids.amax(0).tolist()
    tables = _tables(tallest, widest, window)
    heads = (grids[1:] != grids[:-1]).any(1).nonzero().flatten() + 1
    heads = torch.cat([heads.new_zeros(1), heads, heads.new_tensor([len(grids)])])
    long = (sums[heads].diff() >= _LONG).nonzero().flatten()
    firsts, lasts = heads[long], heads[long + 1]
    done = 0
    for first, last, start, (height, width) in zip(
        firsts.tolist(), lasts.tolist(), sums[firsts].tolist(), grids[firsts].tolist(), strict=True
    ):
        _fill_short(words, grids[done:first], sums[done : first + 1], tables)
        _fill_run(words, start, last - first, height, width, tables)
        done = last
    _fill_short(words, grids[done:], sums[done:], tables)
    return int(sums[-1])


def _fill_short(words: Tensor, grids: Tensor, sums: Tensor, tables: _Tables) -> None:
    """Writes images in order; where they are many, each token takes its word of the band and the row of its band."""
    if len(grids) <= _FEW:
        for (height, width), start in zip(grids.tolist(), sums.tolist(), strict=False):
            _fill_run(words, start, 1, height, width, tables)
        return
    heights, widths = grids.unbind(1)
    bands = heights // tables.window
    image_of_band = torch.repeat_interleave(bands)
    band_in_image = torch.arange(len(image_of_band)) - (bands.cumsum(0) - bands)[image_of_band]
    length = (widths * tables.window)[image_of_band]
    band_of_token = torch.repeat_interleave(length)
    token_in_band = torch.arange(len(band_of_token)) - (length.cumsum(0) - length)[band_of_token]
    start, stop = sums[[0, -1]].tolist()
    rows = tables.rows.flatten()[band_in_image]
    tables.sum(tables.band[token_in_band], rows[band_of_token], out=words[start:stop])
