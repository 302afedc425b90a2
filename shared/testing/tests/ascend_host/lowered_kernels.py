"""TileLang programs of the kinds that the model is for. Import it only where TileLang is installed."""

import tilelang.ascend.language as T


def gather_rows(rows: int, columns: int, picked: int, dtype: str):
    """out[i] = x[index[i]], one row after the other on four cores."""
    per_core = -(-picked // 4)

    @T.prim_func
    def gather(
        x: T.Tensor((rows, columns), dtype),
        index: T.Tensor((picked,), "int32"),
        out: T.Tensor((picked, columns), dtype),
    ):
        with T.Kernel(4) as core:
            row = T.alloc_shared((1, columns), dtype)
            for i in T.serial(per_core):
                if core * per_core + i < picked:
                    T.copy(x[index[core * per_core + i], 0], row)
                    T.copy(row, out[core * per_core + i, 0])

    return gather


def scale_and_shift(size: int, tile: int):
    """out = 1.75 x + 1 by SIMD instructions, with a tail."""

    @T.prim_func
    def scale(x: T.Tensor((size,), "float32"), out: T.Tensor((size,), "float32")):
        with T.Kernel(T.ceildiv(size, tile)) as core:
            a = T.alloc_shared((tile,), "float32")
            b = T.alloc_shared((tile,), "float32")
            T.copy(x[core * tile], a)
            with T.SimdVF():
                for i in T.Parallel(tile):
                    b[i] = a[i] * 1.75 + 1.0
            T.copy(b, out[core * tile])

    return scale


def product_and_relu(m: int, n: int, k: int):
    """relu(a b^T): the product on the cube core, the rest by SIMT threads of both vector cores."""

    @T.prim_func
    def product(a: T.Tensor((m, k), "bfloat16"), b: T.Tensor((n, k), "bfloat16"), out: T.Tensor((m, n), "float32")):
        with T.Kernel(m // 64) as core:
            a_l1 = T.alloc_l1((64, 64), "bfloat16")
            b_l1 = T.alloc_l1((n, 64), "bfloat16")
            sums = T.alloc_l0c((64, n), "float32")
            tile = T.alloc_shared((32, n), "float32")
            for step in T.Pipelined(k // 64, num_stages=2):
                T.copy(a[core * 64, step * 64], a_l1)
                T.copy(b[0, step * 64], b_l1)
                T.gemm(a_l1, b_l1, sums, transpose_B=True, clear_accum=(step == 0))
            T.dual_copy(sums, tile)
            with T.SimtVF(threads=64):
                for i, j in T.Parallel(32, n):
                    tile[i, j] = T.max(tile[i, j], 0)
            T.dual_copy(tile, out[core * 64 : core * 64 + 64, 0:n])

    return product


def attention(queries: int, keys: int, width: int):
    """softmax(q k^T / sqrt(width)) v with a running maximum, 64 queries a block and 64 keys a step."""
    scale = width**-0.5

    @T.prim_func
    def attend(
        q: T.Tensor((queries, width), "bfloat16"),
        k: T.Tensor((keys, width), "bfloat16"),
        v: T.Tensor((keys, width), "bfloat16"),
        out: T.Tensor((queries, width), "float32"),
    ):
        with T.Kernel(queries // 64) as core:
            q_l1 = T.alloc_l1((64, width), "bfloat16")
            k_l1 = T.alloc_l1((64, width), "bfloat16")
            v_l1 = T.alloc_l1((width, 64), "bfloat16")
            p_l1 = T.alloc_l1((64, 64), "bfloat16")
            scores_l0 = T.alloc_l0c((64, 64), "float32")
            part_l0 = T.alloc_l0c((64, width), "float32")
            scores = T.alloc_shared((32, 64), "float32")
            weights = T.alloc_shared((32, 64), "bfloat16")
            part = T.alloc_shared((32, width), "float32")
            result = T.alloc_shared((32, width), "float32")
            highest = T.alloc_shared((32,), "float32")
            total = T.alloc_shared((32,), "float32")
            fade = T.alloc_shared((32,), "float32")
            T.copy(q[core * 64, 0], q_l1)
            with T.SimtVF(threads=32):
                for i in T.Parallel(32):
                    highest[i] = -1e30
                    total[i] = 0.0
                for i, j in T.Parallel(32, width):
                    result[i, j] = 0.0
            for step in T.Pipelined(keys // 64, num_stages=2):
                T.copy(k[step * 64, 0], k_l1)
                T.gemm(q_l1, k_l1, scores_l0, transpose_B=True, clear_accum=True)
                T.dual_copy(scores_l0, scores)
                with T.SimtVF(threads=32):
                    for i in T.Parallel(32):
                        top = T.alloc_var("float32")
                        tally = T.alloc_var("float32")
                        top = highest[i]
                        for j in T.serial(64):
                            top = T.max(top, scores[i, j] * scale)
                        fade[i] = T.exp(highest[i] - top)
                        tally = total[i] * fade[i]
                        for j in T.serial(64):
                            scores[i, j] = T.exp(scores[i, j] * scale - top)
                            tally = tally + scores[i, j]
                            weights[i, j] = T.cast(scores[i, j], "bfloat16")
                        total[i] = tally
                        highest[i] = top
                T.dual_copy(weights, p_l1)
                T.copy(v[step * 64 : step * 64 + 64, 0:width], v_l1, transpose=True)
                T.gemm(p_l1, v_l1, part_l0, transpose_B=True, clear_accum=True)
                T.dual_copy(part_l0, part)
                with T.SimtVF(threads=32):
                    for i, j in T.Parallel(32, width):
                        result[i, j] = result[i, j] * fade[i] + part[i, j]
            with T.SimtVF(threads=32):
                for i, j in T.Parallel(32, width):
                    result[i, j] = result[i, j] / total[i]
            T.dual_copy(result, out[core * 64 : core * 64 + 64, 0:width])

    return attend
