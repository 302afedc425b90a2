"""Real BMP files, and ways to spoil them: the inputs of the fuzzed tests of read_bmp."""

from __future__ import annotations

import io
import struct
from pathlib import Path

from PIL import Image

from .bmp_files import noise, write_bmp

SUITE = Path(__file__).resolve().parents[4] / "shared" / "data" / "bmp"  # beside the checkout, where it is there at all

# Where the fields of the headers lie, and how many bytes they have.
FIELDS = {
    "signature": (0, 2), "bfSize": (2, 4), "bfReserved": (6, 4), "bfOffBits": (10, 4), "biSize": (14, 4),
    "biWidth": (18, 4), "biHeight": (22, 4), "biPlanes": (26, 2), "biBitCount": (28, 2), "biCompression": (30, 4),
    "biSizeImage": (34, 4), "biXPelsPerMeter": (38, 4), "biClrUsed": (46, 4), "biClrImportant": (50, 4),
    "redMask": (54, 4), "greenMask": (58, 4), "blueMask": (62, 4), "alphaMask": (66, 4), "bV4CSType": (70, 4),
}  # fmt: skip

# Sizes, counts and kinds that mean something in one field or another, and the edges of signed and unsigned numbers.
VALUES = (
    0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15, 16, 24, 25, 26, 32, 33, 40, 52, 53, 54, 55, 56, 64, 66, 70, 108, 122,
    124, 138, 255, 256, 0xFF00, 0xFFFF, 0x10000, 0xFF0000, 0xFF000000, 0x00FFFFFF, 2**20, 2**24, 2**29 - 1, 2**29,
    2**30, 2**30 - 1, 0x55555555, 0x55555556, 2**31 - 4, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32 - 2, 2**32 - 4,
)  # fmt: skip


def with_field(content: bytes, name: str, value: int) -> bytes:
    """A file with another value in one field of its headers, as far as the file reaches."""
    start, size = FIELDS[name]
    spoilt = bytearray(content)
    new = struct.pack("<Q", value % 2 ** (8 * size))[:size]
    spoilt[start : start + size] = new[: max(0, len(content) - start)]
    return bytes(spoilt)


def seeds() -> list[bytes]:
    """Small real files: the kinds that are taken, what Pillow writes, and the public suite where it lies beside us."""
    files = []
    for bits in (24, 32):
        for top_down in (False, True):
            for header_size in (40, 108, 124):
                rgb = noise(len(files), 4, 5)
                files.append(write_bmp(rgb, bits=bits, top_down=top_down, header_size=header_size, gap=4 * top_down))
    files.append(write_bmp(noise(20, 3, 3), cut_last_padding=True))
    files.append(write_bmp(noise(21, 3, 3), bits=32, masks=(0xFF0000, 0xFF00, 0xFF)))
    files.append(write_bmp(noise(22, 3, 3), bits=32, masks=(0xFF, 0xFF00, 0xFF0000), channels="RGBX"))
    files.append(write_bmp(noise(23, 3, 3), bits=32, header_size=124, masks=(0xFF0000, 0xFF00, 0xFF)))
    for mode in ("RGB", "RGBA", "L", "P", "1"):
        stream = io.BytesIO()
        Image.fromarray(noise(24, 6, 7)).convert(mode).save(stream, format="BMP")
        files.append(stream.getvalue())
    return files + [path.read_bytes() for path in sorted(SUITE.glob("*.bmp"))]
