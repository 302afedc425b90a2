"""All five ops in one graph: a page of pixels to the shuffled rows of a prompt."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor

from tilevl.attn_rel_h_rel_w import attn_rel_h_rel_w
from tilevl.bmp_to_patches import bmp_to_patches
from tilevl.prepare_image_attn_pos_id import prepare_image_attn_pos_id
from tilevl.replace_input_embeds import replace_input_embeds
from tilevl.shuffle_image_tokens import shuffle_image_tokens
from tilevl.testing import relative_error, same_bits, skip_unless
from tilevl.testing.graphs import capture, need_tracing
from tilevl.testing.plugin import declared_targets
from tilevl.testing.require import cpp_compiler

from .oracles import PACKAGES, oracle

PATCH, GRID, HEADS, HEAD_DIM, PLACE = 4, 8, 2, 16, 5
SIDE, TOKENS, WIDTH = PATCH * GRID, GRID * GRID, HEADS * HEAD_DIM
HALF = [0.5] * 3
# By dtype, on rows of the size of 1: what rounding the projections, the attention and the sum to it makes.
TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 1.5e-2}

Attention = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, int, int], Tensor]


def attention_of(target: str) -> Attention:
    """The op, or, on a target that it doesn't declare, scaled_dot_product_attention with a dense bias."""
    if target in declared_targets(PACKAGES / "attn_rel_h_rel_w"):
        return attn_rel_h_rel_w

    def dense(q: Tensor, k: Tensor, v: Tensor, rel_h: Tensor, rel_w: Tensor, grid_h: int, grid_w: int) -> Tensor:
        bias = (rel_h.transpose(1, 2).unsqueeze(-1) + rel_w.transpose(1, 2).unsqueeze(-2)).flatten(-2)
        q, k, v = (tensor.transpose(1, 2) for tensor in (q, k, v))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).contiguous()

    return dense


def chain_with(attention: Attention) -> Callable[..., None]:
    def chain(
        pixels: Tensor,
        crops: Tensor,
        cu: Tensor,
        rel_h: Tensor,
        rel_w: Tensor,
        weight: Tensor,
        embeds: Tensor,
        place: Tensor,
    ) -> None:
        patches = bmp_to_patches(pixels, crops, cu, TOKENS, PATCH, HALF, HALF, out_dtype=weight.dtype)
        query, key, value = (patches @ weight).view(1, TOKENS, 3, HEADS, HEAD_DIM).unbind(2)
        mixed = attention(query, key, value, rel_h, rel_w, GRID, GRID)
        position = prepare_image_attn_pos_id(torch.full((1, 2), GRID, device=cu.device), cu, TOKENS)
        rows = mixed.reshape(TOKENS, WIDTH) + position.to(mixed.dtype).sum(1, keepdim=True) / 16
        replace_input_embeds(embeds, rows, place + torch.arange(TOKENS, device=place.device))
        shuffle_image_tokens(embeds, place, torch.full_like(place, TOKENS), TOKENS, 2)

    return chain


def inputs(g: Generator, dtype: torch.dtype) -> list[Tensor]:
    """A bottom-up page of random pixels, tables, weights and a prompt."""
    pixels = torch.randint(0, 256, (SIDE * SIDE * 3,), generator=g, dtype=torch.uint8)
    crops = torch.tensor([[(SIDE - 1) * SIDE * 3, -SIDE * 3, SIDE, SIDE]])
    tables = [torch.randn(1, TOKENS, HEADS, GRID, generator=g).to(dtype) for _ in range(2)]
    weight = (torch.randn(3 * PATCH**2, 3 * WIDTH, generator=g) * 0.2).to(dtype)
    embeds = torch.randn(TOKENS + 9, WIDTH, generator=g).to(dtype)
    return [pixels, crops, torch.tensor([0, TOKENS]), *tables, weight, embeds, torch.tensor([PLACE])]


def expected(pixels: Tensor, crops: Tensor, cu: Tensor, rel_h: Tensor, rel_w: Tensor, *rest: Tensor) -> Tensor:
    """The prompt's rows in float64, by the contracts."""
    weight, embeds, _ = rest
    patches = oracle("bmp_to_patches")(pixels, crops, cu, TOKENS, PATCH, HALF, HALF, out_dtype=weight.dtype)
    query, key, value = (patches.double() @ weight.double()).view(1, TOKENS, 3, HEADS, HEAD_DIM).unbind(2)
    mixed = oracle("attn_rel_h_rel_w")(query, key, value, rel_h, rel_w, GRID, GRID)
    position = torch.cartesian_prod(torch.arange(GRID), torch.arange(GRID))
    rows = mixed.reshape(TOKENS, WIDTH) + position.double().sum(1, keepdim=True) / 16
    result = embeds.double()
    result[PLACE : PLACE + TOKENS] = rows.view(2, TOKENS // 2, WIDTH).transpose(0, 1).reshape(TOKENS, WIDTH)
    return result


def check(found: Tensor, before: Tensor, right: Tensor) -> None:
    image = slice(PLACE, PLACE + TOKENS)
    assert relative_error(found[image].cpu(), right[image]) < TOLERANCES[found.dtype]
    outside = torch.ones(len(right), dtype=torch.bool)
    outside[image] = False
    assert same_bits(found.cpu()[outside], before[outside])


def dtypes_of(device: torch.device) -> list[torch.dtype]:
    return [torch.bfloat16, torch.float32] if device.type == "cpu" else [torch.bfloat16]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_page_goes_through_all_five_in_one_graph(
    backend: str, target: str, device: torch.device, rng: Generator
) -> None:
    need_tracing(device, backend)
    if backend == "inductor":
        skip_unless(cpp_compiler() is not None, "compiler", "inductor needs a C++ compiler, for example g++")
    chain = chain_with(attention_of(target))
    compiled = torch.compile(chain, fullgraph=True, backend=backend)
    for dtype in dtypes_of(device):
        for _ in range(2):  # the second storage is new, of the same specification
            given = inputs(rng, dtype)
            right = expected(*given)
            eager, traced = ([tensor.to(device, copy=True) for tensor in given] for _ in range(2))
            chain(*eager)
            compiled(*traced)
            check(eager[6], given[6], right)
            check(traced[6], given[6], right)
            assert backend == "inductor" or same_bits(eager[6].cpu(), traced[6].cpu())


@pytest.mark.targets("cuda")
def test_the_chain_is_captured_and_replayed_on_another_page(device: torch.device, rng: Generator) -> None:
    chain = chain_with(attn_rel_h_rel_w)
    storage = [tensor.to(device) for tensor in inputs(rng, torch.bfloat16)]

    def call() -> Tensor:
        chain(*storage)
        return storage[6]

    replay = capture(call)
    for _ in range(2):
        given = inputs(rng, torch.bfloat16)
        for old, new in zip(storage, given, strict=True):
            old.copy_(new)
        check(replay(), given[6], expected(*given))
