"""What the contract promises beyond single calls: merges, duplicates, traced writes, field reports."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor

from tilevl.replace_input_embeds import image_token_index, replace_input_embeds
from tilevl.testing import same_bits
from tilevl.testing.graphs import need_tracing

from . import oracle


def test_of_equal_indices_one_row_wins_whole(device: torch.device, rng: Generator) -> None:
    embeds = torch.randn(50, 4096, generator=rng)
    rows = torch.randn(300, 4096, generator=rng)
    index = torch.randint(0, 5, (300,), generator=rng)
    result = embeds.to(device)
    replace_input_embeds(result, rows.to(device), index.to(device))
    for row in range(5):
        assert any(same_bits(result[row], rows[i]) for i in torch.nonzero(index == row).flatten().tolist())
    assert same_bits(result[5:], embeds[5:])


@pytest.mark.targets("cpu")
@pytest.mark.parametrize(("count", "width"), [(2, 200_000), (3, 100_003), (90, 4001), (700, 300)])
def test_of_equal_indices_the_last_row_wins_whole_on_many_threads(count: int, width: int, rng: Generator) -> None:
    embeds = torch.randn(6, width, generator=rng)
    threads = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        for _ in range(10):
            rows = torch.randn(count, width, generator=rng)
            index = torch.randint(-1, 2, (count,), generator=rng) * 3
            index[-1] = index[0] = 3
            result = embeds.clone()
            replace_input_embeds(result, rows, index)
            last_of = {row: i for i, row in enumerate(index.tolist()) if row >= 0}
            assert all(
                same_bits(result[row], rows[last_of[row]] if row in last_of else embeds[row]) for row in range(6)
            )
    finally:
        torch.set_num_threads(threads)


def test_mask_to_index_to_rows_is_masked_scatter(device: torch.device, rng: Generator) -> None:
    is_image = torch.rand(4, 30, generator=rng) < 0.3
    embeds = torch.randn(4, 30, 16, generator=rng)
    rows = torch.randn(int(is_image.sum()) + 3, 16, generator=rng)
    expected = embeds.masked_scatter(is_image[:, :, None], rows)
    result = embeds.to(device)
    replace_input_embeds(result, rows.to(device), image_token_index(is_image.to(device), rows.shape[0]))
    assert same_bits(result, expected)


def test_a_chunk_of_a_prompt_takes_its_rows_by_offset(device: torch.device, rng: Generator) -> None:
    embeds, rows = torch.randn(20, 8, generator=rng), torch.randn(30, 8, generator=rng)
    index = torch.arange(30) - 14  # the chunk holds rows 14 to 25 of the image at its tokens 0 to 11
    index[26:] = -1
    result = embeds.to(device)
    replace_input_embeds(result, rows.to(device), index.to(device))
    assert same_bits(result[:12], rows[14:26]) and same_bits(result[12:], embeds[12:])


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("source", ["full", "fill", "zeros", "embedding"])
def test_a_write_to_a_fresh_tensor_is_not_lost(backend: str, source: str, device: torch.device) -> None:
    need_tracing(device, backend)
    weight = torch.ones(4, 64, device=device)

    def total(rows: Tensor, index: Tensor) -> Tensor:
        if source == "full":
            embeds = torch.full((4, 64), 1.0, device=rows.device)
        elif source == "fill":
            embeds = torch.empty(4, 64, device=rows.device).fill_(1.0)
        elif source == "zeros":
            embeds = torch.zeros(4, 64, device=rows.device)
        else:
            embeds = torch.nn.functional.embedding(torch.arange(4, device=rows.device), weight)
        replace_input_embeds(embeds, rows, index)
        return (embeds * embeds).sum()

    compiled = torch.compile(total, fullgraph=True, backend=backend)
    rows, index = torch.full((2, 64), 3.0, device=device), torch.tensor([1, 3], device=device)
    assert compiled(rows, index).item() == (1152.0 if source == "zeros" else 1280.0)
    assert (weight == 1).all()


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_an_overlapping_source_in_a_graph_raises_or_acts_as_a_copy(
    backend: str, device: torch.device, rng: Generator
) -> None:
    need_tracing(device, backend)
    embeds, index = torch.randn(20, 8, generator=rng).to(device), torch.tensor([9, 2, 4, 17], device=device)
    expected = oracle.replace_input_embeds(embeds.cpu(), embeds[3:7].clone().cpu(), index.cpu())

    def call(embeds: Tensor, index: Tensor) -> None:
        replace_input_embeds(embeds, embeds[3:7], index)

    try:
        torch.compile(call, fullgraph=True, backend=backend)(embeds, index)
    except Exception as error:  # PyTorch wraps the ValueError in classes of its own
        assert "must not overlap" in str(error)
    else:
        assert same_bits(embeds, expected)


def test_an_undeclared_write_would_fail_opcheck() -> None:
    library = torch.library.Library("tilevl_negative", "FRAGMENT")
    library.define("write(Tensor embeds, Tensor rows) -> ()")

    def write(embeds: Tensor, rows: Tensor) -> None:
        embeds.copy_(rows)

    library.impl("write", write, "CPU")
    torch.library.register_fake("tilevl_negative::write", lambda embeds, rows: None, lib=library)
    with pytest.raises(Exception, match="not defined as mutable but was mutated"):
        torch.library.opcheck(torch.ops.tilevl_negative.write.default, (torch.zeros(2, 2), torch.ones(2, 2)))


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_any_layout_and_index_is_right_or_refused_whole(data: st.DataObject) -> None:
    batch, tokens, width = (data.draw(st.integers(0, 4)), data.draw(st.integers(0, 9)), data.draw(st.integers(0, 5)))
    count = data.draw(st.integers(0, 40))
    rows = batch * tokens
    g = Generator().manual_seed(data.draw(st.integers(0, 2**32)))
    storage = torch.randn(batch + 1, tokens + 2, width + 3, generator=g)
    embeds = storage[1:, 1 : tokens + 1, 2 : 2 + width]
    image = torch.randn(count, width, generator=g)
    low, high = -3, max(rows, 1) + data.draw(st.integers(-1, 1))
    index = torch.tensor(data.draw(st.lists(st.integers(low, high), min_size=count, max_size=count)), dtype=torch.int64)
    kept = index[index >= 0]
    before = storage.clone()
    if (index >= rows).any():
        with pytest.raises(ValueError, match="replace_input_embeds: token_index"):
            replace_input_embeds(embeds, image, index)
        assert same_bits(storage, before)
    elif kept.unique().numel() == kept.numel():
        expected = before.clone()
        expected[1:, 1 : tokens + 1, 2 : 2 + width] = oracle.replace_input_embeds(embeds, image, index)
        replace_input_embeds(embeds, image, index)
        assert same_bits(storage, expected)


def test_interleaved_views_that_share_no_byte_are_accepted_and_one_that_does_is_not() -> None:
    storage = torch.randn(240)
    embeds = storage.as_strided((10, 8), (24, 1))
    index = torch.arange(5)
    replace_input_embeds(embeds, storage.as_strided((5, 8), (24, 1), 8), index)
    replace_input_embeds(embeds, storage.as_strided((5, 8), (24, 1), 16), index)
    with pytest.raises(ValueError, match="must not overlap"):
        replace_input_embeds(embeds, storage.as_strided((5, 8), (24, 1), 17), index)
    with pytest.raises(ValueError, match="must not overlap"):
        replace_input_embeds(embeds, storage.as_strided((5, 8), (0, 1), 7), index)


def test_rows_that_interlock_without_sharing_are_accepted() -> None:
    storage = torch.randn(64)
    embeds = storage.as_strided((2, 2, 1), (2, 3, 1))  # rows at 0, 3, 2 and 5
    replace_input_embeds(embeds, torch.tensor([[1.0], [2.0], [3.0], [4.0]]), torch.tensor([0, 1, 2, 3]))
    assert storage[[0, 3, 2, 5]].tolist() == [1.0, 2.0, 3.0, 4.0]
    with pytest.raises(ValueError, match="rows that don't overlap"):
        replace_input_embeds(storage.as_strided((3, 2, 1), (3, 6, 1)), torch.ones(1, 1), torch.tensor([0]))
