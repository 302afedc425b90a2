"""Files that read_bmp refuses: each with its kind, its name and the way out, and nothing read past its end."""

from __future__ import annotations

import io
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tilevl.bmp_to_patches import read_bmp

from .bmp_files import noise, write_bmp

RGB = noise(1, 4, 5)


def made(**fields: Any) -> bytes:
    return write_bmp(RGB, **fields)


def start_of(header_size: int, length: int = 200) -> bytes:
    return (b"BM" + bytes(8) + struct.pack("<II", 26, header_size)).ljust(length, b"\0")


OTHER_KINDS = {
    "palette_1": (made(bit_count=1), "is a palette image (biBitCount 1)"),
    "palette_4": (made(bit_count=4), "is a palette image (biBitCount 4)"),
    "palette_8": (made(bit_count=8), "is a palette image (biBitCount 8)"),
    "16_bit": (made(bit_count=16), "is a 16-bit image (biBitCount 16)"),
    "16_bit_fields": (made(bit_count=16, masks=(0xF800, 0x7E0, 0x1F)), "is a 16-bit image (biBitCount 16)"),
    "odd_bit_count": (made(bit_count=30000), "is an image of an unknown kind (biBitCount 30000)"),
    "rle8": (made(bit_count=8, compression=1), "is compressed with RLE8 (biCompression 1)"),
    "rle4": (made(bit_count=4, compression=2), "is compressed with RLE4 (biCompression 2)"),
    "24_bit_rle8": (made(compression=1), "is compressed with RLE8 (biCompression 1)"),
    "jpeg": (made(bit_count=0, compression=4), "is an embedded JPEG (biCompression 4)"),
    "png": (made(bit_count=0, compression=5), "is an embedded PNG (biCompression 5)"),
    "alpha_fields": (made(bits=32, compression=6), "is a bitmap with alpha bit fields (biCompression 6)"),
    "cmyk": (made(bits=32, compression=11), "is a CMYK bitmap (biCompression 11)"),
    "cmyk_rle8": (made(compression=12), "is a CMYK bitmap compressed with RLE8 (biCompression 12)"),
    "cmyk_rle4": (made(compression=13), "is a CMYK bitmap compressed with RLE4 (biCompression 13)"),
    "unknown_compression": (made(compression=77), "is a bitmap with an unknown compression (biCompression 77)"),
    "os2_1": (start_of(12), "is an OS/2 1.x bitmap with a header of 12 bytes"),
    "os2_2": (start_of(64), "is an OS/2 2.x bitmap with a header of 64 bytes"),
    "os2_2_short": (start_of(16), "is an OS/2 2.x bitmap with a header of 16 bytes"),
    "v2": (start_of(52), "is a bitmap with a V2 header of 52 bytes"),
    "v3": (start_of(56), "is a bitmap with a V3 header of 56 bytes"),
    "unknown_header": (start_of(66), "is a bitmap with an unknown header of 66 bytes"),
    "endless_header": (start_of(2**32 - 1), "is a bitmap with an unknown header of 4294967295 bytes"),
    "os2_array": (b"BA" + made()[2:], "is an OS/2 bitmap array, not a BMP"),
    "png_file": (b"\x89PNG\r\n\x1a\n" + bytes(60), "is a PNG file, not a BMP"),
    "jpeg_file": (b"\xff\xd8\xff\xe0" + bytes(60), "is a JPEG file, not a BMP"),
    "text": (b"hello", "is no BMP: it must start with b'BM', got b'hell'"),
    "narrow_masks": (
        made(bits=32, masks=(0xFF000000, 0xFF0, 0xFF0000)),
        "has bit fields that aren't one whole byte each for red, green and blue (0xff000000, 0x00000ff0, 0x00ff0000)",
    ),
    "ten_bit_masks": (made(bits=32, masks=(0x3FF00000, 0xFFC00, 0x3FF)), "has bit fields that aren't one whole byte"),
    "equal_masks": (made(bits=32, masks=(0xFF, 0xFF00, 0xFF)), "has bit fields that aren't one whole byte"),
    "no_masks": (made(bits=32, masks=(0, 0, 0)), "has bit fields that aren't one whole byte"),
    "mask_outside_24_bits": (made(masks=(0xFF000000, 0xFF00, 0xFF)), "has bit fields that aren't one whole byte"),
}

BROKEN = {
    "empty": (b"", "must hold a BMP header, got 0 bytes"),
    "file_header_only": (made()[:17], "must hold a BMP header, got 17 bytes"),
    "half_a_header": (made()[:40], "must hold a BITMAPINFOHEADER header of 40 bytes, got 26"),
    "half_a_v4": (made(header_size=108)[:90], "must hold a V4 header of 108 bytes, got 76"),
    "half_a_v5": (made(header_size=124)[:100], "must hold a V5 header of 124 bytes, got 86"),
    "half_the_masks": (made(bits=32, masks=(0xFF0000, 0xFF00, 0xFF))[:60], "must hold three bit field masks, got 6"),
    "width_0": (made(width=0), "must have a width (biWidth) of at least 1, got 0"),
    "width_negative": (made(width=-5), "must have a width (biWidth) of at least 1, got -5"),
    "height_0": (made(height=0), "must have a height (biHeight) other than 0 and -2**31, got 0"),
    "height_int32_min": (made(height=-(2**31)), "other than 0 and -2**31, got -2147483648"),
    "planes": (made(planes=3), "must have 1 plane (biPlanes), got 3"),
    "no_planes": (made(planes=0), "must have 1 plane (biPlanes), got 0"),
    "offset_0": (made(offset=0), "must have its pixels (bfOffBits) at byte 54, behind its headers, or later, got 0"),
    "offset_in_the_header": (made(offset=53), "at byte 54, behind its headers, or later, got 53"),
    "offset_in_the_masks": (
        made(bits=32, masks=(0xFF0000, 0xFF00, 0xFF), offset=54),
        "at byte 66, behind its headers, or later, got 54",
    ),
    "offset_behind_the_end": (made(offset=2**32 - 1), "got 118"),
    "one_byte_short": (
        made(cut_last_padding=True)[:-1],
        "must hold 117 bytes for 5 x 4 pixels of 3 bytes from byte 54 on, got 116",
    ),
    "taller": (made(height=5), "must hold 133 bytes for 5 x 5 pixels"),
    "much_taller": (made(height=2**31 - 1), "for 5 x 2147483647 pixels of 3 bytes from byte 54 on, got 118"),
    "much_wider": (made(width=2**31 - 1, height=-(2**31) + 1), "for 2147483647 x 2147483647 pixels"),
}


@pytest.mark.parametrize(("content", "text"), OTHER_KINDS.values(), ids=OTHER_KINDS.keys())
def test_another_kind_is_named_with_the_way_out(content: bytes, text: str, tmp_path: Path) -> None:
    path = tmp_path / "picture.bmp"
    path.write_bytes(content)
    with pytest.raises(ValueError) as caught:
        read_bmp(path, 16)
    message = str(caught.value)
    assert message.startswith(f"read_bmp: {path} {text}")
    assert "convert it with Pillow: PIL.Image.open(file).convert('RGB').save('converted.bmp')" in message


@pytest.mark.parametrize(("content", "text"), BROKEN.values(), ids=BROKEN.keys())
def test_a_file_that_contradicts_itself_is_named(content: bytes, text: str) -> None:
    with pytest.raises(ValueError) as caught:
        read_bmp([made(), content], 16)
    message = str(caught.value)
    assert message.startswith("read_bmp: files[1] (bytes) must") and text in message
    assert message.endswith("the file is truncated or its header is wrong")


def test_every_truncation_is_refused() -> None:
    for content in (made(cut_last_padding=True), made(bits=32, header_size=124, gap=11, top_down=True)):
        read_bmp(content, 1)
        for length in range(len(content)):
            with pytest.raises(ValueError, match=r"^read_bmp: files\[0\] \(bytes\) "):
                read_bmp(content[:length], 1)


def test_a_hostile_header_allocates_no_more_than_the_file_holds() -> None:
    hostile = [
        made(width=2**31 - 1, height=2**31 - 1), made(offset=2**32 - 1), made(height=2**31 - 1, size_image=2**32 - 1),
        start_of(2**32 - 1), made(colours=2**32 - 1, height=10**9),
    ]  # fmt: skip
    tracemalloc.start()
    try:
        for content in hostile:
            with pytest.raises(ValueError, match="read_bmp"):
                read_bmp(content, 1)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_no_more_is_asked_of_a_stream_than_a_piece_at_a_time() -> None:
    asked = []

    class Watched(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            asked.append(size)
            return super().read(size)

    with pytest.raises(ValueError, match="read_bmp"):
        read_bmp(Watched(made(width=2**31 - 1, height=2**31 - 1)), 1)
    assert all(isinstance(size, int) and 0 < size <= 2**20 for size in asked)


@pytest.mark.parametrize(
    ("patch_size", "window", "text"),
    [
        (0, 1, "read_bmp: patch_size must be in [1, 64], got 0"),
        (65, 1, "read_bmp: patch_size must be in [1, 64], got 65"),
        (16, 0, "read_bmp: window must be at least 1, got 0"),
    ],
)
def test_numbers_out_of_range(patch_size: int, window: int, text: str) -> None:
    with pytest.raises(ValueError) as caught:
        read_bmp(made(), patch_size, window)
    assert str(caught.value) == text


def test_wrong_types() -> None:
    with pytest.raises(TypeError, match="read_bmp: files must be a path, bytes or a binary file object"):
        read_bmp(7, 16)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"read_bmp: files\[1\] must be a path, bytes or .*, got float"):
        read_bmp([made(), 1.5], 16)  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"read_bmp: files\[0\] must be opened in binary mode, got a text file"):
        read_bmp(io.StringIO("BM"), 16)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="read_bmp: patch_size must be an int, got float"):
        read_bmp(made(), 1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="read_bmp: window must be an int, got str"):
        read_bmp(made(), 1, "2")  # type: ignore[arg-type]


def test_a_missing_path_is_the_system_s_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_bmp(tmp_path / "none.bmp", 16)
    with pytest.raises(IsADirectoryError):
        read_bmp(tmp_path, 16)


def test_a_file_object_with_a_name_is_named(tmp_path: Path) -> None:
    path = tmp_path / "short.bmp"
    path.write_bytes(made()[:30])
    with path.open("rb") as file, pytest.raises(ValueError, match=f"^read_bmp: {path} must"):
        read_bmp(file, 16)


@settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(
    changes=st.lists(st.tuples(st.integers(0, 137), st.integers(0, 255)), max_size=6),
    cut=st.integers(0, 250),
    header_size=st.sampled_from([40, 108, 124]),
    bits=st.sampled_from([24, 32]),
)
@example(changes=[(21, 0x80)], cut=0, header_size=40, bits=24)
def test_a_damaged_file_is_refused_or_read_within_itself(
    changes: list[tuple[int, int]], cut: int, header_size: int, bits: int
) -> None:
    content = bytearray(write_bmp(RGB, header_size=header_size, bits=bits, masks=(0xFF0000, 0xFF00, 0xFF)))
    for position, value in changes:
        if position < len(content):
            content[position] = value
    content = content[: len(content) - cut]
    check_within(bytes(content))


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(content=st.binary(max_size=200) | st.binary(max_size=200).map(lambda tail: start_of(40, 18) + tail))
def test_noise_is_refused_or_read_within_itself(content: bytes) -> None:
    check_within(content)


def check_within(content: bytes) -> None:
    try:
        batch = read_bmp(content, 1)
    except ValueError as error:
        assert str(error).startswith("read_bmp: files[0] (bytes) ")
        return
    assert batch.pixels.numel() <= len(content) + 3  # the padding of the last row may be added
    (offset, stride, height, width), size = batch.crops[0].tolist(), batch.bytes_per_pixel
    ends = (offset, offset + (height - 1) * stride)
    assert height > 0 and width > 0 and min(ends) >= 0 and max(ends) + width * size <= batch.pixels.numel()
