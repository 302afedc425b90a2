"""TileLang programs for the vector core, lowered by the tests; imported only where TileLang is installed."""

from __future__ import annotations

from typing import Any

import tilelang.ascend.language as T
from tilelang.ascend.language import simd as S

ROWS, COLUMNS = 8, 128


def softmax(*, with_barrier: bool = True) -> Any:
    """Row softmax of f32 in two registers a row, written as bf16; the row's extremes go through UB."""

    @T.prim_func
    def main(A: T.Tensor((ROWS, COLUMNS), "float32"), B: T.Tensor((ROWS, COLUMNS), "bfloat16")):
        with T.Kernel(1) as _:
            a = T.alloc_shared((ROWS, COLUMNS), "float32")
            b = T.alloc_shared((ROWS, COLUMNS), "bfloat16")
            s = T.alloc_shared((ROWS, 16), "float32")
            T.copy(A, a)
            with T.SimdVF():
                m = S.pset(32, "PAT_ALL")
                for r in T.serial(ROWS):
                    x = S.vld(a[r, 0], "NORM")
                    y = S.vld(a[r, 64], "NORM")
                    S.vsts(s[r, 0], S.vcmax(S.vmax(x, y, m), m), m, "ONEPT_B32")
                    if with_barrier:
                        S.mem_bar("VST_VLD")
                    top = S.vld(s[r, 0], "BRC_B32")
                    p = S.vexpdif(x, top, m)
                    q = S.vexpdif(y, top, m)
                    S.vsts(s[r, 8], S.vcadd(S.vadd(p, q, m), m), m, "ONEPT_B32")
                    if with_barrier:
                        S.mem_bar("VST_VLD")
                    total = S.vld(s[r, 8], "BRC_B32")
                    S.vsts(b[r, 0], S.vcvt(S.vdiv(p, total, m), "bfloat16", m), m, "PK_B32")
                    S.vsts(b[r, 64], S.vcvt(S.vdiv(q, total, m), "bfloat16", m), m, "PK_B32")
            T.copy(b, B)

    return main


def merging() -> Any:
    """Writes of merging mode, for which TileLang calls the compiler's own names."""

    @T.prim_func
    def main(A: T.Tensor((ROWS, 64), "float32"), B: T.Tensor((ROWS, 64), "float32")):
        with T.Kernel(1) as _:
            a = T.alloc_shared((ROWS, 64), "float32")
            b = T.alloc_shared((ROWS, 64), "float32")
            T.copy(A, a)
            with T.SimdVF():
                d = T.alloc_local((1,), "float32x64")
                everything = S.pset(32, "PAT_ALL")
                few = S.pset(32, "PAT_VL8")
                third = S.pset(32, "PAT_M3")
                for r in T.serial(ROWS):
                    x = S.vld(a[r, 0], "NORM")
                    d[0] = S.vdup(T.float32(100), "float32", everything)
                    d[0] = S.vadd(x, x, few, mode="MODE_MERGING")
                    d[0] = S.vmuls(x, T.float32(-1), third, mode="MODE_MERGING")
                    S.vmula(d[0], x, x, few, mode="MODE_MERGING")
                    S.vsts(b[r, 0], d[0], everything, "NORM_B32")
            T.copy(b, B)

    return main


def sigmoid(threads: int) -> Any:
    """An element-wise function on SIMT threads, from bf16 through f32 to f16."""

    @T.prim_func
    def main(A: T.Tensor((ROWS, COLUMNS), "bfloat16"), B: T.Tensor((ROWS, COLUMNS), "float16")):
        with T.Kernel(1) as _:
            a = T.alloc_shared((ROWS, COLUMNS), "bfloat16")
            b = T.alloc_shared((ROWS, COLUMNS), "float16")
            T.copy(A, a)
            with T.SimtVF(threads):
                for i, j in T.Parallel(ROWS, COLUMNS):
                    x = T.Cast("float32", a[i, j])
                    b[i, j] = T.Cast("float16", T.float32(1) / (T.float32(1) + T.exp(-x)))
            T.copy(b, B)

    return main


def row_sums(threads: int) -> Any:
    """Sums of rows by SIMT threads, each on two neighbouring columns; 64 threads share a row."""

    @T.prim_func
    def main(A: T.Tensor((ROWS, COLUMNS), "float32"), B: T.Tensor((ROWS,), "float32")):
        with T.Kernel(1) as _:
            a = T.alloc_shared((ROWS, COLUMNS), "float32")
            b = T.alloc_shared((ROWS,), "float32")
            T.copy(A, a)
            with T.SimtVF(threads):
                f = T.alloc_fragment((ROWS, COLUMNS), "float32")
                s = T.alloc_fragment((ROWS,), "float32")
                for i, j in T.Parallel(ROWS, COLUMNS):
                    f[i, j] = a[i, j]
                T.reduce_sum(f, s, dim=1)
                for i in T.Parallel(ROWS):
                    b[i] = s[i]
            T.copy(b, B)

    return main
