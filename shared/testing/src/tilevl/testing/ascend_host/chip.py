"""Figures of the chips that a cost is modelled for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Chip:
    """A chip, as the model sees it.

    Attributes:
        name: of the product.
        cube_cores, vector_cores: how many there are. Third-party copies of CANN's platform files and the vendor's
            announcement of the 950DT; not in the public documentation.
        clock_ghz: of both kinds of cores. Same sources.
        memory_gb_per_s: of global memory, all cores together. The vendor's announcement.
        launch_us: start of a kernel. An assumption.
    """

    name: str
    cube_cores: int
    vector_cores: int
    clock_ghz: float
    memory_gb_per_s: float
    launch_us: float = 2.0


ASCEND_950DT = Chip("Ascend 950DT", cube_cores=36, vector_cores=72, clock_ghz=1.65, memory_gb_per_s=4000)
ASCEND_950PR = Chip("Ascend 950PR", cube_cores=32, vector_cores=64, clock_ghz=1.65, memory_gb_per_s=1600)
CHIPS = {chip.name: chip for chip in (ASCEND_950DT, ASCEND_950PR)}
DEFAULT_CHIP = ASCEND_950DT
