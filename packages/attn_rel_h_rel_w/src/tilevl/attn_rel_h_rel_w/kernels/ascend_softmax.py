# mypy: disable-error-code="misc,valid-type,no-untyped-def,untyped-decorator"
"""Ascend, the vector unit: from scores to weights, for the rows of one vector core and one block of keys.

A register holds 64 scores. Even and odd keys of a block go apart, so that their weights, converted to even and odd
lanes, join to a register in the order of the keys. It is stored by 32 bytes, as the second product reads it.

The column bias of a row lies in ``wide``, in the order of keys. The row bias comes by one load where 16 neighbouring
keys share it (``tall``: 8 numbers a block), else by a gather. A weight is ``exp(score - x)`` with ``x`` the reference
less the bias. The reference is the row's maximum over the first block, which leaves ``wide`` as reference less column
bias (``weigh_first``, ``weigh``), or its maximum over all blocks (``maximum``, ``weigh_exactly``).
"""

from __future__ import annotations

from typing import Any

import tilelang.ascend.language as T
from tilelang.ascend.language import simd as S

from tilevl.attn_rel_h_rel_w.kernels.ascend_plan import GROUP_KEYS, GROUPS, KEYS, LANES, Plan

LOWEST = -30.0  # the least reference of a first block, so that one that is masked whole fits the next ones
_SMALLEST = 1e-37  # stands for a sum of zero, whose weights are all zero


def softmax_macros(plan: Plan) -> Any:
    """The functions of the vector unit, by name."""
    dtype, half, head_dim = plan.dtype, plan.half, plan.head_dim
    pitch = half + 1  # rows between groups of 16 keys, odd, so that neighbours fall into other banks

    @T.macro
    def numbers(per_lane, first, factor, most, b32):
        """``min((per_lane * lane + first + 0.5) * factor, most)``, rounded down, as uint16 for 128 lanes."""
        ramp = S.vci(T.float32(0), "float32")
        even = S.vadds(S.vmuls(ramp, T.float32(2 * per_lane), b32), first + T.float32(0.5), b32)
        odd = S.vadds(even, T.float32(per_lane), b32)
        even_i = S.vmins(S.vcvt(S.vmuls(even, T.float32(factor), b32), "int32", b32, "ROUND_F"), most, b32)
        odd_i = S.vmins(S.vcvt(S.vmuls(odd, T.float32(factor), b32), "int32", b32, "ROUND_F"), most, b32)
        low = T.reinterpret(S.vcvt(even_i, "int16", b32, part=0), "uint16x128")
        high = T.reinterpret(S.vcvt(odd_i, "int16", b32, part=1), "uint16x128")
        return S.vor(low, high)

    @T.macro
    def columns_of(part, b16, b32):
        """``(128 part + lane) % grid_w``, as uint16."""
        if plan.pieces > 1:
            return numbers(1, T.float32(0), 1.0, KEYS - 1, b32)
        which = S.vadds(numbers(1, T.float32(0), 1.0, KEYS - 1, b32), T.Cast("uint16", part * KEYS), b16)
        row = numbers(1, T.Cast("float32", part * KEYS), 1.0 / plan.grid_w, KEYS, b32)
        return S.vsub(which, S.vmuls(row, T.Cast("uint16", plan.grid_w), b16), b16)

    @T.macro
    def rows_of(first, b32):
        """The row of each key of a block that starts at ``first``, as it is staged, as uint16."""
        most = (plan.grid_h if plan.resident else plan.rows) - 1
        return numbers(1, T.Cast("float32", first if plan.resident else 0), 1.0 / plan.grid_w, most, b32)

    @T.macro
    def row_bias(i, block, tall, staged_h, index, b16, b32):
        """The row bias of even and of odd keys."""
        if plan.grouped:
            spread = S.vld(tall[i, block * GROUPS], "E2B_B32")
            return spread, spread
        both = S.vgather2(staged_h[i, 0], index, b16)
        even = S.vcvt(both, "float32", b16, part=0)
        if plan.pairs:
            return even, even
        return even, S.vcvt(both, "float32", b16, part=1)

    @T.macro
    def store(even, odd, i, weights, place, b16, b32):
        """Converts and joins the weights of a row, and stores them by 16 keys."""
        low = T.reinterpret(S.vcvt(even, dtype, b32, sat=False, part=0), "uint16x128")
        high = T.reinterpret(S.vcvt(odd, dtype, b32, sat=False, part=1), "uint16x128")
        joined = T.reinterpret(S.vor(low, high, b16), f"{dtype}x128")
        S.vsstb(joined, weights[place, i * 16], pitch << 16, b16)

    @T.macro
    def clear(weights):
        """Zeros, for rows past the last query."""
        with T.SimdVF():
            b16 = S.pset(16, "PAT_ALL")
            zero = S.vdup(T.Cast(dtype, 0), dtype, b16)
            for place in T.serial(2):
                for i in T.serial(pitch):
                    S.vsts(weights[place, i * KEYS], zero, b16, "NORM_B16")

    @T.macro
    def spread_rows(rows, staged_h, tall):
        """``tall``: the row bias of each 16 keys."""
        with T.SimdVF():
            b16 = S.pset(16, "PAT_ALL")
            b32 = S.pset(32, "PAT_ALL")
            for part in T.serial(plan.spread // KEYS):
                index = numbers(
                    GROUP_KEYS, T.Cast("float32", part * KEYS * GROUP_KEYS), 1.0 / plan.grid_w, plan.grid_h - 1, b32
                )
                for i in T.serial(rows):
                    both = S.vgather2(staged_h[i, 0], index, b16)
                    low, high = S.vintlv(
                        S.vcvt(both, "float32", b16, part=0), S.vcvt(both, "float32", b16, part=1)
                    )
                    S.vsts(tall[i, part * KEYS], low, b32, "NORM_B32")
                    S.vsts(tall[i, part * KEYS + LANES], high, b32, "NORM_B32")

    @T.macro
    def widen(rows, staged_w, wide):
        """``wide``: the column bias as it is."""
        with T.SimdVF():
            b16 = S.pset(16, "PAT_ALL")
            b32 = S.pset(32, "PAT_ALL")
            for part in T.serial(plan.width // KEYS):
                index = columns_of(part, b16, b32)
                for i in T.serial(rows):
                    both = S.vgather2(staged_w[i, 0], index, b16)
                    low, high = S.vintlv(
                        S.vcvt(both, "float32", b16, part=0), S.vcvt(both, "float32", b16, part=1)
                    )
                    S.vsts(wide[i, part * KEYS], low, b32, "NORM_B32")
                    S.vsts(wide[i, part * KEYS + LANES], high, b32, "NORM_B32")

    @T.macro
    def begin_maximum(tops):
        with T.SimdVF():
            b32 = S.pset(32, "PAT_ALL")
            S.vsts(tops[0], S.vdup(-T.infinity("float32"), "float32", b32), b32, "NORM_B32")

    @T.macro
    def maximum(rows, place, block, first, count, at, scale, scores, wide, tall, staged_h, tops):
        """Raises ``tops`` to the maxima of a block."""
        with T.SimdVF():
            b16 = S.pset(16, "PAT_ALL")
            b32 = S.pset(32, "PAT_ALL")
            evens = S.update_mask(T.uint32((count + 1) // 2), 32)
            odds = S.update_mask(T.uint32(count // 2), 32)
            index = rows_of(first, b32)
            for i in T.serial(rows):
                even, odd = S.vld2(scores[place, i, 0], "DINTLV_B32")
                even_w, odd_w = S.vld2(wide[i, at], "DINTLV_B32")
                even_h, odd_h = row_bias(i, block, tall, staged_h, index, b16, b32)
                if not plan.folded:
                    even = S.vmuls(even, scale, b32)
                    odd = S.vmuls(odd, scale, b32)
                top_e = S.vcmax(S.vadd(even, S.vadd(even_h, even_w, b32), b32), evens)
                top_o = S.vcmax(S.vadd(odd, S.vadd(odd_h, odd_w, b32), b32), odds)
                top = S.vmax(S.vmax(top_e, top_o, b32), S.vld(tops[i], "BRC_B32"), b32)
                S.vsts(tops[i], top, b32, "ONEPT_B32")

    @T.macro
    def end_maximum(tops):
        """A row whose scores are all -inf gets reference 0, and so weights of 0."""
        with T.SimdVF():
            b32 = S.pset(32, "PAT_ALL")
            top = S.vld(tops[0], "NORM")
            none = S.vcmps(top, -T.infinity("float32"), b32, "eq")
            S.vsts(tops[0], S.vsel(S.vdup(T.float32(0), "float32", b32), top, none), b32, "NORM_B32")

    @T.macro
    def weigh_exactly(rows, place, block, first, count, at, scale, scores, wide, tall, staged_h, tops, sums, weights):
        """Weights from ``tops`` and ``wide`` as it is; adds them to ``sums``."""
        with T.SimdVF():
            b16 = S.pset(16, "PAT_ALL")
            b32 = S.pset(32, "PAT_ALL")
            evens = S.update_mask(T.uint32((count + 1) // 2), 32)
            odds = S.update_mask(T.uint32(count // 2), 32)
            index = rows_of(first, b32)
            for i in T.serial(rows):
                even, odd = S.vld2(scores[place, i, 0], "DINTLV_B32")
                even_w, odd_w = S.vld2(wide[i, at], "DINTLV_B32")
                even_h, odd_h = row_bias(i, block, tall, staged_h, index, b16, b32)
                if not plan.folded:
                    even = S.vmuls(even, scale, b32)
                    odd = S.vmuls(odd, scale, b32)
                top = S.vld(tops[i], "BRC_B32")
                even = S.vexpdif(S.vadd(even, S.vadd(even_h, even_w, b32), b32), top, evens)
                odd = S.vexpdif(S.vadd(odd, S.vadd(odd_h, odd_w, b32), b32), top, odds)
                store(even, odd, i, weights, place, b16, b32)
                S.vsts(sums[i, 0], S.vadd(S.vld(sums[i, 0], "NORM"), S.vadd(even, odd, b32), b32), b32, "NORM_B32")

    @T.macro
    def clear_sums(rows, sums):
        with T.SimdVF():
            b32 = S.pset(32, "PAT_ALL")
            zero = S.vdup(T.float32(0), "float32", b32)
            for i in T.serial(rows):
                S.vsts(sums[i, 0], zero, b32, "NORM_B32")

    @T.macro
    def add_up(rows, sums, totals, turn):
        """The sum of a row, from its 64 parts."""
        with T.SimdVF():
            b32 = S.pset(32, "PAT_ALL")
            for i in T.serial(rows):
                S.vsts(totals[turn, i], S.vcadd(S.vld(sums[i, 0], "NORM"), b32), b32, "ONEPT_B32")

    @T.macro
    def divide(rows, totals, turn, result, out):
        """The result of each row, in the place of the sums of products."""
        with T.SimdVF():
            b32 = S.pset(32, "PAT_ALL")
            for i in T.serial(rows):
                total = S.vmaxs(S.vld(totals[turn, i], "BRC_B32"), T.float32(_SMALLEST), b32)
                if head_dim <= LANES:
                    some = S.update_mask(T.uint32(head_dim), 32)
                    quotient = S.vdiv(S.vld(result[i, 0], "NORM"), total, b32, precision="ftz_true")
                    S.vsts(out[i, 0], S.vcvt(quotient, dtype, b32, sat=False), some, "PK_B32")
                else:
                    rest = S.update_mask(T.uint32(head_dim - LANES), 32)
                    low = S.vdiv(S.vld(result[i, 0], "NORM"), total, b32, precision="ftz_true")
                    high = S.vdiv(S.vld(result[i, LANES], "NORM"), total, b32, precision="ftz_true")
                    S.vsts(out[i, 0], S.vcvt(low, dtype, b32, sat=False), b32, "PK_B32")
                    S.vsts(out[i, LANES], S.vcvt(high, dtype, b32, sat=False), rest, "PK_B32")

    return {name: macro for name, macro in locals().items() if name not in ("plan", "dtype", "half", "head_dim", "pitch")}
