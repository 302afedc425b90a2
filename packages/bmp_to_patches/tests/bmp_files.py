"""BMP files written byte by byte for the tests, with every field free."""

from __future__ import annotations

import struct

import numpy as np


def write_bmp(
    rgb: np.ndarray,
    *,
    bits: int = 24,
    top_down: bool = False,
    header_size: int = 40,
    gap: int = 0,
    padding: int = 0xEE,
    cut_last_padding: bool = False,
    masks: tuple[int, int, int] | None = None,
    channels: str = "BGRX",
    **fields: int,
) -> bytes:
    """A BMP of ``rgb`` uint8 ``[height, width, 3]``.

    ``channels`` is the order of the bytes of a pixel. ``fields`` overwrite what stands in the headers: offset,
    header_size_field, width, height, planes, bit_count, compression, size_image, file_size, colours.
    """
    height, width, _ = rgb.shape
    count = bits // 8
    pixels = np.full((height, width, count), 0x77, dtype=np.uint8)
    for byte, channel in enumerate(channels[:count]):
        if channel in "RGB":
            pixels[:, :, byte] = rgb[:, :, "RGB".index(channel)]
    rows = [row.tobytes() for row in pixels]
    if not top_down:
        rows.reverse()
    fill = bytes([padding]) * (-width * count % 4)
    array = fill.join(rows) + (b"" if cut_last_padding else fill)
    masks_behind = struct.pack("<III", *masks) if masks else b""
    tail = (masks_behind + bytes(header_size))[: header_size - 40] if header_size > 40 else masks_behind
    offset = 14 + 40 + len(tail) + gap
    header = struct.pack(
        "<IiiHHIIiiII",
        fields.get("header_size_field", header_size),
        fields.get("width", width),
        fields.get("height", -height if top_down else height),
        fields.get("planes", 1),
        fields.get("bit_count", bits),
        fields.get("compression", 3 if masks else 0),
        fields.get("size_image", len(array)),
        2835,
        2835,
        fields.get("colours", 0),
        0,
    )
    file_size = fields.get("file_size", offset + len(array))
    start = struct.pack("<2sIHHI", b"BM", file_size, 0, 0, fields.get("offset", offset))
    return start + header + tail + b"\xa5" * gap + array


def noise(seed: int, height: int, width: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
