"""Small SIMT programs, run on the host model: one kernel holds many, and a number picks one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tilevl.testing import ascend_host

from .register_program import require_tools

_BYTES = 16384

_HEAD = """\
#include <tl_templates/ascend/common.h>
#include <tl_templates/ascend/philox_rng.h>
#include <simt_api/cooperative_groups.h>
#define IN(T) ((__ubuf__ T*)ub)
#define OUT(T) ((__ubuf__ T*)(ub + 16384))
#define GIVEN(T) ((__gm__ T*)given)
#define PLACE(T) ((__gm__ T*)place)
#define THREAD ((int32_t)(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)))
"""

_FUNCTION = """\
__simt_vf__ {bound}inline void program_{i}(
    __ubuf__ uint8_t* ub, __gm__ uint8_t* given, __gm__ uint8_t* place) {{
  {body}
}}
"""

_KERNEL = """\
extern "C" __global__ __vector__ void programs(__gm__ uint8_t* given, __gm__ uint8_t* place, __gm__ uint8_t* result,
                                               int32_t which, int32_t x, int32_t y, int32_t z) {{
  asc_init();
  __ubuf__ uint8_t *ub = (__ubuf__ uint8_t *)0;
  asc_copy_gm2ub_align(ub, given, 1, 32768, 0, 0, 0, static_cast<asc_load_l2_cache_mode>(0), 32768, 32768);
  asc_sync_notify(PIPE_MTE2, PIPE_V, 0);
  asc_sync_wait(PIPE_MTE2, PIPE_V, 0);
{calls}
  asc_sync_notify(PIPE_V, PIPE_MTE3, 0);
  asc_sync_wait(PIPE_V, PIPE_MTE3, 0);
  asc_copy_ub2gm_align(result + block_idx * 16384, ub + 16384, 1, 16384, static_cast<asc_store_l2_cache_mode>(4), 16384,
                       16384);
}}
"""


class SimtPrograms:
    """Named bodies of SIMT functions over IN(T) and GIVEN(T), which write OUT(T); THREAD is the linear thread."""

    def __init__(self, bodies: Mapping[str, str], bound: str = "__launch_bounds__(2048) ") -> None:
        self._names = list(bodies)
        functions = "".join(_FUNCTION.format(i=i, body=body, bound=bound) for i, body in enumerate(bodies.values()))
        calls = "\n".join(
            f"  if (which == {i}) asc_vf_call<program_{i}>(cce::dim3(x, y, z), ub, given, place);"
            for i in range(len(bodies))
        )
        self.source = _HEAD + functions + _KERNEL.format(calls=calls)

    @cached_property
    def kernel(self) -> ascend_host.Kernel:
        """The kernel, built on first use."""
        require_tools()
        return ascend_host.compile(self.source)

    def run(
        self,
        name: str,
        given: NDArray[Any] | None = None,
        threads: int | tuple[int, int, int] = 64,
        dtype: str = "i4",
        grid: int = 1,
        place: NDArray[Any] | None = None,
        **options: str,
    ) -> NDArray[Any]:
        """Runs one program; outputs that it does not write hold 0xA5 bytes.

        Returns:
            What the threads left in OUT, of ``dtype``; ``grid`` parts. ``place`` is changed in place.
        """
        data = np.full(2 * _BYTES, 0xA5, dtype=np.uint8)
        if given is not None:
            raw = np.ascontiguousarray(given).view(np.uint8).reshape(-1)
            data[: raw.size] = raw
        result = torch.full((grid * _BYTES,), 0x5A, dtype=torch.uint8)
        x, y, z = (threads, 1, 1) if isinstance(threads, int) else threads
        spot = np.zeros(8, np.uint8) if place is None else place.view(np.uint8)
        self.counters = self.kernel.with_options(**options)(
            grid,
            given=torch.from_numpy(data),
            place=torch.from_numpy(spot),
            result=result,
            which=self._names.index(name),
            x=x,
            y=y,
            z=z,
        )
        return result.numpy().view(dtype)
