# mypy: disable-error-code="misc,valid-type,no-untyped-def,untyped-decorator"
"""Ascend, the vector unit: the two tables, from the rows as they are staged to what a block of keys adds to its scores.

The column bias of a row of queries lies in ``wide`` in the order of keys, so that one load brings a block's, wherever
in a grid row it starts. The row bias comes by one load where 16 neighbouring keys share it (``tall``, 8 numbers a
block), else by a gather from the staged row. What depends on the key alone, the numbers of its row and column, is
worked out before the loop over queries.
"""

from __future__ import annotations

from types import SimpleNamespace

import tilelang.ascend.language as T
from tilelang.ascend.language import simd as S

from tilevl.attn_rel_h_rel_w.kernels.ascend_plan import GROUP_KEYS, GROUPS, KEYS, LANES, Plan
from tilevl.attn_rel_h_rel_w.kernels.ascend_tasks import first_key


def bias_macros(plan: Plan) -> SimpleNamespace:
    """Macros for use inside a SIMD function, and functions that fill ``wide`` and ``tall``."""
    whole_parts = plan.chunk * GROUPS // KEYS  # of ``tall``, which may have half a part more

    @T.macro
    def joined(low, high, factor, most, b32):
        """``min(x * factor, most)``, rounded down, of ``low`` in even lanes and of ``high`` in odd ones."""
        low_i = S.vmins(S.vcvt(S.vmuls(low, T.float32(factor), b32), "int32", b32, "ROUND_F"), most, b32)
        high_i = S.vmins(S.vcvt(S.vmuls(high, T.float32(factor), b32), "int32", b32, "ROUND_F"), most, b32)
        return S.vor(
            T.reinterpret(S.vcvt(low_i, "int16", b32, part=0), "uint16x128"),
            T.reinterpret(S.vcvt(high_i, "int16", b32, part=1), "uint16x128"),
        )

    @T.macro
    def numbers(first, factor, most, b32):
        """``min((first + lane + 0.5) * factor, most)`` for 128 lanes, rounded down, as uint16."""
        even = S.vadds(S.vmuls(S.vci(T.float32(0), "float32"), T.float32(2), b32), first + T.float32(0.5), b32)
        return joined(even, S.vadds(even, T.float32(1), b32), factor, most, b32)

    @T.macro
    def columns_of(part, b16, b32):
        """``(128 part + lane) % grid_w``, as uint16."""
        lanes = numbers(T.float32(0), 1.0, KEYS - 1, b32)
        if plan.pieces > 1:
            return lanes
        row = numbers(T.Cast("float32", part * KEYS), 1.0 / plan.grid_w, KEYS, b32)
        return S.vsub(
            S.vadds(lanes, T.Cast("uint16", part * KEYS), b16), S.vmuls(row, T.Cast("uint16", plan.grid_w), b16), b16
        )

    @T.macro
    def key_rows(block, b32):
        """The row of each key of a block, as it is staged, as uint16; 0 where unused."""
        if plan.grouped:
            return 0
        most = (plan.grid_h if plan.resident else plan.rows) - 1
        return numbers(T.Cast("float32", first_key(plan, block) if plan.resident else 0), 1.0 / plan.grid_w, most, b32)

    @T.macro
    def row_bias(m, sub, i, block, index, b16):
        """The row bias of even and of odd keys of a block."""
        if plan.grouped:
            spread = S.vld(m.tall[sub, i, T.truncmod(block, plan.chunk) * GROUPS], "E2B_B32")
            return spread, spread
        both = S.vgather2(m.staged_h[sub * plan.half + i, 0], index, b16)
        even = S.vcvt(both, "float32", b16, part=0)
        if plan.pairs:
            return even, even
        return even, S.vcvt(both, "float32", b16, part=1)

    @T.macro
    def picked(source, sub, i, index, b16):
        """128 numbers of a staged row, even and odd ones apart, as float32."""
        both = S.vgather2(source[sub * plan.half + i, 0], index, b16)
        return S.vcvt(both, "float32", b16, part=0), S.vcvt(both, "float32", b16, part=1)

    @T.macro
    def keep(m, sub, even, odd, i, part, b32):
        """Stores 128 numbers of ``wide`` in the order of keys, or as many as it has room for."""
        low, high = S.vintlv(even, odd)
        S.vsts(m.wide[sub, i, part * KEYS], low, b32, "NORM_B32")
        if part * KEYS + LANES < plan.width:
            S.vsts(m.wide[sub, i, part * KEYS + LANES], high, b32, "NORM_B32")

    @T.macro
    def spread_part(m, sub, rows, block, part, b16, b32):
        """128 numbers of ``tall``, or the 64 that are left. Even lanes gather the first 64."""
        first = T.Cast("float32", (block * GROUPS + part * KEYS) * GROUP_KEYS) + T.float32(0.5)
        low = S.vadds(S.vmuls(S.vci(T.float32(0), "float32"), T.float32(GROUP_KEYS), b32), first, b32)
        high = S.vadds(low, T.float32(LANES * GROUP_KEYS), b32)
        index = joined(low, high, 1.0 / plan.grid_w, plan.grid_h - 1, b32)
        for i in T.serial(rows):
            both = S.vgather2(m.staged_h[sub * plan.half + i, 0], index, b16)
            S.vsts(m.tall[sub, i, part * KEYS], S.vcvt(both, "float32", b16, part=0), b32, "NORM_B32")
            if part < whole_parts:
                right = S.vcvt(both, "float32", b16, part=1)
                S.vsts(m.tall[sub, i, part * KEYS + LANES], right, b32, "NORM_B32")

    @T.macro
    def spread(m, sub, rows, block):
        """``tall``: the row bias of each 16 keys of the blocks from ``block`` on, where blocks are grouped."""
        with T.SimdVF():
            b16 = S.pset(16, "PAT_ALL")
            b32 = S.pset(32, "PAT_ALL")
            for part in T.serial(whole_parts):
                spread_part(m, sub, rows, block, part, b16, b32)
            if plan.chunk * GROUPS % KEYS:
                spread_part(m, sub, rows, block, whole_parts, b16, b32)

    @T.macro
    def widen_part(m, sub, rows, part, b16, b32):
        index = columns_of(part, b16, b32)
        for i in T.serial(rows):
            even, odd = picked(m.staged_w, sub, i, index, b16)
            keep(m, sub, even, odd, i, part, b32)

    @T.macro
    def widen(m, sub, rows):
        """``wide``: the column bias as it is."""
        with T.SimdVF():
            b16 = S.pset(16, "PAT_ALL")
            b32 = S.pset(32, "PAT_ALL")
            widen_part(m, sub, rows, 0, b16, b32)
            if plan.width > KEYS:
                widen_part(m, sub, rows, 1, b16, b32)

    @T.macro
    def subtract(m, sub, rows):
        """``wide`` past the columns of the first block: reference less column bias."""
        with T.SimdVF():
            b16 = S.pset(16, "PAT_ALL")
            b32 = S.pset(32, "PAT_ALL")
            index = columns_of(1, b16, b32)
            for i in T.serial(rows):
                top = S.vld(m.tops[sub, i], "BRC_B32")
                even, odd = picked(m.staged_w, sub, i, index, b16)
                keep(m, sub, S.vsub(top, even, b32), S.vsub(top, odd, b32), i, 1, b32)

    return SimpleNamespace(
        key_rows=key_rows, columns_of=columns_of, row_bias=row_bias, picked=picked, keep=keep, spread=spread,
        widen=widen, subtract=subtract,
    )  # fmt: skip
