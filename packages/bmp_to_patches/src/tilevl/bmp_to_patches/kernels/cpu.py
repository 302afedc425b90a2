"""CPU: patches are gathered as bytes, block by block; planes and values follow from one integer product or a table.

The first way turns pixel order into planes and codes into values in one pass: a matrix product of uint8 codes with a
0/1 matrix, whose integer sums are exact, scaled and shifted on the way out (oneDNN's quantised linear layer). It is
taken where ``values.multiply_add`` proves the constants and the processor has vector code. The table takes the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from tilevl.bmp_to_patches import values
from tilevl.core.cache import Kernel

# Elements of the result per pass: what lies between stays in the caches, and few calls share the work.
_PRODUCT_BLOCK, _TABLE_BLOCK = 3 * 2**20, 3 * 2**18
_LINEAR_TAKES = (
    "qx", "x_scale", "x_zero_point", "qw", "w_scale", "w_zero_point", "bias", "output_scale", "output_zero_point",
    "output_dtype", "post_op_name", "post_op_args", "post_op_algorithm",
)  # fmt: skip

Normalise = Callable[[Tensor, Tensor], None]


def build(
    patch_size: int,
    mean: Sequence[float],
    std: Sequence[float],
    bytes_per_pixel: int,
    window: int,
    out_dtype: torch.dtype,
) -> Kernel:
    """The kernel of a patch size, pixel size, window, result dtype and set of constants."""
    table = values.exact_values(mean, std, out_dtype)
    normalise = product_normaliser(patch_size, bytes_per_pixel, table, values.multiply_add(mean, std, out_dtype))
    elements = _PRODUCT_BLOCK
    if normalise is None:
        normalise, elements = table_normaliser(patch_size, bytes_per_pixel, table), _TABLE_BLOCK
    span = patch_size * bytes_per_pixel
    block = max(elements // (3 * patch_size * patch_size), 1)

    def kernel(pixels: Tensor, crops: Tensor, cu_patches: Tensor, *rest: object) -> None:
        out = rest[-1]
        assert isinstance(out, Tensor)
        count = int(cu_patches[-1])
        starts, strides = _places(crops, count, patch_size, bytes_per_pixel, window)
        rows = torch.arange(patch_size, dtype=torch.int64, device=pixels.device)
        runs = pixels.as_strided((max(pixels.numel() - span + 1, 0), span), (1, 1))  # row i: the bytes from byte i on
        for first in range(0, count, block):
            part = slice(first, min(first + block, count))
            index = torch.addcmul(starts[part, None], strides[part, None], rows)
            normalise(runs.index_select(0, index.view(-1)), out[part])
        out[count:].zero_()

    return kernel


def _places(crops: Tensor, count: int, patch_size: int, bytes_per_pixel: int, window: int) -> tuple[Tensor, Tensor]:
    """First byte and row stride of every patch, int64 ``[count]`` each, in the order of the result."""
    starts, strides = crops.new_empty(2, count).unbind()
    position = 0
    for offset, stride, height, width in crops.tolist():
        rows, columns = height // patch_size, width // patch_size
        if not rows * columns:
            continue
        part = slice(position, position + rows * columns)
        down = torch.arange(rows, dtype=torch.int64, device=crops.device).mul_(patch_size * stride).add_(offset)
        right = torch.arange(columns, dtype=torch.int64, device=crops.device).mul_(patch_size * bytes_per_pixel)
        grid = (rows // window, columns // window, window, window)
        torch.add(down.view(grid[0], 1, window, 1), right.view(1, grid[1], 1, window), out=starts[part].view(grid))
        strides[part] = stride
        position = part.stop
    return starts, strides


def product_normaliser(
    patch_size: int, bytes_per_pixel: int, table: Tensor, constants: values.MultiplyAdd | None
) -> Normalise | None:
    """Planes and values by a matrix product, or None where constants, processor or torch don't allow it.

    Runs of pixels are multiplied by a 0/1 matrix that sorts their bytes by channel. The result, one row of
    ``(channel, pixel)`` per run, then moves into the patches, a run of one channel at a time.
    """
    if constants is None or not _product_is_fast():
        return None
    if patch_size % 2 == 0:
        run, carrier, pieces = 4, torch.int64, 1  # four results of 2 bytes move as one int64
    else:
        run, carrier, pieces = patch_size, torch.int16, patch_size
    native = table.dtype == torch.bfloat16 and _has_bfloat16()
    result_dtype = table.dtype if native else torch.float32  # oneDNN has but scalar code for the others
    order = torch.zeros(3, run, run, bytes_per_pixel, dtype=torch.int8, device="cpu")
    for channel in range(3):
        order[channel, :, :, 2 - channel].fill_diagonal_(1)
    weight = torch.ops.onednn.qlinear_prepack(order.view(3 * run, run * bytes_per_pixel), None)
    scale, bias = (constant.repeat_interleave(run) for constant in constants)
    zero = torch.zeros(3 * run, dtype=torch.int64, device="cpu")
    linear = torch.ops.onednn.qlinear_pointwise.default

    def by_channel(codes: Tensor) -> Tensor:
        runs = codes.view(-1, run * bytes_per_pixel)
        planes: Tensor = linear(runs, 1.0, 0, weight, scale, zero, bias, 1.0, 0, result_dtype, "none", [], "")
        return planes.to(table.dtype)

    def normalise(codes: Tensor, out: Tensor) -> None:
        count, per_plane = out.shape[0], patch_size * patch_size // run
        source = by_channel(codes).view(carrier).view(count, per_plane, 3, pieces)
        out.view(carrier).view(count, 3, per_plane, pieces).copy_(source.transpose(1, 2))

    every_code = torch.arange(values.CODES, dtype=torch.uint8, device="cpu").repeat_interleave(run * bytes_per_pixel)
    seen = by_channel(every_code).view(torch.int16).view(values.CODES, 3, run)
    return normalise if bool((seen == table.T.contiguous().view(torch.int16)[:, :, None]).all()) else None


def _product_is_fast() -> bool:
    """Whether oneDNN is there, knows the call, and has vector code for it: on x86 from AVX2 on."""
    if not torch.backends.mkldnn.is_available() or not torch.backends.cpu.get_cpu_capability().startswith("AVX"):
        return False
    linear = getattr(torch.ops.onednn, "qlinear_pointwise", None)
    return linear is not None and tuple(a.name for a in linear.default._schema.arguments) == _LINEAR_TAKES


def _has_bfloat16() -> bool:
    supported = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    return supported is not None and bool(supported())


def table_normaliser(patch_size: int, bytes_per_pixel: int, table: Tensor) -> Normalise:
    """Planes by strided copies of bytes, values by looking up ``channel * 256 + code``."""
    flat = table.view(-1)
    base = torch.arange(0, 3 * values.CODES, values.CODES, dtype=torch.int16, device="cpu")[:, None]

    def normalise(codes: Tensor, out: Tensor) -> None:
        interleaved = codes.view(out.shape[0], patch_size * patch_size, bytes_per_pixel)
        planes = codes.new_empty(out.shape[0], 3, patch_size * patch_size)
        for channel in range(3):
            planes[:, channel].copy_(interleaved[:, :, 2 - channel])
        index = planes.to(torch.int16).add_(base).to(torch.int64)
        torch.index_select(flat, 0, index.view(-1), out=out.view(-1))

    return normalise
