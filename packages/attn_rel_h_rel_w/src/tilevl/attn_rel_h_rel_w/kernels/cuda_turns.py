# mypy: disable-error-code="misc,valid-type,no-untyped-def,untyped-decorator"
"""Which turns a block of the Hopper program takes, and which of them again.

A turn is some queries of one head. Warps that load and warps that multiply walk the same turns, at their own pace.
After every ``_MOST`` of them all wait, and then take those again whose verdict asks for it. Threads that multiply hold
which queries' results can't be trusted, a bit for each turn, and store only those again: what one query holds changes
no bit of another's result.
"""

from typing import Any

import tilelang.language as T

from tilevl.attn_rel_h_rel_w.kernels.cuda_plans import Plan

_MOST = 32
_BARRIER = 4  # on which all wait; cuda_loops has 2 and 3


def alloc_verdicts() -> Any:
    """One int32 for each turn, in shared memory; TileLang, which sees a plain address, adds no barriers for it."""
    held = T.alloc_shared((_MOST,), "int32")
    return T.make_tensor(T.address_of(held[0]), (_MOST,), "int32")


def turns_of(plan: Plan, threads: int) -> Any:
    """What has a warp take a block's turns.

    Args:
        plan: how the grid is cut.
        threads: of a block, that take turns.
    """

    def place_of(place: Any, heads: Any) -> tuple[Any, Any, Any]:
        """Batch, head and first query of a turn."""
        head = place // plan.blocks
        return T.truncdiv(head, heads), T.truncmod(head, heads), place % plan.blocks * plan.queries

    def asked(verdict: Any) -> Any:
        """A vote, though all threads read the same: so the compiler knows, and keeps addresses in uniform registers."""
        return T.any_sync(T.atomic_load(verdict, "relaxed") != 0) != 0

    @T.macro
    def take_turns(block, blocks, batch, heads, verdicts, take, rest):
        """Calls ``take`` for each: turns before it, whether it comes again, its number, verdict and place, the rest."""
        turns = T.truncdiv(batch * heads * plan.blocks - block + blocks - 1, blocks)
        before = T.alloc_var("int32", 0)
        for phase in T.serial(T.ceildiv(turns, _MOST) * 2):
            if phase > 0:
                T.sync_threads(_BARRIER, threads)
            for t in T.serial(T.min(turns - phase // 2 * _MOST, _MOST)):
                if phase % 2 == 0 or asked(verdicts[t]):
                    place = place_of(block + (phase // 2 * _MOST + t) * blocks, heads)
                    take(before, phase % 2 != 0, t, verdicts[t], place, *rest)
                    before = before + 1

    return take_turns
