# mypy: disable-error-code="misc,valid-type,no-untyped-def,untyped-decorator"
"""Ascend: where the queries of a tile and the keys of a block lie; flags between the cores of a group."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import tilelang.ascend.language as T

from tilevl.attn_rel_h_rel_w.kernels.ascend_plan import KEYS, Plan

# Between the cube core and a vector core; the first four for two places each.
SCORES_READY, SCORES_FREE, WEIGHTS_READY, WEIGHTS_FREE = 0, 2, 4, 6
RESULT_READY, RESULT_FREE, QUERY_READY, QUERY_FREE, CHECKED = 8, 9, 10, 11, 12


def first_query(plan: Plan, tile: Any, side: Any) -> Any:
    """The first query of a vector core in a tile, as an expression."""
    return (T.truncmod(tile, plan.tiles) * 2 + side) * plan.share


def query_count(plan: Plan, tile: Any, side: Any) -> Any:
    """The queries of a vector core in a tile, as an expression; 0 or less where it has none."""
    return T.min(plan.tokens - first_query(plan, tile, side), plan.share)


def first_key(plan: Plan, block: Any) -> Any:
    """The first key of a block, as an expression."""
    if plan.pieces > 1:
        return T.truncdiv(block, plan.pieces) * plan.grid_w + T.truncmod(block, plan.pieces) * KEYS
    return block * plan.keys


def key_count(plan: Plan, block: Any) -> Any:
    """The keys of a block, as an expression."""
    if plan.pieces > 1:
        return T.min(plan.grid_w - T.truncmod(block, plan.pieces) * KEYS, KEYS)
    return T.min(plan.tokens - block * plan.keys, plan.keys)


def first_column(plan: Plan, block: Any) -> Any:
    """The column of the widened table where a block starts, as an expression."""
    return T.truncmod(block * KEYS, plan.grid_w) if plan.flows else 0


def copy_macros(plan: Plan) -> SimpleNamespace:
    """Copies between global memory and a core, of rows of one head. What is assumed spares TileLang's own bounds.

    It is written out in each, since TileLang loses what a macro assumes about its parameters.
    """
    tokens = plan.tokens

    @T.macro
    def head_of(m, tile):
        """Batch and head of a tile."""
        which = T.alloc_var("int32", init=T.truncdiv(tile, plan.tiles))
        b = T.alloc_var("int64", init=T.int64(T.truncdiv(which, T.int32(m.heads))))
        n = T.alloc_var("int64", init=T.int64(T.truncmod(which, T.int32(m.heads))))
        T.assume(b >= 0)
        T.assume(b < m.batch)
        T.assume(n >= 0)
        T.assume(n < m.heads)
        return b, n

    @T.macro
    def load_keys(m, source, into, place, tile, block):
        """The keys or values of a block, to L1."""
        b, n = head_of(m, tile)
        first = T.alloc_var("int32", init=first_key(plan, block))
        count = T.alloc_var("int32", init=key_count(plan, block))
        T.assume(first >= 0)
        T.assume(count > 0)
        T.assume(count <= KEYS)
        T.assume(first + count <= tokens)
        T.copy(source[b, first : first + count, n, 0 : plan.head_dim], into[place, 0:count, 0 : plan.head_dim])

    @T.macro
    def load_rows(m, source, into, row, tile, side, at, width):
        """Some columns of the queries, or of their rows of a table, of one vector core."""
        b, n = head_of(m, tile)
        first = T.alloc_var("int32", init=first_query(plan, tile, side))
        count = T.alloc_var("int32", init=query_count(plan, tile, side))
        if count > 0:
            T.assume(first >= 0)
            T.assume(count <= plan.share)
            T.assume(first + count <= tokens)
            T.copy(source[b, first : first + count, n, at : at + width], into[row : row + count, 0:width])

    @T.macro
    def store_rows(m, source, into, tile, side):
        """The results of one vector core."""
        b, n = head_of(m, tile)
        first = T.alloc_var("int32", init=first_query(plan, tile, side))
        count = T.alloc_var("int32", init=query_count(plan, tile, side))
        if count > 0:
            T.assume(first >= 0)
            T.assume(count <= plan.share)
            T.assume(first + count <= tokens)
            T.copy(source[0:count, 0 : plan.head_dim], into[b, first : first + count, n, 0 : plan.head_dim])

    return SimpleNamespace(load_keys=load_keys, load_rows=load_rows, store_rows=store_rows)
