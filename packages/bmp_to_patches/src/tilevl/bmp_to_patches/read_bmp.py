"""BMP files to what bmp_to_patches takes: the pixel arrays as they are, and four numbers for each image."""

from __future__ import annotations

import io
import itertools
import operator
import os
from collections.abc import Iterable
from typing import IO, NamedTuple, TypeAlias

import torch
from torch import Tensor

from tilevl.bmp_to_patches import contract
from tilevl.bmp_to_patches.bmp_header import BmpHeader, broken, padded_row, read_header

BytesLike: TypeAlias = "bytes | bytearray | memoryview"
BmpFile: TypeAlias = "str | os.PathLike[str] | BytesLike | IO[bytes]"

_PIECE = 2**20  # bytes per read: a size from a header is never allocated before the file has shown that it holds it


class BmpBatch(NamedTuple):
    """Arguments of ``bmp_to_patches`` for a batch of images, on the host.

    Attributes:
        pixels: uint8 ``[num_bytes]``, the pixel arrays one after another; each starts at a multiple of 4.
        crops: int64 ``[num_images, 4]``: byte offset of the top-left pixel, signed row stride in bytes, height and
            width in pixels; the size is cut down to whole windows, from the right and the bottom.
        cu_patches: int64 ``[num_images + 1]``, prefix sums of the patch counts.
        total_patches: the last of them.
        bytes_per_pixel: 4 if every file has 32 bits per pixel, else 3.
    """

    pixels: Tensor
    crops: Tensor
    cu_patches: Tensor
    total_patches: int
    bytes_per_pixel: int


def read_bmp(files: BmpFile | Iterable[BmpFile], patch_size: int, window: int = 1) -> BmpBatch:
    """Reads BMP files of 24 or 32 bits per pixel, without decoding them.

    Taken are BITMAPINFOHEADER, V4 and V5 headers, bottom-up and top-down files, a gap before the pixels, and bit fields
    whose red, green and blue masks are one whole byte each. A batch that mixes 24 and 32 bits, or in which bit fields
    have another order than B G R, is brought to 3 bytes per pixel. The padding of the last row may be missing. An image
    smaller than a window has 0 patches. The fourth byte of a pixel (alpha) is ignored.

    Args:
        files: a path, the bytes of a file (bytes, bytearray, memoryview) or a binary file object, or several of them.
            A file object is read from where it stands to the end of its pixels, and stays open.
        patch_size: side of a patch in pixels, 1 to 64.
        window: side of a window in patches, at least 1.

    Returns:
        The batch, in the order of ``files``, in CPU memory.

    Raises:
        ValueError: a file is of another kind (palette, RLE, 16-bit, OS/2, V2 and V3 headers, other formats), truncated,
            or contradicts itself; ``patch_size`` or ``window`` is out of range. The message names the file.
        TypeError: one of ``files`` is none of these, or a file object in text mode; ``patch_size`` or ``window`` is no
            int.
        OSError: a path can't be read.

    Example:
        >>> batch = read_bmp(["page-1.bmp", "page-2.bmp"], patch_size=16)  # doctest: +SKIP
        >>> bmp_to_patches(*batch[:4], 16, 0.5, 0.5, batch.bytes_per_pixel)  # doctest: +SKIP
    """
    patch_size, window = _whole("patch_size", patch_size), _whole("window", window)
    if not 1 <= patch_size <= contract.MAX_PATCH_SIZE:
        raise ValueError(f"read_bmp: patch_size must be in [1, {contract.MAX_PATCH_SIZE}], got {patch_size}")
    if window < 1:
        raise ValueError(f"read_bmp: window must be at least 1, got {window}")
    images = [_read(file, position) for position, file in enumerate(_listed(files))]
    bytes_per_pixel = 3
    if images and all(header.bytes_per_pixel == 4 and header.order == (0, 1, 2) for header, _ in images):
        bytes_per_pixel = 4
    arrays, crops, counts, position = [], [], [], 0
    for header, array in images:
        if (header.bytes_per_pixel, header.order) != (bytes_per_pixel, (0, 1, 2)):
            array = _repacked(header, array)
        stride = padded_row(header.width, bytes_per_pixel)
        height, width = (size - size % (patch_size * window) for size in (header.height, header.width))
        crops.append(
            [position, stride, height, width]
            if header.top_down
            else [position + (header.height - 1) * stride, -stride, height, width]
        )
        counts.append((height // patch_size) * (width // patch_size))
        arrays.append(array)
        position += array.numel()
    sums = [0, *itertools.accumulate(counts)]
    return BmpBatch(
        torch.cat(arrays) if arrays else _tensor([], torch.uint8),
        _tensor(crops, torch.int64).view(-1, 4),
        _tensor(sums, torch.int64),
        sums[-1],
        bytes_per_pixel,
    )


def _whole(name: str, value: int) -> int:
    try:
        return operator.index(value)
    except TypeError as error:
        raise TypeError(f"read_bmp: {name} must be an int, got {type(value).__name__}") from error


def _tensor(values: list[int] | list[list[int]], dtype: torch.dtype) -> Tensor:
    return torch.tensor(values, dtype=dtype, device="cpu")


def _listed(files: BmpFile | Iterable[BmpFile]) -> list[BmpFile]:
    if isinstance(files, (str, os.PathLike, bytes, bytearray, memoryview)) or hasattr(files, "read"):
        return [files]  # type: ignore[list-item]
    if isinstance(files, Iterable):
        return [*files]
    raise TypeError(_wrong_type("files", files))


def _wrong_type(name: str, value: object) -> str:
    kind = type(value).__name__
    return f"read_bmp: {name} must be a path, bytes or a binary file object, or several of them, got {kind}"


def _read(file: BmpFile, position: int) -> tuple[BmpHeader, Tensor]:
    if isinstance(file, (str, os.PathLike)):
        with open(file, "rb") as stream:
            return _read_image(_Source(stream, os.fspath(file)))
    if isinstance(file, (bytes, bytearray, memoryview)):
        # A view with gaps is no buffer for BytesIO.
        content = file.tobytes() if isinstance(file, memoryview) and not file.c_contiguous else file
        return _read_image(_Source(io.BytesIO(content), f"files[{position}] ({type(file).__name__})"))
    if hasattr(file, "read"):
        name = getattr(file, "name", None)
        return _read_image(_Source(file, name if isinstance(name, str) else f"files[{position}]"))
    raise TypeError(_wrong_type(f"files[{position}]", file))


class _Source:
    """A binary stream read piece by piece, with the bytes counted."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream = stream
        self.name = name
        self.position = 0

    def pieces(self, count: int) -> Iterable[bytes]:
        """The next ``count`` bytes in pieces; fewer at the end of the stream."""
        while count:
            piece = self._stream.read(min(count, _PIECE))
            if isinstance(piece, str):
                raise TypeError(f"read_bmp: {self.name} must be opened in binary mode, got a text file")
            if not piece:  # the end, or None from a non-blocking stream that has nothing yet
                return
            count -= len(piece)
            self.position += len(piece)
            yield piece

    def take(self, count: int) -> bytearray:
        """The next ``count`` bytes; fewer at the end of the stream."""
        taken = bytearray()
        for piece in self.pieces(count):
            taken += piece
        return taken

    def skip(self, count: int) -> None:
        """Reads past ``count`` bytes."""
        for _ in self.pieces(count):
            pass


def _read_image(source: _Source) -> tuple[BmpHeader, Tensor]:
    """The header, and the pixel array ``[height * row_stride]`` with the padding of its last row."""
    header = read_header(source, source.name)
    source.skip(header.offset - source.position)
    data = source.take(header.needed)
    if len(data) < header.needed:
        broken(
            source.name,
            f"must hold {header.offset + header.needed} bytes for {header.width} x {header.height} pixels of "
            f"{header.bytes_per_pixel} bytes from byte {header.offset} on, got {source.position}",
        )
    data += bytes(header.height * header.row_stride - header.needed)
    return header, torch.frombuffer(data, dtype=torch.uint8)


def _repacked(header: BmpHeader, array: Tensor) -> Tensor:
    """The pixel array with 3 bytes per pixel in the order B G R, rows in the order of the file."""
    height, width, bytes_per_pixel = header.height, header.width, header.bytes_per_pixel
    stride = padded_row(width, 3)
    packed = torch.zeros(height * stride, dtype=torch.uint8, device="cpu")
    source = array.as_strided((height, width, bytes_per_pixel), (header.row_stride, bytes_per_pixel, 1))
    target = packed.as_strided((height, width, 3), (stride, 3, 1))
    for channel, byte in enumerate(header.order):
        target[:, :, channel] = source[:, :, byte]
    return packed
