"""What the contract promises beyond single calls: worked values, poisoned results, reused grids, traced totals."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from tilevl.prepare_image_attn_pos_id import prepare_image_attn_pos_id
from tilevl.testing import same_bits

from . import oracle
from .cases import Args, any_grids, call


def to(device: torch.device, args: Args) -> Args:
    return tuple(arg.to(device) if isinstance(arg, Tensor) else arg for arg in args)


@pytest.fixture
def poisoned_memory() -> Iterator[None]:
    """New tensors hold the largest integer instead of what was there."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def test_a_grid_in_windows_gives_the_worked_value(device: torch.device) -> None:
    grid_hw, sums = torch.tensor([[2, 4]], device=device), torch.tensor([0, 8], device=device)
    windows = prepare_image_attn_pos_id(grid_hw, sums, 8, window=2)
    assert windows.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [0, 2], [0, 3], [1, 2], [1, 3]]
    raster = prepare_image_attn_pos_id(grid_hw, sums, 9)
    assert raster.tolist() == [[0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 1], [1, 2], [1, 3], [0, 0]]


@pytest.mark.parametrize(
    ("grid", "tokens"),
    [
        ((4, 4), [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15]),
        ((2, 4), [0, 1, 4, 5, 2, 3, 6, 7]),
        ((4, 2), [0, 1, 2, 3, 4, 5, 6, 7]),
    ],
    ids=str,
)
def test_windows_are_squares_and_no_pieces_of_lines(
    grid: tuple[int, int], tokens: list[int], device: torch.device
) -> None:
    """What a reshape without its permute gets wrong: https://github.com/OpenGVLab/InternVL/issues/962."""
    grid_hw, sums = torch.tensor([grid], device=device), torch.tensor([0, len(tokens)], device=device)
    positions = prepare_image_attn_pos_id(grid_hw, sums, len(tokens), window=2)
    assert [row * grid[1] + column for row, column in positions.tolist()] == tokens


@pytest.mark.parametrize("images", [0, 3, 40])
def test_rows_past_the_last_image_are_zero(
    images: int, device: torch.device, rng: Generator, poisoned_memory: None
) -> None:
    assert bool((torch.empty(4, 2, dtype=torch.int32, device=device).cpu() > 2**30).all())  # not zero by chance
    args = to(device, call(any_grids(rng, images), spare=500))
    result = prepare_image_attn_pos_id(*args)
    assert same_bits(result[-500:], torch.zeros(500, 2, dtype=torch.int32))
    assert same_bits(result, oracle.prepare_image_attn_pos_id(args[0].cpu(), args[1].cpu(), *args[2:]))


def test_a_grid_overwritten_right_after_the_call_does_not_change_the_result(
    device: torch.device, rng: Generator
) -> None:
    first, second = ([(4, 6), (2, 9)], [(6, 4), (3, 6)])
    expected = [oracle.prepare_image_attn_pos_id(*call(grids)) for grids in (first, second)]
    drawn = [torch.tensor(grids, device=device) for grids in (first, second)]
    sums = torch.tensor([0, 24, 42], device=device)
    grid_hw = drawn[0].clone()
    results = []
    for turn in range(100):
        results.append(prepare_image_attn_pos_id(grid_hw, sums, 42))
        grid_hw.copy_(drawn[(turn + 1) % 2])
    for turn, result in enumerate(results):
        assert same_bits(result, expected[turn % 2])


def test_positions_restart_in_each_frame(device: torch.device) -> None:
    frames = [(4, 6), (2, 2), (2, 4), (2, 4)]  # of the grids (t, h, w) [[1, 4, 6], [1, 2, 2], [2, 2, 4]]
    sums = torch.tensor([0, 24, 28, 36, 44], device=device)
    result = prepare_image_attn_pos_id(torch.tensor(frames, device=device), sums, 44)
    assert result[[0, 24, 28, 36]].tolist() == [[0, 0]] * 4
    assert same_bits(result[28:36], result[36:44])
    assert result[[23, 27, 35]].tolist() == [[3, 5], [1, 1], [1, 3]]


def test_a_large_grid_between_small_ones_changes_nothing(device: torch.device) -> None:
    small = to(device, call([(3, 5)]))
    before = prepare_image_attn_pos_id(*small)
    large = to(device, call([(71, 73), (200, 1), (1, 300)]))
    expected = oracle.prepare_image_attn_pos_id(large[0].cpu(), large[1].cpu(), *large[2:])
    assert same_bits(prepare_image_attn_pos_id(*large), expected)
    assert same_bits(prepare_image_attn_pos_id(*small), before)


def test_one_graph_serves_totals_of_one_batch(device: torch.device, rng: Generator) -> None:
    compiler = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(prepare_image_attn_pos_id, fullgraph=True, backend=compiler, dynamic=True)
    grids = any_grids(rng, 5, 2)
    for spare in (3, 0, 17, 400):
        args = call(grids, window=2, spare=spare)
        assert same_bits(compiled(*to(device, args)), oracle.prepare_image_attn_pos_id(*args))
    assert compiler.frame_count == 1


def test_image_counts_share_graphs_where_the_two_columns_are_marked_static(
    device: torch.device, rng: Generator
) -> None:
    # Else PyTorch takes 2 images and 2 columns for one number, and the first graph serves 2 images only.
    compiler = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(prepare_image_attn_pos_id, fullgraph=True, backend=compiler, dynamic=True)
    for images in (2, 3, 4, 1, 0):
        args = call(any_grids(rng, images), spare=images)
        grid_hw = args[0].to(device, copy=True)
        torch._dynamo.mark_static(grid_hw, 1)
        assert same_bits(compiled(grid_hw, *to(device, args[1:])), oracle.prepare_image_attn_pos_id(*args))
    assert compiler.frame_count <= 3


@torch._dynamo.config.patch(capture_scalar_outputs=True)
def test_a_total_read_from_the_sums_stays_in_one_graph(device: torch.device, rng: Generator) -> None:
    def positions(grid_hw: Tensor, sums: Tensor) -> Tensor:
        return prepare_image_attn_pos_id(grid_hw, sums, sums[-1].item()) + 1

    compiler = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(positions, fullgraph=True, backend=compiler, dynamic=True)
    for images in (3, 6):
        args = call(any_grids(rng, images))
        result = compiled(*to(device, args[:2]))
        assert same_bits(result, oracle.prepare_image_attn_pos_id(*args) + 1)
    assert compiler.frame_count == 1


def test_an_exported_program_serves_any_number_of_images(device: torch.device, rng: Generator) -> None:
    class Tower(torch.nn.Module):
        def forward(self, grid_hw: Tensor, sums: Tensor, tokens: Tensor) -> Tensor:
            return prepare_image_attn_pos_id(grid_hw, sums, tokens.shape[0])

    images, total = torch.export.Dim("images", min=2), torch.export.Dim("total", min=2)
    first = call(any_grids(rng, 3))
    program = torch.export.export(
        Tower().to(device),
        (*to(device, first[:2]), torch.zeros(first[2], 4, device=device)),
        dynamic_shapes=({0: images}, {0: images + 1}, {0: total}),
        strict=False,
    )
    for count in (2, 9):
        args = call(any_grids(rng, count), spare=4)
        result = program.module()(*to(device, args[:2]), torch.zeros(args[2], 4, device=device))
        assert same_bits(result, oracle.prepare_image_attn_pos_id(*args))


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_batch_of_grids_is_right(device: torch.device, data: st.DataObject) -> None:
    window = data.draw(st.integers(1, 4))
    side = st.integers(0, 5).map(lambda n: n * window)
    runs = data.draw(st.lists(st.tuples(side, side, st.sampled_from([1, 1, 2, 30])), max_size=12))
    grids = [(height, width) for height, width, times in runs for _ in range(times)]
    dtypes = st.sampled_from([torch.int32, torch.int64])
    args = call(grids, window, data.draw(st.integers(0, 3)), data.draw(dtypes), data.draw(dtypes))
    assert same_bits(prepare_image_attn_pos_id(*to(device, args)), oracle.prepare_image_attn_pos_id(*args))


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_batch_whose_sums_are_changed_is_refused(
    device: torch.device, data: st.DataObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEVL_CHECK_DATA", "1")
    side = st.integers(0, 5)
    grids = data.draw(st.lists(st.tuples(side, side), max_size=5)) * data.draw(st.sampled_from([1, 30]))
    grid_hw, sums, total, window = to(device, call(grids))
    position = data.draw(st.integers(0, len(grids)))
    delta = data.draw(st.integers(-(2**62), 2**62).filter(bool))
    sums[position] += delta
    with pytest.raises(ValueError, match=rf"^prepare_image_attn_pos_id: cu_seqlens_vit\[{position}\] must be"):
        prepare_image_attn_pos_id(grid_hw, sums, total, window)
