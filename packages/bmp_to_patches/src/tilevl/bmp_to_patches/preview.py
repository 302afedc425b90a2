"""Patches back to images, so that a person sees their orientation, colours and order."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tilevl.bmp_to_patches import contract

if TYPE_CHECKING:
    from PIL import Image


def patches_to_image(
    patches: Tensor,
    height: int,
    width: int,
    patch_size: int,
    mean: float | Sequence[float],
    std: float | Sequence[float],
    window: int = 1,
) -> Tensor:
    """Puts the patches of one crop together again and undoes the normalisation.

    Args:
        patches: any float dtype, ``[rows * columns, 3 * patch_size * patch_size]``, the crop's rows of a result of
            ``bmp_to_patches``; ``rows = height // patch_size`` and ``columns = width // patch_size``.
        height: of the crop, in pixels.
        width: of the crop, in pixels.
        patch_size: side of a patch in pixels.
        mean: as given to ``bmp_to_patches``.
        std: as given to ``bmp_to_patches``.
        window: as given to ``bmp_to_patches``.

    Returns:
        uint8 ``[rows * patch_size, columns * patch_size, 3]``, R G B, top row first. Codes come back exactly from
        float32 and float16; bfloat16 can be one off where its steps are wider than a code's (from 2 on with CLIP's
        constants).

    Raises:
        ValueError: shapes and numbers don't fit together.
    """
    means, stds = ([float(v)] * 3 if isinstance(v, int | float) else [*map(float, v)] for v in (mean, std))
    contract.check_constants("patches_to_image", means, stds)
    for name, value, low in (
        ("height", height, 0), ("width", width, 0), ("patch_size", patch_size, 1), ("window", window, 1),
    ):  # fmt: skip
        if value < low:
            raise ValueError(f"patches_to_image: {name} must be at least {low}, got {value}")
    rows, columns = height // patch_size, width // patch_size
    shape = (rows * columns, 3 * patch_size * patch_size)
    if patches.shape != shape:
        raise ValueError(f"patches_to_image: patches must be {[*shape]}, got {[*patches.shape]}")
    if rows * columns and (rows % window or columns % window):
        raise ValueError(
            f"patches_to_image: the patch grid must be a multiple of window, {window}, got {rows} x {columns} patches"
        )
    if not rows * columns:
        return patches.new_empty((rows * patch_size, columns * patch_size, 3), dtype=torch.uint8)
    grid = patches.double().view(rows // window, columns // window, window, window, 3, patch_size, patch_size)
    image = grid.permute(0, 2, 5, 1, 3, 6, 4).reshape(rows * patch_size, columns * patch_size, 3)
    codes = (image * image.new_tensor(stds) + image.new_tensor(means)) * 255
    return codes.round().clamp(0, 255).to(torch.uint8)


def save_png(images: Sequence[Tensor], path: Path) -> list[Path]:
    """Writes images as PNG files: one to ``path``, several to ``name-1.png``, ``name-2.png`` and so on beside it.

    Every file is written under a temporary name first, so that none is ever seen half-written; a failure leaves what
    was there before.

    Args:
        images: uint8 ``[height, width, 3]`` each, R G B.
        path: where they go; its suffix must be ``.png``.

    Returns:
        The files written.

    Raises:
        ValueError: the suffix is another one, or there is no image, or one has no pixels.
        ImportError: Pillow isn't installed.
        OSError: the folder can't be written.
    """
    if path.suffix.lower() != ".png":
        raise ValueError(f"save_png: path must end in .png, got {path}")
    if not images or not all(image.numel() for image in images):
        raise ValueError("save_png: images must be at least one, with pixels, got none")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"save_png: path must lie in a folder that exists, got {path}")
    pictures = [_picture(image) for image in images]
    finals = [path] if len(images) == 1 else [path.with_stem(f"{path.stem}-{i}") for i in range(1, len(images) + 1)]
    drafts = [final.with_name(f".{final.name}.{os.getpid()}.part") for final in finals]
    try:
        for picture, draft in zip(pictures, drafts, strict=True):
            with draft.open("xb") as file:
                picture.save(file, format="PNG")
        for draft, final in zip(drafts, finals, strict=True):
            draft.replace(final)
    finally:
        for draft in drafts:
            draft.unlink(missing_ok=True)
    return finals


def _picture(image: Tensor) -> Image.Image:
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("a preview needs Pillow: pip install 'tilevl-bmp-to-patches[preview]'") from error
    height, width, _ = image.shape
    image = image.cpu().contiguous()
    return Image.frombytes("RGB", (width, height), ctypes.string_at(image.data_ptr(), image.numel()))  # no numpy needed
