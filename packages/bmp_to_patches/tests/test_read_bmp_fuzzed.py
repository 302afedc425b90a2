"""read_bmp on spoilt files: the short form of fuzz/fuzz_read_bmp.py, with the same files, rules and judge."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tilevl.bmp_to_patches import BmpBatch, read_bmp

from . import bmp_mutations, reading_rules
from .bmp_files import noise, write_bmp

SEEDS = bmp_mutations.seeds()


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """What is imported and built on first use doesn't count as the memory of a file."""
    with contextlib.suppress(AssertionError):
        reading_rules.judge(SEEDS[0])


@dataclasses.dataclass
class Spoilt:
    """How a file was spoilt; shown where a rule is broken."""

    seed: int
    fields: list[tuple[str, int]]
    bytes_at: list[tuple[int, int]]
    cut: int | None
    tail: bytes

    def content(self) -> bytes:
        """The file."""
        content = SEEDS[self.seed % len(SEEDS)]
        for name, value in self.fields:
            content = bmp_mutations.with_field(content, name, value)
        spoilt = bytearray(content)
        for position, value in self.bytes_at:
            spoilt[position % len(spoilt)] = value
        return bytes(spoilt[: self.cut]) + self.tail


NUMBERS = st.one_of(st.sampled_from(bmp_mutations.VALUES), st.integers(0, 200), st.integers(0, 2**32 - 1))
SPOILT = st.builds(
    Spoilt,
    seed=st.integers(0, len(SEEDS) - 1),
    fields=st.lists(st.tuples(st.sampled_from([*bmp_mutations.FIELDS]), NUMBERS), max_size=3),
    bytes_at=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=3),
    cut=st.one_of(st.none(), st.integers(0, 250)),
    tail=st.binary(max_size=20),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(spoilt=SPOILT, patch_size=st.sampled_from([1, 2, 3, 64]), window=st.integers(1, 2))
@example(spoilt=Spoilt(0, [("biWidth", 2**31 - 1), ("biHeight", 2**31 - 1)], [], None, b""), patch_size=1, window=1)
@example(spoilt=Spoilt(0, [("biHeight", 2**31)], [], None, b""), patch_size=1, window=1)
@example(spoilt=Spoilt(0, [("bfOffBits", 2**32 - 1)], [], None, b""), patch_size=1, window=1)
def test_spoilt_files_are_refused_in_words_or_read_as_pillow_reads_them(
    spoilt: Spoilt, patch_size: int, window: int
) -> None:
    reading_rules.judge(spoilt.content(), patch_size, window)


def test_good_files_of_every_kind_are_taken_with_pillows_pixels() -> None:
    taken = [reading_rules.judge(content, patch_size=2) for content in SEEDS[:14]]
    assert taken == ["taken, Pillow takes"] * 14


def red_blue_swapped(batch: BmpBatch) -> BmpBatch:
    turned = batch.pixels.flip(0)  # 1 x 1, 4 bytes a pixel: X R G B read as B G R X
    return batch._replace(pixels=turned)


def upside_down(batch: BmpBatch) -> BmpBatch:
    offset, stride, height, width = batch.crops[0].tolist()
    crops = torch.tensor([[offset + (height - 1) * stride, -stride, height, width]])
    return batch._replace(crops=crops)


def too_much_memory(batch: BmpBatch) -> BmpBatch:
    torch.zeros(2**20, dtype=torch.uint8)
    bytes(2**20)
    return batch


@pytest.mark.parametrize(
    ("wrong", "height", "said"),
    [(red_blue_swapped, 1, "other pixels"), (upside_down, 3, "other pixels"), (too_much_memory, 3, "allocated")],
)
def test_the_judge_sees_a_wrong_reader(
    wrong: Callable[[BmpBatch], BmpBatch], height: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*arguments: Any) -> BmpBatch:
        return wrong(read_bmp(*arguments))

    content = write_bmp(noise(7, height, 1), bits=32)
    reading_rules.judge(content)
    monkeypatch.setattr(reading_rules, "read_bmp", read)
    with pytest.raises(AssertionError, match=said):
        reading_rules.judge(content)
