"""The values of all 256 codes: exact, rounded once, by whatever way the kernel takes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from tilevl.bmp_to_patches import bmp_to_patches, values
from tilevl.testing import same_bits

from . import oracle
from .cases import BF16, CLIP, FP16, FP32, HALF, IMAGENET, NOT_PROVEN

CONSTANTS = {"clip": CLIP, "imagenet": IMAGENET, "half": HALF, "plain": ((0.0,) * 3, (1.0,) * 3)}
DTYPES = pytest.mark.parametrize("dtype", [BF16, FP16, FP32], ids=["bf16", "fp16", "fp32"])
POSITIVE = st.floats(1e-3, 10)


def all_codes(constants: tuple, dtype: torch.dtype, device: torch.device, patch_size: int = 16) -> Tensor:
    """``[3, 256]``: what the op makes of every code in every channel."""
    codes = torch.arange(256, dtype=torch.uint8).repeat_interleave(3).to(device)
    side, grid = patch_size, 16 // patch_size
    crops = torch.tensor([[0, 48, 16, 16]], device=device)
    counts = torch.tensor([0, grid * grid], device=device)
    patches = bmp_to_patches(codes, crops, counts, grid * grid, side, *constants, 3, 1, dtype).cpu()
    return patches.view(grid, grid, 3, side, side).permute(2, 0, 3, 1, 4).reshape(3, 256)


def expected_values(constants: tuple, dtype: torch.dtype) -> Tensor:
    table = [oracle.values_of(mean, std, dtype) for mean, std in zip(*constants, strict=True)]
    return torch.tensor(table, dtype=torch.float64).to(torch.float32).to(dtype)


@DTYPES
@pytest.mark.parametrize("constants", CONSTANTS.values(), ids=CONSTANTS.keys())
def test_every_code_is_exact_with_the_constants_in_use(
    constants: tuple, dtype: torch.dtype, device: torch.device
) -> None:
    expected = expected_values(constants, dtype)
    for patch_size in (16, 8, 4, 2, 1):
        assert same_bits(all_codes(constants, dtype, device, patch_size), expected)


@pytest.mark.parametrize(
    ("constants", "code", "spots"),
    [
        (CLIP, 0, [-1.7890625, -1.75, -1.4765625]),
        (CLIP, 255, [1.9296875, 2.078125, 2.140625]),
        (IMAGENET, 0, [-2.125, -2.03125, -1.8046875]),
        (IMAGENET, 255, [2.25, 2.421875, 2.640625]),
        (HALF, 0, [-1.0, -1.0, -1.0]),
        (HALF, 255, [1.0, 1.0, 1.0]),
    ],
    ids=["clip-0", "clip-255", "imagenet-0", "imagenet-255", "half-0", "half-255"],
)
def test_spot_values(constants: tuple, code: int, spots: list[float], device: torch.device) -> None:
    assert all_codes(constants, BF16, device)[:, code].tolist() == spots


@DTYPES
@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(means=st.tuples(*[st.floats(-2, 2)] * 3), stds=st.tuples(*[POSITIVE] * 3))
def test_any_constants_give_the_exact_table(dtype: torch.dtype, means: tuple, stds: tuple) -> None:
    assert same_bits(values.exact_values(means, stds, dtype), expected_values((means, stds), dtype))


@pytest.mark.parametrize("dtype", [BF16, FP16], ids=["bf16", "fp16"])
@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(
    base=st.floats(-60000, 60000, width=16),
    up=st.booleans(),
    nudge=st.sampled_from([0.0, 2.0**-30, -(2.0**-30), 2.0**-48, -(2.0**-48)]),
)
def test_a_value_beside_a_tie_is_rounded_once(dtype: torch.dtype, base: float, up: bool, nudge: float) -> None:
    start = oracle.round_half_even(base, dtype)
    after = torch.nextafter(torch.tensor(start, dtype=dtype), torch.tensor(float("inf" if up else "-inf"), dtype=dtype))
    value = (start + float(after)) / 2 * (1 + nudge)
    result = values.round_once(torch.tensor([value], dtype=torch.float64), dtype)
    assert float(result) == oracle.round_half_even(value, dtype)


def test_rounding_by_way_of_float32_would_differ() -> None:
    value = torch.tensor([1 + 2**-8 + 2**-40, -1 - 2**-8 - 2**-40], dtype=torch.float64)
    assert value.to(BF16).tolist() == [1.0, -1.0]  # if torch rounds once some day, round_once can go
    assert values.round_once(value, BF16).tolist() == [1 + 2**-7, -1 - 2**-7]
    assert values.round_once(torch.tensor([1e39, -1e39, 1e-50, -1e-50], dtype=torch.float64), BF16).tolist() == [
        float("inf"), float("-inf"), 0.0, -0.0,
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", [BF16, FP16], ids=["bf16", "fp16"])
@pytest.mark.parametrize("constants", CONSTANTS.values(), ids=CONSTANTS.keys())
def test_the_constants_in_use_have_a_proven_multiply_add(constants: tuple, dtype: torch.dtype) -> None:
    found = values.multiply_add(*constants, dtype)
    assert found is not None
    codes = torch.arange(256, dtype=FP32)
    expected = expected_values(constants, dtype)
    separate = (codes * found.scale[:, None] + found.bias[:, None]).to(dtype)
    fused = (codes.double() * found.scale[:, None].double() + found.bias[:, None].double()).to(FP32).to(dtype)
    assert same_bits(separate, expected) and same_bits(fused, expected)


def test_the_plain_multiply_add_for_half_is_refused_for_a_neighbour() -> None:
    found = values.multiply_add(*HALF, BF16)
    assert found is not None
    plain = torch.arange(256, dtype=FP32) * torch.tensor(1 / 127.5, dtype=FP32) - 1
    assert int((plain.to(BF16) != expected_values(HALF, BF16)[0]).sum()) == 1
    assert (float(found.scale[0]), float(found.bias[0])) != (float(torch.tensor(1 / 127.5, dtype=FP32)), -1.0)


def test_no_multiply_add_is_claimed_where_none_is_exact() -> None:
    assert values.multiply_add(*NOT_PROVEN, FP16) is None
    assert values.multiply_add(*CLIP, FP32) is None
    assert values.multiply_add((0.0,) * 3, (1e39,) * 3, BF16) is None  # subnormal: a processor may flush it to 0
