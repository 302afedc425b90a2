"""replace_input_embeds, then shuffle_image_tokens on the same tensor, and the whole chain, in one graph each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator, Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from tilevl.attn_rel_h_rel_w import attn_rel_h_rel_w
from tilevl.bmp_to_patches import bmp_to_patches
from tilevl.prepare_image_attn_pos_id import prepare_image_attn_pos_id
from tilevl.replace_input_embeds import image_token_index, replace_input_embeds
from tilevl.shuffle_image_tokens import shuffle_image_tokens
from tilevl.testing import Guarded, same_bits, skip_unless
from tilevl.testing.graphs import capture
from tilevl.testing.require import cpp_compiler

BACKENDS = ["eager", "aot_eager", "inductor"]
Args = tuple[Any, ...]


def merge(embeds: Tensor, rows: Tensor, index: Tensor, start: Tensor, count: Tensor, longest: int) -> None:
    replace_input_embeds(embeds, rows, index)
    shuffle_image_tokens(embeds, start, count, longest, 2)


def prompt(g: Generator, *counts: int, width: int = 16, batch: int | None = None) -> Args:
    """A prompt with images of the given numbers of rows, three words before each."""
    starts, place = [], 0
    for count in counts:
        place += 3
        starts.append(place)
        place += count
    tokens = place + 4
    tokens += -tokens % (batch or 1)
    shape = (tokens, width) if batch is None else (batch, tokens // batch, width)
    index = [start + i for start, count in zip(starts, counts, strict=True) for i in range(count)]
    return (
        torch.randn(shape, generator=g).bfloat16(),
        torch.randn(len(index), width, generator=g).bfloat16(),
        torch.tensor(index, dtype=torch.int64),
        torch.tensor(starts, dtype=torch.int64),
        torch.tensor(counts, dtype=torch.int64),
        max(counts, default=0),
    )


def expected(embeds: Tensor, rows: Tensor, index: Tensor, start: Tensor, count: Tensor, longest: int) -> Tensor:
    """Both contracts by plain loops over rows."""
    content = [row.clone() for row in embeds.reshape(-1, embeds.shape[-1])]
    for i, place in enumerate(index.tolist()):
        content[place] = rows[i]
    for first, number in zip(start.tolist(), count.tolist(), strict=True):
        half = number // 2
        content[first : first + number] = [content[first + g * half + j] for j in range(half) for g in range(2)]
    return torch.stack(content).reshape(embeds.shape)


def moved(args: Args, device: torch.device, g: Generator) -> Guarded:
    return Guarded(args, device, g)


def need(backend: str) -> None:
    if backend == "inductor":
        skip_unless(cpp_compiler() is not None, "compiler", "inductor needs a C++ compiler, for example g++")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
@pytest.mark.parametrize("batch", [None, 2], ids=["one_sequence", "batch"])
def test_replace_then_shuffle_in_one_graph(
    backend: str, dynamic: bool, batch: int | None, device: torch.device, rng: Generator
) -> None:
    need(backend)
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(merge, fullgraph=True, backend=counter, dynamic=dynamic)
    for _ in range(3):  # the second and third storage are new, of the same specification
        args = prompt(rng, 6, 4, 10, batch=batch)
        eager, traced = moved(args, device, rng), moved(args, device, rng)
        merge(*eager.args)
        compiled(*traced.args)
        assert same_bits(eager.args[0], expected(*args))
        assert same_bits(traced.args[0], expected(*args))
        assert traced.changed_bytes(written=(0,)) == []
    assert counter.frame_count == 1


def test_counts_change_in_one_dynamic_graph(device: torch.device, rng: Generator) -> None:
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(merge, fullgraph=True, backend=counter, dynamic=True)
    for counts in ((4, 8), (2, 6), (10, 2, 4), (6,), (), (8, 8, 2, 2)):
        args = prompt(rng, *counts)
        guarded = moved(args, device, rng)
        compiled(*guarded.args)
        assert same_bits(guarded.args[0], expected(*args))
    assert counter.frame_count <= 3


def test_a_fresh_sequence_is_written_before_it_is_read(device: torch.device, rng: Generator) -> None:
    table = torch.randn(20, 16, generator=rng).bfloat16().to(device)

    def score(ids: Tensor, rows: Tensor, start: Tensor, count: Tensor) -> Tensor:
        embeds = torch.nn.functional.embedding(ids, table)
        replace_input_embeds(embeds, rows, image_token_index(ids == 0, rows.shape[0]))
        shuffle_image_tokens(embeds, start, count, rows.shape[0], 2)
        return embeds.float().cumsum(0)

    ids = torch.tensor([3, 5, 0, 0, 0, 0, 7])
    rows = torch.randn(4, 16, generator=rng).bfloat16()
    start, count = torch.tensor([2]), torch.tensor([4])
    right = expected(table.cpu()[ids], rows, torch.arange(2, 6), start, count, 4).float().cumsum(0)
    compiled = torch.compile(score, fullgraph=True, backend="aot_eager")
    result = compiled(*(tensor.to(device) for tensor in (ids, rows, start, count)))
    torch.testing.assert_close(result.cpu(), right)


@pytest.mark.targets("cuda")
def test_captured_and_replayed_on_new_contents(device: torch.device, rng: Generator) -> None:
    guarded = moved(prompt(rng, 6, 4, 10), device, rng)

    def call() -> Tensor:
        merge(*guarded.args)
        return guarded.args[0]

    replay = capture(call)
    for counts in ((6, 4, 10), (2, 8, 10)):
        args = prompt(rng, *counts)
        for old, new in zip(guarded.args, args, strict=True):
            if isinstance(old, Tensor):
                old.copy_(new)
        assert same_bits(replay(), expected(*args))


def page(side: int, g: Generator) -> tuple[Tensor, Tensor]:
    """A bottom-up page of random pixels: the bytes, and what is displayed, ``[side, side, 3]`` in R, G, B order."""
    shown = torch.randint(0, 256, (side, side, 3), generator=g, dtype=torch.uint8)
    return shown.flip(0, 2).flatten(), shown


@pytest.mark.parametrize("backend", BACKENDS)
def test_all_five_ops_in_one_graph(backend: str, device: torch.device, rng: Generator) -> None:
    need(backend)
    patch, grid, heads, width = 4, 8, 2, 16
    side, tokens = patch * grid, grid * grid
    weight = torch.randn(3 * patch * patch, 3 * heads * width, generator=rng) * 0.1

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
        patches = bmp_to_patches(pixels, crops, cu, tokens, patch, [0.5] * 3, [0.5] * 3, out_dtype=torch.float32)
        query, key, value = (patches @ weight).view(1, tokens, 3, heads, width).unbind(2)
        mixed = attn_rel_h_rel_w(query, key, value, rel_h, rel_w, grid, grid)
        position = prepare_image_attn_pos_id(torch.full((1, 2), grid, device=cu.device), cu, tokens)
        rows = mixed.reshape(tokens, heads * width) + position.float().sum(1, keepdim=True)
        replace_input_embeds(embeds, rows, place + torch.arange(tokens, device=place.device))
        shuffle_image_tokens(embeds, place, torch.full_like(place, tokens), tokens, 2)

    pixels, shown = page(side, rng)
    rel_h, rel_w = (torch.randn(1, tokens, heads, grid, generator=rng) for _ in range(2))
    embeds, place = torch.randn(tokens + 9, heads * width, generator=rng), torch.tensor([5])

    patches = (shown.double() / 255 - 0.5) / 0.5
    patches = patches.view(grid, patch, grid, patch, 3).permute(0, 2, 4, 1, 3).reshape(tokens, -1)
    query, key, value = (patches @ weight.double()).view(tokens, 3, heads, width).unbind(1)
    scores = torch.einsum("ind,jnd->nij", query, key) * width**-0.5
    row, column = torch.arange(tokens) // grid, torch.arange(tokens) % grid
    scores = scores + (rel_h[0].double()[:, :, row] + rel_w[0].double()[:, :, column]).transpose(0, 1)
    rows = torch.einsum("nij,jnd->ind", scores.softmax(-1), value).reshape(tokens, -1) + (row + column)[:, None]
    right = embeds.double()
    right[5 : 5 + tokens] = rows.view(2, tokens // 2, -1).transpose(0, 1).reshape(tokens, -1)

    args = (pixels, torch.tensor([[(side - 1) * side * 3, -side * 3, side, side]]), torch.tensor([0, tokens]))
    inputs = [tensor.to(device) for tensor in (*args, rel_h, rel_w, weight, embeds, place)]
    torch.compile(chain, fullgraph=True, backend=backend)(*inputs)
    torch.testing.assert_close(inputs[6].cpu().double(), right, rtol=1e-4, atol=1e-4)


def test_demo_rebuilds_its_page_from_the_patches(tmp_path: Path) -> None:
    import subprocess
    import sys

    import numpy as np
    from PIL import Image

    demo = Path(__file__).parents[1] / "demo" / "demo.py"
    shown = np.random.default_rng(7).integers(0, 256, (140, 200, 3), dtype=np.uint8)
    Image.fromarray(shown).save(tmp_path / "page.bmp")
    command = [sys.executable, str(demo), str(tmp_path / "page.bmp"), "--out", str(tmp_path)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "The compiled graph gives the bytes of eager mode: yes" in printed
    for step in ("bmp_to_patches", "attn_rel_h_rel_w", "prepare_image_attn_pos_id", "replace and shuffle"):
        assert step in printed
    rebuilt = np.asarray(Image.open(tmp_path / "page-from-patches.png")).astype(int)
    assert rebuilt.shape == (128, 192, 3)  # whole squares of 4 x 4 patches of 16 pixels
    assert np.abs(rebuilt - shown[:128, :192]).max() <= 1  # bfloat16 keeps 8 bits

    refused = subprocess.run(
        [*command[:2], str(tmp_path / "none.bmp"), "--out", str(tmp_path)], capture_output=True, text=True
    )
    assert refused.returncode == 2 and refused.stderr.startswith("demo: ") and "none.bmp" in refused.stderr
