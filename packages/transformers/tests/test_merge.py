"""Whole models: images, videos and text come together as they did."""

from __future__ import annotations

import copy

import pytest
import torch
from packaging.version import Version
from torch import Generator, Tensor, nn
from torch._dynamo.exc import InternalTorchDynamoError
from torch._dynamo.testing import EagerAndRecordGraphs
from torch.utils._python_dispatch import TorchDispatchMode

from tilevl.integrations.transformers import accelerate

from . import models, prompts

MERGES = ("aten.masked_scatter.default", "tilevl.image_token_index.default", "tilevl.replace_input_embeds.default")


class Merges(TorchDispatchMode):
    """Notes which op merged, as often as it did."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if str(func) in MERGES:
            self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def alone(model: nn.Module) -> nn.Module:
    """A copy in which the merge alone is swapped: everything else keeps its bits."""
    copied = copy.deepcopy(model)
    accelerate(copied)
    for module in copied.modules():
        if "forward" in module.__dict__:
            del module.forward
    return copied


@pytest.mark.parametrize("family", models.WHOLE)
def test_the_merge_keeps_every_bit(family: str, target: str, device: torch.device, rng: Generator) -> None:
    """Several images of several prompts, text between, videos; masked_scatter never runs."""
    model = models.WHOLE[family](rng).to(device, torch.bfloat16)
    prompt = prompts.on(device, torch.bfloat16, prompts.of(family, rng))
    swapped = alone(model)
    with torch.inference_mode():
        expected = model(**prompt).logits
        with Merges() as merges:
            got = swapped(**prompt)
    assert torch.equal(got.logits, expected)
    assert type(got.logits) is Tensor
    pairs = 2 if "video_grid_thw" in prompt else 1
    assert merges.names == [MERGES[1], MERGES[2]] * pairs


@pytest.mark.parametrize("family", models.WHOLE)
def test_the_prompt_decides_where_images_go(family: str, target: str, device: torch.device, rng: Generator) -> None:
    """Other images, other result: a merge that wrote nothing would pass the test above on equal terms only."""
    model = models.WHOLE[family](rng).to(device, torch.bfloat16)
    prompt = prompts.on(device, torch.bfloat16, prompts.of(family, rng))
    accelerate(model)
    with torch.inference_mode():
        before = model(**prompt).logits
        prompt["pixel_values"] = prompt["pixel_values"].flip(0)
        assert not torch.equal(model(**prompt).logits, before)


@pytest.mark.parametrize("family", models.WHOLE)
def test_a_prompt_without_images(family: str, target: str, device: torch.device, rng: Generator) -> None:
    model = models.WHOLE[family](rng).to(device, torch.bfloat16)
    input_ids = torch.randint(3, 80, (2, 7), generator=rng).to(device)
    with torch.inference_mode():
        expected = model(input_ids=input_ids).logits
        accelerate(model)
        assert torch.equal(model(input_ids=input_ids).logits, expected)


def test_embeddings_that_the_caller_gives_stay_his(target: str, device: torch.device, rng: Generator) -> None:
    model = models.got_ocr2(rng).to(device, torch.bfloat16)
    prompt = prompts.on(device, torch.bfloat16, prompts.of("got_ocr2", rng))
    features = torch.randn(27, 32, generator=rng).to(device, torch.bfloat16)
    with torch.inference_mode():
        embeds = model.get_input_embeddings()(prompt["input_ids"])
        kept = embeds.clone()
        accelerate(model)
        mask = model.model.get_placeholder_mask(
            prompt["input_ids"], inputs_embeds=embeds, image_features=features[None]
        )
        merged = embeds.masked_scatter(mask, features)
    assert torch.equal(embeds, kept)
    assert torch.equal(merged[prompt["input_ids"] == models.IMAGE_TOKEN], features)
    assert torch.equal(
        merged[prompt["input_ids"] != models.IMAGE_TOKEN], kept[prompt["input_ids"] != models.IMAGE_TOKEN]
    )


@pytest.mark.parametrize("family", models.WHOLE)
def test_images_that_don_t_fit_the_prompt_are_the_model_s_own_error(
    family: str, target: str, device: torch.device, rng: Generator
) -> None:
    model = models.WHOLE[family](rng).to(device, torch.bfloat16)
    prompt = prompts.on(device, torch.bfloat16, prompts.of(family, rng))
    prompt["input_ids"][0, 0] = models.IMAGE_TOKEN
    if "mm_token_type_ids" in prompt:
        prompt["mm_token_type_ids"][0, 0] = 1
    accelerate(model)
    with torch.inference_mode(), pytest.raises(ValueError, match=r"[Ii]mage features and image tokens do not match"):
        model(**prompt)


def test_training_keeps_masked_scatter(target: str, device: torch.device, rng: Generator) -> None:
    model = models.got_ocr2(rng).to(device)
    prompt = prompts.on(device, torch.float32, prompts.of("got_ocr2", rng))
    weight = next(model.model.multi_modal_projector.parameters())
    model(**prompt).logits.square().sum().backward()
    assert weight.grad is not None
    expected = weight.grad.clone()
    model.zero_grad()
    accelerate(model)
    with pytest.warns(UserWarning, match="no gradient") as caught, Merges() as merges:
        model(**prompt).logits.square().sum().backward()
    ours = [each for each in caught if "accelerate:" in str(each.message)]  # CUDA's backward may say things of its own
    assert len(ours) == 1
    assert merges.names == [MERGES[0]]
    torch.testing.assert_close(weight.grad, expected)


@pytest.mark.parametrize("checks", ["checks_off", "checks_on"])
def test_a_graph_holds_the_merge(
    checks: str, target: str, device: torch.device, rng: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever one holds the untouched model's: with the models' check of placeholders, none of torch 2.11 does."""
    if checks == "checks_off":
        monkeypatch.setenv("TRANSFORMERS_DISABLE_TORCH_CHECK", "1")
    merging = models.got_ocr2(rng).model.to(device, torch.bfloat16).requires_grad_(False)
    embeds = torch.randn(2, 20, 32, generator=rng).to(device, torch.bfloat16)
    features = torch.randn(3, 32, generator=rng).to(device, torch.bfloat16)
    input_ids = torch.randint(3, 80, (2, 20), generator=rng).to(device)
    input_ids[0, 3:5] = input_ids[1, 7] = models.IMAGE_TOKEN

    def merge(input_ids: Tensor, embeds: Tensor, features: Tensor) -> Tensor:
        mask = merging.get_placeholder_mask(input_ids, embeds, features[None])
        return embeds.masked_scatter(mask, features)

    def compiled() -> tuple[EagerAndRecordGraphs, Tensor]:
        torch.compiler.reset()
        graphs = EagerAndRecordGraphs()
        with torch.inference_mode():
            return graphs, torch.compile(merge, fullgraph=True, backend=graphs)(input_ids, embeds, features)

    try:
        compiled()
    except InternalTorchDynamoError:  # untouched
        assert checks == "checks_on" and Version(torch.__version__) < Version("2.13")
        accelerate(merging)
        with pytest.raises(InternalTorchDynamoError):
            compiled()
        return
    accelerate(merging)
    expected = embeds.clone()
    expected[input_ids == models.IMAGE_TOKEN] = features
    graphs, result = compiled()
    assert torch.equal(result, expected)
    code = graphs.graphs[0].code
    assert "replace_input_embeds" in code
    assert "masked_scatter" not in code
