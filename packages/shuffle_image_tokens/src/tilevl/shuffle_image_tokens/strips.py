"""How wide a strip of an image's columns a vector core of an Ascend NPU takes, all rows of it."""

from __future__ import annotations

from tilevl.core.ascend import BLOCK_BYTES

HELD_BYTES = 192 * 1024
"""What strips may take of a core's unified buffer; 216 KiB are there beside SIMT code."""

LONGEST = HELD_BYTES // BLOCK_BYTES
"""Rows of the longest image of which a strip fits."""

_WIDEST = 8 * 1024  # wider bursts gain nothing
_DOUBLE_FROM = 128  # from this width on two strips are held at once, one on its way in and one out
_NARROWED_TO = 64  # narrower bursts waste more than further cores gain
_ENOUGH = 64  # strips that keep the cores busy


def strip_bytes(longest: int, row_bytes: int, images: int) -> tuple[int, int]:
    """Width of a strip in bytes, a power of 2, and how many a core holds at once.

    Args:
        longest: rows of the longest image, at most ``LONGEST``.
        row_bytes: length of a row.
        images: number of images.
    """
    width = _WIDEST
    while width > BLOCK_BYTES and longest * width > HELD_BYTES // 2:
        width //= 2
    if width < _DOUBLE_FROM:
        return (2 * width if longest * width * 2 <= HELD_BYTES else width), 1
    while width > _NARROWED_TO and images * -(-row_bytes // width) < _ENOUGH:
        width //= 2
    return width, 2
