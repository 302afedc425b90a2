"""Calls that an op can't do: the model's own result, to the bit, and one warning for each reason."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor, nn

from tilevl.integrations.transformers import accelerate

from . import models
from .bounds import first

KEPT = "the model's own path is kept"


def warned(call: Callable[[], object], times: int = 2) -> list[str]:
    """What a call warns of when it is made several times."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(times):
            call()
    return [str(warning.message) for warning in caught if KEPT in str(warning.message)]


@pytest.fixture
def model(device: torch.device, rng: Generator) -> models.PreTrainedModel:
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    return models.encoder("sam", rng).to(device, dtype)


@pytest.fixture
def pixels(model: models.PreTrainedModel, rng: Generator) -> Tensor:
    return models.pixels(rng).to(model.device, model.dtype)


def test_gradients_flow_as_without(target: str, model: nn.Module, pixels: Tensor) -> None:
    first(model(pixels)).square().sum().backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    accelerate(model)
    said = warned(lambda: first(model(pixels)).square().sum().backward(), times=1)
    assert len(said) == 1
    assert "no gradient" in said[0]
    assert expected
    for name, parameter in model.named_parameters():
        if name in expected:
            torch.testing.assert_close(parameter.grad, expected[name])


def test_a_frozen_model_runs_the_op_in_grad_mode(target: str, model: nn.Module, pixels: Tensor) -> None:
    model.requires_grad_(False)
    accelerate(model)
    assert warned(lambda: model(pixels)) == []
    pixels.requires_grad_()
    assert len(warned(lambda: model(pixels))) == 1


@pytest.mark.parametrize("compiled", [False, True])
def test_attention_weights_that_are_asked_for_are_there(
    compiled: bool, target: str, model: nn.Module, pixels: Tensor
) -> None:
    run = torch.compile(model, backend="aot_eager") if compiled else model
    with torch.inference_mode():
        expected = model(pixels, output_attentions=True)
        accelerate(model)
        said = warned(lambda: run(pixels, output_attentions=True))
        got = run(pixels, output_attentions=True)
    assert len(said) == 1
    assert "output_attentions" in said[0]
    assert len(got.attentions) == len(expected.attentions) == 3
    for ours, theirs in zip(got.attentions, expected.attentions, strict=True):
        torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(first(got), first(expected))


def test_attention_weights_of_a_compiled_layer_are_there(target: str, model: nn.Module, pixels: Tensor) -> None:
    """The collector lies outside of the graph, the attention within."""
    with torch.inference_mode():
        expected = model(pixels, output_attentions=True)
        accelerate(model)
        for layer in model.vision_encoder.layers:
            layer.compile(backend="aot_eager")
        warned(lambda: model(pixels))
        got = model(pixels, output_attentions=True)
    assert len(got.attentions) == len(expected.attentions)


def test_an_attention_told_to_return_weights_does(target: str, model: nn.Module, pixels: Tensor) -> None:
    module = models.attentions(model)[0]
    accelerate(module)
    hidden = torch.randn(2, 4, 4, 64).to(pixels)
    with torch.inference_mode():
        assert len(warned(lambda: module(hidden, output_attentions=True))) == 1
        assert module(hidden, output_attentions=True)[1].shape == (4, 16, 16)


def test_dropout_in_training_keeps_dropping(target: str, model: nn.Module, pixels: Tensor) -> None:
    for module in models.attentions(model):
        module.dropout = 0.5
    with torch.no_grad():
        accelerate(model)
        model.train()
        said = warned(lambda: model(pixels))
        results = [first(model(pixels)) for _ in range(2)]
        assert not torch.equal(*results)
        assert len(said) == 1
        assert "dropout" in said[0]
        model.eval()
        assert warned(lambda: model(pixels)) == []
        for module in models.attentions(model):
            module.dropout = 0.0
        model.train()
        assert warned(lambda: model(pixels)) == []


def test_a_dtype_that_the_op_lacks(target: str, model: nn.Module, pixels: Tensor) -> None:
    dtype = torch.float64 if pixels.device.type == "cpu" else torch.float32
    model.to(dtype)
    with torch.inference_mode():
        expected = first(model(pixels.to(dtype)))
        accelerate(model)
        said = warned(lambda: model(pixels.to(dtype)))
        assert len(said) == 1
        assert str(dtype) in said[0]
        assert torch.equal(first(model(pixels.to(dtype))), expected)


def test_each_reason_is_told_once_by_each_accelerate(target: str, model: nn.Module, pixels: Tensor) -> None:
    accelerate(model)
    assert len(warned(lambda: model(pixels))) == 1
    with torch.inference_mode():
        assert len(warned(lambda: model(pixels, output_attentions=True))) == 1
    assert warned(lambda: model(pixels)) == []
    accelerate(model).undo()
    assert warned(lambda: model(pixels)) == []


@pytest.mark.parametrize("version", ["5.9.0", "4.57.6", "6.0.0"])
def test_a_transformers_out_of_range_keeps_all_of_it(
    version: str, rng: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = models.encoder("sam", rng)
    monkeypatch.setattr("transformers.__version__", version)
    with pytest.warns(UserWarning, match=rf"{KEPT}: transformers must be .*, got {version}") as caught:
        made = accelerate(model)
    assert len(caught) == 1
    assert made.swapped == ()
    assert len(made.skipped) == 3
    assert all("forward" not in module.__dict__ for module in model.modules())


def test_an_attention_without_relative_positions_is_skipped(rng: Generator) -> None:
    made, config = models.ENCODERS["sam"]
    settings = config()
    settings.use_rel_pos = False
    model = models.drawn(made._from_config(settings, attn_implementation="eager"), rng)
    with pytest.warns(UserWarning, match="no relative position") as caught:
        skipped = accelerate(model).skipped
    assert len(caught) == 1
    assert [skip.name for skip in skipped] == [f"vision_encoder.layers.{i}.attn" for i in range(3)]


def test_a_head_dim_that_the_op_lacks_is_skipped(rng: Generator) -> None:
    made, config = models.ENCODERS["sam"]
    settings = config()
    settings.num_attention_heads = 8
    model = models.drawn(made._from_config(settings, attn_implementation="sdpa"), rng)
    with pytest.warns(UserWarning, match=r"head dim D must be a multiple of 16.*, got 8"):
        assert accelerate(model).swapped == ()


def test_a_device_that_can_t_run_the_op(
    target: str, model: nn.Module, pixels: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tilevl.integrations.transformers import own_path

    found = {("attn_rel_h_rel_w", pixels.device.type): "no compiler, install one"}
    monkeypatch.setattr(own_path, "_availability", found)
    with torch.inference_mode():
        expected = first(model(pixels))
        accelerate(model)
        assert [text.partition(": ")[2] for text in warned(lambda: model(pixels))] == [
            f"{KEPT}: no compiler, install one"
        ]
        assert torch.equal(first(model(pixels)), expected)
