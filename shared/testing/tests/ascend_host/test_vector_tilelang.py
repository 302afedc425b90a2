"""Programs that TileLang lowers for the vector core, run in every legal order."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import torch

from tilevl.testing import ascend_host

from .register_program import require_tools


@pytest.fixture
def written() -> Any:
    require_tools()
    return import_module(".tilelang_vector_programs", __package__)


def test_a_softmax_row_by_row(written: Any, rng: torch.Generator) -> None:
    given = torch.randn(written.ROWS, written.COLUMNS, generator=rng) * 4
    given[1] = -1e30  # a row that a mask took whole
    result = torch.zeros(given.shape, dtype=torch.bfloat16)
    kernel = ascend_host.compile(ascend_host.lower(written.softmax()))
    counters = kernel.in_every_order(1, A=given, B=result)
    expected = given.double().softmax(dim=1)
    assert (result.double() - expected).abs().max() <= 2**-8 * expected.max()
    counted = counters.cores[0].vector
    assert counted["reduce"] == 2 * written.ROWS
    assert counted["convert"] == 2 * written.ROWS
    assert counted["load"] == 4 * written.ROWS


def test_the_barriers_of_that_softmax_are_needed(written: Any, rng: torch.Generator) -> None:
    given = torch.randn(written.ROWS, written.COLUMNS, generator=rng)
    kernel = ascend_host.compile(ascend_host.lower(written.softmax(with_barrier=False)))
    with pytest.raises(ascend_host.KernelFaultError, match="no asc_mem_bar") as raised:
        kernel(1, A=given, B=torch.zeros(given.shape, dtype=torch.bfloat16))
    assert {fault.kind for fault in raised.value.faults} == {"vector_order"}


def test_merging_writes_lower_to_the_compilers_own_names(written: Any, rng: torch.Generator) -> None:
    source = ascend_host.lower(written.merging())
    assert "::vadd(" in source and "::vmula(" in source and "MODE_MERGING" in source
    given = torch.randn(written.ROWS, 64, generator=rng)
    result = torch.zeros_like(given)
    ascend_host.compile(source).in_every_order(1, A=given, B=result)
    lane = torch.arange(64)
    expected = torch.where(lane < 8, given + given, torch.tensor(100.0))
    expected = torch.where(lane % 3 == 0, -given, expected)
    fused = (given.double() * given.double() + expected.double()).float()
    expected = torch.where(lane < 8, fused, expected)
    assert torch.equal(result, expected)


@pytest.mark.parametrize("threads", [64, 512])
def test_an_elementwise_function_on_threads(written: Any, rng: torch.Generator, threads: int) -> None:
    given = (torch.randn(written.ROWS, written.COLUMNS, generator=rng) * 3).bfloat16()
    result = torch.zeros(given.shape, dtype=torch.float16)
    kernel = ascend_host.compile(ascend_host.lower(written.sigmoid(threads)))
    counters = kernel.in_every_order(1, A=given, B=result)
    torch.testing.assert_close(result, given.double().sigmoid().half(), rtol=2**-10, atol=1e-7)
    assert counters.cores[0].simt["threads"] == threads


@pytest.mark.parametrize("threads", [32, 64])
def test_row_sums_over_the_lanes_of_warps(written: Any, rng: torch.Generator, threads: int) -> None:
    given = torch.randn(written.ROWS, written.COLUMNS, generator=rng)
    result = torch.zeros(written.ROWS)
    kernel = ascend_host.compile(ascend_host.lower(written.row_sums(threads)))
    counters = kernel.in_every_order(1, A=given, B=result)
    torch.testing.assert_close(result, given.double().sum(dim=1).float(), rtol=1e-5, atol=1e-5)
    assert counters.cores[0].simt["warp_operations"] > 0


def test_tilelangs_wrong_sums_show_when_two_rows_are_in_flight(written: Any, rng: torch.Generator) -> None:
    given = torch.randn(written.ROWS, written.COLUMNS, generator=rng)
    result = torch.zeros(written.ROWS)
    ascend_host.compile(ascend_host.lower(written.row_sums(128)))(1, A=given, B=result)
    even_rows = given.double().sum(dim=1).float()[::2].repeat_interleave(2)
    torch.testing.assert_close(result, even_rows, rtol=1e-5, atol=1e-5)  # odd rows get the even ones' sums
