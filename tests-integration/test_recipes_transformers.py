"""The READMEs' recipes for transformers, in the models that they are for."""

from __future__ import annotations

import io
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from PIL import Image
from torch import Generator

from tilevl.testing import relative_error, same_bits

from . import small_models
from .readmes import recipe

pytestmark = pytest.mark.targets("cpu", "cuda")

ATTENTIONS = {
    "deepseek_ocr2": "DeepseekOcr2SamVisionSdpaAttention",
    "sam": "SamVisionSdpaAttention",
    "sam_hq": "SamHQVisionSdpaAttention",
    "got_ocr2": "GotOcr2VisionAttention",
}


@pytest.fixture(autouse=True)
def _transformers() -> None:
    small_models.need_transformers()


def class_of(model: str, name: str) -> Any:
    return getattr(import_module(f"transformers.models.{model}.modeling_{model}"), name)


def put_back(monkeypatch: pytest.MonkeyPatch, model: str, name: str, method: str) -> Any:
    """A class whose method a recipe sets, and which has its own again after the test."""
    found = class_of(model, name)
    monkeypatch.setattr(found, method, getattr(found, method))
    return found


@pytest.mark.parametrize("model", ATTENTIONS)
@pytest.mark.parametrize("sides", [(6, 6), (9, 4)], ids=["square", "interpolated_tables"])
def test_attention_of_sam_and_its_kin(
    model: str, sides: tuple[int, int], device: torch.device, rng: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_back(monkeypatch, "deepseek_ocr2", ATTENTIONS["deepseek_ocr2"], "forward")
    settings = SimpleNamespace(
        image_size=48, patch_size=8, hidden_size=64, num_attention_heads=2, qkv_bias=True, use_rel_pos=True
    )
    settings.attention_dropout = 0.0
    kind = class_of(model, ATTENTIONS[model])
    module = small_models.filled(kind(settings, window_size=0), rng).bfloat16()
    hidden = torch.randn(2, *sides, 64, generator=rng).bfloat16()
    with torch.no_grad():
        right = module.double()(hidden.double())[0]
        theirs = module.bfloat16()(hidden)[0]
        forward = recipe("attn_rel_h_rel_w", "transformers")["forward"]
        ours, no_weights = forward(module.to(device), hidden.to(device))
    assert no_weights is None and ours.shape == hidden.shape and ours.dtype == torch.bfloat16
    assert relative_error(ours.cpu(), right) < max(1e-2, 1.2 * relative_error(theirs, right))


def test_deepseek_ocr2_encodes_pages_with_it(
    device: torch.device, rng: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = small_models.deepseek_ocr2(rng).model.vision_tower.sam_encoder.bfloat16().to(device)
    pages = torch.randn(2, 3, 128, 128, generator=rng).bfloat16().to(device)
    kind = put_back(monkeypatch, "deepseek_ocr2", ATTENTIONS["deepseek_ocr2"], "forward")
    assert {type(layer.attn) for layer in encoder.layers} == {kind}
    with torch.no_grad():
        theirs = encoder(pages).last_hidden_state
        forward = recipe("attn_rel_h_rel_w", "transformers")["forward"]
        assert kind.forward is forward
        ours = encoder(pages).last_hidden_state
        exact = encoder.float().cpu()
        monkeypatch.undo()
        right = exact(pages.float().cpu()).last_hidden_state
    assert relative_error(ours.cpu(), right) < max(1e-2, 1.2 * relative_error(theirs.cpu(), right))


@pytest.mark.parametrize("make", [small_models.qwen2_vl, small_models.qwen2_5_vl], ids=["qwen2_vl", "qwen2_5_vl"])
def test_qwen_reads_pages_from_their_pixels(make: Any, device: torch.device, rng: Generator) -> None:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    sizes, files = [(56, 84), (28, 140)], []
    pages = [Image.fromarray(torch.randint(0, 256, (*s, 3), generator=rng, dtype=torch.uint8).numpy()) for s in sizes]
    for page in pages:
        files.append(io.BytesIO())
        page.save(files[-1], "BMP")
    processor = Qwen2VLImageProcessorPil(do_resize=False)
    theirs = processor(pages, return_tensors="pt").to(device)
    inputs = recipe("bmp_to_patches", "transformers")["qwen2_vl_inputs"]
    ours = inputs([file.getvalue() for file in files], processor, device)
    assert torch.equal(ours["image_grid_thw"], theirs["image_grid_thw"])
    assert same_bits(ours["pixel_values"].cpu(), theirs["pixel_values"].bfloat16().cpu())
    model = make(rng).bfloat16().to(device).model
    with torch.no_grad():
        found = torch.cat(list(model.get_image_features(**ours).pooler_output))
        right = torch.cat(list(model.get_image_features(**theirs).pooler_output))
    assert torch.equal(found, right)


@pytest.mark.parametrize("make", [small_models.qwen2_vl, small_models.qwen2_5_vl], ids=["qwen2_vl", "qwen2_5_vl"])
def test_qwen_takes_its_positions(make: Any, device: torch.device, rng: Generator) -> None:
    tower = make(rng).model.visual.to(device)
    grid_thw = torch.tensor([[1, 8, 4], [1, 4, 12], [1, 2, 2]], device=device)
    pixels = torch.randn(84, 3 * 2 * 14 * 14, generator=rng).to(device)
    with torch.no_grad():
        ours = recipe("prepare_image_attn_pos_id", "transformers")["vision_tower"](tower, pixels, grid_thw)
        right = tower(pixels, grid_thw=grid_thw)
    assert torch.equal(ours.pooler_output, right.pooler_output)


def test_deepseek_ocr2_reads_the_merged_prompt(device: torch.device, rng: Generator) -> None:
    model = small_models.deepseek_ocr2(rng).to(device)
    ids = torch.randint(3, small_models.WORDS, (2, 300), generator=rng)
    ids[0, 4:149] = ids[1, 100:245] = small_models.IMAGE
    ids, pages = ids.to(device), torch.randn(2, 3, 128, 128, generator=rng).to(device)
    with torch.no_grad():
        embeds = recipe("replace_input_embeds", "transformers")["input_embeds"](model, ids, pixel_values=pages)
        ours = model(inputs_embeds=embeds).logits
        right = model(input_ids=ids, pixel_values=pages).logits
    assert torch.equal(ours, right)


@pytest.mark.parametrize("scale", [0.5, 0.25])
@pytest.mark.parametrize("batch", [1, 3])
def test_internvl_shuffles_its_pixels(
    batch: int, scale: float, device: torch.device, rng: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = put_back(monkeypatch, "internvl", "InternVLModel", "pixel_shuffle")
    theirs = kind.pixel_shuffle
    features = torch.randn(batch, 8, 12, 6, generator=rng).bfloat16()
    right = theirs(None, features, scale)
    recipe("shuffle_image_tokens", "transformers")
    given = features.to(device, copy=True)
    ours = kind.pixel_shuffle(None, given, scale)
    assert kind.pixel_shuffle is not theirs
    assert same_bits(ours.cpu(), right) and ours.shape == (batch, 8 * scale, 12 * scale, 6 / scale**2)
    assert same_bits(given.cpu(), features)
