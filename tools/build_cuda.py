"""Compiles the CUDA programs that the tests and benchmarks of ops use, side by side, into TileLang's cache on disk.

They are for the GPU of this machine; without one, for Hopper, which needs nvcc alone.

usage: build_cuda.py OP...
"""

from __future__ import annotations

import concurrent.futures
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

Program = tuple[str, str, tuple[object, ...]]

HOPPER = "sm_90a"

SHUFFLES = (
    *(("shuffle_strips", plan) for plan in ((512, 1), (512, 2), (512, 4), (512, 8), (1024, 8))),
    ("copy_rows", ()),
)
PATCHES = (  # patch size, bytes of a pixel, dtype, by table
    *((p, 3, "bfloat16", False) for p in (1, 2, 3, 4, 5, 6, 7, 12, 14, 16, 20, 32)),
    (4, 4, "float32", True),
    (2, 3, "float16", False),
    (16, 3, "float16", False),
    (4, 3, "float16", False),
    (4, 3, "bfloat16", True),
    (4, 3, "float32", True),
    (16, 3, "float16", True),
    (4, 3, "float16", True),
    (8, 3, "float32", True),
    (16, 3, "float32", True),
    (64, 4, "bfloat16", False),
    (14, 4, "float16", False),
    (2, 3, "float32", True),
    (2, 4, "float32", True),
)


def programs(op: str) -> Iterator[Program]:
    """Module, function and parameters of the programs of an op."""
    module = f"tilevl.{op}.kernels.cuda"
    if op == "replace_input_embeds":
        yield module, "move_rows", ()
        yield module, "claim_rows", ()
        yield f"{module}_bulk", "stream_rows", ()
        yield f"tilevl.{op}.token_index.kernels.cuda", "find_marked", ()
    elif op == "shuffle_image_tokens":
        yield from ((module, name, parameters) for name, parameters in SHUFFLES)
    elif op == "prepare_image_attn_pos_id":
        yield module, "positions", ()
    elif op == "bmp_to_patches":
        yield from ((module, "patches", parameters) for parameters in PATCHES)
    elif op == "attn_rel_h_rel_w":
        sys.path.insert(0, str(Path(__file__).parents[1] / "packages" / op))
        yield from ((module, "trace", program) for program in import_module("tests.test_cuda").programs_of_the_suite())


def main(ops: list[str]) -> int:
    """Builds in children, because TileLang compiles one program at a time in a process."""
    if ops and ops[0] == "--one":
        return build(ops[1], ops[2], ops[3:])
    start = time.monotonic()
    wanted = [program for op in ops for program in programs(op)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        codes = list(pool.map(child, wanted))
    print(f"{len(wanted)} programs, {sum(map(bool, codes))} failed, {time.monotonic() - start:.0f} s")
    return int(any(codes))


def child(program: Program) -> int:
    """Builds one program in a process of its own."""
    module, name, parameters = program
    return subprocess.run(
        [sys.executable, __file__, "--one", module, name, *map(str, parameters)], check=False
    ).returncode


def build(module: str, name: str, parameters: list[str]) -> int:
    """Builds one program for the GPU of this machine, or for Hopper where there is none."""
    import torch

    from tilevl.core import cache_directory, cuda

    cache_directory.direct_tilelang()
    known = {"True": True, "False": False}
    given = [known.get(p, int(p) if p.isdigit() else p) for p in parameters]
    kernels = import_module(module)
    arch = cuda.arch_of(0) if torch.cuda.is_available() else HOPPER
    cuda.compiled(getattr(kernels, name)(*given), arch, getattr(kernels, "PASS_CONFIGS", None))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
