# mypy: disable-error-code="misc,valid-type,no-untyped-def,untyped-decorator"
"""Ascend: one cube core computes both products, two vector cores the softmax between them and the bias.

A tile is up to 128 queries of a head, half of them on each vector core. A group of cores takes a tile, or two of a
long head in turns, against all keys in blocks of 128, then the next ones. First all tiles are done with a fixed
reference for each row of queries (``ascend_softmax.py``), so that neither maximum nor result has to be adjusted from
block to block, and results add up in the cube core's own memory. Each vector core then reports by a number in global
memory whether every row came out within bounds, and the group does the tiles where one didn't again, with the exact
maxima. Where the tables of a tile don't fit the unified buffer, that is how all tiles are done.

One build for each dtype, head dim and grid, and for scales that the query can take; batch, heads, strides and scale are
read at run time.
"""

import math
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import tilelang.ascend.language as T
import torch
from torch import Tensor

from tilevl.attn_rel_h_rel_w import contract
from tilevl.attn_rel_h_rel_w.kernels.ascend_cube import cube_macros
from tilevl.attn_rel_h_rel_w.kernels.ascend_plan import GROUPS, KEYS, LANES, Plan, plan_of
from tilevl.attn_rel_h_rel_w.kernels.ascend_vector import vector_macros
from tilevl.core.ascend import AscendProgram
from tilevl.core.cache import Kernel

OP = "attn_rel_h_rel_w"
_FAR = 2**30  # elements of 2 bytes; distances have 31 bits of bytes
PASS_CONFIGS = {
    "tl.enable_auto_schedule": False,
    "tl.disable_thread_storage_sync": True,
    "tl.disable_shared_memory_reuse": True,
    "tirx.disable_vectorize": True,
}


def build(dtype: torch.dtype, head_dim: int, grid_h: int, grid_w: int) -> Kernel:
    """The kernel of a dtype, a head dim and a grid."""
    name = str(dtype).removeprefix("torch.")
    rows, columns = grid_h, grid_w
    tiles = plan_of(name, head_dim, rows, columns, False).tiles

    def kernel(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        rel_h: Tensor,
        rel_w: Tensor,
        grid_h: int | None,
        grid_w: int | None,
        scale: float | None,
        out: Tensor,
    ) -> None:
        factor = contract.factor(head_dim, scale)
        folded = folds(name, factor)
        status = out.new_empty(2 * out.shape[0] * out.shape[2] * tiles, GROUPS, dtype=torch.float32)
        inputs = [_near(tensor) for tensor in (query, key, value, rel_h, rel_w)]
        program(name, head_dim, rows, columns, folded)(*inputs, out, status, factor)

    return kernel


def _near(tensor: Tensor) -> Tensor:
    """The tensor, or a copy where its tokens lie so far apart that a copy instruction can't take the distance."""
    return tensor if tensor.stride(1) < _FAR or tensor.shape[1] == 1 else tensor.contiguous()


def folds(dtype: str, scale: float) -> bool:
    """Whether a query can be multiplied by a scale without rounding: a power of two, and a type of many exponents."""
    return dtype == "bfloat16" and 2.0**-8 <= abs(scale) <= 1 and abs(math.frexp(scale)[0]) == 0.5


@lru_cache(maxsize=None)
def program(dtype: str, head_dim: int, grid_h: int, grid_w: int, folded: bool) -> AscendProgram:
    """The program of a dtype, a head dim and a grid.

    Args:
        dtype: TileLang's name, ``bfloat16`` or ``float16``.
        head_dim: D.
        grid_h: rows of the grid.
        grid_w: columns of the grid.
        folded: whether the scale is one that ``folds``.
    """
    plan = plan_of(dtype, head_dim, grid_h, grid_w, folded)
    return AscendProgram(OP, lambda cores: attend(plan, cores), PASS_CONFIGS, mixed=True)


def attend(plan: Plan, cores: int) -> Any:
    """The program, for a number of groups of cores."""
    dtype, head_dim, tokens = plan.dtype, plan.head_dim, plan.tokens
    queries, half, places, twins = plan.queries, plan.half, plan.places, plan.twins
    stride = cores * twins
    cube, vector = cube_macros(plan), vector_macros(plan)
    batch, heads, entries = (T.dynamic(name, "int64") for name in ("batch", "heads", "entries"))
    h_columns, w_columns = T.dynamic("h_columns", "int64"), T.dynamic("w_columns", "int64")
    strides = {
        name: tuple(T.dynamic(f"{name}_{axis}", "int64") for axis in ("batch", "token", "head"))
        for name in ("query", "key", "value", "rel_h", "rel_w", "out")
    }

    @T.prim_func
    def attn_rel_h_rel_w(
        query: T.StridedTensor((batch, tokens, heads, head_dim), (*strides["query"], 1), dtype),
        key: T.StridedTensor((batch, tokens, heads, head_dim), (*strides["key"], 1), dtype),
        value: T.StridedTensor((batch, tokens, heads, head_dim), (*strides["value"], 1), dtype),
        rel_h: T.StridedTensor((batch, tokens, heads, h_columns), (*strides["rel_h"], 1), dtype),
        rel_w: T.StridedTensor((batch, tokens, heads, w_columns), (*strides["rel_w"], 1), dtype),
        out: T.StridedTensor((batch, tokens, heads, head_dim), (*strides["out"], 1), dtype),
        status: T.Tensor((entries, GROUPS), "float32"),
        scale: T.float32,
    ):
        with T.Kernel(cores) as core:
            q_l1 = T.alloc_l1((twins * queries, head_dim), dtype)
            k_l1 = T.alloc_l1((2, KEYS, head_dim), dtype)
            v_l1 = T.alloc_l1((2, KEYS, head_dim), dtype)
            p_l1 = T.alloc_l1((2, queries, KEYS), dtype)
            q_l0 = T.alloc_l0a((twins, queries, head_dim), dtype)
            p_l0 = T.alloc_l0a((queries, KEYS), dtype)
            k_l0 = T.alloc_l0b((places, KEYS, head_dim), dtype)
            v_l0 = T.alloc_l0b((places, KEYS, head_dim), dtype)
            s_l0 = T.alloc_l0c((2, queries, KEYS), "float32")
            o_l0 = T.alloc_l0c((plan.slots, queries, head_dim), "float32")
            scores = T.alloc_shared((2, half, KEYS), "float32")
            weights = T.alloc_shared((2, (half + 1) * KEYS), dtype)
            wide = T.alloc_shared((twins, half, plan.width), "float32")
            tall = T.alloc_shared((twins, half, plan.chunk * GROUPS) if plan.grouped else (1, 1, GROUPS), "float32")
            staged_h = T.alloc_shared((twins * half, plan.staged_h), dtype)
            staged_w = T.alloc_shared((twins * half, plan.staged_w), dtype)
            parts = T.alloc_shared((LANES,), "float32")
            tops = T.alloc_shared((twins, LANES), "float32")
            totals = T.alloc_shared((plan.slots, LANES), "float32")
            verdicts = T.alloc_shared((plan.slots * GROUPS + LANES,), "float32")
            result = T.alloc_shared((half, head_dim), "float32")
            packed = T.view(result, (2 * half, head_dim), dtype)

            tasks = T.alloc_var("int32", init=T.int32(batch * heads) * (plan.tiles // twins))
            mine = T.alloc_var("int32", init=T.truncdiv(tasks - core + cores - 1, cores))
            m = SimpleNamespace(
                query=query, key=key, value=value, rel_h=rel_h, rel_w=rel_w, out=out, status=status, scale=scale,
                batch=batch, heads=heads, q_l1=q_l1, k_l1=k_l1, v_l1=v_l1, p_l1=p_l1, q_l0=q_l0, p_l0=p_l0, k_l0=k_l0,
                v_l0=v_l0, s_l0=s_l0, o_l0=o_l0, scores=scores, weights=weights, wide=wide, tall=tall,
                staged_h=staged_h, staged_w=staged_w, parts=parts, tops=tops, totals=totals, verdicts=verdicts,
                result=result, packed=packed,
            )  # fmt: skip
            with T.Cube():
                cube.begin(m)
                if plan.resident:
                    cube.sweep(m, core * twins, stride, mine, twins, 1)
                    cube.checked()
                for turn in T.serial(mine):
                    for sub in T.serial(twins):
                        tile = T.alloc_var("int32", init=core * twins + turn * stride + sub)
                        if not plan.resident or (status[2 * tile, 0] > 0 or status[2 * tile + 1, 0] > 0):
                            cube.sweep(m, tile, stride, 1, 1, 2)
                cube.end()
            with T.Vector(vector=2) as sid:
                v = SimpleNamespace(**vars(m), sid=sid)
                vector.begin(v)
                if plan.resident:
                    vector.sweep(v, core * twins, stride, mine)
                    vector.check()
                for turn in T.serial(mine):
                    for sub in T.serial(twins):
                        tile = T.alloc_var("int32", init=core * twins + turn * stride + sub)
                        if not plan.resident or (status[2 * tile, 0] > 0 or status[2 * tile + 1, 0] > 0):
                            vector.exact(v, tile)
                vector.end()

    return attn_rel_h_rel_w
