"""image_token_index and replace_input_embeds against the merge inside DeepSeek-OCR-2, Qwen2-VL and Qwen2.5-VL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Generator, Tensor

from tilevl.replace_input_embeds import image_token_index, replace_input_embeds
from tilevl.testing import same_bits

from . import small_models
from .small_models import IMAGE, WORDS

# A prompt is a list of numbers of words and of images, each image by its number in what the model reads.
Prompt = list["int | str"]
PROMPTS: dict[str, list[Prompt]] = {
    "one_image": [[3, "a", 5]],
    "text_between_images": [[2, "a", 4, "b", 1, "c", 3]],
    "images_at_both_ends": [["a", 2, "b", 6, "c"]],
    "images_side_by_side": [[4, "b", "c"]],
    "no_image": [[9]],
    "batch": [[3, "a", 2, "b"], [1, "c", 6, "a", 2]],
    "batch_with_a_prompt_without_images": [[5], ["b", 4, "c"], [7]],
}


@pytest.fixture(autouse=True)
def _transformers() -> None:
    small_models.need_transformers()


@dataclass(frozen=True)
class Reading:
    """What a model reads: its images by name, and the number of tokens of each in a prompt."""

    model: Any
    tokens: dict[str, int]
    images: Callable[[str], dict[str, Any]]
    extras: Callable[[Tensor, str], dict[str, Any]]


def deepseek_ocr2(g: Generator, dtype: torch.dtype) -> Reading:
    """One global view an image, and of the first a local view too, 144 tokens each; one separator."""
    views = {"a": 1, "b": 0, "c": 0}
    pixels = {name: torch.randn(count + 1, 3, 128, 128, generator=g).to(dtype) for name, count in views.items()}

    def images(names: str) -> dict[str, Any]:
        given = {"pixel_values": torch.cat([pixels[name][:1] for name in names])}
        local = torch.cat([pixels[name][1:] for name in names])
        of_crops = {"pixel_values_local": local, "num_local_patches": [views[name] for name in names]}
        return given | (of_crops if len(local) else {})

    tokens = {name: 144 * (count + 1) + 1 for name, count in views.items()}
    return Reading(small_models.deepseek_ocr2(g).to(dtype), tokens, images, lambda ids, names: {})


def qwen(make: Callable[[Generator], Any], g: Generator, dtype: torch.dtype) -> Reading:
    grids = {"a": [1, 4, 6], "b": [1, 2, 2], "c": [1, 8, 4]}
    pixels = {name: torch.randn(h * w, 3 * 2 * 14 * 14, generator=g).to(dtype) for name, (_, h, w) in grids.items()}

    def images(names: str) -> dict[str, Any]:
        patches = torch.cat([pixels[name] for name in names])
        return {"pixel_values": patches, "image_grid_thw": torch.tensor([grids[name] for name in names])}

    def extras(ids: Tensor, names: str) -> dict[str, Any]:
        """What positions in a prompt with images are made from, the pixels aside."""
        thw = torch.tensor([grids[name] for name in names]).to(ids.device)
        return {"image_grid_thw": thw, "mm_token_type_ids": (ids == IMAGE).int()} if names else {}

    return Reading(make(g).to(dtype), {name: h * w // 4 for name, (_, h, w) in grids.items()}, images, extras)


READINGS: dict[str, Callable[[Generator, torch.dtype], Reading]] = {
    "deepseek_ocr2": deepseek_ocr2,
    "qwen2_vl": lambda g, dtype: qwen(small_models.qwen2_vl, g, dtype),
    "qwen2_5_vl": lambda g, dtype: qwen(small_models.qwen2_5_vl, g, dtype),
}


def ids_of(prompts: list[Prompt], tokens: dict[str, int], g: Generator) -> tuple[Tensor, str]:
    """Token ids ``[prompts, tokens]``, shorter prompts ending in more words, and the images' names in their order."""
    rows = [
        [
            IMAGE if isinstance(part, str) else -1
            for part in prompt
            for _ in range(part if isinstance(part, int) else tokens[part])
        ]
        for prompt in prompts
    ]
    longest = max(map(len, rows))
    ids = torch.tensor([row + [-1] * (longest - len(row)) for row in rows])
    words = torch.randint(3, WORDS, ids.shape, generator=g)
    names = "".join(part for prompt in prompts for part in prompt if isinstance(part, str))
    return torch.where(ids == IMAGE, ids, words), names


DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
CALLS = [
    (name, prompt, dtype)
    for name in READINGS
    for prompt in PROMPTS
    for dtype in DTYPES
    if dtype == "float32" or prompt == "batch"
    if name == "deepseek_ocr2" or prompt != "images_side_by_side"  # the tokens that Qwen sets around an image part them
]


def check(name: str, prompts: list[Prompt], dtype: torch.dtype, device: torch.device, g: Generator) -> None:
    """Compares rows and logits. The model runs on the CPU where the device is a simulated NPU, and the ops there."""
    reading = READINGS[name](g, dtype)
    ids, names = ids_of(prompts, reading.tokens, g)
    on = torch.device("cpu") if device.type == "npu" else device
    model, ids = reading.model.to(on), ids.to(on)
    images = reading.images(names) if names else {}
    images = {key: value.to(on) if isinstance(value, Tensor) else value for key, value in images.items()}
    extras = reading.extras(ids, names)
    seen: list[Tensor] = []
    model.model.language_model.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(kwargs["inputs_embeds"].clone()), with_kwargs=True
    )
    with torch.no_grad():
        untouched = model(input_ids=ids, **(extras | images))
        embeds = model.get_input_embeddings()(ids)
        rows = embeds[0, :0]
        if names:
            rows = torch.cat(list(model.model.get_image_features(**images).pooler_output)).to(dtype)
        merged = embeds.to(device, copy=True)
        index = image_token_index(ids.to(device) == IMAGE, rows.shape[0])
        replace_input_embeds(merged, rows.to(device), index)
        ours = model(input_ids=ids if extras else None, inputs_embeds=merged.to(on), **extras)
    assert rows.shape[0] == sum(reading.tokens[image] for image in names) == int((ids == IMAGE).sum())
    assert same_bits(merged.cpu(), seen[0].cpu())
    assert same_bits(seen[1].cpu(), seen[0].cpu())
    assert torch.equal(ours.logits, untouched.logits)
    assert not names or not same_bits(merged.cpu(), embeds.cpu())


@pytest.mark.targets("cpu", "cuda")
@pytest.mark.parametrize(("name", "prompt", "dtype"), CALLS, ids=["-".join(call) for call in CALLS])
def test_the_merge_is_the_model_s_own(name: str, prompt: str, dtype: str, device: torch.device, rng: Generator) -> None:
    check(name, PROMPTS[prompt], DTYPES[dtype], device, rng)


@pytest.mark.targets("ascend")
@pytest.mark.parametrize("name", READINGS)
def test_the_merge_of_a_batch_is_the_model_s_own_on_the_host_model(
    name: str, device: torch.device, rng: Generator
) -> None:
    check(name, PROMPTS["batch"], torch.bfloat16, device, rng)
