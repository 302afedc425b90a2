"""Prompts with images for the whole models, as their processors would write them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor

from .models import IMAGE_TOKEN, PATCH, VIDEO_TOKEN, pixels

TOKENS = {"deepseek_ocr2": 144 + 1, "got_ocr2": 9}  # of one image of 10 x 10 patches


def ids(rng: Generator, *runs: tuple[int, int]) -> Tensor:
    """One prompt: text, and after it each run of a token, with text between and behind."""
    parts = [torch.randint(3, 80, (4,), generator=rng)]
    for token, count in runs:
        parts += [torch.full((count,), token), torch.randint(3, 80, (2,), generator=rng)]
    return torch.cat(parts)


def of_pixels(family: str, rng: Generator) -> dict[str, Any]:
    """Two prompts for DeepSeek-OCR-2 or GOT-OCR-2: two images in the first, one in the second, which is padded."""
    run = IMAGE_TOKEN, TOKENS[family]
    first, second = ids(rng, run, run), ids(rng, run)
    padded = torch.cat([torch.zeros(len(first) - len(second), dtype=torch.long), second])
    mask = torch.stack([torch.ones_like(first), (torch.arange(len(first)) >= len(first) - len(second)).long()])
    return {"input_ids": torch.stack([first, padded]), "attention_mask": mask, "pixel_values": pixels(rng, images=3)}


def of_patches(rng: Generator) -> dict[str, Any]:
    """One prompt for a Qwen: two images of other grids, and a video of two frames."""
    images, videos = torch.tensor([[1, 4, 6], [1, 8, 2]]), torch.tensor([[2, 2, 4]])
    runs = [(IMAGE_TOKEN, 6), (IMAGE_TOKEN, 4), (VIDEO_TOKEN, 4)]
    input_ids = ids(rng, *runs)[None]
    kinds = (input_ids == IMAGE_TOKEN).int() + 2 * (input_ids == VIDEO_TOKEN).int()
    width = 3 * 2 * PATCH**2
    return {
        "input_ids": input_ids,
        "pixel_values": torch.randn(24 + 16, width, generator=rng),
        "image_grid_thw": images,
        "pixel_values_videos": torch.randn(16, width, generator=rng),
        "video_grid_thw": videos,
        "mm_token_type_ids": kinds,
    }


def of(family: str, rng: Generator) -> dict[str, Any]:
    """A prompt for a family."""
    return of_pixels(family, rng) if family in TOKENS else of_patches(rng)


def on(device: torch.device, dtype: torch.dtype, prompt: dict[str, Tensor]) -> dict[str, Tensor]:
    """A prompt on a device, its floats in a dtype."""
    return {name: t.to(device, dtype) if t.is_floating_point() else t.to(device) for name, t in prompt.items()}
