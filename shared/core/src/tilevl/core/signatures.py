"""Metadata of a call as a key: what passed its checks once passes again, so that eager calls needn't repeat them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from torch import Tensor

MOST = 1024
"""Signatures that an op remembers; then it starts anew."""


def signature(args: Iterable[Any], writes: bool) -> Hashable | None:
    """All that an op's ``check`` and ``specialise`` look at, for a call in eager mode.

    Args:
        args: all arguments of the call.
        writes: the op writes a tensor, so that it matters which tensors share memory.

    Returns:
        None where two tensors share a storage and the op writes: then their addresses matter as well.
    """
    key: list[Any] = []
    storages = []
    for arg in args:
        if isinstance(arg, Tensor):
            key += (arg.shape, arg.stride(), arg.dtype, arg.device)
            if writes:
                storages.append(arg.untyped_storage()._cdata)
        else:
            key.append(tuple(arg) if isinstance(arg, list) else arg)
    return None if len({*storages}) < len(storages) else tuple(key)
