"""A small vision-language model with random weights, built from the five ops: enough to see them work together."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tilevl.attn_rel_h_rel_w import attn_rel_h_rel_w
from tilevl.replace_input_embeds import image_token_index, replace_input_embeds
from tilevl.shuffle_image_tokens import shuffle_image_tokens

IMAGE_TOKEN = 0
VOCABULARY = 1000
MERGE = 4  # side of the square of patches that becomes one token of the language model


@dataclass(frozen=True)
class Sizes:
    """Widths of the demo's model."""

    heads: int = 4
    head_dim: int = 64
    text_width: int = 512

    @property
    def width(self) -> int:
        """Width of a vision token."""
        return self.heads * self.head_dim


class VisionBlock(nn.Module):
    """One transformer block over all patches of a page, with SAM's decomposed relative positions."""

    def __init__(self, patch_elements: int, grid: tuple[int, int], sizes: Sizes) -> None:
        super().__init__()
        self.grid, self.sizes = grid, sizes
        self.embed = nn.Linear(patch_elements, sizes.width)
        self.norm = nn.LayerNorm(sizes.width)
        self.qkv = nn.Linear(sizes.width, 3 * sizes.width)
        self.out = nn.Linear(sizes.width, sizes.width)
        for name, side in zip(("rel_rows", "rel_columns"), grid, strict=True):
            self.register_parameter(name, nn.Parameter(torch.randn(2 * side - 1, sizes.head_dim) * 0.1))

    def forward(self, patches: Tensor) -> Tensor:
        """Vision tokens ``[S, width]`` of the patches ``[S, 3 * p * p]`` of one page, S = rows * columns, row-major."""
        rows, columns = self.grid
        tokens = self.embed(patches)
        qkv = self.qkv(self.norm(tokens)).view(1, rows * columns, 3, self.sizes.heads, self.sizes.head_dim)
        query, key, value = qkv.unbind(2)  # views of the packed projection, which the op takes as they are
        query_grid = query.view(rows, columns, self.sizes.heads, self.sizes.head_dim)
        rel_h = torch.einsum("rcnd,rkd->rcnk", query_grid, _relative(self.rel_rows, rows))
        rel_w = torch.einsum("rcnd,ckd->rcnk", query_grid, _relative(self.rel_columns, columns))
        flat = (1, rows * columns, self.sizes.heads, -1)
        mixed = attn_rel_h_rel_w(query, key, value, rel_h.reshape(flat), rel_w.reshape(flat), rows, columns)
        return tokens + self.out(mixed.flatten(2))[0]


def _relative(table: Tensor, side: int) -> Tensor:
    """``[side, side, D]``: the row of the table for each pair of query and key coordinates."""
    place = torch.arange(side)
    return table[place[:, None] - place[None, :] + side - 1]


class Merge(nn.Module):
    """Adds the position of each token, then turns each square of MERGE x MERGE tokens into one."""

    def __init__(self, grid: tuple[int, int], sizes: Sizes) -> None:
        super().__init__()
        self.grid = grid
        self.rows = nn.Embedding(grid[0], sizes.width)
        self.columns = nn.Embedding(grid[1], sizes.width)
        self.project = nn.Linear(MERGE * MERGE * sizes.width, sizes.text_width)

    def forward(self, tokens: Tensor, position: Tensor) -> Tensor:
        """``[S / MERGE**2, text_width]`` of ``[S, width]`` tokens and their ``[S, 2]`` (row, column)."""
        rows, columns = self.grid
        tokens = tokens + self.rows(position[:, 0]) + self.columns(position[:, 1])
        squares = tokens.view(rows // MERGE, MERGE, columns // MERGE, MERGE, -1).transpose(1, 2)
        return self.project(squares.reshape(rows * columns // MERGE**2, -1))


class LanguageSide(nn.Module):
    """Prompt and image tokens into one sequence, then scores of the next token; one graph under torch.compile."""

    def __init__(self, sizes: Sizes, groups: int) -> None:
        super().__init__()
        self.groups = groups
        self.words = nn.Embedding(VOCABULARY, sizes.text_width)
        self.norm = nn.LayerNorm(sizes.text_width)
        self.head = nn.Linear(sizes.text_width, VOCABULARY, bias=False)

    def forward(
        self, prompt: Tensor, image_embeds: Tensor, image_start: Tensor, image_tokens: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The sequence ``[T, text_width]`` and the scores ``[VOCABULARY]`` after its last token.

        Args:
            prompt: int64 ``[T]``, with IMAGE_TOKEN where a row of the image goes.
            image_embeds: ``[M, text_width]``.
            image_start: int64 ``[1]``, first row of the image.
            image_tokens: int64 ``[1]``, its number of rows.
        """
        embeds = self.words(prompt)
        replace_input_embeds(embeds, image_embeds, image_token_index(prompt == IMAGE_TOKEN, image_embeds.shape[0]))
        shuffle_image_tokens(embeds, image_start, image_tokens, image_embeds.shape[0], self.groups)
        return embeds, self.head(self.norm(embeds).mean(0))
