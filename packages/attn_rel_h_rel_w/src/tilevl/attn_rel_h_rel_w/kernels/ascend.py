# mypy: disable-error-code="misc,valid-type,no-untyped-def,untyped-decorator"
"""Ascend."""

import math
from functools import lru_cache
from typing import Any

import tilelang.ascend.language as T
import torch
from torch import Tensor

from tilevl.attn_rel_h_rel_w import contract
from tilevl.attn_rel_h_rel_w.kernels.ascend_plan import GROUPS, KEYS, LANES, Plan, plan_of
from tilevl.attn_rel_h_rel_w.kernels.ascend_cube import cube_macros
from tilevl.attn_rel_h_rel_w.kernels.ascend_vector import vector_macros
from tilevl.core.ascend import AscendProgram
from tilevl.core.cache import Kernel

OP = "attn_rel_h_rel_w"
PASS_CONFIGS = {
    "tl.enable_auto_schedule": False,
    "tl.disable_thread_storage_sync": True,
    "tl.disable_shared_memory_reuse": True,
    "tirx.disable_vectorize": True,
}


def build(dtype: torch.dtype, head_dim: int, grid_h: int, grid_w: int) -> Kernel:
    """The kernel of a dtype, a head dim and a grid."""
    name = str(dtype).removeprefix("torch.")

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
        factor = head_dim**-0.5 if scale is None else scale
        rows, columns = contract.grid(query.shape[1], grid_h, grid_w)
        plan = plan_of(name, head_dim, int(rows), int(columns), folds(name, factor))
        status = out.new_empty(2 * out.shape[0] * out.shape[2] * plan.tiles, GROUPS, dtype=torch.float32)
        program(name, head_dim, int(rows), int(columns), plan.folded)(
            query, key, value, rel_h, rel_w, out, status, factor
        )

    return kernel


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
    queries, half, tiles = plan.queries, plan.half, plan.tiles
    places = 2 if head_dim <= 64 else 1
    cube, vector = cube_macros(plan, cores), vector_macros(plan, cores)
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
            q_l1 = T.alloc_l1((queries, head_dim), dtype)
            k_l1 = T.alloc_l1((2, KEYS, head_dim), dtype)
            v_l1 = T.alloc_l1((2, KEYS, head_dim), dtype)
            p_l1 = T.alloc_l1((2, queries, KEYS), dtype)
            q_l0 = T.alloc_l0a((queries, head_dim), dtype)
            p_l0 = T.alloc_l0a((queries, KEYS), dtype)
            k_l0 = T.alloc_l0b((places, KEYS, head_dim), dtype)
            v_l0 = T.alloc_l0b((places, KEYS, head_dim), dtype)
            s_l0 = T.alloc_l0c((2, queries, KEYS), "float32")
            o_l0 = T.alloc_l0c((2, queries, head_dim), "float32")
            scores = T.alloc_shared((2, half, KEYS), "float32")
            weights = T.alloc_shared((2, (half + 1) * KEYS), dtype)
            wide = T.alloc_shared((half, plan.width), "float32")
            tall = T.alloc_shared((half, plan.spread) if plan.grouped else (1, GROUPS), "float32")
            staged_h = T.alloc_shared((half, plan.staged_h), dtype)
            staged_w = T.alloc_shared((half, plan.staged_w), dtype)
            sums = T.alloc_shared((half, LANES), "float32")
            tops = T.alloc_shared((LANES,), "float32")
            totals = T.alloc_shared((2, LANES), "float32")
            verdicts = T.alloc_shared((GROUPS + LANES,), "float32")
            result = T.alloc_shared((half, head_dim), "float32")
            packed = T.view(result, (2 * half, head_dim), dtype)

            tasks = T.alloc_var("int32", init=T.int32(batch * heads) * tiles)
            mine = T.alloc_var("int32", init=T.truncdiv(tasks - core + cores - 1, cores))
            passes = 1 if plan.resident else 2
            with T.Cube():
                cube.begin(k_l1, v_l1, q_l1)
                cube.sweep(
                    query, key, value, q_l1, k_l1, v_l1, p_l1, q_l0, k_l0, v_l0, p_l0, s_l0, o_l0, scores, result,
                    core, mine, passes, heads, batch,
                )  # fmt: skip
                if plan.resident:
                    cube.checked()
                    for turn in T.serial(mine):
                        task = T.alloc_var("int32", init=core + turn * cores)
                        if status[2 * task, 0] > 0 or status[2 * task + 1, 0] > 0:
                            cube.sweep(
                                query, key, value, q_l1, k_l1, v_l1, p_l1, q_l0, k_l0, v_l0, p_l0, s_l0, o_l0, scores,
                                result, task, 1, 2, heads, batch,
                            )  # fmt: skip
                cube.end()
            with T.Vector(vector=2) as sid:
                vector.begin(weights)
                if plan.resident:
                    vector.sweep(
                        query, rel_h, rel_w, out, status, scores, weights, wide, tall, staged_h, staged_w, sums, tops,
                        totals, verdicts, result, packed, p_l1, q_l1, core, mine, sid, scale, heads, batch,
                    )  # fmt: skip
                    vector.check()
                    for turn in T.serial(mine):
                        task = T.alloc_var("int32", init=core + turn * cores)
                        if status[2 * task, 0] > 0 or status[2 * task + 1, 0] > 0:
                            vector.exact_sweep(
                                query, rel_h, rel_w, out, scores, weights, wide, tall, staged_h, staged_w, sums, tops,
                                totals, verdicts, result, packed, p_l1, q_l1, task, 1, sid, scale, heads, batch,
                            )  # fmt: skip
                else:
                    vector.exact_sweep(
                        query, rel_h, rel_w, out, scores, weights, wide, tall, staged_h, staged_w, sums, tops, totals,
                        verdicts, result, packed, p_l1, q_l1, core, mine, sid, scale, heads, batch,
                    )  # fmt: skip
                vector.end()

    return attn_rel_h_rel_w
