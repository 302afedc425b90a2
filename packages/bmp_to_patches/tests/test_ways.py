"""The CPU kernel's two ways, product and table, each alone and over many blocks."""

from __future__ import annotations

import pytest
import torch
from torch import Generator

from tilevl.bmp_to_patches import values
from tilevl.bmp_to_patches.kernels import cpu
from tilevl.testing import same_bits, skip_unless

from . import oracle
from .cases import BF16, CLIP, FP16, FP32, IMAGENET, NOT_PROVEN, images

pytestmark = pytest.mark.targets("cpu")
SIZES = (1, 2, 3, 4, 7, 8, 12, 14, 16)


def run(args: tuple, kernel: object) -> torch.Tensor:
    total, patch_size, dtype = args[3], args[4], args[9]
    out = torch.full((total, 3 * patch_size**2), torch.nan, dtype=dtype)
    kernel(*args, out)
    return out


@pytest.mark.parametrize("bytes_per_pixel", [3, 4])
@pytest.mark.parametrize("patch_size", SIZES)
def test_table_alone(patch_size: int, bytes_per_pixel: int, rng: Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "product_normaliser", lambda *args: None)
    for dtype in (BF16, FP16, FP32):
        args = images(
            rng, (2 * patch_size, 3 * patch_size), patch_size=patch_size, bytes_per_pixel=bytes_per_pixel, dtype=dtype
        )
        kernel = cpu.build(patch_size, *CLIP, bytes_per_pixel, 1, dtype)
        assert same_bits(run(args, kernel), oracle.bmp_to_patches(*args))


@pytest.mark.parametrize("bytes_per_pixel", [3, 4])
@pytest.mark.parametrize("patch_size", SIZES)
def test_product_alone(patch_size: int, bytes_per_pixel: int, rng: Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_unless(cpu._product_is_fast(), "cpu", "oneDNN has no vector code for the product on this processor")
    monkeypatch.setattr(cpu, "table_normaliser", None)
    for dtype in (BF16, FP16):
        args = images(
            rng,
            (2 * patch_size, 3 * patch_size),
            (patch_size, patch_size),
            patch_size=patch_size,
            bytes_per_pixel=bytes_per_pixel,
            dtype=dtype,
            constants=IMAGENET,
        )
        kernel = cpu.build(patch_size, *IMAGENET, bytes_per_pixel, 1, dtype)
        assert same_bits(run(args, kernel), oracle.bmp_to_patches(*args))


def test_product_by_way_of_float32(rng: Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_unless(cpu._product_is_fast(), "cpu", "oneDNN has no vector code for the product on this processor")
    monkeypatch.setattr(cpu, "_has_bfloat16", lambda: False)
    args = images(rng, (16, 32))
    assert same_bits(run(args, cpu.build(4, *CLIP, 3, 1, BF16)), oracle.bmp_to_patches(*args))


@pytest.mark.parametrize("constants", [CLIP, NOT_PROVEN], ids=["product", "table"])
@pytest.mark.parametrize("block", [1, 50, 200, 300])
def test_blocks_of_any_size_meet_without_a_seam(
    block: int, constants: tuple, rng: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "_PRODUCT_BLOCK", block)
    monkeypatch.setattr(cpu, "_TABLE_BLOCK", block)
    args = images(rng, (16, 12), (9, 20), (4, 4), constants=constants, dtype=FP16, spare=2)
    assert same_bits(run(args, cpu.build(4, *constants, 3, 1, FP16)), oracle.bmp_to_patches(*args))


def test_the_way_follows_the_proof() -> None:
    table = values.exact_values(*CLIP, FP16)
    proven = values.multiply_add(*CLIP, FP16)
    assert proven is not None
    assert cpu.product_normaliser(4, 3, table, None) is None
    assert (cpu.product_normaliser(4, 3, table, proven) is not None) == cpu._product_is_fast()
    wrong = proven._replace(bias=proven.bias * 1.01)
    assert cpu.product_normaliser(4, 3, table, wrong) is None  # what oneDNN gives is compared as well


def test_another_signature_of_the_product_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_LINEAR_TAKES", (*cpu._LINEAR_TAKES, "more"))
    assert cpu.product_normaliser(4, 3, values.exact_values(*CLIP, FP16), values.multiply_add(*CLIP, FP16)) is None


def test_an_x86_processor_takes_the_product() -> None:
    skip_unless(torch.backends.cpu.get_cpu_capability().startswith("AVX"), "cpu", "no x86 processor with AVX2")
    assert cpu._product_is_fast()
