"""How many cycles a chip takes for what is counted: sets of rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

# In the order of the enumerations in include/tilevl_host/counters.h.
PATHS = (
    "gm_ub", "ub_gm", "gm_l1", "l1_l0a", "l1_l0b", "l0c_ub", "l0c_gm", "ub_l1", "ub_ub", "gm_scalar", "gm_simt",
    "ub_simt",
)  # fmt: skip
VECTOR_KINDS = (
    "load", "store", "gather", "scatter", "arithmetic", "transcendental", "compare", "logic", "convert", "permute",
    "reduce", "broadcast", "mask",
)  # fmt: skip
SIMT_KINDS = ("launches", "threads", "warps", "loads", "stores", "atomics", "barriers", "warp_operations")
PIPE_OF_PATH = {
    "gm_ub": "MTE2", "ub_gm": "MTE3", "gm_l1": "MTE2", "l1_l0a": "MTE1", "l1_l0b": "MTE1", "l0c_ub": "FIX",
    "l0c_gm": "FIX", "ub_l1": "MTE3", "ub_ub": "V", "gm_scalar": "S",
}  # fmt: skip


@dataclass(frozen=True)
class Rates:
    """Cycles of a core for each thing that is counted.

    Attributes:
        name: of the set.
        widths: bytes a cycle of each path between memories. Between L1, L0 and UB: ``npu_arch_3510.md`` of the
            asc-devkit documentation. Between global memory and UB or L1: an assumption, the width of the other paths.
        vector: cycles of a vector instruction on one register of 256 bytes, but for those on masks.
        gather: cycles of a gather or scatter.
        simt: cycles of an access of a SIMT thread: 4 schedulers of a warp of 32 advance together.
        matrix: cycles of a step of the matrix unit, 16 x 16 x 32 bytes.
        descriptor: cycles to start a copy instruction. An assumption.
        burst: cycles of each contiguous piece of a copy between global memory and a core, beside its bytes. An
            assumption. Copies inside a core run at their width, whatever their pieces.
        flag: cycles from the setting of a flag to the end of the wait for it.
        cross: the same between cores.
    """

    name: str
    widths: Mapping[str, float]
    vector: float = 1
    gather: float = 1
    simt: float = 1 / 128
    matrix: float = 1
    descriptor: float = 32
    burst: float = 2
    flag: float = 0
    cross: float = 0

    def of_bytes(self, path: str) -> float:
        """Cycles of a byte that a path moves."""
        return 1 / self.widths[path] if path in self.widths else 0.0

    def of_descriptor(self, path: str) -> float:
        """Cycles of a copy instruction."""
        return self.descriptor if path in PIPE_OF_PATH and path != "gm_scalar" else 0.0

    def of_burst(self, path: str) -> float:
        """Cycles of a contiguous piece of a copy."""
        return self.burst if path in ("gm_ub", "ub_gm", "gm_l1", "l0c_gm") else 0.0

    def of_vector(self, kind: str) -> float:
        """Cycles of a vector instruction."""
        return {"mask": 0.0, "gather": self.gather, "scatter": self.gather}.get(kind, self.vector)

    def of_simt(self, kind: str) -> float:
        """Cycles of what a SIMT thread or warp does."""
        return {"loads": 1, "stores": 1, "atomics": 1, "warp_operations": 32}.get(kind, 0) * self.simt

    def as_numbers(self) -> list[float]:
        """As ``struct Rates`` of the runtime: cycles by count word, then of flags."""
        return [
            *(self.of_bytes(path) for path in PATHS),
            *(self.of_descriptor(path) for path in PATHS),
            *(self.of_burst(path) for path in PATHS),
            *(self.of_vector(kind) for kind in VECTOR_KINDS),
            *(self.of_simt(kind) for kind in SIMT_KINDS),
            0.0,  # multiply-adds: the matrix unit's cycles count
            self.matrix,
            self.flag,
            self.cross,
        ]


_WIDTHS = {
    "gm_ub": 128, "ub_gm": 128, "gm_l1": 128, "l1_l0a": 256, "l1_l0b": 256, "l0c_ub": 128, "l0c_gm": 128, "ub_l1": 128,
    "ub_ub": 256, "gm_scalar": 4,
}  # fmt: skip

#: One vector instruction a cycle, and the documented widths.
NAIVE = Rates("naive", _WIDTHS)
#: Fitted to what is published of one attention kernel; see DESIGN.md.
FITTED = Rates("fitted", _WIDTHS, vector=0.5, gather=5, matrix=387 / 256, cross=100)
#: The same with copies in short pieces as dear as the published times bear.
DEAR_PIECES = replace(FITTED, name="fitted with dear pieces", burst=4)
#: Those that the runtime keeps time by, in its order.
RATE_SETS = (NAIVE, FITTED, DEAR_PIECES)
