"""Copies between global memory and UB put each byte where the documentation says."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tilevl.testing import ascend_host

from .hand_written import flag, load, store, vector_kernel

_TO_UB = (
    "asc_copy_gm2ub_align((__ubuf__ {type}*)ub, (__gm__ {type}*)x, {bursts}, {length}, {left}, {right}, {constant}, "
    "static_cast<asc_load_l2_cache_mode>(0), {source_stride}, {stride});"
)


def _bytes(rng: torch.Generator, size: int) -> torch.Tensor:
    return torch.randint(1, 256, (size,), generator=rng, dtype=torch.uint8)


def _to_ub(x: torch.Tensor, size: int, pad: str = "0", **shape: object) -> np.ndarray:
    """UB after one copy, ``size`` bytes of it."""
    fields = {"type": "uint8_t", "left": 0, "right": 0, "constant": 0, **shape}
    body = f"asc_set_copy_pad_val({pad});\n{_TO_UB.format(**fields)}\n{flag('MTE2', 'MTE3')}\n{store('y', 'ub', size)}"
    y = torch.full((size,), 255, dtype=torch.uint8)
    vector_kernel("__gm__ uint8_t* x, __gm__ uint8_t* y", body).in_every_order(1, x=x, y=y)
    return y.numpy()


def test_pads_surround_each_burst(rng: torch.Generator) -> None:
    # The documented example: two bursts of 24 bytes, four elements of 42 on both sides of each.
    x = _bytes(rng, 48)
    expected = np.full(64, 42, np.uint8)
    expected[4:28], expected[36:60] = x[:24], x[24:]
    got = _to_ub(x, 64, "(uint8_t)42", bursts=2, length=24, left=4, right=4, constant=1, source_stride=24, stride=32)
    np.testing.assert_array_equal(got, expected)


def test_pads_count_elements_of_the_pointer_type(rng: torch.Generator) -> None:
    x = _bytes(rng, 16)
    expected = np.frombuffer(np.full(8, 0x01020304, "<u4").tobytes(), np.uint8).copy()
    expected[8:24] = x
    got = _to_ub(
        x,
        32,
        "(uint32_t)0x01020304",
        type="uint32_t",
        bursts=1,
        length=16,
        left=2,
        right=2,
        constant=1,
        source_stride=16,
        stride=32,
    )
    np.testing.assert_array_equal(got, expected)


def test_a_copy_overwrites_up_to_the_end_of_the_block(rng: torch.Generator) -> None:
    x = _bytes(rng, 500)
    got = _to_ub(x, 512, bursts=1, length=500, source_stride=500, stride=500)
    np.testing.assert_array_equal(got[:500], x)
    np.testing.assert_array_equal(got[500:], np.full(12, x[0]))  # the first element fills the rest


def test_rows_with_a_pitch_fill_each_row_to_its_block(rng: torch.Generator) -> None:
    x = _bytes(rng, 3 * 60)
    expected = np.zeros((3, 64), np.uint8)
    for row in range(3):
        expected[row, :50] = x[60 * row : 60 * row + 50]
        expected[row, 50:] = x[60 * row]
    got = _to_ub(x, 192, bursts=3, length=50, source_stride=60, stride=64)
    np.testing.assert_array_equal(got.reshape(3, 64), expected)


def test_compact_rows_lie_back_to_back(rng: torch.Generator) -> None:
    x = _bytes(rng, 4 * 40)
    got = _to_ub(x, 96, bursts=4, length=24, source_stride=40, stride=24)
    np.testing.assert_array_equal(got.reshape(4, 24), x.numpy().reshape(4, 40)[:, :24])


@pytest.mark.parametrize("stride", [24, 64])
def test_a_store_writes_each_burst_and_nothing_between(stride: int, rng: torch.Generator) -> None:
    x, y = _bytes(rng, 192), torch.zeros(200, dtype=torch.uint8)
    body = f"""{load("ub", "x", 192)}
{flag("MTE2", "MTE3")}
asc_copy_ub2gm_align(y + 1, ub, 3, 24, static_cast<asc_store_l2_cache_mode>(0), 50, {stride});"""
    vector_kernel("__gm__ uint8_t* x, __gm__ uint8_t* y", body).in_every_order(1, x=x, y=y)
    expected = np.zeros(200, np.uint8)
    for burst in range(3):
        expected[1 + 50 * burst : 25 + 50 * burst] = x[stride * burst : stride * burst + 24]
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(
    ("name", "dtype", "numpy_of"),
    [
        ("add_float", torch.float32, lambda a, b: a + b),
        ("max_float", torch.float32, np.maximum),
        ("min_int32", torch.int32, np.minimum),
        ("add_int16", torch.int16, lambda a, b: a + b),
        ("max_int8", torch.int8, np.maximum),
    ],
)
def test_an_accumulating_store_combines_with_memory(
    name: str, dtype: torch.dtype, numpy_of, rng: torch.Generator
) -> None:
    size = 64 * dtype.itemsize
    x = (torch.randn(64, generator=rng) * 30).to(dtype)
    y = (torch.randn(64, generator=rng) * 30).to(dtype)
    expected = numpy_of(x.numpy(), y.numpy())
    copies = f"{load('ub', 'x', size)}\n{flag('MTE2', 'MTE3')}"
    body = f"{copies}\nasc_set_atomic_{name}();\n{store('y', 'ub', size)}\nasc_set_atomic_none();"
    c_type = {4: "int32_t", 2: "int16_t", 1: "int8_t"}[dtype.itemsize] if dtype != torch.float32 else "float"
    vector_kernel(f"__gm__ {c_type}* x, __gm__ {c_type}* y", body).in_every_order(1, x=x, y=y)
    np.testing.assert_array_equal(y.numpy(), expected)


def test_a_sum_of_bfloat16_is_rounded_to_nearest_even(rng: torch.Generator) -> None:
    x, y = torch.randn(64, generator=rng).bfloat16(), torch.randn(64, generator=rng).bfloat16()
    expected = (x.double() + y.double()).bfloat16()
    body = f"{load('ub', 'x', 128)}\n{flag('MTE2', 'MTE3')}\nasc_set_atomic_add_bfloat();\n{store('y', 'ub', 128)}"
    kernel = vector_kernel("__gm__ bfloat16_t* x, __gm__ bfloat16_t* y", body)
    truncated = y.clone()
    kernel.with_options(half_atomic_rounding="toward_zero")(1, x=x, y=truncated)
    kernel(1, x=x, y=y)
    assert torch.equal(y, expected)
    assert (truncated.float().abs() <= (expected.float()).abs()).all() and not torch.equal(truncated, expected)


def test_ub_to_ub_moves_blocks_with_gaps(rng: torch.Generator) -> None:
    x, y = _bytes(rng, 320), torch.zeros(160, dtype=torch.uint8)
    body = f"""{load("ub", "x", 320)}
{flag("MTE2", "V")}
asc_copy_ub2ub(ub + 1024, ub, 2, 2, 1, 0);
asc_copy_ub2ub(ub + 1152, ub + 288, 60);
{flag("V", "MTE3")}
{store("y", "ub + 1024", 160)}"""
    vector_kernel("__gm__ uint8_t* x, __gm__ uint8_t* y", body).in_every_order(1, x=x, y=y)
    np.testing.assert_array_equal(y, np.concatenate([x[0:64], x[96:160], x[288:320]]))


@pytest.mark.parametrize(
    ("copy", "text"),
    [
        ("{to_ub}, 0, 8, 0, 0, 0, {l2}(0), 8, 8);", "n_burst must be 1 to 4095, got 0"),
        ("{to_ub}, 1, 0, 0, 0, 0, {l2}(0), 0, 0);", "len_burst must be 1 to 2097151, got 0"),
        ("{to_ub}, 1, 8, 33, 0, 1, {l2}(0), 8, 96);", "left_pad in bytes must be 0 to 32, got 33"),
        ("{to_ub}, 2, 8, 0, 0, 0, {l2}(0), 8, 40);", "dst_stride must be a multiple of 32, got 40"),
        ("{to_ub}, 2, 40, 0, 0, 0, {l2}(0), 8, 32);", "dst_stride must hold a padded burst"),
        ("{to_ub}, 1, 8, 1, 0, 1, {l2}(0), 8, 8);", "pads must be 0 where dst_stride equals len_burst"),
        (
            "asc_copy_gm2ub_align(ub + 8, x, 1, 8, 0, 0, 0, {l2}(0), 8, 8);",
            "the UB address must be a multiple of 32, got 8",
        ),
    ],
)
def test_a_copy_outside_its_documented_range_is_refused(copy: str, text: str) -> None:
    body = copy.format(to_ub="asc_copy_gm2ub_align(ub, x", l2="static_cast<asc_load_l2_cache_mode>")
    with pytest.raises(ascend_host.KernelFaultError, match="asc_copy_gm2ub_align") as caught:
        vector_kernel("__gm__ uint8_t* x", body)(1, x=torch.ones(256, dtype=torch.uint8))
    assert text in str(caught.value)
