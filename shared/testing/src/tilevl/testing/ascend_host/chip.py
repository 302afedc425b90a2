"""Figures of the chips that a cost is modelled for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Chip:
    """A chip, as the roofline sees it.

    Attributes:
        name: of the product.
        cube_cores, vector_cores: how many there are. Third-party copies of CANN's platform files and the vendor's
            announcement of the 950DT; not in the public documentation.
        clock_ghz: of both kinds of cores. Same sources.
        memory_gb_per_s: of global memory, all cores together. The vendor's announcement.
        l1_to_l0_bytes: per cycle and core, for L0A and L0B each. ``npu_arch_3510.md`` of the asc-devkit documentation.
        l0c_out_bytes: per cycle, to UB. Same source.
        ub_l1_bytes: per cycle, UB to L1. Same source.
        gm_bytes: per cycle and core between global memory and UB or L1. An assumption: the width of the other paths.
        vector_bytes: a vector instruction handles one register of 256 bytes a cycle. Same source as l1_to_l0_bytes.
        simt_lanes: threads that advance in a cycle: 4 schedulers of a warp of 32. Programming model of the SIMT API.
        descriptor_cycles: start of one copy instruction. An assumption.
        burst_cycles: each contiguous piece of a copy. An assumption.
        launch_us: start of a kernel. An assumption.
    """

    name: str
    cube_cores: int
    vector_cores: int
    clock_ghz: float
    memory_gb_per_s: float
    l1_to_l0_bytes: float = 256
    l0c_out_bytes: float = 128
    ub_l1_bytes: float = 128
    gm_bytes: float = 128
    vector_bytes: float = 256
    simt_lanes: float = 128
    descriptor_cycles: float = 32
    burst_cycles: float = 2
    launch_us: float = 2.0


ASCEND_950DT = Chip("Ascend 950DT", cube_cores=36, vector_cores=72, clock_ghz=1.65, memory_gb_per_s=4000)
ASCEND_950PR = Chip("Ascend 950PR", cube_cores=32, vector_cores=64, clock_ghz=1.65, memory_gb_per_s=1600)
CHIPS = {chip.name: chip for chip in (ASCEND_950DT, ASCEND_950PR)}
DEFAULT_CHIP = ASCEND_950DT
