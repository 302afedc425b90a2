"""``python -m tilevl.bmp_to_patches``: output, exit codes, one-line errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tilevl.bmp_to_patches import __version__
from tilevl.bmp_to_patches.__main__ import main

from .bmp_files import noise, write_bmp


@pytest.fixture
def pages(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "first.bmp", tmp_path / "second.bmp"]
    paths[0].write_bytes(write_bmp(noise(1, 35, 50)))
    paths[1].write_bytes(write_bmp(noise(2, 16, 32), bits=32, top_down=True))
    return paths


def test_alone_it_is_a_smoke_test() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tilevl.bmp_to_patches"], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert f"tilevl-bmp-to-patches {__version__}" in done.stdout and "target cpu: available here" in done.stdout
    assert (
        "worked value: [[1.0, 0.0, 0.0, 0.400390625, 0.0, 1.0, 0.0, 0.0, 0.2001953125, 0.0, 1.0, 0.0]]" in done.stdout
    )


@pytest.mark.parametrize("window", [1, 2])
def test_a_preview_is_the_image_without_its_remainder(
    window: int, pages: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.png"
    assert main([str(pages[0]), "--preview", str(out), "--patch-size", "8", "--window", str(window)]) == 0
    assert np.array_equal(np.asarray(Image.open(out)), noise(1, 35, 50)[:32, :48])
    assert capsys.readouterr().out == f"{pages[0]}: 24 patches of 8 x 8 from 48 x 32 pixels\nwritten: {out}\n"


def test_several_files_give_numbered_previews(pages: list[Path], tmp_path: Path) -> None:
    assert main([*map(str, pages), "--preview", str(tmp_path / "out.png")]) == 0
    assert np.array_equal(np.asarray(Image.open(tmp_path / "out-1.png")), noise(1, 35, 50)[:32, :48])
    assert np.array_equal(np.asarray(Image.open(tmp_path / "out-2.png")), noise(2, 16, 32))
    assert not (tmp_path / "out.png").exists()


def test_without_a_preview_it_counts(pages: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*map(str, pages)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{pages[0]}: 6 patches of 16 x 16 from 48 x 32 pixels",
        f"{pages[1]}: 2 patches of 16 x 16 from 32 x 16 pixels",
    ]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["broken.bmp", "--preview", "out.png"], "read_bmp: broken.bmp must hold a BMP header, got 2 bytes"),
        (["none.bmp"], "No such file or directory: 'none.bmp'"),
        (["."], "Is a directory: '.'"),
        (["first.bmp", "broken.bmp", "--preview", "out.png"], "read_bmp: broken.bmp must hold a BMP header"),
        (["first.bmp", "--preview", "out.jpg"], "path must end in .png, got out.jpg"),
        (["first.bmp", "--preview", "none/out.png"], "path must lie in a folder that exists, got none/out.png"),
        (["first.bmp", "--patch-size", "0"], "read_bmp: patch_size must be in [1, 64], got 0"),
        (["first.bmp", "--window", "0"], "read_bmp: window must be at least 1, got 0"),
        (
            ["first.bmp", "--patch-size", "64", "--preview", "out.png"],
            "first.bmp is smaller than a window of 1 x 1 patches",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_1(
    arguments: list[str],
    text: str,
    pages: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.bmp").write_bytes(b"BM")
    before = sorted(tmp_path.iterdir())
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ") and captured.err.count("\n") == 1 and text in captured.err
    assert captured.out == "" and sorted(tmp_path.iterdir()) == before


def test_a_preview_of_nothing_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--preview", "out.png"])
    assert caught.value.code == 2
    assert "--preview needs at least one FILE" in capsys.readouterr().err
