"""The cube core: layouts on the way in, the product, and the way out, against dense products of numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tilevl.testing import ascend_host

from .hand_written import cube_kernel, flag, mixed_kernel

_L2 = "static_cast<asc_load_l2_cache_mode>(0)"
_STORE = "static_cast<asc_store_l2_cache_mode>(0)"


def _up(value: int, to: int) -> int:
    return -(-value // to) * to


def _out(destination: str, source: str, n: int, m: int, quant: int = 0, relu: int = 0) -> str:
    modes = f"static_cast<asc_quant_mode>({quant}), static_cast<asc_relu_pre_mode>({relu}), 0, 1, 0, 0"
    copy = (
        f"{destination}, {source}, {n}, {m}, {n}, {_up(m, 16)}, {_STORE}, static_cast<asc_unit_flag_mode>(0), {modes}"
    )
    return f"asc_set_l0c_copy_nz_para(1, 0, 0);\nasc_copy_l0c2gm({copy});"


def _to_l0(side: str, c_type: str, at: int, rows: int, columns: int) -> str:
    """All of a tile of L1, in fractals."""
    pointers = f"(__c{side}__ {c_type}*)l0{side}, (__cbuf__ {c_type}*)(l1 + {at})"
    return f"asc_copy_l12l0{side}({pointers}, 0, 0, {rows}, {columns}, {rows}, {rows});"


def _product(m: int, n: int, k: int, c_type: str, size: int, accumulate: int = 0, turned_b: bool = False) -> str:
    """C[m, n] = A[m, k] B[n, k]^T, or with B[k, n] where it is turned while it is loaded."""
    c0 = 32 // size
    rows_m, rows_n, columns = _up(m, 16), _up(n, 16), _up(k, c0)
    b_at = rows_m * columns * size
    pointer = f"(__cbuf__ {c_type}*)"
    load_b = (
        f"asc_copy_gm2l1_dn2nz({pointer}(l1 + {b_at}), b, {n * size}, {_L2}, {n}, {k}, 0, 0);"
        if turned_b
        else f"asc_copy_gm2l1_nd2nz({pointer}(l1 + {b_at}), b, {k * size}, {_L2}, {n}, {k}, 0, 0);"
    )
    sum_type = "int32_t" if c_type == "int8_t" else "float"
    multiply = (
        f"asc_mmad((__cc__ {sum_type}*)l0c, (__ca__ {c_type}*)0, (__cb__ {c_type}*)0, {m}, {k}, {n}, 0, 1, 0, {{}});\n"
        "asc_sync_pipe(PIPE_M);\n"
    )
    return f"""asc_set_gm2l1_nz_para(1, 1, {rows_m}, 0);
asc_copy_gm2l1_nd2nz({pointer}l1, a, {k * size}, {_L2}, {m}, {k}, 0, 0);
asc_set_gm2l1_nz_para(1, 1, {rows_n}, 0);
{load_b}
{flag("MTE2", "MTE1")}
{_to_l0("a", c_type, 0, rows_m // 16, columns // c0)}
{_to_l0("b", c_type, b_at, rows_n // 16, columns // c0)}
{flag("MTE1", "M")}
{multiply.format(1)}{multiply.format(0) * accumulate}{flag("M", "FIX")}"""


_TYPES = {torch.bfloat16: "bfloat16_t", torch.float16: "half", torch.float32: "float", torch.int8: "int8_t"}


def _draw(shape: tuple[int, int], dtype: torch.dtype, rng: torch.Generator) -> torch.Tensor:
    if dtype == torch.int8:
        return torch.randint(-128, 128, shape, generator=rng, dtype=dtype)
    return torch.randn(shape, generator=rng).to(dtype)


# Whole tiles; without the tail rows that nothing writes.
@pytest.mark.parametrize("dtype", list(_TYPES))
def test_a_product_is_that_of_the_dense_matrices(dtype: torch.dtype, rng: torch.Generator) -> None:
    m, n, k = 32, 48, 64
    a, b = _draw((m, k), dtype, rng), _draw((n, k), dtype, rng)
    expected = a.double().numpy() @ b.double().numpy().T
    name, integers = _TYPES[dtype], dtype == torch.int8
    c = torch.zeros(m, n, dtype=torch.int32 if integers else torch.float32)
    out = "int32_t" if integers else "float"
    body = _product(m, n, k, name, dtype.itemsize) + _out("c", f"(__cc__ {out}*)l0c", n, m)
    kernel = cube_kernel(f"__gm__ {name}* a, __gm__ {name}* b, __gm__ {out}* c", body)
    counters = kernel.in_every_order(1, a=a, b=b, c=c)
    if integers:
        np.testing.assert_array_equal(c, expected)
    else:
        np.testing.assert_allclose(c, expected, rtol=0, atol=64 * 2e-7 * np.abs(expected).max())
    assert counters.macs == m * n * k
    assert counters.bytes["gm_l1"] == (m + n) * k * dtype.itemsize


def test_columns_behind_the_depth_contribute_nothing(rng: torch.Generator) -> None:
    m, n, k = 16, 32, 40  # 40 is no multiple of the 16 elements of a column group
    a, b = _draw((m, k), torch.float16, rng), _draw((n, k), torch.float16, rng)
    c = torch.zeros(m, n)
    kernel = cube_kernel(
        "__gm__ half* a, __gm__ half* b, __gm__ float* c",
        _product(m, n, k, "half", 2) + _out("c", "(__cc__ float*)l0c", n, m),
    )
    kernel.in_every_order(1, a=a, b=b, c=c)
    np.testing.assert_allclose(c, a.double() @ b.double().T, atol=1e-4)


def test_a_load_can_transpose(rng: torch.Generator) -> None:
    m, n, k = 16, 48, 32
    a, b = _draw((m, k), torch.bfloat16, rng), _draw((k, n), torch.bfloat16, rng)
    c = torch.zeros(m, n)
    body = _product(m, n, k, "bfloat16_t", 2, turned_b=True) + _out("c", "(__cc__ float*)l0c", n, m)
    cube_kernel("__gm__ bfloat16_t* a, __gm__ bfloat16_t* b, __gm__ float* c", body).in_every_order(1, a=a, b=b, c=c)
    np.testing.assert_allclose(c, a.double() @ b.double(), atol=1e-4)


def test_a_second_multiply_adds_to_the_first(rng: torch.Generator) -> None:
    a, b, c = _draw((32, 32), torch.float32, rng), _draw((32, 32), torch.float32, rng), torch.zeros(32, 32)
    body = _product(32, 32, 32, "float", 4, accumulate=2) + _out("c", "(__cc__ float*)l0c", 32, 32)
    cube_kernel("__gm__ float* a, __gm__ float* b, __gm__ float* c", body).in_every_order(1, a=a, b=b, c=c)
    np.testing.assert_allclose(c, 3 * (a.double() @ b.double().T), atol=1e-4)


@pytest.mark.parametrize(("quant", "dtype", "name"), [(1, torch.float16, "half"), (16, torch.bfloat16, "bfloat16_t")])
def test_the_way_out_rounds_and_clips(quant: int, dtype: torch.dtype, name: str, rng: torch.Generator) -> None:
    a, b, c = _draw((16, 16), torch.float32, rng), _draw((16, 16), torch.float32, rng), torch.zeros(16, 16, dtype=dtype)
    full = torch.zeros(16, 16)
    body = (
        _product(16, 16, 16, "float", 4)
        + _out("full", "(__cc__ float*)l0c", 16, 16)
        + _out("c", "(__cc__ float*)l0c", 16, 16, quant, relu=1)
    )
    kernel = cube_kernel(f"__gm__ float* a, __gm__ float* b, __gm__ {name}* c, __gm__ float* full", body)
    kernel.in_every_order(1, a=a, b=b, c=c, full=full)
    assert torch.equal(c, full.clamp(min=0).to(dtype))
    assert (full < 0).any()


@pytest.mark.parametrize(("dual", "shape"), [(1, (16, 64)), (2, (32, 32))])
def test_a_tile_is_split_between_the_vector_cores(dual: int, shape: tuple[int, int], rng: torch.Generator) -> None:
    a, b = _draw((32, 32), torch.bfloat16, rng), _draw((64, 32), torch.bfloat16, rng)
    rows, columns = shape
    parts = torch.zeros(2, rows, columns)
    cube = f"""{_product(32, 64, 32, "bfloat16_t", 2)}
asc_copy_l0c2ub((__ubuf__ float*)ub, (__cc__ float*)l0c, 64, 32, {columns}, 32, 0,
  static_cast<asc_dual_dst_mode>({dual}), static_cast<asc_unit_flag_mode>(0),
  static_cast<asc_quant_mode>(0), static_cast<asc_relu_pre_mode>(0), 0, 1, 0, 0);
asc_sync_intra_arrive(PIPE_FIX, 3);
asc_sync_intra_arrive(PIPE_FIX, 19);"""
    size = rows * columns * 4
    vector = f"""asc_sync_intra_wait(PIPE_MTE3, 3);
asc_copy_ub2gm_align((__gm__ uint8_t*)(parts + sid * {rows * columns}), ub, 1, {size}, {_STORE}, {size}, {size});"""
    kernel = mixed_kernel("__gm__ bfloat16_t* a, __gm__ bfloat16_t* b, __gm__ float* parts", cube, vector)
    kernel.in_every_order(1, a=a, b=b, parts=parts)
    whole = torch.cat(list(parts), dim=dual - 1)
    np.testing.assert_allclose(whole, a.double() @ b.double().T, atol=1e-4)


def test_a_transposing_move_to_l0_gives_the_product_with_the_transpose(rng: torch.Generator) -> None:
    m, n, k = 16, 48, 32
    fractals = f"{k // 16}, {n // 16}"
    a, b, c = _draw((m, k), torch.float16, rng), _draw((k, n), torch.float16, rng), torch.zeros(m, n)
    body = f"""asc_set_gm2l1_nz_para(1, 1, {m}, 0);
asc_copy_gm2l1_nd2nz((__cbuf__ half*)l1, a, {k * 2}, {_L2}, {m}, {k}, 0, 0);
asc_set_gm2l1_nz_para(1, 1, {k}, 0);
asc_copy_gm2l1_nd2nz((__cbuf__ half*)(l1 + 4096), b, {n * 2}, {_L2}, {k}, {n}, 0, 0);
{flag("MTE2", "MTE1")}
asc_copy_l12l0a((__ca__ half*)l0a, (__cbuf__ half*)l1, 0, 0, 1, {k // 16}, 1, 1);
asc_copy_l12l0b_transpose((__cb__ half*)l0b, (__cbuf__ half*)(l1 + 4096), 0, 0, {fractals}, {fractals});
{flag("MTE1", "M")}
asc_mmad((__cc__ float*)l0c, (__ca__ half*)l0a, (__cb__ half*)l0b, {m}, {k}, {n}, 0, 1, 0, 1);
{flag("M", "FIX")}
{_out("c", "(__cc__ float*)l0c", n, m)}"""
    cube_kernel("__gm__ half* a, __gm__ half* b, __gm__ float* c", body).in_every_order(1, a=a, b=b, c=c)
    np.testing.assert_allclose(c, a.double() @ b.double(), atol=1e-4)


def test_fill_writes_blocks_and_skips_gaps(rng: torch.Generator) -> None:
    # Rows 1 and 3 of each column group of A are set to one, the others are loaded.
    a, b, c = _draw((16, 16), torch.float32, rng), torch.eye(16), torch.zeros(16, 16)
    text = _product(16, 16, 16, "float", 4)
    one = "(uint32_t)0x3f800000, {2, 1, 1}"  # two times: a row of a column group, then a gap of one
    fill = "".join(f"asc_fill_l1((__cbuf__ uint32_t*)(l1 + {at}), {one});\n" for at in (32, 544))
    body = text.replace("asc_sync_notify(PIPE_MTE2", fill + "asc_sync_notify(PIPE_MTE2", 1) + _out(
        "c", "(__cc__ float*)l0c", 16, 16
    )
    cube_kernel("__gm__ float* a, __gm__ float* b, __gm__ float* c", body).in_every_order(1, a=a, b=b, c=c)
    a[[1, 3]] = 1
    assert torch.equal(c, a)


def test_small_accumulating_multiplies_need_a_barrier() -> None:
    text = _product(16, 16, 16, "float", 4, accumulate=1).replace("asc_sync_pipe(PIPE_M);\n", "") + _out(
        "c", "(__cc__ float*)l0c", 16, 16
    )
    kernel = cube_kernel("__gm__ float* a, __gm__ float* b, __gm__ float* c", text)
    given = {name: torch.ones(16, 16) for name in "abc"}
    with pytest.raises(
        ascend_host.KernelFaultError, match=r"accumulates on a C of 1 fractals .* asc_sync_pipe\(PIPE_M\)"
    ):
        kernel(1, **given)
    kernel.with_options(small_matrix_barrier="ignore")(1, **given)
    assert (given["c"] == 32).all()


def test_an_int8_product_into_floats_is_refused() -> None:
    text = _product(16, 16, 32, "int8_t", 1).replace("__cc__ int32_t", "__cc__ float")
    kernel = cube_kernel("__gm__ int8_t* a, __gm__ int8_t* b", text)
    with pytest.raises(ascend_host.KernelFaultError, match="C must be int32 for int8 operands"):
        kernel(1, a=torch.ones(16, 32, dtype=torch.int8), b=torch.ones(16, 32, dtype=torch.int8))
