"""Headers of BMP files: what the file is, whether read_bmp takes it, and where its pixels lie."""

from __future__ import annotations

import struct
from typing import NamedTuple, NoReturn, Protocol

FILE_HEADER = struct.Struct("<2sIHHI")  # signature, bfSize, two reserved, bfOffBits
INFO_HEADER = struct.Struct("<iiHHIIiiII")  # what follows the header's size in BITMAPINFOHEADER
MASKS = struct.Struct("<III")

_TAKEN = {40: "BITMAPINFOHEADER", 108: "V4", 124: "V5"}
_REFUSED = {
    12: "an OS/2 1.x bitmap with a header", 16: "an OS/2 2.x bitmap with a header",
    64: "an OS/2 2.x bitmap with a header", 52: "a bitmap with a V2 header", 56: "a bitmap with a V3 header",
}  # fmt: skip
_COMPRESSIONS = {
    1: "compressed with RLE8", 2: "compressed with RLE4", 4: "an embedded JPEG", 5: "an embedded PNG",
    6: "a bitmap with alpha bit fields", 11: "a CMYK bitmap", 12: "a CMYK bitmap compressed with RLE8",
    13: "a CMYK bitmap compressed with RLE4",
}  # fmt: skip
_SIGNATURES = {
    b"\x89PNG": "a PNG file", b"\xff\xd8\xff": "a JPEG file", b"GIF8": "a GIF file", b"RIFF": "a RIFF file (WebP?)",
    b"II*\0": "a TIFF file", b"MM\0*": "a TIFF file", b"%PDF": "a PDF file", b"BA": "an OS/2 bitmap array",
    b"CI": "an OS/2 colour icon", b"CP": "an OS/2 colour pointer", b"IC": "an OS/2 icon", b"PT": "an OS/2 pointer",
}  # fmt: skip
_BI_RGB, _BI_BITFIELDS = 0, 3


class ByteSource(Protocol):
    """Bytes that are read once, from the front."""

    position: int

    def take(self, count: int) -> bytes | bytearray:
        """The next ``count`` bytes, fewer only at the end."""
        ...


class BmpHeader(NamedTuple):
    """Where and how the pixels of a file lie.

    Attributes:
        offset: bytes from the start of the file to the pixel array.
        width: pixels, at least 1.
        height: pixels, at least 1.
        top_down: the first row of the file is the top one.
        bytes_per_pixel: 3 or 4.
        order: positions of blue, green and red among the bytes of a pixel; (0, 1, 2) nearly always.
    """

    offset: int
    width: int
    height: int
    top_down: bool
    bytes_per_pixel: int
    order: tuple[int, int, int]

    @property
    def row_stride(self) -> int:
        """Bytes from a row to the next: the pixels, padded to a multiple of 4."""
        return padded_row(self.width, self.bytes_per_pixel)

    @property
    def needed(self) -> int:
        """Bytes of the pixel array without the padding of its last row, which some writers leave out."""
        return (self.height - 1) * self.row_stride + self.width * self.bytes_per_pixel


def padded_row(width: int, bytes_per_pixel: int) -> int:
    """Bytes of a row of pixels, padded to a multiple of 4."""
    return -(-width * bytes_per_pixel // 4) * 4


def refuse(name: str, problem: str) -> NoReturn:
    """Raises ValueError for a file that is no BMP of the kinds read, with the way out."""
    raise ValueError(
        f"read_bmp: {name} {problem}; convert it with Pillow: PIL.Image.open(file).convert('RGB').save('converted.bmp')"
    )


def broken(name: str, problem: str) -> NoReturn:
    """Raises ValueError for a file that contradicts itself."""
    raise ValueError(f"read_bmp: {name} {problem}; the file is truncated or its header is wrong")


def read_header(source: ByteSource, name: str) -> BmpHeader:
    """Reads and checks the headers, and leaves ``source`` right behind them.

    ``bfSize`` and ``biSizeImage`` are ignored: sizes come from width, height and bit count alone.

    Raises:
        ValueError: the file is of a kind that isn't read, or contradicts itself.
    """
    start = source.take(FILE_HEADER.size + 4)
    _check_signature(bytes(start), name)
    if len(start) < FILE_HEADER.size + 4:
        broken(name, f"must hold a BMP header, got {len(start)} bytes")
    offset = FILE_HEADER.unpack_from(start)[-1]
    (header_size,) = struct.unpack_from("<I", start, FILE_HEADER.size)
    if header_size not in _TAKEN:
        refuse(name, f"is {_REFUSED.get(header_size, 'a bitmap with an unknown header')} of {header_size} bytes")
    header = source.take(header_size - 4)
    if len(header) < header_size - 4:
        broken(name, f"must hold a {_TAKEN[header_size]} header of {header_size} bytes, got {len(header) + 4}")
    width, height, planes, bits, compression, *_ = INFO_HEADER.unpack_from(header)
    bytes_per_pixel = _check_kind(name, planes, bits, compression)
    if width < 1:
        broken(name, f"must have a width (biWidth) of at least 1, got {width}")
    if height in (0, -(2**31)):
        broken(name, f"must have a height (biHeight) other than 0 and -2**31, got {height}")
    order = (0, 1, 2)
    if compression == _BI_BITFIELDS:
        masks = header[INFO_HEADER.size : INFO_HEADER.size + MASKS.size] or source.take(MASKS.size)
        if len(masks) < MASKS.size:
            broken(name, f"must hold three bit field masks, got {len(masks)} bytes")
        order = _order_of(name, MASKS.unpack(masks), bytes_per_pixel)
    if offset < source.position:
        broken(
            name,
            f"must have its pixels (bfOffBits) at byte {source.position}, behind its headers, or later, got {offset}",
        )
    return BmpHeader(offset, width, abs(height), height < 0, bytes_per_pixel, order)


def _check_signature(start: bytes, name: str) -> None:
    if start.startswith(b"BM"):
        return
    if not start:
        broken(name, "must hold a BMP header, got 0 bytes")
    known = next((kind for signature, kind in _SIGNATURES.items() if start.startswith(signature)), None)
    refuse(name, f"is {known}, not a BMP" if known else f"is no BMP: it must start with b'BM', got {start[:4]!r}")


def _check_kind(name: str, planes: int, bits: int, compression: int) -> int:
    if compression not in (_BI_RGB, _BI_BITFIELDS):
        kind = _COMPRESSIONS.get(compression, "a bitmap with an unknown compression")
        refuse(name, f"is {kind} (biCompression {compression})")
    if bits not in (24, 32):
        kind = {1: "a palette image", 2: "a palette image", 4: "a palette image", 8: "a palette image"}.get(
            bits, "a 16-bit image" if bits == 16 else "an image of an unknown kind"
        )
        refuse(name, f"is {kind} (biBitCount {bits}), and 24 and 32 bits are read")
    if planes != 1:
        broken(name, f"must have 1 plane (biPlanes), got {planes}")
    return bits // 8


def _order_of(name: str, masks: tuple[int, ...], bytes_per_pixel: int) -> tuple[int, int, int]:
    bytes_of = {0xFF << 8 * i: i for i in range(bytes_per_pixel)}
    red, green, blue = (bytes_of.get(mask) for mask in masks)
    if red is None or green is None or blue is None or len({red, green, blue}) < 3:
        shown = ", ".join(f"0x{mask:08x}" for mask in masks)
        refuse(name, f"has bit fields that aren't one whole byte each for red, green and blue ({shown})")
    return blue, green, red
