"""AscendC source from a TileLang program."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from tilevl.core.cache_directory import direct_tilelang
from tilevl.core.lowering import lowering


def lower(prim_func: Any, config: Mapping[str, Any] | None = None) -> str:
    """Lowers a ``tilelang.ascend.language`` program by TileLang's Ascend backend; needs no NPU and no CANN.

    Args:
        prim_func: a ``T.prim_func``.
        config: settings for TileLang's pass context, such as ``{"tirx.disable_vectorize": True}``.

    Returns:
        The AscendC source.

    Raises:
        ModuleNotFoundError: TileLang isn't installed.
        ValueError: the installed TileLang gave no source.
    """
    direct_tilelang()
    tilelang = import_module("tilelang")
    target = tilelang.tvm.target.Target({"kind": "ascend"})
    with lowering, tilelang.tvm.transform.PassContext(opt_level=3, config=dict(config or {})), target:
        source = tilelang.lower(prim_func, target=target).kernel_source
    if not source:
        raise ValueError("lower: TileLang gave no source for the ascend target")
    return str(source)
