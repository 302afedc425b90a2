"""Vision towers of Qwen2-VL and Qwen2.5-VL: the ids are the model's own, and so is every bit that follows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn

from tilevl.integrations.transformers import accelerate

from . import models

GRIDS = [
    [[1, 4, 6]],
    [[1, 2, 2], [1, 8, 4], [1, 6, 10]],
    [[3, 4, 2], [1, 2, 8]],  # a video of three frames
]


def patches(rng: Generator, grids: Tensor) -> Tensor:
    return torch.randn(int(grids.prod(1).sum()), 3 * 2 * models.PATCH**2, generator=rng)


class Noted:
    """Hook that keeps the position ids and the result of a tower's rotary embedding."""

    def __init__(self, tower: nn.Module) -> None:
        self.ids: list[Tensor] = []
        tower.rotary_pos_emb.register_forward_hook(self._note, with_kwargs=True)

    def _note(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        self.ids.append((*args, *kwargs.values())[-1])


@pytest.mark.parametrize("family", models.QWENS)
@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_a_tower_gives_what_it_gave(
    family: str, grid: list[list[int]], target: str, device: torch.device, rng: Generator
) -> None:
    tower = models.QWENS[family](rng).model.visual.to(device, torch.bfloat16)
    grids = torch.tensor(grid, device=device)
    pixels = patches(rng, grids).to(device, torch.bfloat16)
    noted = Noted(tower)
    with torch.inference_mode():
        expected = tower(pixels, grid_thw=grids)
        made = accelerate(tower)
        got = tower(pixels, grid_thw=grids)
    assert [(swap.op, swap.method) for swap in made.swapped] == [("prepare_image_attn_pos_id", "forward")]
    plain, own = noted.ids
    assert (plain.dtype, own.dtype) == (torch.int64, torch.int32)
    assert torch.equal(own, plain.int())
    assert torch.equal(got.last_hidden_state, expected.last_hidden_state)
    assert torch.equal(got.pooler_output, expected.pooler_output)


def test_gradients_flow_through_a_tower(target: str, device: torch.device, rng: Generator) -> None:
    """The ids carry none, so that the op stays where the rest of the model is trained."""
    tower = models.qwen2_vl(rng).model.visual.to(device)
    grids = torch.tensor(GRIDS[1], device=device)
    pixels = patches(rng, grids).to(device)
    noted = Noted(tower)
    accelerate(tower)
    tower(pixels, grid_thw=grids).pooler_output.sum().backward()
    assert noted.ids[0].dtype == torch.int32
    assert tower.patch_embed.proj.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("family", models.QWENS)
def test_ids_that_the_caller_gives_are_taken(family: str, target: str, device: torch.device, rng: Generator) -> None:
    tower = models.QWENS[family](rng).model.visual.to(device)
    grids = torch.tensor(GRIDS[0], device=device)
    pixels = patches(rng, grids).to(device)
    given = torch.randint(0, 9, (24, 2), generator=rng).to(device)
    noted = Noted(tower)
    accelerate(tower)
    with torch.inference_mode():
        tower(pixels, grid_thw=grids, position_ids=given)
    assert noted.ids[0] is given


def test_grids_that_don_t_fit_the_patches_are_refused(target: str, device: torch.device, rng: Generator) -> None:
    tower = models.qwen2_vl(rng).model.visual.to(device)
    accelerate(tower)
    pixels = patches(rng, torch.tensor([[1, 4, 6]])).to(device)
    for grid, total in (([[1, 4, 4]], 16), ([[1, 4, 6], [1, 2, 2]], 28)):
        with pytest.raises(ValueError, match=f"grid_thw must have 24 patches, as many as there are, got {total}"):
            tower(pixels, grid_thw=torch.tensor(grid, device=device))


@pytest.mark.targets("cuda")
def test_grids_on_another_device_keep_the_model_s_own_path(target: str, device: torch.device, rng: Generator) -> None:
    tower = models.qwen2_vl(rng).model.visual.to(device)
    accelerate(tower)
    grids = torch.tensor(GRIDS[0])
    with pytest.warns(UserWarning, match="grid_thw must be on cuda"), pytest.raises(RuntimeError, match="device"):
        tower(patches(rng, grids).to(device), grid_thw=grids)
