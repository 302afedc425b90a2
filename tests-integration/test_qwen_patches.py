"""bmp_to_patches against the image processors of Qwen2-VL and Qwen2.5-VL, on the same pixels."""

from __future__ import annotations

import importlib.util
import io
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Generator, Tensor

from tilevl.bmp_to_patches import BmpBatch, bmp_to_patches, read_bmp

from . import small_models

PATCH, MERGE = 14, 2
CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
SIZES = [(56, 84), (28, 28), (140, 56), (56, 84)]  # height and width; two alike, which a processor may batch


@pytest.fixture(autouse=True)
def _transformers() -> None:
    small_models.need_transformers()


@pytest.fixture(params=["qwen2_vl", "qwen2_5_vl"])
def model(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def processor(model: str, backend: str) -> Any:
    """The image processor that transformers has for a model: ``pil``, or ``torchvision``, which is the fast one."""
    if backend == "torchvision" and importlib.util.find_spec("torchvision") is None:
        pytest.skip("the fast image processors need torchvision, which isn't installed")
    from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING_NAMES

    name = IMAGE_PROCESSOR_MAPPING_NAMES[model][backend]
    folder = "qwen2_vl"  # where the processor of both models lies
    module = f"image_processing_{'pil_' if backend == 'pil' else ''}{folder}"
    return getattr(importlib.import_module(f"transformers.models.{folder}.{module}"), name)()


def images(g: Generator, mode: str) -> list[Image.Image]:
    depth = len(mode)
    return [
        Image.fromarray(torch.randint(0, 256, (*size, depth), generator=g, dtype=torch.uint8).numpy(), mode)
        for size in SIZES
    ]


def bmp_of(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "BMP")
    return file.getvalue()


def patches(batch: BmpBatch, device: torch.device, window: int = MERGE, dtype: torch.dtype = torch.float32) -> Tensor:
    tensors = [tensor.to(device) for tensor in batch[:3]]
    result = bmp_to_patches(
        *tensors, batch.total_patches, PATCH, CLIP_MEAN, CLIP_STD, batch.bytes_per_pixel, window, dtype
    )
    return result.cpu()


def over_time(rows: Tensor, frames: int = 2) -> Tensor:
    """A still image's patches as a processor gives them: (channel, frame, row, column), each frame the same."""
    return rows.view(-1, 3, 1, PATCH * PATCH).expand(-1, 3, frames, PATCH * PATCH).flatten(1)


@pytest.mark.parametrize("backend", ["pil", "torchvision"])
def test_patches_are_those_of_the_image_processor(
    backend: str, model: str, device: torch.device, rng: Generator
) -> None:
    process = processor(model, backend)
    assert (tuple(process.image_mean), tuple(process.image_std)) == (CLIP_MEAN, CLIP_STD)
    assert (process.patch_size, process.merge_size, process.temporal_patch_size) == (PATCH, MERGE, 2)
    shown = images(rng, "RGB")
    theirs = process(shown, do_resize=False, return_tensors="pt")
    batch = read_bmp([bmp_of(image) for image in shown], PATCH, MERGE)
    ours = over_time(patches(batch, device))
    # The processor computes in float32, the op rounds the exact value once: of values up to 2 the last bits differ.
    torch.testing.assert_close(ours, theirs.pixel_values, rtol=0, atol=5e-7)
    grids = batch.crops[:, 2:] // PATCH
    assert theirs.image_grid_thw.tolist() == [[1, *grid] for grid in grids.tolist()]
    raster = over_time(patches(batch, device, window=1))
    assert (raster - theirs.pixel_values).abs().max() > 1  # the merge order is not the raster order


def test_bfloat16_patches_are_the_processor_s_rounded(model: str, device: torch.device, rng: Generator) -> None:
    shown = images(rng, "RGB")
    theirs = processor(model, "pil")(shown, do_resize=False, return_tensors="pt").pixel_values
    ours = patches(read_bmp([bmp_of(image) for image in shown], PATCH, MERGE), device, dtype=torch.bfloat16)
    assert torch.equal(over_time(ours), theirs.bfloat16())


def test_alpha_of_a_32_bit_file_is_left_out_as_by_the_processor(
    model: str, device: torch.device, rng: Generator
) -> None:
    shown = images(rng, "RGBA")
    opaque = [Image.fromarray(np.asarray(image)[:, :, :3].copy()) for image in shown]
    theirs = processor(model, "pil")(opaque, do_resize=False, return_tensors="pt").pixel_values
    batch = read_bmp([bmp_of(image) for image in shown], PATCH, MERGE)
    assert batch.bytes_per_pixel == 4
    torch.testing.assert_close(over_time(patches(batch, device)), theirs, rtol=0, atol=5e-7)
