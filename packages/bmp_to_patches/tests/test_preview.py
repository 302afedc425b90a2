"""Patches back to images, and the PNG files made of them."""

from __future__ import annotations

import builtins
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from tilevl.bmp_to_patches import bmp_to_patches
from tilevl.bmp_to_patches.preview import patches_to_image, save_png

from .bmp_files import noise
from .cases import BF16, CLIP, FP16, FP32, HALF, IMAGENET


def patches_from(rgb: np.ndarray, patch_size: int, constants: tuple, window: int, dtype: torch.dtype) -> torch.Tensor:
    height, width, _ = rgb.shape
    pixels = torch.from_numpy(np.ascontiguousarray(rgb[:, :, ::-1])).flatten()
    count = (height // patch_size) * (width // patch_size)
    crops, sums = torch.tensor([[0, 3 * width, height, width]]), torch.tensor([0, count])
    return bmp_to_patches(pixels, crops, sums, count, patch_size, *constants, 3, window, dtype)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(
    rows=st.integers(0, 3), columns=st.integers(0, 3), patch_size=st.integers(1, 6), window=st.integers(1, 3),
    below=st.integers(0, 5), beside=st.integers(0, 5), seed=st.integers(0, 2**31),
    constants=st.sampled_from([CLIP, IMAGENET, HALF]), dtype=st.sampled_from([FP16, FP32]),
)  # fmt: skip
def test_image_to_patches_and_back(
    rows: int, columns: int, patch_size: int, window: int, below: int, beside: int, seed: int,
    constants: tuple, dtype: torch.dtype,
) -> None:  # fmt: skip
    height, width = rows * window * patch_size, columns * window * patch_size
    rgb = noise(seed, height + below % patch_size, width + beside % patch_size)
    patches = patches_from(rgb, patch_size, constants, window, dtype)
    image = patches_to_image(patches, rgb.shape[0], rgb.shape[1], patch_size, *constants, window)
    assert image.dtype == torch.uint8 and np.array_equal(image.numpy(), rgb[:height, :width])


def test_bfloat16_comes_back_within_one_code() -> None:
    rgb = np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(3, axis=2)
    image = patches_to_image(patches_from(rgb, 8, CLIP, 1, BF16), 16, 16, 8, *CLIP)
    assert np.abs(image.numpy().astype(int) - rgb).max() == 1
    half = patches_to_image(patches_from(rgb, 8, HALF, 1, BF16), 16, 16, 8, 0.5, 0.5)
    assert np.array_equal(half.numpy(), rgb)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"patches": torch.zeros(3, 12)}, "patches must be [4, 12], got [3, 12]"),
        ({"patches": torch.zeros(4, 13)}, "patches must be [4, 12], got [4, 13]"),
        ({"window": 4}, "the patch grid must be a multiple of window, 4, got 2 x 2 patches"),
        ({"window": 0}, "window must be at least 1, got 0"),
        ({"height": -1}, "height must be at least 0, got -1"),
        ({"patch_size": 0}, "patch_size must be at least 1, got 0"),
        ({"std": 0.0}, "std must be greater than 0, got 0.0 for channel R"),
        ({"mean": (0.5, 0.5)}, "mean must be 3 floats (R, G, B) or one for all, got 2"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], text: str) -> None:
    given_values = {"patches": torch.zeros(4, 12), "height": 4, "width": 4, "patch_size": 2, "mean": 0.5, "std": 0.5}
    with pytest.raises(ValueError) as caught:
        patches_to_image(**(given_values | change))
    assert str(caught.value) == f"patches_to_image: {text}"


def test_one_image_takes_the_name_and_several_are_numbered(tmp_path: Path) -> None:
    images = [torch.from_numpy(noise(i, 3 + i, 5)) for i in range(3)]
    assert save_png(images[:1], tmp_path / "one.png") == [tmp_path / "one.png"]
    several = save_png(images, tmp_path / "page.png")
    assert [path.name for path in several] == ["page-1.png", "page-2.png", "page-3.png"]
    for path, image in zip(several, images, strict=True):
        assert np.array_equal(np.asarray(Image.open(path)), image.numpy())
    assert {path.name for path in tmp_path.iterdir()} == {"one.png", "page-1.png", "page-2.png", "page-3.png"}
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(several[0].stat().st_mode) == 0o666 & ~umask


def test_a_strided_image_is_written_as_seen(tmp_path: Path) -> None:
    image = torch.from_numpy(noise(4, 6, 8))[1:, ::2].flip(0)
    save_png([image[:, 1:]], tmp_path / "a.png")
    assert np.array_equal(np.asarray(Image.open(tmp_path / "a.png")), image[:, 1:].numpy())


def test_a_failure_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "page-1.png").write_bytes(b"old")
    saved = Image.Image.save

    def fails_on_the_second(self: Image.Image, file: Any, **kinds: Any) -> None:
        saved(self, file, **kinds)
        if self.size == (5, 4):
            raise OSError("no space left")

    monkeypatch.setattr(Image.Image, "save", fails_on_the_second)
    with pytest.raises(OSError, match="no space left"):
        save_png([torch.from_numpy(noise(i, 3 + i, 5)) for i in range(2)], tmp_path / "page.png")
    assert [path.name for path in tmp_path.iterdir()] == ["page-1.png"]
    assert (tmp_path / "page-1.png").read_bytes() == b"old"


def test_bad_paths_and_images(tmp_path: Path) -> None:
    image = torch.from_numpy(noise(0, 2, 2))
    with pytest.raises(ValueError, match=r"save_png: path must end in \.png, got .*page\.jpg"):
        save_png([image], tmp_path / "page.jpg")
    with pytest.raises(FileNotFoundError, match="save_png: path must lie in a folder that exists"):
        save_png([image], tmp_path / "none" / "page.png")
    for images in ([], [image, image[:0]]):
        with pytest.raises(ValueError, match="save_png: images must be at least one, with pixels"):
            save_png(images, tmp_path / "page.png")
    assert not list(tmp_path.iterdir())


def test_without_pillow_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_pillow(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == "PIL":
            raise ImportError("No module named 'PIL'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_pillow)
    with pytest.raises(ImportError, match=r"pip install 'tilevl-bmp-to-patches\[preview\]'"):
        save_png([torch.from_numpy(noise(0, 2, 2))], tmp_path / "page.png")
    assert not list(tmp_path.iterdir())
