"""Small models of the supported families with random weights, drawn so that every part of them matters."""

from __future__ import annotations

from importlib.util import find_spec

import torch
from torch import Generator, Tensor, nn

from tilevl.testing import skip_unless

skip_unless(find_spec("transformers") is not None, "transformers", "its pinned version needs Python 3.11 or later")

from transformers import PreTrainedModel  # noqa: E402
from transformers.models.deepseek_ocr2 import configuration_deepseek_ocr2 as deepseek_config  # noqa: E402
from transformers.models.deepseek_ocr2 import modeling_deepseek_ocr2 as deepseek  # noqa: E402
from transformers.models.got_ocr2 import configuration_got_ocr2 as got_config  # noqa: E402
from transformers.models.got_ocr2 import modeling_got_ocr2 as got  # noqa: E402
from transformers.models.qwen2_5_vl import configuration_qwen2_5_vl as qwen2_5_config  # noqa: E402
from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as qwen2_5  # noqa: E402
from transformers.models.qwen2_vl import configuration_qwen2_vl as qwen2_config  # noqa: E402
from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen2  # noqa: E402
from transformers.models.sam import configuration_sam as sam_config  # noqa: E402
from transformers.models.sam import modeling_sam as sam  # noqa: E402
from transformers.models.sam_hq import configuration_sam_hq as sam_hq_config  # noqa: E402
from transformers.models.sam_hq import modeling_sam_hq as sam_hq  # noqa: E402

PATCH = 4
IMAGE_TOKEN, VIDEO_TOKEN = 90, 91
_ENCODER = {
    "hidden_size": 64,
    "num_attention_heads": 2,
    "num_hidden_layers": 3,
    "global_attn_indexes": [1],
    "image_size": 10 * PATCH,  # 10 x 10 tokens: windows of 4 need padding
    "patch_size": PATCH,
    "window_size": 4,
    "mlp_dim": 64,
    "output_channels": 16,
}
_TEXT = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def _deepseek_encoder() -> deepseek_config.DeepseekOcr2SamVisionConfig:
    return deepseek_config.DeepseekOcr2SamVisionConfig(**_ENCODER, downsample_channels=[16, 32])


ENCODERS = {
    "deepseek_ocr2": (deepseek.DeepseekOcr2SamVisionEncoder, _deepseek_encoder),
    "got_ocr2": (got.GotOcr2VisionEncoder, lambda: got_config.GotOcr2VisionConfig(**_ENCODER)),
    "sam": (sam.SamVisionModel, lambda: sam_config.SamVisionConfig(**_ENCODER)),
    "sam_hq": (sam_hq.SamHQVisionModel, lambda: sam_hq_config.SamHQVisionConfig(**_ENCODER)),
}
FORMS = [(family, form) for family in ENCODERS for form in ("eager", "sdpa") if (family, form) != ("got_ocr2", "sdpa")]


def drawn(model: PreTrainedModel, rng: Generator) -> PreTrainedModel:
    """The model with weights of unit gain, biases of a tenth and a bias larger than the scores, in evaluation mode."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            value = torch.randn(parameter.shape, generator=rng)
            if "rel_pos" in name:
                parameter.copy_(0.3 * value)
            elif parameter.ndim > 1:
                parameter.copy_(value * parameter[0].numel() ** -0.5)
            else:
                parameter.copy_(0.1 * value + (1 if "norm" in name and name.endswith("weight") else 0))
    return model.eval()


def encoder(family: str, rng: Generator, form: str = "eager") -> PreTrainedModel:
    """A vision encoder on 10 x 10 tokens: a windowed, a global and a windowed layer."""
    made, config = ENCODERS[family]
    return drawn(made._from_config(config(), attn_implementation=form), rng)


def pixels(rng: Generator, rows: int = 10, columns: int = 10, images: int = 2) -> Tensor:
    """Images of rows x columns patches."""
    return torch.randn(images, 3, rows * PATCH, columns * PATCH, generator=rng)


def attentions(model: nn.Module) -> list[nn.Module]:
    """The attention modules of an encoder, in order."""
    return [module for module in model.modules() if hasattr(module, "rel_pos_h")]


def deepseek_ocr2(rng: Generator) -> PreTrainedModel:
    """A whole DeepSeek-OCR-2; one image of 10 x 10 tokens is 4 tokens of text and a separator."""
    vision = {
        "sam_config": _deepseek_encoder().to_dict(),
        "encoder_config": {
            "hidden_size": 32,
            "intermediate_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
        },
    }
    text = {**_TEXT, "num_key_value_heads": 2, "mlp_layer_types": ["dense"]}
    config = deepseek_config.DeepseekOcr2Config(vision_config=vision, text_config=text, image_token_id=IMAGE_TOKEN)
    return drawn(deepseek.DeepseekOcr2ForConditionalGeneration._from_config(config), rng)


def got_ocr2(rng: Generator) -> PreTrainedModel:
    """A whole GOT-OCR-2."""
    config = got_config.GotOcr2Config(
        vision_config=ENCODERS["got_ocr2"][1]().to_dict(),
        text_config={**_TEXT, "model_type": "qwen2"},
        image_token_id=IMAGE_TOKEN,
    )
    return drawn(got.GotOcr2ForConditionalGeneration._from_config(config), rng)


def qwen2_vl(rng: Generator) -> PreTrainedModel:
    """A whole Qwen2-VL, which merges 2 x 2 patches."""
    vision = {"depth": 2, "embed_dim": 32, "num_heads": 2, "mlp_ratio": 2, "hidden_size": 32, "patch_size": PATCH}
    config = qwen2_config.Qwen2VLConfig(
        vision_config=vision,
        text_config={**_TEXT, "rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3]}},
        image_token_id=IMAGE_TOKEN,
        video_token_id=VIDEO_TOKEN,
    )
    return drawn(qwen2.Qwen2VLForConditionalGeneration._from_config(config), rng)


def qwen2_5_vl(rng: Generator) -> PreTrainedModel:
    """A whole Qwen2.5-VL, whose first block attends within windows of 4 x 4 patches."""
    vision = {
        "depth": 2,
        "hidden_size": 32,
        "num_heads": 2,
        "intermediate_size": 32,
        "out_hidden_size": 32,
        "patch_size": PATCH,
        "window_size": 4 * PATCH,
        "fullatt_block_indexes": [1],
    }
    config = qwen2_5_config.Qwen2_5_VLConfig(
        vision_config=vision,
        text_config={**_TEXT, "rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3]}},
        image_token_id=IMAGE_TOKEN,
        video_token_id=VIDEO_TOKEN,
    )
    return drawn(qwen2_5.Qwen2_5_VLForConditionalGeneration._from_config(config), rng)


QWENS = {"qwen2_vl": qwen2_vl, "qwen2_5_vl": qwen2_5_vl}
WHOLE = {"deepseek_ocr2": deepseek_ocr2, "got_ocr2": got_ocr2, **QWENS}
