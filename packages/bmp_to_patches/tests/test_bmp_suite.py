"""The public-domain BMP suite beside the checkout: valid files are read as Pillow does or refused by kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tilevl.bmp_to_patches import read_bmp
from tilevl.testing import skip_unless

from .test_read_bmp import pixels_in

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "data" / "bmp"
READ = {"g-rgb24.bmp", "g-rgb24pal.bmp", "g-rgb32.bmp"}
NOT_IN_PILLOW = {"g-rgb32bf.bmp"}
REFUSED = {
    "g-pal1": "palette image (biBitCount 1)",
    "g-pal4": "palette image (biBitCount 4)",
    "g-pal4rle": "compressed with RLE4",
    "g-pal8": "palette image (biBitCount 8)",
    "g-pal8os2": "OS/2 1.x bitmap",
    "g-pal8rle": "compressed with RLE8",
    "g-rgb16": "16-bit image",
    "g-rgb16-565": "16-bit image",
    "g-rgb16-565pal": "16-bit image",
    "g-rgb32bf": "bit fields that aren't one whole byte each",
}


def suite(prefix: str) -> list[Path]:
    files = sorted(FOLDER.glob(f"{prefix}-*.bmp"))
    skip_unless(bool(files), "bmp_suite", f"no {prefix}-*.bmp in ../shared/data/bmp, seen from the repository's root")
    return files


def test_valid_files_are_read_as_pillow_reads_them_or_refused_by_kind() -> None:
    seen = set()
    for path in suite("g"):
        if path.name in READ:
            seen.add(path.name)
            assert np.array_equal(pixels_in(path), np.asarray(Image.open(path).convert("RGB"))), path.name
            continue
        kind = max((name for name in REFUSED if path.stem.startswith(name)), key=len)
        with pytest.raises(ValueError) as caught:
            read_bmp(path, 16)
        assert str(caught.value).startswith(f"read_bmp: {path} ") and REFUSED[kind] in str(caught.value), path.name
        assert "convert it with Pillow" in str(caught.value), path.name
    assert seen == READ


def test_the_way_out_that_the_message_names_works(tmp_path: Path) -> None:
    for path in suite("g"):
        if path.name in READ | NOT_IN_PILLOW:
            continue
        image = Image.open(path).convert("RGB")
        image.save(tmp_path / "converted.bmp")
        assert np.array_equal(pixels_in(tmp_path / "converted.bmp"), np.asarray(image)), path.name


def test_broken_files_are_refused() -> None:
    for path in suite("b"):
        with pytest.raises(ValueError) as caught:
            read_bmp(path, 16)
        assert str(caught.value).startswith(f"read_bmp: {path} "), path.name
