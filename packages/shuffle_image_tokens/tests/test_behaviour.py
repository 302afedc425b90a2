"""What the contract promises beyond single calls: worked values, restored rows, permutations, bounded memory."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor

from tilevl.shuffle_image_tokens import shuffle_image_tokens
from tilevl.testing import same_bits
from tilevl.testing.graphs import need_tracing

from . import oracle
from .cases import INT32, INT64, Args, call


def to(device: torch.device, args: Args) -> Args:
    return tuple(arg.to(device) if isinstance(arg, Tensor) else arg for arg in args)


def row_ids(embeds: Tensor) -> list[int]:
    return [int(row) for row in embeds[..., 0].flatten().tolist()]


def numbered(rows: int, width: int = 4) -> Tensor:
    return torch.arange(float(rows)).unsqueeze(1).repeat(1, width)


def test_two_groups_of_six_rows_give_the_worked_value(device: torch.device) -> None:
    args = to(device, call(numbered(6), [(0, 6)]))
    shuffle_image_tokens(*args[:4])
    assert row_ids(args[0]) == [0, 3, 1, 4, 2, 5]


def test_eight_rows_in_place_lose_no_row(device: torch.device) -> None:
    args = to(device, call(numbered(8), [(0, 8)]))
    shuffle_image_tokens(*args)
    assert row_ids(args[0]) == [0, 4, 1, 5, 2, 6, 3, 7]


def test_three_groups_are_not_two_rows_each_way(device: torch.device) -> None:
    args = to(device, call(numbered(8), [(1, 6)], groups=3))
    shuffle_image_tokens(*args)
    assert row_ids(args[0]) == [0, 1, 3, 5, 2, 4, 6, 7]


@pytest.mark.parametrize(("count", "groups"), [(2, 2), (3, 3), (12, 2), (12, 3), (12, 12), (105, 7), (9000, 8)])
def test_groups_and_then_rows_per_group_restores_the_input(
    count: int, groups: int, device: torch.device, rng: Generator
) -> None:
    embeds = torch.randn(count + 7, 520, generator=rng)
    args = to(device, call(embeds.clone(), [(3, count)], groups))
    shuffle_image_tokens(*args)
    assert same_bits(args[0], embeds) == (count == groups)
    shuffle_image_tokens(*args[:4], groups=count // groups)
    assert same_bits(args[0], embeds)


def test_an_image_may_reach_over_entries_of_a_strided_batch(device: torch.device, rng: Generator) -> None:
    storage = torch.randn(4, 9, 6, generator=rng)
    args = to(device, call(storage, [(2, 22)]))
    embeds = args[0][:, 1:7, 1:5]
    expected = oracle.shuffle_image_tokens(embeds.cpu(), *call(storage, [(2, 22)])[1:])
    shuffle_image_tokens(embeds, *args[1:])
    assert same_bits(embeds, expected)


def test_images_overwritten_right_after_the_call_do_not_change_the_result(device: torch.device, rng: Generator) -> None:
    embeds = torch.randn(40, 32, generator=rng)
    first, second = call(embeds, [(1, 12), (20, 6)]), call(embeds, [(3, 6), (14, 12)])
    expected = [oracle.shuffle_image_tokens(*args) for args in (first, second)]
    drawn = [to(device, args) for args in (first, second)]
    starts, counts = drawn[0][1].clone(), drawn[0][2].clone()
    results = []
    for turn in range(100):
        results.append(embeds.to(device, copy=True))
        shuffle_image_tokens(results[turn], starts, counts, 12)
        starts.copy_(drawn[(turn + 1) % 2][1])
        counts.copy_(drawn[(turn + 1) % 2][2])
    for turn, result in enumerate(results):
        assert same_bits(result, expected[turn % 2])


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_shuffle_of_a_fresh_tensor_is_not_lost(backend: str, device: torch.device) -> None:
    need_tracing(device, backend)

    def shuffled(rows: Tensor, starts: Tensor, counts: Tensor) -> Tensor:
        embeds = torch.zeros(8, 4, device=rows.device) + rows
        shuffle_image_tokens(embeds, starts, counts, 8)
        return embeds * 2

    args = to(device, call(numbered(8), [(0, 8)]))
    compiled = torch.compile(shuffled, fullgraph=True, backend=backend)
    assert row_ids(compiled(*args[:3])) == [0, 8, 2, 10, 4, 12, 6, 14]


@pytest.mark.targets("cpu")
@pytest.mark.parametrize(("rows", "width"), [(8000, 2048), (16000, 1024)])
def test_extra_memory_is_a_block_and_not_an_image(rows: int, width: int, device: torch.device) -> None:
    from torch.profiler import ProfilerActivity, profile

    args = call(torch.randn(rows, width, dtype=torch.bfloat16), [(0, rows)])
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        shuffle_image_tokens(*args)
    allocated = sum(max(event.self_cpu_memory_usage, 0) for event in recorded.key_averages())
    assert 0 < allocated <= (4 << 20) + 4096 < args[0].nbytes / 6


@pytest.mark.targets("cpu")
@pytest.mark.parametrize("kind", ["many_small_images_of_narrow_rows", "one_across_entries"])
def test_peak_of_extra_memory_is_what_the_readme_says(kind: str, rng: Generator) -> None:
    if kind == "one_across_entries":
        storage = torch.randn(2 * 15000 * 512 + 64, generator=rng).bfloat16()
        embeds = storage.as_strided((2, 15000, 512), (15000 * 512 + 64, 512, 1))
        start, tokens, bound = torch.tensor([0]), torch.tensor([30000]), 30000 * 270 + 2**20
    else:
        embeds = torch.randn(8 * 60000, 1, generator=rng).bfloat16()
        start = torch.arange(0, 8 * 60000, 8) + torch.randint(3, (60000,), generator=rng)
        tokens, bound = torch.full((60000,), 6), 16 * 2**20
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as recorded:
        shuffle_image_tokens(embeds, start, tokens, 30000)
    held = peak = 0
    for event in recorded.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    assert 0 < peak < bound


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_batch_is_permuted_within_its_images(device: torch.device, data: st.DataObject) -> None:
    groups, width = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    gaps = st.integers(0, 3)
    counts = data.draw(st.lists(st.integers(0, 6).map(lambda n: n * groups), max_size=8))
    counts *= data.draw(st.sampled_from([1, 1, 12]))
    spans, row = [], 0
    for count in counts:
        row += data.draw(gaps)
        spans.append((-1, count) if data.draw(st.integers(0, 9)) == 0 else (row, count))
        row += count
    batch = data.draw(st.integers(1, 3))
    tokens = -(-(row + data.draw(gaps)) // batch)
    ids = torch.arange(float(batch * tokens)).view(batch, tokens, 1)
    storage = torch.rand(batch, tokens + 2, width + 3)
    layout = data.draw(st.sampled_from(["dense", "padded", "tokens first"]))
    embeds = storage[:, 1 : tokens + 1, 2 : 2 + width]
    embeds.copy_(ids.expand(batch, tokens, width))
    if layout == "dense":
        embeds = embeds.contiguous()
    elif layout == "tokens first":
        embeds = embeds.transpose(0, 1).contiguous().transpose(0, 1)
    embeds = embeds.to(device)
    dtypes = st.sampled_from([INT32, INT64])
    spans = data.draw(st.permutations(spans))
    args = call(embeds, spans, groups, 100, (data.draw(dtypes), data.draw(dtypes)))
    expected = oracle.shuffle_image_tokens(args[0].cpu(), *args[1:])
    shuffle_image_tokens(*to(device, args))
    assert same_bits(embeds, expected)
    after = row_ids(embeds)
    outside = set(range(batch * tokens))
    for start, count in spans:
        if start >= 0:
            assert sorted(after[start : start + count]) == list(range(start, start + count))
            outside -= set(range(start, start + count))
    assert all(after[i] == i for i in outside)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_spans_are_shuffled_or_refused_whole(
    device: torch.device, data: st.DataObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEVL_CHECK_DATA", "1")
    start, count = st.integers(-2, 60), st.integers(-1, 8)
    spans = data.draw(st.lists(st.tuples(start, count), max_size=5))
    if data.draw(st.booleans()):
        spans = [(200, 0)] * 70 + spans  # past where Python ints are left for passes over tensors
    groups = data.draw(st.integers(1, 3))
    embeds = numbered(50)
    args = call(embeds, spans, groups, bound=6)
    kept = [(s, n) for s, n in spans if s >= 0 and n != 0]
    rows = [row for s, n in kept for row in range(s, s + n)]
    valid = all(0 < n <= 6 and n % groups == 0 and s + n <= 50 for s, n in kept) and len(rows) == len(set(rows))
    moved = to(device, args)
    if valid:
        expected = oracle.shuffle_image_tokens(*args)
        shuffle_image_tokens(*moved)
        assert same_bits(moved[0], expected)
    else:
        with pytest.raises(ValueError, match=r"^shuffle_image_tokens: image_(start|tokens)"):
            shuffle_image_tokens(*moved)
        assert row_ids(moved[0]) == list(range(50))
