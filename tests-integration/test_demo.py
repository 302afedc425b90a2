"""The demo, as a person runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

DEMO = Path(__file__).parents[1] / "demo" / "demo.py"


def test_demo_rebuilds_its_page_from_the_patches(tmp_path: Path) -> None:
    shown = np.random.default_rng(7).integers(0, 256, (140, 200, 3), dtype=np.uint8)
    Image.fromarray(shown).save(tmp_path / "page.bmp")
    command = [sys.executable, str(DEMO), str(tmp_path / "page.bmp"), "--out", str(tmp_path)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "The compiled graph gives the bytes of eager mode: yes" in printed
    for step in ("bmp_to_patches", "attn_rel_h_rel_w", "prepare_image_attn_pos_id", "replace and shuffle"):
        assert step in printed
    rebuilt = np.asarray(Image.open(tmp_path / "page-from-patches.png")).astype(int)
    assert rebuilt.shape == (128, 192, 3)  # whole squares of 4 x 4 patches of 16 pixels
    assert np.abs(rebuilt - shown[:128, :192]).max() <= 1  # bfloat16 keeps 8 bits


def test_demo_refuses_a_page_that_is_not_there(tmp_path: Path) -> None:
    command = [sys.executable, str(DEMO), str(tmp_path / "none.bmp"), "--out", str(tmp_path)]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode == 2 and refused.stderr.startswith("demo: ") and "none.bmp" in refused.stderr
