"""What bmp_to_patches and read_bmp say when they refuse a call."""

from __future__ import annotations

import io
from typing import Any

from tilevl.bmp_to_patches import bmp_to_patches, read_bmp
from tilevl.testing import Refusal
from tilevl.testing.errors import ErrorTable, Rule

from .cases import REFUSALS
from .test_read_bmp_refusals import BROKEN, OTHER_KINDS, made

RULES = [
    Rule(ValueError, "pixels must be [num_bytes], got shape <shape>"),
    Rule(TypeError, "pixels must be uint8, got <dtype>"),
    Rule(ValueError, "<pixels|crops|cu_patches> must be contiguous, got strides <strides> for shape <shape>"),
    Rule(TypeError, "<crops|cu_patches> must be on the device of pixels, <device>, got <device>"),
    Rule(ValueError, "crops must be [num_crops, 4], got shape <shape>"),
    Rule(TypeError, "crops must be int64, got <dtype>"),
    Rule(ValueError, "cu_patches must be [num_crops + 1], got shape <shape>"),
    Rule(TypeError, "cu_patches must be int32 or int64, got <dtype>"),
    Rule(ValueError, "cu_patches must have one element more than crops has rows, <number>, got <number>"),
    Rule(ValueError, "total_patches must be at least 0, got <number>"),
    Rule(ValueError, "patch_size must be in [1, 64], got <number>"),
    Rule(ValueError, "bytes_per_pixel must be 3 or 4, got <number>"),
    Rule(ValueError, "window must be at least 1, got <number>"),
    Rule(ValueError, "<mean|std> must be 3 floats (R, G, B) or one for all, got <number>"),
    Rule(ValueError, "<mean|std> must be finite, got <number> for channel <channel>"),
    Rule(ValueError, "std must be greater than 0, got <number> for channel <channel>"),
    Rule(TypeError, "out_dtype must be bfloat16 or float16 or float32, got <dtype>"),
    Rule(ValueError, "crops[<crop>, <column>] must be at least 0, got <number>"),
    Rule(
        ValueError,
        "crops[<crop>] must lie in pixels, bytes [0, <number>), got bytes [<number>, <number>) for offset <number>, "
        "row stride <number>, height <number>, width <number>",
    ),
    Rule(
        ValueError,
        "crops[<crop>] must have a patch grid that is a multiple of window, <number>, got <number> x <number> patches",
    ),
    Rule(ValueError, "cu_patches[<crop>] must be <number>, the prefix sum of the counts so far, got <number>"),
    Rule(ValueError, "total_patches must be at least cu_patches[<crops>], <number>, got <number>"),
]

_CONVERT = "; convert it with Pillow: PIL.Image.open(file).convert('RGB').save('converted.bmp')"
_TRUNCATED = "; the file is truncated or its header is wrong"

READING_RULES = [
    Rule(ValueError, "patch_size must be in [1, 64], got <number>"),
    Rule(ValueError, "window must be at least 1, got <number>"),
    Rule(TypeError, "<patch_size|window> must be an int, got <type>"),
    Rule(TypeError, "files must be a path, bytes or a binary file object, or several of them, got <type>"),
    Rule(TypeError, "files[<position>] must be a path, bytes or a binary file object, or several of them, got <type>"),
    Rule(TypeError, "<file> must be opened in binary mode, got a text file"),
    Rule(ValueError, f"<file> is <what>, not a BMP{_CONVERT}"),
    Rule(ValueError, f"<file> is no BMP: it must start with b'BM', got <bytes>{_CONVERT}"),
    Rule(
        ValueError,
        "<file> is <an OS/2 1.x bitmap with a header|an OS/2 2.x bitmap with a header|a bitmap with a V2 header|"
        f"a bitmap with a V3 header|a bitmap with an unknown header> of <number> bytes{_CONVERT}",
    ),
    Rule(
        ValueError,
        "<file> is <compressed with RLE8|compressed with RLE4|an embedded JPEG|an embedded PNG|a bitmap with alpha "
        "bit fields|a CMYK bitmap|a CMYK bitmap compressed with RLE8|a CMYK bitmap compressed with RLE4|a bitmap with "
        f"an unknown compression> (biCompression <number>){_CONVERT}",
    ),
    Rule(
        ValueError,
        "<file> is <a palette image|a 16-bit image|an image of an unknown kind> (biBitCount <number>), and 24 and 32 "
        f"bits are read{_CONVERT}",
    ),
    Rule(
        ValueError,
        "<file> has bit fields that aren't one whole byte each for red, green and blue (<number>, <number>, <number>)"
        f"{_CONVERT}",
    ),
    Rule(ValueError, f"<file> must hold a BMP header, got <number> bytes{_TRUNCATED}"),
    Rule(ValueError, f"<file> must hold a <BITMAPINFOHEADER|V4|V5> header of <number> bytes, got <number>{_TRUNCATED}"),
    Rule(ValueError, f"<file> must hold three bit field masks, got <number> bytes{_TRUNCATED}"),
    Rule(ValueError, f"<file> must have 1 plane (biPlanes), got <number>{_TRUNCATED}"),
    Rule(ValueError, f"<file> must have a width (biWidth) of at least 1, got <number>{_TRUNCATED}"),
    Rule(ValueError, f"<file> must have a height (biHeight) other than 0 and -2**31, got <number>{_TRUNCATED}"),
    Rule(
        ValueError,
        "<file> must have its pixels (bfOffBits) at byte <number>, behind its headers, or later, got <number>"
        f"{_TRUNCATED}",
    ),
    Rule(
        ValueError,
        "<file> must hold <number> bytes for <width> x <height> pixels of <number> bytes from byte <number> on, got "
        f"<number>{_TRUNCATED}",
    ),
]


def reading(name: str, *args: Any, error: type[Exception] = ValueError) -> Refusal:
    """A call of read_bmp that is refused; its file comes from a function where it can be read once only."""
    return Refusal(name, lambda g: (args[0]() if callable(args[0]) else args[0], *args[1:]), error, "")


READING_REFUSALS = [
    reading("patch_size_65", made(), 65),
    reading("no_window", made(), 16, 0),
    reading("patch_size_float", made(), 1.5, error=TypeError),
    reading("window_text", made(), 1, "2", error=TypeError),
    reading("number", 7, 16, error=TypeError),
    reading("number_among_files", [made(), 1.5], 16, error=TypeError),
    reading("text_file", lambda: io.StringIO("BM"), 16, error=TypeError),
    *(reading(name, content, 16) for name, (content, _) in {**OTHER_KINDS, **BROKEN}.items()),
]

TABLES = [
    ErrorTable("bmp_to_patches", bmp_to_patches, RULES, REFUSALS),
    ErrorTable(
        "read_bmp",
        read_bmp,
        READING_RULES,
        READING_REFUSALS,
        note="Nothing is allocated beyond what the file holds. A path that can't be read is the system's `OSError`.",
    ),
]
