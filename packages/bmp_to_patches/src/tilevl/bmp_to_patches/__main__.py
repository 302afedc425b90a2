"""``python -m tilevl.bmp_to_patches``: a smoke test, or what becomes of BMP files, as numbers and as pictures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from tilevl.bmp_to_patches import bmp_to_patches, read_bmp
from tilevl.bmp_to_patches.preview import patches_to_image, save_png
from tilevl.core import smoke

MEAN = STD = 0.5


def example() -> tuple[object, object]:
    """A 2 x 2 image, bottom-up: (255, 0, 51) and (0, 255, 0) over (0, 0, 255) and (102, 0, 0)."""
    pixels = torch.tensor([255, 0, 0, 0, 0, 102, 0, 0, 51, 0, 255, 0, 255, 0, 0, 0], dtype=torch.uint8)
    crops, cu_patches = torch.tensor([[8, -8, 2, 2]]), torch.tensor([0, 1])
    patches = bmp_to_patches(pixels, crops, cu_patches, 1, 2, 0.0, 1.0)
    planes = [[1.0, 0.0, 0.0, 0.4], [0.0, 1.0, 0.0, 0.0], [0.2, 0.0, 1.0, 0.0]]
    return patches.tolist(), torch.tensor(planes, dtype=torch.bfloat16).view(1, -1).tolist()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code of the process."""
    parser = argparse.ArgumentParser(
        prog="python -m tilevl.bmp_to_patches",
        description="Without files: a smoke test. With files: reads them, makes patches, says how many; with --preview "
        "also puts the images together again from the patches.",
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="BMP files of 24 or 32 bits per pixel")
    parser.add_argument(
        "--preview", type=Path, metavar="OUT.png", help="of several files the pictures are OUT-1.png, OUT-2.png, ..."
    )
    parser.add_argument("--patch-size", type=int, default=16, metavar="N", help="pixels, 1 to 64 (default 16)")
    parser.add_argument("--window", type=int, default=1, metavar="W", help="windows of W x W patches (default 1)")
    options = parser.parse_args(arguments)
    if not options.files:
        if options.preview is not None:
            parser.error("--preview needs at least one FILE")
        return smoke.run("tilevl.bmp_to_patches", example)
    try:
        lines = show(options.files, options.patch_size, options.window, options.preview)
    except (ValueError, OSError, ImportError) as error:  # bad files or numbers, unreadable paths, no Pillow
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def show(files: Sequence[str], patch_size: int, window: int, preview: Path | None) -> list[str]:
    """Sends files through read_bmp and bmp_to_patches, and back into pictures where a preview is wanted.

    Returns:
        A line for each file, and one for each picture.
    """
    batch = read_bmp(files, patch_size, window)
    constants = (patch_size, MEAN, STD)
    patches = bmp_to_patches(*batch[:4], *constants, batch.bytes_per_pixel, window, torch.float32)
    lines, images = [], []
    for file, (_, _, height, width), part in zip(
        files, batch.crops.tolist(), patches.split(batch.cu_patches.diff().tolist()), strict=True
    ):
        lines.append(f"{file}: {part.shape[0]} patches of {patch_size} x {patch_size} from {width} x {height} pixels")
        if preview is not None:
            if not part.shape[0]:
                raise ValueError(f"{file} is smaller than a window of {window} x {window} patches: nothing to show")
            images.append(patches_to_image(part, height, width, *constants, window))
    if preview is not None:
        lines += [f"written: {path}" for path in save_png(images, preview)]
    return lines


if __name__ == "__main__":
    sys.exit(main())
