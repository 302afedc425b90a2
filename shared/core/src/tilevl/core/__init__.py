"""What the TileVL ops share: registration, targets, checks, the kernel cache, environment checks.

Importing this package loads neither torch nor any kernel compiler, so that ``python -m tilevl.core.doctor`` works where
``import torch`` fails. The public names are loaded from their modules when they are first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tilevl.core._version import __version__

if TYPE_CHECKING:
    from tilevl.core.compilation import compile_backend
    from tilevl.core.errors import TargetUnavailableError
    from tilevl.core.registration import register

__all__ = ["TargetUnavailableError", "__version__", "compile_backend", "register"]

_HOMES = {
    "TargetUnavailableError": "tilevl.core.errors",
    "compile_backend": "tilevl.core.compilation",
    "register": "tilevl.core.registration",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value
