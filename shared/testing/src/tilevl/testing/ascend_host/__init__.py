"""A host model of the Ascend 950: runs the AscendC source that TileLang generates over torch CPU tensors.

``compile(lower(prim_func))(grid, **tensors)`` runs a kernel and checks it on the way: bounds, alignment, scratch that
was never written, order between the pipes of a core, between its cores, and between blocks. Needs g++ and TileLang.
"""

from __future__ import annotations

from tilevl.testing.ascend_host.chip import ASCEND_950DT, ASCEND_950PR, Chip
from tilevl.testing.ascend_host.cost import Cost
from tilevl.testing.ascend_host.counters import CoreCounts, Counters
from tilevl.testing.ascend_host.errors import (
    CompilationError,
    CompilerMissingError,
    Fault,
    HostModelError,
    KernelFaultError,
)
from tilevl.testing.ascend_host.kernel import Kernel, compile
from tilevl.testing.ascend_host.lowering import lower
from tilevl.testing.ascend_host.rates import DEAR_PIECES, FITTED, NAIVE, Rates

__all__ = [
    "ASCEND_950DT",
    "ASCEND_950PR",
    "DEAR_PIECES",
    "FITTED",
    "NAIVE",
    "Chip",
    "CompilationError",
    "CompilerMissingError",
    "CoreCounts",
    "Cost",
    "Counters",
    "Fault",
    "HostModelError",
    "Kernel",
    "KernelFaultError",
    "Rates",
    "compile",
    "lower",
]
