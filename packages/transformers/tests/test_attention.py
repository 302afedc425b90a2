"""Attention through the op: modules and whole encoders, windows with padding, interpolated tables, dtypes."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Generator

from tilevl.integrations.transformers import accelerate
from tilevl.testing import relative_error

from . import models
from .bounds import assert_as_close, first, in_double

pytestmark = pytest.mark.filterwarnings("error:accelerate")


def dtypes(device: torch.device) -> tuple[torch.dtype, ...]:
    return (torch.bfloat16, torch.float16, torch.float32)[: 3 if device.type == "cpu" else 2]


@pytest.mark.parametrize(("family", "form"), models.FORMS)
def test_an_encoder_gives_what_it_gave(
    family: str, form: str, target: str, device: torch.device, rng: Generator
) -> None:
    """10 x 10 tokens, so that windows of 4 are padded; one global layer."""
    model, pixels = models.encoder(family, rng, form).to(device), models.pixels(rng).to(device)
    exact = in_double(model, pixels)
    for dtype in dtypes(device):
        model.to(dtype)
        with torch.inference_mode():
            plain = first(model(pixels.to(dtype)))
            with accelerate(model) as swapped:
                own = first(model(pixels.to(dtype)))
        assert len(swapped.swapped) == 3
        assert_as_close(own, plain, exact)


@pytest.mark.parametrize("family", models.ENCODERS)
@pytest.mark.parametrize(("rows", "columns"), [(7, 12), (12, 5), (10, 10), (1, 3)])
def test_a_global_layer_takes_any_grid(
    family: str, rows: int, columns: int, target: str, device: torch.device, rng: Generator
) -> None:
    """Tables drawn for 10 x 10 are interpolated, rows and columns apart."""
    module = models.attentions(models.encoder(family, rng))[1].to(device)
    hidden = torch.randn(2, rows, columns, 64, generator=rng).to(device)
    exact = in_double(module, hidden)
    for dtype in dtypes(device)[::2]:
        module.to(dtype)
        with torch.inference_mode():
            plain = first(module(hidden.to(dtype)))
            with accelerate(module) as swapped:
                own, weights = module(hidden.to(dtype))
        assert [swap.name for swap in swapped.swapped] == [""]
        assert weights is None
        assert own.shape == hidden.shape
        assert own.dtype == dtype
        assert_as_close(own, plain, exact)


def test_the_bound_tells_rows_from_columns(rng: Generator) -> None:
    """What the tests above would see if rows and columns were mixed up, or the tables were left out."""
    module = models.attentions(models.encoder("sam", rng))[1]
    hidden = torch.randn(2, 7, 12, 64, generator=rng)
    exact = in_double(module, hidden)
    module.bfloat16()
    with torch.inference_mode():
        plain = first(module(hidden.bfloat16()))
        mixed = copy.deepcopy(module)
        mixed.rel_pos_h, mixed.rel_pos_w = module.rel_pos_w, module.rel_pos_h
        without = copy.deepcopy(module)
        without.use_rel_pos = False
        wrong = [first(other(hidden.bfloat16())) for other in (mixed, without)]
    for result in wrong:
        with pytest.raises(AssertionError, match="from float64, allowed is"):
            assert_as_close(result, plain, exact)
        assert relative_error(result, exact) > 0.2


def test_an_encoder_on_an_image_of_another_size(target: str, device: torch.device, rng: Generator) -> None:
    """8 x 15 tokens in a model for 10 x 10: interpolated tables, windows padded on one side only.

    Of the four encoders DeepSeek-OCR-2's alone takes it.
    """
    model = models.encoder("deepseek_ocr2", rng).to(device)
    pixels = models.pixels(rng, 8, 15, images=1).to(device)
    exact = in_double(model, pixels)
    dtype = torch.bfloat16
    model.to(dtype)
    with torch.inference_mode():
        plain = first(model(pixels.to(dtype)))
        accelerate(model)
        own = first(model(pixels.to(dtype)))
    assert_as_close(own, plain, exact)


def test_autocast_chooses_the_dtype(target: str, device: torch.device, rng: Generator) -> None:
    model, pixels = models.encoder("sam", rng).to(device), models.pixels(rng).to(device)
    exact = in_double(model, pixels)
    with torch.inference_mode(), torch.autocast(device.type, dtype=torch.bfloat16):
        plain = first(model(pixels))
        accelerate(model)
        own = first(model(pixels))
    assert_as_close(own, plain, exact)


@pytest.mark.parametrize("form", ["eager", "sdpa"])
def test_a_compiled_encoder_gives_what_it_gave(form: str, target: str, device: torch.device, rng: Generator) -> None:
    model = models.encoder("deepseek_ocr2", rng, form).to(device)
    pixels = models.pixels(rng).to(device)
    exact = in_double(model, pixels)
    model.bfloat16()
    with torch.inference_mode():
        plain = first(model(pixels.bfloat16()))
        accelerate(model)
        own = first(torch.compile(model, fullgraph=True, backend="aot_eager")(pixels.bfloat16()))
    assert_as_close(own, plain, exact)


def test_one_dynamic_graph_serves_several_grids(target: str, device: torch.device, rng: Generator) -> None:
    module = models.attentions(models.encoder("sam", rng))[1].to(device, torch.bfloat16)
    accelerate(module)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager", dynamic=True)
    with torch.inference_mode():
        for rows, columns in ((5, 8), (11, 6), (7, 13)):
            hidden = torch.randn(2, rows, columns, 64, generator=rng).to(device, torch.bfloat16)
            assert relative_error(first(compiled(hidden)), first(module(hidden))) < 1e-2


@pytest.mark.targets("cuda")
def test_captured_in_a_graph_and_replayed_on_new_pixels(target: str, device: torch.device, rng: Generator) -> None:
    """The untouched model can't be captured: it indexes with tensors of the CPU."""
    model = models.encoder("deepseek_ocr2", rng).to(device, torch.bfloat16)
    accelerate(model)
    pixels = models.pixels(rng).to(device, torch.bfloat16)
    with torch.inference_mode():
        for _ in range(2):
            model(pixels)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = first(model(pixels))
        pixels.copy_(models.pixels(rng))
        graph.replay()
        assert torch.equal(captured, first(model(pixels)))
