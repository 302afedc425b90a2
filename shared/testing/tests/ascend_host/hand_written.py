"""AscendC kernels written by hand, in the shape that TileLang gives them."""

from __future__ import annotations

import importlib.util
import shutil

from tilevl.testing import ascend_host
from tilevl.testing.require import skip_unless

_INCLUDES = "#include <tl_templates/ascend/common.h>\n#include <tl_templates/ascend/gemm.h>\n"


def require_model() -> None:
    """Skips the test where TileLang's templates or g++ are missing."""
    for name, found in (("tilelang", importlib.util.find_spec("tilelang")), ("g++", shutil.which("g++"))):
        skip_unless(found is not None, "ascend", f"the host model needs {name}")


def _build(kind: str, parameters: str, body: str, functions: str) -> ascend_host.Kernel:
    require_model()
    source = (
        f'{_INCLUDES}{functions}\nextern "C" __global__ {kind} void k({parameters}) {{\n  asc_init();\n{body}\n}}\n'
    )
    return ascend_host.compile(source)


def vector_kernel(parameters: str, body: str, functions: str = "") -> ascend_host.Kernel:
    """A kernel of the vector cores with UB as ``ub`` (bytes)."""
    return _build("__vector__", parameters, f"  __ubuf__ uint8_t *ub = (__ubuf__ uint8_t *)0;\n{body}", functions)


def cube_kernel(parameters: str, body: str) -> ascend_host.Kernel:
    """A kernel of the cube cores with L1 as ``l1``, L0A as ``l0a``, L0B as ``l0b``, L0C as ``l0c`` (bytes)."""
    return _build("__cube__", parameters, f"{_CUBE_BASES}{body}", "")


def mixed_kernel(parameters: str, cube: str, vector: str) -> ascend_host.Kernel:
    """A kernel of both kinds of cores, with the names of the two above and ``sid`` for the vector core's index."""
    body = (
        f"{_CUBE_BASES}  __ubuf__ uint8_t *ub = (__ubuf__ uint8_t *)0;\n  if ASC_IS_AIC {{\n{cube}\n  }}\n"
        f"  if ASC_IS_AIV {{\n    int32_t sid = asc_get_sub_block_id();\n{vector}\n  }}"
    )
    return _build("__mix__(1, 2)", parameters, body, "")


_CUBE_BASES = "".join(
    f"  {space} uint8_t *{name} = ({space} uint8_t *)0;\n"
    for space, name in (("__cbuf__", "l1"), ("__ca__", "l0a"), ("__cb__", "l0b"), ("__cc__", "l0c"))
)


_LOAD = "static_cast<asc_load_l2_cache_mode>(0)"
_STORE = "static_cast<asc_store_l2_cache_mode>(4)"


def load(to: str, source: str, size: int | str) -> str:
    """A contiguous copy from global memory to UB."""
    return f"asc_copy_gm2ub_align({to}, (__gm__ uint8_t*)({source}), 1, {size}, 0, 0, 0, {_LOAD}, {size}, {size});"


def store(to: str, source: str, size: int | str) -> str:
    """A contiguous copy from UB to global memory."""
    return f"asc_copy_ub2gm_align((__gm__ uint8_t*)({to}), {source}, 1, {size}, {_STORE}, {size}, {size});"


def flag(source: str, destination: str, event: int = 0) -> str:
    """A flag set by one pipe and awaited by another."""
    pipes = f"PIPE_{source}, PIPE_{destination}, {event}"
    return f"asc_sync_notify({pipes}); asc_sync_wait({pipes});"
