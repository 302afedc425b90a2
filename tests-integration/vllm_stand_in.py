"""Modules with vLLM's names, whose functions take and return tensors of vLLM's shapes and layouts.

vLLM itself can't be installed beside the torch that is tested. What stands here is what recipes lean on: members,
arguments, shapes, order of dimensions; as in vLLM's main branch in 2026. The arithmetic is written anew.
"""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

MODELS = "vllm.model_executor.models"


def relative_rows(side: int, table: Tensor) -> Tensor:
    """Row ``i - j + side - 1`` of a table of ``2 * side - 1`` rows for query i, key j: ``[side, side, head_dim]``."""
    steps = torch.arange(side, device=table.device)
    return table[steps[:, None] - steps[None, :] + side - 1]


class RelPosAttention(nn.Module):
    """deepencoder.RelPosAttention: attention over ``[images or windows, rows, columns, channels]``."""

    def __init__(self, dim: int, num_heads: int, input_size: tuple[int, int]) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.qkv, self.proj = nn.Linear(dim, dim * 3), nn.Linear(dim, dim)
        self.use_rel_pos = True
        self.rel_pos_h = nn.Parameter(torch.randn(2 * input_size[0] - 1, dim // num_heads))
        self.rel_pos_w = nn.Parameter(torch.randn(2 * input_size[1] - 1, dim // num_heads))

    def _add_decomposed_rel_pos(
        self, q: Tensor, rel_pos_h: Tensor, rel_pos_w: Tensor, q_size: tuple[int, int], k_size: tuple[int, int]
    ) -> tuple[Tensor, Tensor]:
        """From queries ``[batch * heads, tokens, head_dim]``: ``[..., rows, 1]`` and ``[..., 1, columns]``."""
        assert tuple(q_size) == tuple(k_size) and q.shape[1] == q_size[0] * q_size[1]
        grid = q.reshape(q.shape[0], *q_size, q.shape[2])
        rows = torch.einsum("bijd,ikd->bijk", grid, relative_rows(q_size[0], rel_pos_h))
        columns = torch.einsum("bijd,jkd->bijk", grid, relative_rows(q_size[1], rel_pos_w))
        return rows.reshape(*q.shape[:2], q_size[0], 1), columns.reshape(*q.shape[:2], 1, q_size[1])

    def forward(self, x: Tensor) -> Tensor:
        batch, height, width, channels = x.shape
        packed = self.qkv(x).reshape(batch, height * width, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = packed.flatten(1, 2)  # [batch * heads, tokens, head_dim]
        tables = self._add_decomposed_rel_pos(q, self.rel_pos_h, self.rel_pos_w, (height, width), (height, width))
        weights = (q @ k.mT * self.scale + sum(tables).flatten(2)).softmax(-1)
        mixed = (weights @ v).unflatten(0, (batch, self.num_heads)).transpose(1, 2)
        return self.proj(mixed.reshape(batch, height, width, channels))


class PatchEmbed(nn.Module):
    """deepencoder.PatchEmbed: ``[pages, 3, height, width]`` to ``[pages, rows, columns, channels]``."""

    def __init__(self, kernel_size: tuple[int, int], stride: tuple[int, int], in_chans: int, embed_dim: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(in_chans, embed_dim, kernel_size=kernel_size, stride=stride)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x).permute(0, 2, 3, 1)


class ImageEncoderViT(nn.Module):
    """deepencoder.ImageEncoderViT up to its first block: patches, and learned positions ``[1, rows, columns, dim]``."""

    def __init__(self, img_size: int, patch_size: int, embed_dim: int) -> None:
        super().__init__()
        side = img_size // patch_size
        self.patch_embed = PatchEmbed((patch_size, patch_size), (patch_size, patch_size), 3, embed_dim)
        self.pos_embed = nn.Parameter(torch.randn(1, side, side, embed_dim))

    def forward(self, x: Tensor) -> Tensor:
        return self.patch_embed(x) + self.pos_embed


class RotaryEmbedding:
    """What ``Qwen2VisionTransformer.rotary_pos_emb`` is: tables of cosines and sines, ``[longest side, dim / 4]``."""

    def __init__(self, dim: int) -> None:
        self.frequencies = 10000.0 ** -(torch.arange(0, dim // 2, 2) / (dim // 2))

    def get_cos_sin(self, longest: int) -> tuple[Tensor, Tensor]:
        angles = torch.outer(torch.arange(longest), self.frequencies)
        return angles.cos(), angles.sin()


class Qwen2VisionTransformer(nn.Module):
    """qwen2_vl.Qwen2VisionTransformer as far as positions go."""

    def __init__(self, head_dim: int, spatial_merge_size: int) -> None:
        super().__init__()
        self.spatial_merge_size, self.device = spatial_merge_size, torch.device("cpu")
        self.rotary_pos_emb = RotaryEmbedding(head_dim)

    def rot_pos_emb(self, grid_thw: list[list[int]]) -> tuple[Tensor, Tensor]:
        """Cosines and sines ``[tokens, head_dim / 2]``: of the row, then of the column, in the merger's order."""
        cos, sin = self.rotary_pos_emb.get_cos_sin(max(max(sides) for _, *sides in grid_thw))
        merge, places = self.spatial_merge_size, []
        for frames, height, width in grid_thw:
            one = [
                (top + y, left + x)
                for top in range(0, height, merge)
                for left in range(0, width, merge)
                for y in range(merge)
                for x in range(merge)
            ]
            places += one * frames
        row, column = torch.tensor(places).unbind(1)
        return torch.cat([cos[row], cos[column]], 1), torch.cat([sin[row], sin[column]], 1)


def merge_multimodal_embeddings(
    inputs_embeds: Tensor, multimodal_embeddings: list[Tensor], is_multimodal: Tensor
) -> Tensor:
    """utils._merge_multimodal_embeddings: into ``[tokens, dim]``, in place, where ``is_multimodal`` is True."""
    if len(multimodal_embeddings):
        inputs_embeds[is_multimodal] = torch.cat(list(multimodal_embeddings)).to(inputs_embeds.dtype)
    return inputs_embeds


def tiles_as_a_page(features: Tensor, width_tiles: int) -> Tensor:
    """The order of DeepSeek-OCR's local features: ``[tiles, side * side, dim]`` to ``[rows, columns, dim]``."""
    side = round(features.shape[1] ** 0.5)
    rows_of_tiles = features.view(-1, width_tiles, side, side, features.shape[2])
    return torch.cat([torch.cat(list(tiles), dim=1) for tiles in rows_of_tiles], dim=0)


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts the modules in place for one test."""
    contents = {
        "deepencoder": {
            "RelPosAttention": RelPosAttention,
            "PatchEmbed": PatchEmbed,
            "ImageEncoderViT": ImageEncoderViT,
        },
        "qwen2_vl": {"Qwen2VisionTransformer": Qwen2VisionTransformer},
        "utils": {"_merge_multimodal_embeddings": merge_multimodal_embeddings},
    }
    for name in ("vllm", "vllm.model_executor", MODELS):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    for name, members in contents.items():
        module = ModuleType(f"{MODELS}.{name}")
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        setattr(sys.modules[MODELS], name, module)
    for kind in (RelPosAttention, PatchEmbed, Qwen2VisionTransformer):
        for method in ("forward", "rot_pos_emb"):
            if method in vars(kind):
                monkeypatch.setattr(kind, method, getattr(kind, method))  # so that it is put back
