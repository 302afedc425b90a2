"""Small programs over vector registers, run on the host model: one kernel holds many, and a number picks one."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from tilevl.testing import ascend_host
from tilevl.testing.require import skip_unless

REGISTER_BYTES = 256
_INPUT_BYTES = 2048  # registers a, b, c; masks m, n; then 1024 bytes of plain memory
_OUTPUT_BYTES = 2048  # registers d, e; mask p; then 1024 bytes of plain memory

_HEAD = """\
#include <tl_templates/ascend/common.h>
#include <tl_templates/ascend/nd2nz_copy.h>
template <typename T> __simd_callee__ inline tilevl_host::vector_register<T> reg(__ubuf__ uint8_t* at) {
  tilevl_host::vector_register<T> r;
  asc_loadalign(r, (__ubuf__ T*)at, 0);
  return r;
}
template <typename T> __simd_callee__ inline void out(__ubuf__ uint8_t* at, tilevl_host::vector_register<T> r) {
  asc_storealign((__ubuf__ T*)at, r, 0, vector_bool{{~0ull, ~0ull, ~0ull, ~0ull}});
}
#define A(T) reg<T>(buf)
#define B(T) reg<T>(buf + 256)
#define C(T) reg<T>(buf + 512)
#define M simd_inst::plds_norm((__ubuf__ uint32_t*)(buf + 768), 0)
#define N simd_inst::plds_norm((__ubuf__ uint32_t*)(buf + 800), 0)
#define MEMORY(T) ((__ubuf__ T*)(buf + 1024))
#define D(r) out(buf + 2048, r)
#define E(r) out(buf + 2304, r)
#define P(m) simd_inst::psts_norm(m, (__ubuf__ uint32_t*)(buf + 2560), 0)
#define STORED(T) ((__ubuf__ T*)(buf + 3072))
"""

_KERNEL = """\
extern "C" __global__ __vector__ void programs(__gm__ uint8_t* given, __gm__ uint8_t* result, int32_t which) {{
  asc_init();
  __ubuf__ uint8_t *buf = (__ubuf__ uint8_t *)0;
  asc_copy_gm2ub_align(buf, given, 1, 4096, 0, 0, 0, static_cast<asc_load_l2_cache_mode>(0), 4096, 4096);
  asc_sync_notify(PIPE_MTE2, PIPE_V, 0);
  asc_sync_wait(PIPE_MTE2, PIPE_V, 0);
{calls}
  asc_sync_notify(PIPE_V, PIPE_MTE3, 0);
  asc_sync_wait(PIPE_V, PIPE_MTE3, 0);
  asc_copy_ub2gm_align(result, buf + 2048, 1, 2048, static_cast<asc_store_l2_cache_mode>(4), 2048, 2048);
}}
"""


def require_tools() -> None:
    """Skips the test where the model can't build kernels."""
    skip_unless(shutil.which("g++") is not None, "ascend", "the host model needs g++")
    skip_unless(importlib.util.find_spec("tilelang") is not None, "ascend", "the host model needs TileLang's templates")


def bits_of(mask: NDArray[np.bool_], itemsize: int) -> NDArray[np.uint8]:
    """The 32 bytes of a mask whose lanes of ``itemsize`` bytes are on where ``mask`` says so; all other bits are 0."""
    bits = np.zeros(256, dtype=bool)
    bits[::itemsize] = mask
    return np.packbits(bits, bitorder="little")


@dataclass(frozen=True)
class Outcome:
    """What a program left: registers ``d`` and ``e``, mask ``p`` as 256 bits, and 1024 bytes of memory."""

    data: NDArray[np.uint8]

    def d(self, dtype: str) -> NDArray[np.generic]:
        return self.data[:256].view(dtype)

    def e(self, dtype: str) -> NDArray[np.generic]:
        return self.data[256:512].view(dtype)

    @property
    def p(self) -> NDArray[np.bool_]:
        return np.unpackbits(self.data[512:544], bitorder="little").astype(bool)

    def memory(self, dtype: str) -> NDArray[np.generic]:
        return self.data[1024:].view(dtype)


def _bytes(value: NDArray[np.generic] | None, count: int) -> NDArray[np.uint8]:
    if value is None:
        return np.zeros(count, dtype=np.uint8)
    raw = np.ascontiguousarray(value).view(np.uint8).reshape(-1)
    assert raw.size <= count, (raw.size, count)
    return np.concatenate([raw, np.zeros(count - raw.size, dtype=np.uint8)])


class RegisterPrograms:
    """Named bodies of SIMD functions over A(T), B(T), C(T), M, N, MEMORY(T), which write D, E, P or STORED(T)."""

    def __init__(self, bodies: Mapping[str, str]) -> None:
        self._names = list(bodies)
        functions = "".join(
            f"__simd_vf__ inline void program_{i}(__ubuf__ uint8_t* buf) {{\n  {body}\n}}\n"
            for i, body in enumerate(bodies.values())
        )
        calls = "\n".join(f"  if (which == {i}) program_{i}(buf);" for i in range(len(bodies)))
        self.source = _HEAD + functions + _KERNEL.format(calls=calls)

    @cached_property
    def kernel(self) -> ascend_host.Kernel:
        require_tools()
        return ascend_host.compile(self.source)

    def run(
        self,
        name: str,
        a: NDArray[np.generic] | None = None,
        b: NDArray[np.generic] | None = None,
        c: NDArray[np.generic] | None = None,
        m: NDArray[np.uint8] | None = None,
        n: NDArray[np.uint8] | None = None,
        memory: NDArray[np.generic] | None = None,
        **options: str,
    ) -> Outcome:
        """Runs one program; outputs that it does not write hold 0xA5 bytes."""
        given = [_bytes(a, 256), _bytes(b, 256), _bytes(c, 256), _bytes(m, 32), _bytes(n, 32), np.zeros(192, np.uint8)]
        given += [_bytes(memory, 1024), np.full(_OUTPUT_BYTES, 0xA5, dtype=np.uint8)]
        result = torch.full((_OUTPUT_BYTES,), 0x5A, dtype=torch.uint8)
        kernel = self.kernel.with_options(**options)
        self.counters = kernel(
            1, given=torch.from_numpy(np.concatenate(given)), result=result, which=self._names.index(name)
        )
        return Outcome(result.numpy())
