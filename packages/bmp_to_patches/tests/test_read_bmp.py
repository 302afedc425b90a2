"""Files that read_bmp takes: pixels against Pillow and against what was written."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from tilevl.bmp_to_patches import BmpBatch, bmp_to_patches, read_bmp
from tilevl.bmp_to_patches.preview import patches_to_image

from .bmp_files import noise, write_bmp

RED_BLUE = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [255, 255, 255]]], dtype=np.uint8)
ORDERS = {"RGBX": (0xFF, 0xFF00, 0xFF0000), "XRGB": (0xFF00, 0xFF0000, 0xFF000000), "GRXB": (0xFF00, 0xFF, 0xFF000000)}


def pixels_of(batch: BmpBatch, patch_size: int, window: int = 1) -> list[np.ndarray]:
    """The images that a batch holds, by way of the op."""
    patches = bmp_to_patches(*batch[:4], patch_size, 0.0, 1.0, batch.bytes_per_pixel, window, torch.float32)
    parts = patches.split(batch.cu_patches.diff().tolist())
    sizes = batch.crops[:, 2:].tolist()
    return [
        patches_to_image(part, *size, patch_size, 0.0, 1.0, window).numpy()
        for part, size in zip(parts, sizes, strict=True)
    ]


def pixels_in(file: Any, patch_size: int = 1) -> np.ndarray:
    return pixels_of(read_bmp(file, patch_size), patch_size)[0]


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(
    height=st.integers(1, 9),
    width=st.integers(1, 9),
    bits=st.sampled_from([24, 32]),
    top_down=st.booleans(),
    header_size=st.sampled_from([40, 108, 124]),
    gap=st.integers(0, 50),
    cut=st.booleans(),
    size_image=st.sampled_from([0, 1, 16, 2**32 - 1]),
    file_size=st.sampled_from([0, 7, 2**32 - 1]),
    seed=st.integers(0, 2**31),
)
def test_every_taken_layout_is_read_as_written_and_as_pillow_reads_it(
    height: int, width: int, bits: int, top_down: bool, header_size: int, gap: int, cut: bool,
    size_image: int, file_size: int, seed: int,
) -> None:  # fmt: skip
    rgb = noise(seed, height, width)
    content = write_bmp(
        rgb, bits=bits, top_down=top_down, header_size=header_size, gap=gap, cut_last_padding=cut,
        size_image=size_image, file_size=file_size,
    )  # fmt: skip
    seen = pixels_in(content)
    assert np.array_equal(seen, rgb)
    assert np.array_equal(seen, np.asarray(Image.open(io.BytesIO(content)).convert("RGB")))


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_files_that_pillow_writes(mode: str) -> None:
    image = Image.fromarray(noise(3, 10, 7)).convert(mode)
    stream = io.BytesIO()
    image.save(stream, format="BMP")
    assert np.array_equal(pixels_in(stream.getvalue()), noise(3, 10, 7))


@pytest.mark.parametrize("size_image", [0, 16, 1, 0xFFFFFFFF])
def test_size_image_is_ignored(size_image: int) -> None:
    assert np.array_equal(pixels_in(write_bmp(RED_BLUE, size_image=size_image)), RED_BLUE)


def test_top_down_and_bottom_up_in_one_batch() -> None:
    batch = read_bmp([write_bmp(RED_BLUE, top_down=True), write_bmp(RED_BLUE)], patch_size=2)
    assert batch.crops.tolist() == [[0, 8, 2, 2], [24, -8, 2, 2]]
    for image in pixels_of(batch, 2):
        assert np.array_equal(image, RED_BLUE)


@pytest.mark.parametrize("width", range(1, 9))
def test_rows_are_padded_to_four_bytes(width: int) -> None:
    stride = [4, 8, 12, 12, 16, 20, 24, 24][width - 1]
    batch = read_bmp(write_bmp(noise(width, 3, width)), patch_size=1)
    assert batch.crops.tolist() == [[2 * stride, -stride, 3, width]]
    assert np.array_equal(pixels_of(batch, 1)[0], noise(width, 3, width))


def test_the_last_row_may_lack_its_padding() -> None:
    whole, cut = write_bmp(RED_BLUE), write_bmp(RED_BLUE, cut_last_padding=True)
    assert len(whole) - len(cut) == 2
    assert np.array_equal(pixels_in([cut, whole][0]), RED_BLUE)
    batch = read_bmp([cut, whole], 2)
    assert (
        batch.pixels.numel() == 32
    )  # the missing padding is filled in, so that the next image starts at a multiple of 4
    assert all(np.array_equal(image, RED_BLUE) for image in pixels_of(batch, 2))
    with pytest.raises(ValueError, match="truncated"):
        read_bmp(cut[:-1], 1)


@pytest.mark.parametrize("header_size", [40, 108, 124])
@pytest.mark.parametrize("channels", ["BGRX", *ORDERS])
def test_bit_fields_of_whole_bytes_are_read_in_any_order(channels: str, header_size: int) -> None:
    masks = ORDERS.get(channels, (0xFF0000, 0xFF00, 0xFF))
    content = write_bmp(noise(5, 4, 3), bits=32, header_size=header_size, masks=masks, channels=channels)
    batch = read_bmp(content, 1)
    assert batch.bytes_per_pixel == (4 if channels == "BGRX" else 3)
    assert np.array_equal(pixels_of(batch, 1)[0], noise(5, 4, 3))


def test_bit_fields_at_24_bits_are_read() -> None:
    usual = write_bmp(noise(6, 3, 5), masks=(0xFF0000, 0xFF00, 0xFF))
    other = write_bmp(noise(6, 3, 5), masks=(0xFF, 0xFF00, 0xFF0000), channels="RGB")
    for content in (usual, other):
        assert np.array_equal(pixels_in(content), noise(6, 3, 5))
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(usual))), noise(6, 3, 5))


def test_v4_masks_without_bit_fields_are_ignored() -> None:
    content = write_bmp(RED_BLUE, bits=32, header_size=108, masks=(1, 2, 3), compression=0)
    assert np.array_equal(pixels_in(content), RED_BLUE)


def test_a_mixed_batch_has_three_bytes_per_pixel() -> None:
    files = [write_bmp(noise(i, 5 + i, 7), bits=bits, top_down=i == 1) for i, bits in enumerate((32, 32, 24))]
    batch = read_bmp(files, 1)
    assert batch.bytes_per_pixel == 3
    for i, image in enumerate(pixels_of(batch, 1)):
        assert np.array_equal(image, noise(i, 5 + i, 7))
    assert read_bmp(files[:2], 1).bytes_per_pixel == 4


@pytest.mark.parametrize("window", [1, 2, 3])
@pytest.mark.parametrize("top_down", [False, True])
def test_crops_are_trimmed_to_whole_windows(window: int, top_down: bool) -> None:
    rgb = noise(7, 41, 50)
    batch = read_bmp(write_bmp(rgb, top_down=top_down), patch_size=4, window=window)
    height, width = 41 // (4 * window) * 4 * window, 50 // (4 * window) * 4 * window
    assert batch.crops[0, 2:].tolist() == [height, width]
    assert batch.cu_patches.tolist() == [0, height * width // 16] and batch.total_patches == height * width // 16
    assert np.array_equal(pixels_of(batch, 4, window)[0], rgb[:height, :width])


def test_an_image_smaller_than_a_window_has_no_patches() -> None:
    batch = read_bmp([write_bmp(RED_BLUE), write_bmp(noise(8, 4, 4))], patch_size=2, window=2)
    assert batch.cu_patches.tolist() == [0, 0, 4]
    assert np.array_equal(pixels_of(batch, 2, 2)[1], noise(8, 4, 4))


def test_no_files_make_an_empty_batch() -> None:
    batch = read_bmp([], 16)
    assert [tuple(t.shape) for t in batch[:3]] == [(0,), (0, 4), (1,)] and batch[3:] == (0, 3)
    assert bmp_to_patches(*batch[:4], 16, 0.5, 0.5).shape == (0, 768)


def test_paths_bytes_and_file_objects(tmp_path: Path) -> None:
    content = write_bmp(RED_BLUE)
    path = tmp_path / "a page.bmp"
    path.write_bytes(content)
    sources: list[Callable[[], Any]] = [
        lambda: path, lambda: str(path), lambda: content, lambda: bytearray(content), lambda: memoryview(content),
        lambda: io.BytesIO(content), lambda: (source for source in [path, content]), lambda: (content, path),
    ]  # fmt: skip
    for source in sources:
        assert np.array_equal(pixels_in(source(), 2), RED_BLUE)
    with path.open("rb") as file:
        assert np.array_equal(pixels_in(file, 2), RED_BLUE)
        assert not file.closed and file.tell() == len(content) - 2  # behind the last pixel, before its padding


def test_a_file_object_is_read_from_where_it_stands() -> None:
    stream = io.BytesIO(b"before" + write_bmp(RED_BLUE, gap=9) + b"after")
    stream.seek(6)
    assert np.array_equal(pixels_in(stream, 2), RED_BLUE)
    assert not stream.closed


def test_a_stream_that_gives_little_at_a_time_and_cannot_seek() -> None:
    class Trickle(io.RawIOBase):
        def __init__(self, content: bytes) -> None:
            self.left = content

        def read(self, size: int = -1) -> bytes:
            piece, self.left = self.left[: min(size, 3)], self.left[min(size, 3) :]
            return piece

    assert np.array_equal(pixels_in(Trickle(write_bmp(noise(9, 6, 5), gap=20))), noise(9, 6, 5))


def test_a_memoryview_of_wider_elements_is_taken_as_bytes() -> None:
    content = write_bmp(RED_BLUE)
    content += bytes(-len(content) % 4)
    assert np.array_equal(pixels_in(memoryview(content).cast("I"), 2), RED_BLUE)


def test_a_memoryview_with_gaps_is_taken_as_what_it_shows() -> None:
    spread = bytes(byte for pair in zip(write_bmp(RED_BLUE), itertools.repeat(0xEE)) for byte in pair)
    assert np.array_equal(pixels_in(memoryview(spread)[::2], 2), RED_BLUE)


def test_the_batch_owns_its_memory() -> None:
    content = bytearray(write_bmp(RED_BLUE))
    batch = read_bmp(content, 2)
    content[:] = bytes(len(content))
    assert np.array_equal(pixels_of(batch, 2)[0], RED_BLUE)


def test_dtypes_and_device_do_not_follow_torch_s_defaults() -> None:
    with torch.device("meta"):
        batch = read_bmp([write_bmp(RED_BLUE), write_bmp(RED_BLUE, bits=32)], 2)
    assert [t.dtype for t in batch[:3]] == [torch.uint8, torch.int64, torch.int64]
    assert all(t.device.type == "cpu" and t.is_contiguous() for t in batch[:3])
