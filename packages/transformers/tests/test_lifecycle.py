"""What accelerate leaves as it was, and how it is taken back."""

from __future__ import annotations

import copy
import functools
import io
import logging

import pytest
import torch
from torch import Generator, nn

from tilevl.integrations.transformers import Swapped, accelerate, restore

from . import models
from .bounds import first

ATTENTIONS = [f"vision_encoder.layers.{i}.attn" for i in range(3)]


def runs_the_op(model: nn.Module, monkeypatch: pytest.MonkeyPatch, rng: Generator) -> int:
    """How many attentions call the op in one pass."""
    from tilevl.integrations.transformers import attention

    calls: list[object] = []

    def counted(*args: object) -> torch.Tensor:
        calls.append(args)
        return op(*args)

    op = attention.attn_rel_h_rel_w
    with monkeypatch.context() as patch, torch.inference_mode():
        patch.setattr(attention, "attn_rel_h_rel_w", counted)
        model(models.pixels(rng).to(next(model.parameters())))
    return len(calls)


def test_what_is_swapped_is_listed_and_logged(rng: Generator, caplog: pytest.LogCaptureFixture) -> None:
    model = models.encoder("sam", rng)
    with caplog.at_level(logging.INFO, logger="tilevl.integrations.transformers"):
        made = accelerate(model)
    assert made.swapped == tuple(Swapped(name, "attn_rel_h_rel_w", "forward") for name in ATTENTIONS)
    assert made.skipped == ()
    assert [record.getMessage() for record in caplog.records] == [
        f"{name}.forward runs attn_rel_h_rel_w" for name in ATTENTIONS
    ]
    assert repr(made).splitlines() == [
        "Acceleration of 3 modules",
        *(f"{name}: forward runs attn_rel_h_rel_w" for name in ATTENTIONS),
    ]


@pytest.mark.parametrize("family", models.WHOLE)
def test_every_part_of_a_whole_model_is_found(family: str, rng: Generator) -> None:
    found = [swap.op for swap in accelerate(models.WHOLE[family](rng)).swapped]
    parts = ["prepare_image_attn_pos_id"] if family in models.QWENS else ["attn_rel_h_rel_w"] * 3
    assert found == ["replace_input_embeds", *parts]


def test_undo_gives_back_every_bit(
    target: str, device: torch.device, rng: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = models.encoder("sam", rng).to(device, torch.bfloat16)
    pixels = models.pixels(rng).to(device, torch.bfloat16)
    before = [dict(module.__dict__) for module in model.modules()]
    with torch.inference_mode():
        plain = first(model(pixels))
        made = accelerate(model)
        assert runs_the_op(model, monkeypatch, rng) == 3
        made.undo()
        made.undo()
        assert torch.equal(first(model(pixels)), plain)
    assert runs_the_op(model, monkeypatch, rng) == 0
    assert [list(module.__dict__) for module in model.modules()] == [list(names) for names in before]


def test_a_with_block_undoes_at_its_end_even_after_an_error(rng: Generator) -> None:
    model = models.encoder("sam", rng)
    with pytest.raises(KeyError), accelerate(model) as made:
        assert len(made.swapped) == 3
        raise KeyError("of the block")
    assert all("forward" not in module.__dict__ for module in model.modules())


def test_a_second_accelerate_swaps_nothing_and_undoes_nothing(rng: Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    model = models.encoder("sam", rng)
    outer = accelerate(model)
    with accelerate(model) as inner:
        assert inner.swapped == ()
    assert runs_the_op(model, monkeypatch, rng) == 3
    outer.undo()
    assert runs_the_op(model, monkeypatch, rng) == 0


def test_state_dict_classes_and_parameters_stay(rng: Generator) -> None:
    model = models.deepseek_ocr2(rng)
    keys, kinds = list(model.state_dict()), [type(module) for module in model.modules()]
    parameters = dict(model.named_parameters())
    accelerate(model)
    assert list(model.state_dict()) == keys
    assert [type(module) for module in model.modules()] == kinds
    assert all(parameter is parameters[name] for name, parameter in model.named_parameters())


@pytest.mark.parametrize("how", ["deepcopy", "pickle"])
def test_a_copy_is_accelerated_on_its_own(how: str, rng: Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    model = models.encoder("sam", rng)
    made = accelerate(model)
    if how == "deepcopy":
        copied = copy.deepcopy(model)
    else:
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        copied = torch.load(file, weights_only=False)
    made.undo()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()  # a copy that still called the model would give zeros
        pixels = models.pixels(rng)
        accelerated = first(copied(pixels))
        assert runs_the_op(copied, monkeypatch, rng) == 3
        restore(copied)
        torch.testing.assert_close(accelerated, first(copied(pixels)), rtol=1e-3, atol=1e-4)
    assert runs_the_op(copied, monkeypatch, rng) == 0
    assert accelerated.abs().sum() > 0


def test_a_whole_model_survives_a_pickle(rng: Generator) -> None:
    model = models.qwen2_vl(rng)
    accelerate(model)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    copied = torch.load(file, weights_only=False)
    assert copied.model.get_placeholder_mask.args[0] is copied.model
    assert copied.model.visual.forward.args[0] is copied.model.visual


def test_weights_and_dtype_may_change_afterwards(target: str, device: torch.device, rng: Generator) -> None:
    """Nothing of the weights is kept aside."""
    model, other = models.encoder("sam", rng), models.encoder("sam", rng)
    accelerate(model)
    pixels = models.pixels(rng)
    with torch.inference_mode():
        model(pixels)
        model.load_state_dict(other.state_dict())
        model.to(device, torch.bfloat16)
        other.to(device, torch.bfloat16)
        accelerate(other)
        pixels = pixels.to(device, torch.bfloat16)
        assert torch.equal(first(model(pixels)), first(other(pixels)))


def test_a_graph_compiled_before_sees_the_swap_and_the_undoing(rng: Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    model, pixels = models.encoder("sam", rng), models.pixels(rng)
    compiled = torch.compile(model, backend="eager")
    with torch.inference_mode():
        compiled(pixels)
        assert runs_the_op(compiled, monkeypatch, rng) == 0
        with accelerate(model):
            assert runs_the_op(compiled, monkeypatch, rng) == 3
        assert runs_the_op(compiled, monkeypatch, rng) == 0


def test_a_module_that_another_library_wraps_is_left_alone(rng: Generator) -> None:
    model = models.encoder("sam", rng)
    module = models.attentions(model)[1]
    module._old_forward = module.forward
    module.forward = functools.partial(_through, module)
    with pytest.warns(UserWarning, match="its forward is wrapped already"):
        made = accelerate(model)
    assert [skip.name for skip in made.skipped] == [ATTENTIONS[1]]
    assert len(made.swapped) == 2
    restore(model)
    assert module.forward.func is _through


def _through(module: nn.Module, *args: object, **kwargs: object) -> object:
    return module._old_forward(*args, **kwargs)


def test_an_undo_below_another_s_wrapping_is_refused_whole(rng: Generator) -> None:
    model = models.encoder("sam", rng)
    made = accelerate(model)
    module = models.attentions(model)[2]
    module._old_forward = module.forward
    module.forward = functools.partial(_through, module)
    for undo in (made.undo, functools.partial(restore, model)):
        with pytest.raises(RuntimeError, match=f"must be as accelerate left them, got others in {ATTENTIONS[2]}"):
            undo()
    assert all("forward" in each.__dict__ for each in models.attentions(model))
    module.forward = module._old_forward
    made.undo()
    assert all("forward" not in each.__dict__ for each in models.attentions(model))
