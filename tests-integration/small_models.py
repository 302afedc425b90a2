"""Models of Hugging Face transformers in small configurations with random weights: nothing is downloaded."""

from __future__ import annotations

import importlib.util
from importlib import metadata
from typing import Any

import torch
from packaging.version import Version

from tilevl.testing import skip_unless

OLDEST = Version("5.17")  # has all the models below, with the position ids of the vision towers in vision_utils
IMAGE, VIDEO, WORDS = 60, 61, 59  # token ids: an image's, a video's, and below how many are words


def need_transformers() -> None:
    """Skips the running test where transformers is missing or older than the tests know."""
    there = importlib.util.find_spec("transformers") is not None
    found = Version(metadata.version("transformers")) if there else None
    said = f"transformers {OLDEST} or later is needed, and {found or 'none'} is there: nox -s integration brings it"
    skip_unless(found is not None and found >= OLDEST, "transformers", said)


def filled(model: Any, g: torch.Generator) -> Any:
    """A model with all its parameters drawn anew, those that start as zeros too, in eval mode."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=g)
            parameter.copy_(1 + noise / 8 if "norm" in name and name.endswith("weight") else noise / 4)
    return model.eval()


def deepseek_ocr2(g: torch.Generator) -> Any:
    """DeepSeek-OCR-2: views of 128 x 128 pixels, 144 tokens each, one windowed and one global layer in its SAM."""
    from transformers.models.deepseek_ocr2 import configuration_deepseek_ocr2 as settings
    from transformers.models.deepseek_ocr2.modeling_deepseek_ocr2 import DeepseekOcr2ForConditionalGeneration

    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    experts = {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
    text = settings.DeepseekOcr2TextConfig(vocab_size=64, mlp_layer_types=["dense", "sparse"], **sizes, **experts)
    sam = settings.DeepseekOcr2SamVisionConfig(
        hidden_size=32,
        output_channels=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=128,
        patch_size=8,
        window_size=5,
        global_attn_indexes=[1],
        downsample_channels=[16, 32],
    )
    encoder = settings.DeepseekOcr2VisionEncoderConfig(vocab_size=8, num_key_value_heads=2, **sizes)
    vision = settings.DeepseekOcr2VisionConfig(sam_config=sam, encoder_config=encoder)
    config = settings.DeepseekOcr2Config(text_config=text, vision_config=vision, image_token_id=IMAGE)
    return filled(DeepseekOcr2ForConditionalGeneration(config), g)


_QWEN_TEXT = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]},
}
_QWEN_IDS = {"image_token_id": IMAGE, "video_token_id": VIDEO, "vision_start_token_id": 62, "vision_end_token_id": 63}


def qwen2_vl(g: torch.Generator, merge_size: int = 2) -> Any:
    """Qwen2-VL."""
    from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLConfig
    from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLForConditionalGeneration

    vision = {"depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "spatial_merge_size": merge_size}
    config = Qwen2VLConfig(text_config=dict(_QWEN_TEXT), vision_config=vision, **_QWEN_IDS)
    return filled(Qwen2VLForConditionalGeneration(config), g)


def qwen2_5_vl(g: torch.Generator, merge_size: int = 2) -> Any:
    """Qwen2.5-VL: its first vision layer attends in windows of 4 x 4 merged tokens, its second to all."""
    from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLConfig
    from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLForConditionalGeneration

    vision = {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_heads": 2,
        "out_hidden_size": 32,
        "spatial_merge_size": merge_size,
        "window_size": 14 * merge_size * 4,
        "fullatt_block_indexes": [1],
    }
    config = Qwen2_5_VLConfig(text_config=dict(_QWEN_TEXT), vision_config=vision, **_QWEN_IDS)
    return filled(Qwen2_5_VLForConditionalGeneration(config), g)
