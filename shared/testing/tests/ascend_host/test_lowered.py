"""Programs that TileLang lowers give what PyTorch gives, in every order of the pipes, and need all their flags."""

from __future__ import annotations

import re
from functools import cache

import pytest
import torch

from tilevl.testing import ascend_host

from .hand_written import require_model


@cache
def _source(name: str, *shape: int | str) -> str:
    require_model()
    from . import lowered_kernels

    return ascend_host.lower(getattr(lowered_kernels, name)(*shape))


@pytest.mark.parametrize(("dtype", "columns"), [("float32", 80), ("bfloat16", 33), ("uint8", 7), ("int64", 5)])
def test_gathered_rows_of_any_length(dtype: str, columns: int, rng: torch.Generator) -> None:
    x = torch.randint(0, 200, (50, columns), generator=rng).to(getattr(torch, dtype))
    index = torch.randint(0, 50, (11,), generator=rng, dtype=torch.int32)
    out = torch.full((11, columns), 77).to(x.dtype)
    counters = ascend_host.compile(_source("gather_rows", 50, columns, 11, dtype)).in_every_order(
        4, x=x, index=index, out=out
    )
    assert torch.equal(out, x[index.long()])
    assert counters.bytes["gm_ub"] == counters.bytes["ub_gm"] == out.nbytes
    assert counters.descriptors["gm_ub"] == 11


@pytest.mark.parametrize("row", [-1, -3])
def test_a_negative_row_passes_tilelangs_check_and_not_the_models(row: int) -> None:
    kernel = ascend_host.compile(_source("gather_rows", 50, 80, 11, "float32"))
    index = torch.zeros(11, dtype=torch.int32)
    index[4] = row
    with pytest.raises(ascend_host.KernelFaultError, match="x: bytes -") as caught:
        kernel(4, x=torch.ones(50, 80), index=index, out=torch.zeros(11, 80))
    assert caught.value.faults[0].kind == "bounds"


def test_simd_instructions(rng: torch.Generator) -> None:
    x, out = torch.randn(1024, generator=rng), torch.empty(1024)
    kernel = ascend_host.compile(_source("scale_and_shift", 1024, 256))
    counters = kernel.in_every_order(4, x=x, out=out)
    assert torch.equal(out, x * 1.75 + 1)
    assert counters.vector["load"] == counters.vector["store"] == 1024 // 64


def test_a_tail_is_computed_from_unwritten_bytes_only_where_that_is_allowed(rng: torch.Generator) -> None:
    x, out = torch.randn(780, generator=rng), torch.empty(780)
    kernel = ascend_host.compile(_source("scale_and_shift", 780, 256))
    with pytest.raises(ascend_host.KernelFaultError, match="nothing wrote it"):
        kernel(4, x=x, out=out)
    kernel.with_options(unwritten_vector_reads="allow").in_every_order(4, x=x, out=out)
    assert torch.equal(out, x * 1.75 + 1)


def test_a_product_on_cube_and_vector_cores(rng: torch.Generator) -> None:
    a, b = torch.randn(128, 192, generator=rng).bfloat16(), torch.randn(48, 192, generator=rng).bfloat16()
    out = torch.empty(128, 48)
    counters = ascend_host.compile(_source("product_and_relu", 128, 48, 192)).in_every_order(2, a=a, b=b, out=out)
    torch.testing.assert_close(out, torch.relu(a.float() @ b.float().T), rtol=1e-5, atol=1e-4)
    assert counters.macs == 128 * 48 * 192
    assert counters.bytes["gm_l1"] == a.nbytes + 2 * b.nbytes and counters.bytes["ub_gm"] == out.nbytes


def _attention_inputs(rng: torch.Generator) -> dict[str, torch.Tensor]:
    q, k, v = (torch.randn(rows, 32, generator=rng).bfloat16() for rows in (64, 192, 192))
    return {"q": q, "k": k, "v": v, "out": torch.full((64, 32), torch.nan)}


def test_attention_on_cube_and_vector_cores(rng: torch.Generator) -> None:
    given = _attention_inputs(rng)
    ascend_host.compile(_source("attention", 64, 192, 32)).in_every_order(1, seeds=4, **given)
    q, k, v = (given[name].double() for name in "qkv")
    torch.testing.assert_close(given["out"].double(), torch.softmax(q @ k.T * 32**-0.5, -1) @ v, rtol=0.01, atol=0.01)


_SYNC = re.compile(r"asc_sync_|asc_lock|asc_unlock")


def test_attention_fails_without_any_one_of_its_synchronisations(rng: torch.Generator) -> None:
    given = _attention_inputs(rng)
    lines = _source("attention", 64, 192, 32).splitlines()
    places = [number for number, line in enumerate(lines) if _SYNC.search(line)]
    assert len(places) > 20
    for place in places[:: len(places) // 7]:  # some of each part; all of them are found, and take a minute
        kernel = ascend_host.compile("\n".join([*lines[:place], "", *lines[place + 1 :]]))
        with pytest.raises(ascend_host.HostModelError):
            kernel.in_every_order(1, **given)
            pytest.fail(f"nothing missed {lines[place].strip()}")
