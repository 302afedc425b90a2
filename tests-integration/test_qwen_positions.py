"""prepare_image_attn_pos_id against the position ids of the vision towers of Qwen2-VL and Qwen2.5-VL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor

from tilevl.prepare_image_attn_pos_id import prepare_image_attn_pos_id

from . import small_models

GRIDS = [[1, 8, 4], [1, 4, 12], [2, 4, 4], [1, 4, 4]]  # frames, rows and columns of patches; wide, high, two frames


@pytest.fixture(autouse=True)
def _transformers() -> None:
    small_models.need_transformers()


def frames(grid_thw: Tensor) -> tuple[Tensor, Tensor, int]:
    """What the op takes for images and videos: each frame is an image."""
    grid_hw = grid_thw[:, 1:].repeat_interleave(grid_thw[:, 0], 0)
    cu_seqlens = torch.nn.functional.pad(grid_hw.prod(1).cumsum(0), (1, 0))
    return grid_hw.contiguous(), cu_seqlens, int(cu_seqlens[-1])


def positions(grid_thw: Tensor, window: int, device: torch.device) -> Tensor:
    grid_hw, cu_seqlens, total = frames(grid_thw)
    return prepare_image_attn_pos_id(grid_hw.to(device), cu_seqlens.to(device), total, window)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_positions_are_those_of_transformers_for_any_grids(device: torch.device, data: st.DataObject) -> None:
    from transformers.vision_utils import get_vision_position_ids

    merge_size = data.draw(st.integers(1, 4))
    side = st.integers(1, 9).map(lambda number: number * merge_size)
    grids = data.draw(st.lists(st.tuples(st.integers(1, 3), side, side), min_size=1, max_size=5))
    grid_thw = torch.tensor(grids)
    found = positions(grid_thw, merge_size, device)
    assert found.dtype == torch.int32
    assert found.tolist() == get_vision_position_ids(grid_thw, merge_size).tolist()


def test_positions_of_a_large_batch_are_those_of_transformers(device: torch.device, rng: Generator) -> None:
    from transformers.vision_utils import get_vision_position_ids

    grid_thw = torch.cat([torch.ones(40, 1, dtype=torch.int64), 2 * torch.randint(1, 20, (40, 2), generator=rng)], 1)
    assert torch.equal(positions(grid_thw, 2, device).cpu().long(), get_vision_position_ids(grid_thw, 2))


@pytest.mark.targets("cpu", "cuda")
@pytest.mark.parametrize("make", [small_models.qwen2_vl, small_models.qwen2_5_vl], ids=["qwen2_vl", "qwen2_5_vl"])
@pytest.mark.parametrize("merge_size", [1, 2, 4])
def test_the_vision_tower_takes_them_for_its_own(
    make: Callable[..., Any], merge_size: int, device: torch.device, rng: Generator
) -> None:
    tower = make(rng, merge_size).model.visual.to(device)
    grid_thw = torch.tensor(GRIDS)
    _, cu_seqlens, total = frames(grid_thw)
    pixels = torch.randn(total, 3 * 2 * 14 * 14, generator=rng).to(device)
    given = {"position_ids": positions(grid_thw, merge_size, device), "cu_seqlens": cu_seqlens.int().to(device)}
    with torch.no_grad():
        own = tower(pixels, grid_thw=grid_thw.to(device)).pooler_output
        ours = tower(pixels, grid_thw=grid_thw.to(device), **given).pooler_output
        given = {
            "position_ids": positions(grid_thw, merge_size, device).flip(1),
            "cu_seqlens": cu_seqlens.int().to(device),
        }
        swapped = tower(pixels, grid_thw=grid_thw.to(device), **given).pooler_output
    assert torch.equal(ours, own)
    assert (swapped - own).abs().max() > 1e-3
