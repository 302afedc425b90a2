"""A baseline for Ascend: attention with the structure of the best published kernel, to count and to model beside ours.

Known of that kernel, and done here the same way: a block is one head and 128 queries, 64 of them on each vector core,
against 128 keys at a time; softmax is online; the bias is added on the vector unit; what depends only on the key is
computed before the loop over rows; where ``grid_w`` is a multiple of 64, a key block has one row bias and the column
bias lies in one piece, else both are gathered; probabilities of even and odd keys are converted apart, joined, and
stored by blocks of 32 bytes as the second product reads them; the loop over keys has three stages from 13 key blocks
on, two below. TileLang's scheduler orders the rest. One build per shape of at least 128 tokens. Queries and tables come
padded to whole tiles, with columns up to a multiple of 16; the last key block starts 128 keys before the end, and those
that were there before are masked.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor

from tilevl.testing.ascend_host import Counters, Kernel, compile, lower

ROWS = 64  # queries of a vector core
KEYS = 128  # of a block
_LANES = 64  # float32 of a register
_LOWEST = -1e30  # stands for minus infinity, and bfloat16 holds it
_DEEP = 13  # key blocks from which on three stages pay


@dataclass(frozen=True)
class Published:
    """The baseline for one shape, in bfloat16.

    Attributes:
        batch, grid_h, grid_w, heads, head_dim: of the inputs; ``head_dim`` is 64.
    """

    batch: int
    grid_h: int
    grid_w: int
    heads: int
    head_dim: int = 64

    @property
    def tokens(self) -> int:
        """Queries of an image, and keys."""
        return self.grid_h * self.grid_w

    @property
    def tiles(self) -> int:
        """Blocks of a head, of 128 queries each."""
        return -(-self.tokens // (2 * ROWS))

    @property
    def grid(self) -> int:
        """Blocks of the launch."""
        return self.batch * self.heads * self.tiles

    @property
    def key_blocks(self) -> int:
        """Steps of a block."""
        return -(-self.tokens // KEYS)

    @cached_property
    def kernel(self) -> Kernel:
        """Built for the host model."""
        return compile(lower(attend(self)))

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, rel_h: Tensor, rel_w: Tensor
    ) -> tuple[Tensor, Counters]:
        """Runs all blocks; takes and gives what the op does, contiguous."""
        rows = self.tiles * 2 * ROWS
        tensors = {
            "query": _padded(query, rows),
            "key": key.flatten(2),
            "value": value.flatten(2),
            "rel_h": _padded(rel_h, rows),
            "rel_w": _padded(rel_w, rows),
            "out": query.new_full((self.batch, rows, self.heads * self.head_dim), float("nan")),
        }
        counters = self.kernel(self.grid, **tensors)
        return tensors["out"][:, : self.tokens].reshape(query.shape), counters


def _padded(tensor: Tensor, rows: int) -> Tensor:
    """``[B, rows, N * columns]``: zeros past the last query, NaN in the columns up to a multiple of 16."""
    batch, tokens, heads, columns = tensor.shape
    padded = tensor.new_full((batch, rows, heads, _columns(columns)), float("nan"))
    padded[:, :tokens, :, :columns] = tensor
    padded[:, tokens:] = 0
    return padded.flatten(2)


def _columns(size: int) -> int:
    return -(-size // 16) * 16


def attend(shape: Published) -> Any:
    """The program of a shape."""
    import tilelang.ascend.language as T
    from tilelang.ascend.language import simd as S
    from tilelang.layout import make_ascend_compact_nz_layout

    batch, tokens, heads, width, grid_w = shape.batch, shape.tokens, shape.heads, shape.head_dim, shape.grid_w
    tiles, steps, padded = shape.tiles, shape.key_blocks, shape.tiles * 2 * ROWS
    high, wide = _columns(shape.grid_h), _columns(grid_w)
    in_pieces = grid_w % _LANES == 0 and tokens % KEYS == 0
    masked_wide = wide + 16  # one more column group, which masked keys point to
    scale = width**-0.5
    stages = 3 if steps >= _DEEP else 2

    @T.macro
    def begin(top, total, sums):
        with T.SimdVF():
            all32 = S.pset(32, "PAT_ALL")
            zero = S.vdup(T.float32(0), "float32", all32)
            S.vsts(top[0], S.vdup(T.float32(_LOWEST), "float32", all32), all32, "NORM_B32")
            S.vsts(total[0], zero, all32, "NORM_B32")
            for r in T.serial(ROWS):
                S.vsts(sums[r, 0], zero, all32, "NORM_B32")

    @T.macro
    def mask_column(rel_w):
        with T.SimdVF():
            few = S.pset(16, "PAT_VL16")
            lowest = S.vdup(T.bfloat16(_LOWEST), "bfloat16", few)
            for r in T.serial(ROWS):
                S.vsts(rel_w[r, wide], lowest, few, "NORM_B16", extent=16)

    @T.macro
    def raise_top(r, x, y, all32, top, fade):
        """The row's maximum so far, and the factor for what was summed under the one before."""
        before = S.vld(top[r], "BRC_B32")
        after = S.vmax(before, S.vcmax(S.vmax(x, y, all32), all32), all32)
        S.vsts(top[r], after, all32, "ONEPT_B32")
        S.vsts(fade[r], S.vexpdif(before, after, all32), all32, "ONEPT_B32")

    @T.macro
    def bias_in_pieces(step, scores, rel_h, rel_w, top, fade):
        with T.SimdVF():
            all32, all16 = S.pset(32, "PAT_ALL"), S.pset(16, "PAT_ALL")
            for r in T.serial(ROWS):
                column = S.vcvt(S.vld(rel_w[r, step * KEYS % grid_w], "UNPK_B16"), "float32", all16)
                other = column
                if grid_w > _LANES:
                    other = S.vcvt(S.vld(rel_w[r, (step * KEYS + _LANES) % grid_w], "UNPK_B16"), "float32", all16)
                x = S.vmuls(S.vld(scores[r, 0], "NORM"), T.float32(scale), all32)
                y = S.vmuls(S.vld(scores[r, _LANES], "NORM"), T.float32(scale), all32)
                first = S.vld(rel_h[r, step * KEYS // grid_w], "BRC_B16")
                second = S.vld(rel_h[r, (step * KEYS + _LANES) // grid_w], "BRC_B16")
                x = S.vadd(S.vadd(x, S.vcvt(first, "float32", all16), all32), column, all32)
                y = S.vadd(S.vadd(y, S.vcvt(second, "float32", all16), all32), other, all32)
                S.vsts(scores[r, 0], x, all32, "NORM_B32")
                S.vsts(scores[r, _LANES], y, all32, "NORM_B32")
                raise_top(r, x, y, all32, top, fade)

    @T.macro
    def bias_gathered(done, start_h, start_w, scores, rel_h, rel_w, top, fade):
        """Stores the scores of even keys before those of odd ones, as a gather of 128 values is converted."""
        with T.SimdVF():
            all32, all16 = S.pset(32, "PAT_ALL"), S.pset(16, "PAT_ALL")
            row = S.alloc_local((1,), "uint16")
            column = S.alloc_local((1,), "uint16")
            row[0] = S.vdup(start_h, "uint16", all16)
            column[0] = S.vci(start_w, "uint16")
            for _ in T.serial(-(-(grid_w + KEYS - 1) // grid_w) - 1):
                past = S.vcmps(column[0], T.uint16(grid_w), all16, "ge")
                column[0] = S.vsel(S.vadds(column[0], T.uint16(65536 - grid_w), all16), column[0], past)
                row[0] = S.vsel(S.vadds(row[0], T.uint16(1), all16), row[0], past)
            masked = S.vcmps(S.vci(T.uint16(0), "uint16"), done, all16, "lt")
            column[0] = S.vsel(S.vdup(T.uint16(wide), "uint16", all16), column[0], masked)
            for r in T.serial(ROWS):
                pair = S.vld2(scores[r, 0], "DINTLV_B32")
                of_row = S.vgather2(rel_h[r, 0], row[0], all16)
                of_column = S.vgather2(rel_w[r, 0], column[0], all16)
                x = S.vmuls(pair[0], T.float32(scale), all32)
                y = S.vmuls(pair[1], T.float32(scale), all32)
                x = S.vadd(x, S.vcvt(of_row, "float32", all16, part=0), all32)
                y = S.vadd(y, S.vcvt(of_row, "float32", all16, part=1), all32)
                x = S.vadd(x, S.vcvt(of_column, "float32", all16, part=0), all32)
                y = S.vadd(y, S.vcvt(of_column, "float32", all16, part=1), all32)
                S.vsts(scores[r, 0], x, all32, "NORM_B32")
                S.vsts(scores[r, _LANES], y, all32, "NORM_B32")
                raise_top(r, x, y, all32, top, fade)

    @T.macro
    def weigh(scores, top, fade, total, tally, weights):
        with T.SimdVF():
            all32, all16 = S.pset(32, "PAT_ALL"), S.pset(16, "PAT_ALL")
            for r in T.serial(ROWS):
                level = S.vld(top[r], "BRC_B32")
                if in_pieces:
                    pair = S.vld2(scores[r, 0], "DINTLV_B32")
                    even, odd = S.vexpdif(pair[0], level, all32), S.vexpdif(pair[1], level, all32)
                else:
                    even = S.vexpdif(S.vld(scores[r, 0], "NORM"), level, all32)
                    odd = S.vexpdif(S.vld(scores[r, _LANES], "NORM"), level, all32)
                S.vsts(tally[r], S.vcadd(S.vadd(even, odd, all32), all32), all32, "ONEPT_B32")
                narrow = S.vor(S.vcvt(even, "bfloat16", all32, part=0), S.vcvt(odd, "bfloat16", all32, part=1), all16)
                S.vsstb(narrow, weights[r, 0], T.int32((ROWS + 1) << 16), all16)
            S.mem_bar("VST_VLD")
            faded = S.vmul(S.vld(total[0], "NORM"), S.vld(fade[0], "NORM"), all32)
            S.vsts(total[0], S.vadd(faded, S.vld(tally[0], "NORM"), all32), all32, "NORM_B32")

    @T.macro
    def accumulate(sums, part, fade):
        with T.SimdVF():
            all32 = S.pset(32, "PAT_ALL")
            for r in T.serial(ROWS):
                faded = S.vmul(S.vld(sums[r, 0], "NORM"), S.vld(fade[r], "BRC_B32"), all32)
                S.vsts(sums[r, 0], S.vadd(faded, S.vld(part[r, 0], "NORM"), all32), all32, "NORM_B32")

    @T.macro
    def divide(sums, total, result):
        with T.SimdVF():
            all32 = S.pset(32, "PAT_ALL")
            for r in T.serial(ROWS):
                mean = S.vdiv(S.vld(sums[r, 0], "NORM"), S.vld(total[r], "BRC_B32"), all32)
                S.vsts(result[r, 0], S.vcvt(mean, "bfloat16", all32), all32, "PK_B32")

    @T.prim_func
    def published(
        query: T.Tensor((batch, padded, heads * width), "bfloat16"),
        key: T.Tensor((batch, tokens, heads * width), "bfloat16"),
        value: T.Tensor((batch, tokens, heads * width), "bfloat16"),
        rel_h: T.Tensor((batch, padded, heads * high), "bfloat16"),
        rel_w: T.Tensor((batch, padded, heads * wide), "bfloat16"),
        out: T.Tensor((batch, padded, heads * width), "bfloat16"),
    ):
        with T.Kernel(shape.grid) as block:
            queries = T.alloc_l1((2 * ROWS, width), "bfloat16")
            keys = T.alloc_l1((KEYS, width), "bfloat16")
            values = T.alloc_l1((width, KEYS), "bfloat16")
            weights_l1 = T.alloc_l1((2 * ROWS, KEYS), "bfloat16")
            products = T.alloc_l0c((2 * ROWS, KEYS), "float32")
            mixed = T.alloc_l0c((2 * ROWS, width), "float32")
            scores = T.alloc_shared((ROWS, KEYS), "float32")
            weights = T.alloc_shared((ROWS + 1, KEYS), "bfloat16")
            part = T.alloc_shared((ROWS, width), "float32")
            sums = T.alloc_shared((ROWS, width), "float32")
            result = T.alloc_shared((ROWS, width), "bfloat16")
            of_rows = T.alloc_shared((ROWS, high), "bfloat16")
            of_columns = T.alloc_shared((ROWS, wide if in_pieces else masked_wide), "bfloat16")
            top = T.alloc_shared((ROWS,), "float32")
            fade = T.alloc_shared((ROWS,), "float32")
            total = T.alloc_shared((ROWS,), "float32")
            tally = T.alloc_shared((ROWS,), "float32")
            T.annotate_layout({weights: make_ascend_compact_nz_layout(weights)})
            b = block // (heads * tiles)
            h = block // tiles % heads
            q = block % tiles * 2 * ROWS
            T.copy(query[b, q : q + 2 * ROWS, h * width : h * width + width], queries)
            begin(top, total, sums)
            T.dual_copy(rel_h[b, q : q + 2 * ROWS, h * high : h * high + high], of_rows)
            T.dual_copy(rel_w[b, q : q + 2 * ROWS, h * wide : h * wide + wide], of_columns[:, 0:wide])
            if not in_pieces:
                mask_column(of_columns)
            for step in T.Pipelined(steps, num_stages=stages, annotations={"enable_offset": True}):
                k = T.min(step * KEYS, tokens - KEYS)
                T.copy(key[b, k : k + KEYS, h * width : h * width + width], keys)
                T.gemm(queries, keys, products, transpose_B=True, clear_accum=True)
                T.dual_copy(products, scores)
                if in_pieces:
                    bias_in_pieces(step, scores, of_rows, of_columns, top, fade)
                else:
                    bias_gathered(
                        T.Cast("uint16", step * KEYS - k), T.Cast("uint16", k // grid_w), T.Cast("uint16", k % grid_w),
                        scores, of_rows, of_columns, top, fade,
                    )  # fmt: skip
                weigh(scores, top, fade, total, tally, weights)
                T.dual_copy(weights[0:ROWS, :], weights_l1)
                T.copy(value[b, k : k + KEYS, h * width : h * width + width], values, transpose=True)
                T.gemm(weights_l1, values, mixed, transpose_B=True, clear_accum=True)
                T.dual_copy(mixed, part)
                accumulate(sums, part, fade)
            divide(sums, total, result)
            T.dual_copy(result, out[b, q : q + 2 * ROWS, h * width : h * width + width])

    return published


def per_key_block(shape: Published, counters: Counters) -> dict[str, float]:
    """Vector instructions by kind for each key block of each vector core, what a block does once included."""
    blocks = 2 * shape.grid * shape.key_blocks
    return {kind: count / blocks for kind, count in counters.vector.items()}
