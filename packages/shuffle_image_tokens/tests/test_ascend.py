"""The Ascend kernels on the host model: orders of the pipes, each way through them, bad data, and what they move."""

from __future__ import annotations

import pytest
import torch
from torch import Generator, Tensor

from tilevl.shuffle_image_tokens import shuffle_image_tokens
from tilevl.shuffle_image_tokens.strips import HELD_BYTES, LONGEST, strip_bytes
from tilevl.testing import same_bits
from tilevl.testing.guards import Guarded
from tilevl.testing.simulated_npu import SimulatedNpu

from . import oracle

pytestmark = pytest.mark.targets("ascend")

ORDERS = [{"order": "eager"}, {"order": "lazy"}, *({"order": "random", "seed": seed} for seed in range(3))]
Spans = list[tuple[int, int]]

# name: spans, groups, rows, columns, longest
CALLS: dict[str, tuple[Spans, int, int, int, int]] = {
    "rising": ([(1, 24), (25, 48), (90, 30)], 3, 121, 200, 48),
    "rising_with_skipped_ones_last": ([(0, 48), (60, 12), (-1, 48), (70, 0), (-9, 2)], 4, 80, 51, 48),
    "falling": ([(90, 30), (25, 48), (1, 24)], 3, 121, 200, 48),
    "ends_at_the_last_row": ([(3, 46)], 2, 49, 40, 48),
    "pairs": ([(3, 46)], 23, 49, 40, 48),
    "one_row_a_run": ([(3, 46)], 46, 49, 40, 48),
    "narrow_strips": ([(2, 1200), (1300, 700)], 2, 2001, 70, 1200),
    "one_strip_at_once": ([(5, 3000)], 3, 3010, 40, 3000),
    "more_rows_than_a_copy_takes": ([(7, 5000)], 4, 5009, 40, 5000),
    "longer_than_fits": ([(3, LONGEST + 6), (LONGEST + 10, 60)], 2, LONGEST + 75, 40, LONGEST + 6),
    "longer_than_fits_and_falling": ([(LONGEST + 10, 60), (3, LONGEST + 6)], 2, LONGEST + 75, 40, LONGEST + 6),
}


def draw(g: Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=g).to(torch.bfloat16)


def columns(spans: Spans, dtype: torch.dtype = torch.int64) -> tuple[Tensor, Tensor]:
    starts, counts = zip(*spans, strict=True)
    return torch.tensor(starts, dtype=dtype), torch.tensor(counts, dtype=dtype)


@pytest.mark.parametrize("name", CALLS)
def test_any_order_of_the_pipes_gives_the_same_rows(
    name: str, simulated: SimulatedNpu, device: torch.device, rng: Generator
) -> None:
    spans, groups, rows, width, longest = CALLS[name]
    embeds, (starts, counts) = draw(rng, rows, width), columns(spans)
    expected = oracle.shuffle_image_tokens(embeds, starts, counts, longest, groups)
    assert not same_bits(expected, embeds) or name == "one_row_a_run"
    for options in ORDERS if rows < 1000 else ORDERS[:3]:
        simulated.options = options
        guarded = Guarded((embeds, starts, counts), device, rng)
        shuffle_image_tokens(*guarded.args, longest, groups)
        assert same_bits(guarded.args[0], expected)
        assert guarded.changed_bytes((0,)) == []
    copied = simulated.launches[-1].kernel.startswith("shuffle_copy")
    assert copied == name.startswith("longer")


@pytest.mark.parametrize("order", range(len(ORDERS)))
def test_bad_images_are_skipped_and_overlapping_ones_stay_inside(
    order: int, simulated: SimulatedNpu, device: torch.device, rng: Generator
) -> None:
    """Huge, negative, past the end, over the bound, no multiple of the groups; then two images that share rows."""
    bad = [(2**62, 4), (5, 2**62), (2**63 - 1, 2**63 - 1), (-(2**63), 4), (3, -(2**63)), (78, 4), (0, 52), (10, 7)]
    embeds, good = draw(rng, 80, 51), [(4, 12), (20, 48)]
    simulated.options = ORDERS[order]
    guarded = Guarded((embeds, *columns([*bad[:4], *good, *bad[4:]])), device, rng)
    shuffle_image_tokens(*guarded.args, 48, 2)
    expected = oracle.shuffle_image_tokens(embeds, *columns(good), 48, 2)
    assert same_bits(guarded.args[0], expected)
    overlapping = Guarded((embeds, *columns([(4, 40), (20, 48), (20, 48), (0, 2)])), device, rng)
    shuffle_image_tokens(*overlapping.args, 48, 2)
    assert overlapping.changed_bytes((0,)) == []
    assert same_bits(overlapping.args[0][68:], embeds[68:])


@pytest.mark.parametrize("cores", ["1", "5"])
def test_any_number_of_cores_gives_the_same_rows(
    cores: str, simulated: SimulatedNpu, device: torch.device, rng: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEVL_NUM_VECTOR_CORES", cores)
    spans, groups, rows, width, longest = CALLS["rising"]
    embeds, (starts, counts) = draw(rng, rows, width), columns(spans)
    result = embeds.to(device)
    shuffle_image_tokens(result, starts.to(device), counts.to(device), longest, groups)
    assert simulated.launches[-1].grid == int(cores)
    assert same_bits(result, oracle.shuffle_image_tokens(embeds, starts, counts, longest, groups))


@pytest.mark.parametrize(("images", "rows", "width"), [(1, 576, 4096), (8, 256, 2048)])
def test_bytes_moved_are_close_to_the_least_possible(
    images: int, rows: int, width: int, simulated: SimulatedNpu, device: torch.device, rng: Generator
) -> None:
    embeds = draw(rng, images * rows, width)
    starts, counts = columns([(i * rows, rows) for i in range(images)])
    result = embeds.to(device)
    shuffle_image_tokens(result, starts.to(device), counts.to(device), rows, 2)
    (launch,) = simulated.launches
    assert launch.counters.global_bytes <= 1.15 * (2 * embeds.nbytes + starts.nbytes + counts.nbytes)
    busy = [core.bytes["ub_gm"] for core in launch.counters.cores]
    assert max(busy) <= 1.5 * sum(busy) / len(busy)


@pytest.mark.parametrize("longest", [1, 2, 12, 13, 576, 1000, 1024, 1600, 3000, 3073, 4096, LONGEST])
@pytest.mark.parametrize(("row_bytes", "images"), [(2, 1), (8192, 1), (8192, 400)])
def test_strips_fit_beside_the_longest_image(longest: int, row_bytes: int, images: int, target: str) -> None:
    width, slots = strip_bytes(longest, row_bytes, images)
    assert width % 32 == 0 and longest * width * slots <= HELD_BYTES
    if images == 400:  # then no strip is narrowed for the sake of further cores: a wider one wouldn't fit
        assert width == 8192 or longest * width * 4 > HELD_BYTES
