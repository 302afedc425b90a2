"""The READMEs' recipes for vLLM, on its names and shapes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor

from tilevl.testing import relative_error, same_bits

from . import vllm_stand_in as vllm
from .readmes import recipe

pytestmark = pytest.mark.targets("cpu", "cuda")


@pytest.fixture(autouse=True)
def _vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    vllm.install(monkeypatch)


@pytest.mark.parametrize(("shape", "input_size"), [((2, 6, 6), (6, 6)), ((1, 5, 9), (5, 9))], ids=["window", "page"])
def test_attention_of_the_deepencoder(
    shape: tuple[int, ...], input_size: tuple[int, int], device: torch.device, rng: Generator
) -> None:
    module = vllm.RelPosAttention(64, 2, input_size)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=rng) / 6)
        module.bfloat16()  # so that both compute with the same weights
        hidden = torch.randn(*shape, 64, generator=rng).bfloat16()
        right = module.double()(hidden.double())
        recipe("attn_rel_h_rel_w", "vllm")
        found = module.bfloat16().to(device)(hidden.to(device))
    assert found.dtype == torch.bfloat16 and found.shape == right.shape
    assert relative_error(found.cpu(), right) < 1e-2


def test_patch_embedding_of_the_deepencoder(device: torch.device, rng: Generator) -> None:
    from tilevl.bmp_to_patches import bmp_to_patches

    pages, side, patch = 2, 32, 8
    encoder = vllm.ImageEncoderViT(side, patch, 24)
    shown = torch.randint(0, 256, (pages, side, side, 3), generator=rng, dtype=torch.uint8)
    planes = ((shown.double() / 255 - 0.5) / 0.5).permute(0, 3, 1, 2)
    with torch.no_grad():
        right = encoder.double()(planes)
        recipe("bmp_to_patches", "vllm")
        stride = side * 3
        crops = torch.tensor([[((page + 1) * side - 1) * stride, -stride, side, side] for page in range(pages)])
        cu_patches, total = torch.tensor([0, 16, 32]), 32
        pixels = shown.flip(1, 3).flatten()  # as in a file: bottom row first, B G R
        tensors = (pixels.to(device), crops.to(device), cu_patches.to(device))
        patches = bmp_to_patches(*tensors, total, patch, 0.5, 0.5, out_dtype=torch.float32)
        found = encoder.float().to(device)(patches.view(pages, 4, 4, 3 * patch * patch))
    assert relative_error(found.cpu(), right) < 1e-6


def test_learned_positions_of_the_deepencoder_for_packed_crops(device: torch.device, rng: Generator) -> None:
    encoder = vllm.ImageEncoderViT(64, 8, 24).to(device)
    grid_hw, cu_seqlens = torch.tensor([[8, 8], [3, 5]]), torch.tensor([0, 64, 79])
    tokens = torch.randn(79, 24, generator=rng)
    add_positions = recipe("prepare_image_attn_pos_id", "vllm")["add_positions"]
    with torch.no_grad():
        found = add_positions(encoder, tokens.to(device), grid_hw.to(device), cu_seqlens.to(device))
        table = encoder.pos_embed.detach().cpu()[0]
    assert torch.equal(found.cpu()[:64], tokens[:64] + table.flatten(0, 1))
    assert torch.equal(found.cpu()[64:], tokens[64:] + table[:3, :5].flatten(0, 1))


@pytest.mark.parametrize("merge_size", [1, 2])
def test_rotary_positions_of_qwen2_vl(merge_size: int, device: torch.device) -> None:
    tower = vllm.Qwen2VisionTransformer(32, merge_size)
    grid_thw = [[1, 4, 6], [3, 2, 8], [1, 8, 2]]
    right = tower.rot_pos_emb(grid_thw)
    recipe("prepare_image_attn_pos_id", "vllm")
    tower.device = device
    tables = [table.to(device) for table in tower.rotary_pos_emb.get_cos_sin(8)]
    tower.rotary_pos_emb.get_cos_sin = lambda longest: [table[:longest] for table in tables]  # type: ignore[assignment]
    for found, wanted in zip(tower.rot_pos_emb(grid_thw), right, strict=True):
        assert found.shape == wanted.shape == (88, 16)
        assert torch.equal(found.cpu(), wanted)


@pytest.mark.parametrize("counts", [(3, 0, 4), (5,), ()], ids=["several", "one", "none"])
def test_merge_of_multimodal_embeddings(counts: tuple[int, ...], device: torch.device, rng: Generator) -> None:
    import sys

    is_multimodal = torch.zeros(20, dtype=torch.bool)
    is_multimodal[torch.randperm(20, generator=rng)[: sum(counts)]] = True
    rows = [torch.randn(count, 16, generator=rng) for count in counts]
    embeds = torch.randn(20, 16, generator=rng).bfloat16()
    right = vllm.merge_multimodal_embeddings(embeds.clone(), rows, is_multimodal)
    recipe("replace_input_embeds", "vllm")
    merge: Callable[..., Tensor] = sys.modules[f"{vllm.MODELS}.utils"]._merge_multimodal_embeddings
    given = embeds.to(device, copy=True)
    found = merge(given, [each.to(device) for each in rows], is_multimodal)
    assert found is given
    assert same_bits(found.cpu(), right)


@pytest.mark.parametrize(("height_tiles", "width_tiles"), [(1, 1), (2, 3), (3, 2)])
def test_tiles_of_a_page_side_by_side(
    height_tiles: int, width_tiles: int, device: torch.device, rng: Generator
) -> None:
    features = torch.randn(height_tiles * width_tiles, 16, 10, generator=rng).bfloat16()
    right = vllm.tiles_as_a_page(features, width_tiles)
    found = recipe("shuffle_image_tokens", "vllm")["lay_side_by_side"](features.to(device, copy=True), width_tiles)
    assert found.shape == (height_tiles * 4, width_tiles * 4, 10)
    assert same_bits(found.cpu(), right)
