"""Each option of the copies and the matrix unit changes what it says, and nothing where the default rules it out."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from tilevl.testing import ascend_host

from .hand_written import cube_kernel, flag

_L2 = "static_cast<asc_load_l2_cache_mode>(0)"
_OUT = """asc_set_l0c_copy_nz_para(1, 0, 0);
asc_copy_l0c2gm(c, (__cc__ float*)l0c, 16, 16, 16, 16, static_cast<asc_store_l2_cache_mode>(0),
  static_cast<asc_unit_flag_mode>(0), static_cast<asc_quant_mode>({quant}), static_cast<asc_relu_pre_mode>(0),
  0, 1, 0, 0);"""


@cache
def _kernel(
    rows: int = 16, depth: int = 16, *, load: str = "nd2nz", move: str = "", quant: int = 0, out: str = "float"
) -> ascend_host.Kernel:
    """c[16, 16] = a b^T for float32; of a the first rows are loaded, or the first columns by a transposing load."""
    shape = f"64, {_L2}, 16, {depth}" if load == "dn2nz" else f"{depth * 4}, {_L2}, {rows}, {depth}"
    body = f"""asc_set_gm2l1_nz_para(1, 1, 16, 0);
asc_copy_gm2l1_{load}((__cbuf__ float*)l1, a, {shape}, 0, 0);
asc_copy_gm2l1_nd2nz((__cbuf__ float*)(l1 + 4096), b, 64, {_L2}, 16, 16, 0, 0);
{flag("MTE2", "MTE1")}
asc_copy_l12l0a{move}((__ca__ float*)l0a, (__cbuf__ float*)l1, 0, 0, 1, 2, 1, 1);
asc_copy_l12l0b((__cb__ float*)l0b, (__cbuf__ float*)(l1 + 4096), 0, 0, 1, 2, 1, 1);
{flag("MTE1", "M")}
asc_mmad((__cc__ float*)l0c, (__ca__ float*)l0a, (__cb__ float*)l0b, 16, 16, 16, 0, 1, 0, 1);
{flag("M", "FIX")}
{_OUT.format(quant=quant)}"""
    return cube_kernel(f"__gm__ float* a, __gm__ float* b, __gm__ {out}* c", body)


def _fault(kernel: ascend_host.Kernel, **given: torch.Tensor) -> str:
    with pytest.raises(ascend_host.KernelFaultError) as caught:
        kernel(1, **given)
    return caught.value.faults[0].kind


def _given(rng: torch.Generator, a: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
    a = torch.randn(16, 16, generator=rng) if a is None else a
    return {"a": a, "b": torch.eye(16), "c": torch.full((16, 16), 7.0)}


def test_rows_behind_the_last_are_kept_or_zero(rng: torch.Generator) -> None:
    kernel, given = _kernel(rows=5), _given(rng)
    assert _fault(kernel, **given) == "unwritten"
    kernel.with_options(row_tail="zero")(1, **given)
    assert torch.equal(given["c"][:5], given["a"][:5]) and not given["c"][5:].any()


def test_columns_behind_the_last_of_a_transposing_load_are_zero_or_kept(rng: torch.Generator) -> None:
    kernel, given = _kernel(depth=12, load="dn2nz"), _given(rng)
    kernel(1, **given)
    assert torch.equal(given["c"][:, :12], given["a"].T[:, :12]) and not given["c"][:, 12:].any()
    assert _fault(kernel.with_options(column_tail="keep"), **given) == "unwritten"


def test_a_sum_loses_small_terms_in_float32_only(rng: torch.Generator) -> None:
    a = torch.zeros(16, 16)
    a[:, :3] = torch.tensor([2.0**30, 1.0, -(2.0**30)])
    given = {**_given(rng, a), "b": torch.ones(16, 16)}
    _kernel()(1, **given)
    assert (given["c"] == 0).all()
    _kernel().with_options(matrix_accumulation="float64")(1, **given)
    assert (given["c"] == 1).all()


def test_an_output_code_without_its_scale_is_refused_or_taken_as_one(rng: torch.Generator) -> None:
    kernel = _kernel(quant=9, out="int8_t")
    given = {**_given(rng, torch.randn(16, 16, generator=rng) * 100), "c": torch.zeros(16, 16, dtype=torch.int8)}
    assert _fault(kernel, **given) == "range"
    kernel.with_options(unscaled_requantisation="scale_one")(1, **given)
    assert torch.equal(given["c"], given["a"].round().clamp(-128, 127).to(torch.int8))


def test_a_transposing_move_of_wide_elements_is_derived_or_refused(rng: torch.Generator) -> None:
    kernel, given = _kernel(move="_transpose"), _given(rng)
    kernel(1, **given)
    assert torch.equal(given["c"], given["a"].T)
    assert _fault(kernel.with_options(narrow_transpose="fault"), **given) == "range"


def test_a_multiply_of_unwritten_rows_is_refused_or_gives_nan(rng: torch.Generator) -> None:
    body = f"""asc_mmad((__cc__ float*)l0c, (__ca__ float*)l0a, (__cb__ float*)l0b, 16, 16, 16, 0, 1, 0, 1);
{flag("M", "FIX")}
{_OUT.format(quant=0)}"""
    kernel, c = cube_kernel("__gm__ float* c", body), torch.zeros(16, 16)
    assert _fault(kernel, c=c) == "unwritten"
    kernel.with_options(unwritten_matrix_rows="allow")(1, c=c)
    assert c.isnan().all()
