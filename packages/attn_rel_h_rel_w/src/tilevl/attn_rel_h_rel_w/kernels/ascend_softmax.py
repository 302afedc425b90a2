# mypy: disable-error-code="misc,valid-type,no-untyped-def,untyped-decorator"
"""Ascend, the vector unit: from scores to weights, for the queries of one vector core and one block of keys.

A register holds 64 scores. Even and odd keys of a block go apart, so that their weights, converted to even and odd
lanes, join to a register in the order of keys. It is stored by 32 bytes, as the second product reads it.

``first_block`` and ``next_block`` take the maximum over the first block as the reference of a row, once for all blocks:
a weight is ``exp(score - x)``, with ``x`` the reference less the bias, and ``wide`` holds the reference less the column
bias. ``judge`` says whether that was good enough. ``maximum`` and ``exact_block`` take the maximum over all blocks.
"""

from __future__ import annotations

from types import SimpleNamespace

import tilelang.ascend.language as T
from tilelang.ascend.language import simd as S

from tilevl.attn_rel_h_rel_w.kernels.ascend_bias import bias_macros
from tilevl.attn_rel_h_rel_w.kernels.ascend_plan import GROUPS, KEYS, LANES, Plan
from tilevl.attn_rel_h_rel_w.kernels.ascend_tasks import first_column, key_count

LOWEST = -30.0  # the least reference, so that a first block that is masked whole fits the next ones
HIGHEST = 1024.0  # the greatest reference that judge lets pass: sums up to it round alike in any order, near enough
SUMS = {"bfloat16": (1e-20, 1e30), "float16": (0.5, 6e4)}  # of a row that judge lets pass: its weights fit the type
_SMALLEST = 1e-37  # stands for a sum of zero, whose weights are all zero


def softmax_macros(plan: Plan) -> SimpleNamespace:
    """Functions of the vector unit."""
    dtype, half, head_dim = plan.dtype, plan.half, plan.head_dim
    pitch = half + 1  # rows between groups of 16 keys, odd, so that neighbours fall into other banks
    infinity = T.infinity("float32")
    least, most = SUMS[dtype]
    halves = -(-head_dim // LANES)
    bias = bias_macros(plan)

    @T.macro
    def scaled(m, even, odd, b32):
        if plan.folded:
            return even, odd
        return S.vmuls(even, m.scale, b32), S.vmuls(odd, m.scale, b32)

    @T.macro
    def store(m, even, odd, i, place, b16, b32):
        """Converts and joins the weights of a row, and stores them by 16 keys."""
        low = T.reinterpret(S.vcvt(even, dtype, b32, sat=False, part=0), "uint16x128")
        high = T.reinterpret(S.vcvt(odd, dtype, b32, sat=False, part=1), "uint16x128")
        joined = T.reinterpret(S.vor(low, high, b16), f"{dtype}x128")
        S.vsstb(joined, m.weights[place, i * 16], pitch << 16, b16)

    @T.macro
    def clear(m):
        """Zeros, for rows past the last query."""
        with T.SimdVF():
            b16 = S.pset(16, "PAT_ALL")
            b32 = S.pset(32, "PAT_ALL")
            S.vsts(m.parts[0], S.vdup(T.float32(0), "float32", b32), b32, "NORM_B32")
            for sub in T.serial(plan.twins):
                S.vsts(m.tops[sub, 0], S.vdup(T.float32(0), "float32", b32), b32, "NORM_B32")
            zero = S.vdup(T.Cast(dtype, 0), dtype, b16)
            for place in T.serial(2):
                for i in T.serial(pitch):
                    S.vsts(m.weights[place, i * KEYS], zero, b16, "NORM_B16")

    @T.macro
    def fold(m, rows, place):
        """Queries times a power of two, in the layout of the first product."""
        with T.SimdVF():
            b16 = S.pset(16, "PAT_ALL")
            b32 = S.pset(32, "PAT_ALL")
            for part in T.serial(halves):
                some = S.update_mask(T.uint32(head_dim - part * LANES), 16)
                low = S.pset(16, "PAT_H")
                here = S.pand(some, low, b16)
                for i in T.serial(rows):
                    number = S.vmuls(
                        S.vcvt(S.vld(m.packed[i, part * LANES], "UNPK_B16"), "float32", b16, part=0), m.scale, b32
                    )
                    pairs = T.reinterpret(S.vcvt(number, dtype, b32, sat=False, part=0), "uint32x64")
                    joined = T.reinterpret(S.vpack(pairs, "LOWER"), f"{dtype}x128")
                    S.vsstb(joined, m.weights[place, part * (4 * pitch * 16) + i * 16], pitch << 16, here)

    @T.macro
    def first_block(m, sub, rows, place, slot):
        """Finds the reference of each row; weights and sums of the first block."""
        with T.SimdVF():
            b16 = S.pset(16, "PAT_ALL")
            b32 = S.pset(32, "PAT_ALL")
            evens = S.update_mask(T.uint32((key_count(plan, 0) + 1) // 2), 32)
            odds = S.update_mask(T.uint32(key_count(plan, 0) // 2), 32)
            columns = bias.columns_of(0, b16, b32)
            index = bias.key_rows(0, b32)
            for i in T.serial(rows):
                raw_even, raw_odd = S.vld2(m.scores[place, i, 0], "DINTLV_B32")
                even, odd = scaled(m, raw_even, raw_odd, b32)
                even_w, odd_w = bias.picked(m.staged_w, sub, i, columns, b16)
                even_h, odd_h = bias.row_bias(m, sub, i, 0, index, b16)
                even_s = S.vadd(even, even_w, b32)
                odd_s = S.vadd(odd, odd_w, b32)
                if plan.pairs and not plan.short:
                    top = S.vcmax(S.vadd(S.vmax(even_s, odd_s, b32), even_h, b32), b32)
                else:
                    top_e = S.vcmax(S.vadd(even_s, even_h, b32), evens)
                    top_o = S.vcmax(S.vadd(odd_s, odd_h, b32), odds)
                    top = S.vmax(top_e, top_o, b32)
                top = S.vdupv(S.vmaxs(top, T.float32(LOWEST), b32), b32)
                S.vsts(m.tops[sub, i], top, b32, "ONEPT_B32")
                even_x = S.vsub(top, even_w, b32)
                odd_x = S.vsub(top, odd_w, b32)
                bias.keep(m, sub, even_x, odd_x, i, 0, b32)
                even = S.vexpdif(even, S.vsub(even_x, even_h, b32), evens)
                odd = S.vexpdif(odd, S.vsub(odd_x, odd_h, b32), odds)
                store(m, even, odd, i, place, b16, b32)
                S.vsts(m.parts[i], S.vcadd(S.vadd(even, odd, b32), b32), b32, "ONEPT_B32")
            S.mem_bar("VST_VLD")
            S.vsts(m.totals[slot, 0], S.vld(m.parts[0], "NORM"), b32, "NORM_B32")

    @T.macro
    def next_block(m, sub, rows, place, slot, block):
        """Weights of a block by the references; adds them to the sums."""
        with T.SimdVF():
            b16 = S.pset(16, "PAT_ALL")
            b32 = S.pset(32, "PAT_ALL")
            evens = S.update_mask(T.uint32((key_count(plan, block) + 1) // 2), 32)
            odds = S.update_mask(T.uint32(key_count(plan, block) // 2), 32)
            index = bias.key_rows(block, b32)
            for i in T.serial(rows):
                raw_even, raw_odd = S.vld2(m.scores[place, i, 0], "DINTLV_B32")
                even, odd = scaled(m, raw_even, raw_odd, b32)
                even_x, odd_x = S.vld2(m.wide[sub, i, first_column(plan, block)], "DINTLV_B32")
                even_h, odd_h = bias.row_bias(m, sub, i, block, index, b16)
                even = S.vexpdif(even, S.vsub(even_x, even_h, b32), evens)
                odd = S.vexpdif(odd, S.vsub(odd_x, odd_h, b32), odds)
                store(m, even, odd, i, place, b16, b32)
                S.vsts(m.parts[i], S.vcadd(S.vadd(even, odd, b32), b32), b32, "ONEPT_B32")
            S.mem_bar("VST_VLD")
            total = S.vadd(S.vld(m.totals[slot, 0], "NORM"), S.vld(m.parts[0], "NORM"), b32)
            S.vsts(m.totals[slot, 0], total, b32, "NORM_B32")

    @T.macro
    def begin_maximum(m, sub):
        with T.SimdVF():
            b32 = S.pset(32, "PAT_ALL")
            S.vsts(m.tops[sub, 0], S.vdup(-infinity, "float32", b32), b32, "NORM_B32")
            S.vsts(m.totals[0, 0], S.vdup(T.float32(0), "float32", b32), b32, "NORM_B32")

    @T.macro
    def maximum(m, sub, rows, place, block):
        """Raises ``tops`` to the maxima of a block; ``wide`` is the column bias as it is."""
        with T.SimdVF():
            b16 = S.pset(16, "PAT_ALL")
            b32 = S.pset(32, "PAT_ALL")
            evens = S.update_mask(T.uint32((key_count(plan, block) + 1) // 2), 32)
            odds = S.update_mask(T.uint32(key_count(plan, block) // 2), 32)
            index = bias.key_rows(block, b32)
            for i in T.serial(rows):
                raw_even, raw_odd = S.vld2(m.scores[place, i, 0], "DINTLV_B32")
                even, odd = scaled(m, raw_even, raw_odd, b32)
                even_w, odd_w = S.vld2(m.wide[sub, i, first_column(plan, block)], "DINTLV_B32")
                even_h, odd_h = bias.row_bias(m, sub, i, block, index, b16)
                top_e = S.vcmax(S.vadd(even, S.vadd(even_h, even_w, b32), b32), evens)
                top_o = S.vcmax(S.vadd(odd, S.vadd(odd_h, odd_w, b32), b32), odds)
                top = S.vmax(S.vmax(top_e, top_o, b32), S.vld(m.tops[sub, i], "BRC_B32"), b32)
                S.vsts(m.tops[sub, i], top, b32, "ONEPT_B32")

    @T.macro
    def end_maximum(m, sub):
        """A row whose scores are all -inf gets reference 0, and so weights of 0."""
        with T.SimdVF():
            b32 = S.pset(32, "PAT_ALL")
            top = S.vld(m.tops[sub, 0], "NORM")
            none = S.vcmps(top, -infinity, b32, "eq")
            S.vsts(m.tops[sub, 0], S.vsel(S.vdup(T.float32(0), "float32", b32), top, none), b32, "NORM_B32")

    @T.macro
    def exact_block(m, sub, rows, place, block):
        """Weights of a block by the maxima in ``tops``; adds them to the sums."""
        with T.SimdVF():
            b16 = S.pset(16, "PAT_ALL")
            b32 = S.pset(32, "PAT_ALL")
            evens = S.update_mask(T.uint32((key_count(plan, block) + 1) // 2), 32)
            odds = S.update_mask(T.uint32(key_count(plan, block) // 2), 32)
            index = bias.key_rows(block, b32)
            for i in T.serial(rows):
                raw_even, raw_odd = S.vld2(m.scores[place, i, 0], "DINTLV_B32")
                even, odd = scaled(m, raw_even, raw_odd, b32)
                even_w, odd_w = S.vld2(m.wide[sub, i, first_column(plan, block)], "DINTLV_B32")
                even_h, odd_h = bias.row_bias(m, sub, i, block, index, b16)
                top = S.vld(m.tops[sub, i], "BRC_B32")
                even = S.vexpdif(S.vadd(even, S.vadd(even_h, even_w, b32), b32), top, evens)
                odd = S.vexpdif(S.vadd(odd, S.vadd(odd_h, odd_w, b32), b32), top, odds)
                store(m, even, odd, i, place, b16, b32)
                S.vsts(m.parts[i], S.vcadd(S.vadd(even, odd, b32), b32), b32, "ONEPT_B32")
            S.mem_bar("VST_VLD")
            total = S.vadd(S.vld(m.totals[0, 0], "NORM"), S.vld(m.parts[0], "NORM"), b32)
            S.vsts(m.totals[0, 0], total, b32, "NORM_B32")

    @T.macro
    def judge(m, sub, rows, slot):
        """``m.verdicts[slot]``: 1 where a row's sum or reference is out of bounds or NaN."""
        with T.SimdVF():
            b32 = S.pset(32, "PAT_ALL")
            there = S.update_mask(T.uint32(rows), 32)
            total = S.vld(m.totals[slot, 0], "NORM")
            not_low = S.vcmps(total, T.float32(least), there, "ge")
            good = S.vcmps(total, T.float32(most), not_low, "le")
            good = S.vcmps(S.vld(m.tops[sub, 0], "NORM"), T.float32(HIGHEST), good, "le")
            zero = S.vdup(T.float32(0), "float32", b32)
            bad = S.vsel(zero, S.vdup(T.float32(1), "float32", b32), good)
            worst = S.vmax(S.vcmax(bad, there), zero, b32)
            S.vsts(m.verdicts[slot * GROUPS], S.vdupv(worst, b32), S.update_mask(T.uint32(GROUPS), 32), "NORM_B32")

    @T.macro
    def settle(m, slot):
        """Sums that can divide."""
        with T.SimdVF():
            b32 = S.pset(32, "PAT_ALL")
            S.vsts(
                m.totals[slot, 0], S.vmaxs(S.vld(m.totals[slot, 0], "NORM"), T.float32(_SMALLEST), b32), b32, "NORM_B32"
            )

    @T.macro
    def divide(m, rows, slot):
        """The result of each row, in the place of the sums of products; 1 in ``verdicts`` where one is not finite."""
        with T.SimdVF():
            b32 = S.pset(32, "PAT_ALL")
            zero = S.vdup(T.float32(0), "float32", b32)
            nothing = S.alloc_local(1, "float32")
            nothing[0] = zero
            rest = S.update_mask(T.uint32(head_dim - (halves - 1) * LANES), 32)
            for i in T.serial(rows):
                total = S.vld(m.totals[slot, i], "BRC_B32")
                if halves == 1:
                    low = S.vdiv(S.vld(m.result[i, 0], "NORM"), total, rest, precision="ftz_true")
                    S.vmula(nothing[0], low, zero, b32)
                    S.vsts(m.packed[i, 0], S.vcvt(low, dtype, b32, sat=False), rest, "PK_B32")
                else:
                    low = S.vdiv(S.vld(m.result[i, 0], "NORM"), total, b32, precision="ftz_true")
                    high = S.vdiv(S.vld(m.result[i, LANES], "NORM"), total, rest, precision="ftz_true")
                    S.vmula(nothing[0], low, zero, b32)
                    S.vmula(nothing[0], high, zero, b32)
                    S.vsts(m.packed[i, 0], S.vcvt(low, dtype, b32, sat=False), b32, "PK_B32")
                    S.vsts(m.packed[i, LANES], S.vcvt(high, dtype, b32, sat=False), rest, "PK_B32")
            if plan.resident:
                finite = S.vcmps(nothing[0], T.float32(0), b32, "eq")
                bad = S.vcmax(S.vsel(zero, S.vdup(T.float32(1), "float32", b32), finite), b32)
                few = S.update_mask(T.uint32(GROUPS), 32)
                before = S.vld(m.verdicts[slot * GROUPS], "NORM")
                S.vsts(m.verdicts[slot * GROUPS], S.vmax(before, S.vdupv(bad, b32), b32), few, "NORM_B32")

    return SimpleNamespace(
        clear=clear, fold=fold, first_block=first_block, next_block=next_block, begin_maximum=begin_maximum,
        maximum=maximum, end_maximum=end_maximum, exact_block=exact_block, judge=judge, settle=settle, divide=divide,
        spread=bias.spread, widen=bias.widen, subtract=bias.subtract,
    )  # fmt: skip
