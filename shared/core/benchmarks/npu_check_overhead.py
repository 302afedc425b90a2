"""Cost of the environment checks: of the first NPU call of a process, and of every later one.

The environment is a stub in which all checks pass: small modules for torch_npu and TileLang, a folder for CANN. So the
first call's figure is that of the checks alone, without TileLang's import, which a kernel needs anyway. The later calls
go through the dispatcher with an NPU tensor, with the gate and with nothing in its place, one after the other.
``python shared/core/benchmarks/npu_check_overhead.py``
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from tilevl.core import devices, registration
from tilevl.core.environment import gate
from tilevl.testing.benchmark import interleaved

PACKAGE = "tilevl.gate_bench"


def module(name: str, **attributes: Any) -> ModuleType:
    """A module that is there without a file."""
    made = ModuleType(name)
    made.__spec__ = ModuleSpec(name, None)
    made.__dict__.update(attributes)
    sys.modules[name] = made
    return made


def stub_environment(folder: Path) -> None:
    """Makes this process one in which the target ascend can run."""
    device = SimpleNamespace(is_available=lambda: True, device_count=lambda: 1, get_device_name=lambda _: "Ascend950PR")
    module("torch_npu", npu=device, __version__=torch.__version__)
    codegen = SimpleNamespace(device_codegens={"ascend": SimpleNamespace(name="ascend")})
    ffi = SimpleNamespace(get_global_func=lambda name, allow_missing: name)
    module("tilelang", tvm=SimpleNamespace(ffi=ffi), __path__=[str(folder)])
    module("tilelang.backend", list_backends=lambda: {"ascend": codegen})
    for tool in ("bisheng", "ld.lld"):
        (folder / tool).touch(mode=0o755)
    os.environ |= {
        "ASCEND_HOME_PATH": str(folder),
        "ASCEND_OPP_PATH": str(folder),
        "LD_LIBRARY_PATH": str(folder),
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "TILEVL_CACHE_DIR": str(folder / "cache"),
    }


def stub_op() -> torch._ops.OpOverload:
    """An op whose kernel does nothing."""
    module(PACKAGE, __path__=[])
    module(f"{PACKAGE}.kernels", __path__=[])
    module(f"{PACKAGE}.kernels.ascend", build=lambda: lambda x: None)
    return registration.register(
        PACKAGE,
        "gate_bench(Tensor(a!) x) -> ()",
        version="0",
        check=lambda x: None,
        check_data=lambda x: None,
        specialise=lambda x: (),
    )


def first_call() -> float:
    """Milliseconds of the checks, with no verdict yet."""
    gate._passed.clear()
    gate._failed.clear()
    start = time.perf_counter()
    gate.require_npu("tilevl.gate_bench", "ascend")
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    """Prints three lines."""
    with tempfile.TemporaryDirectory() as folder:
        stub_environment(Path(folder))
        _setup_privateuseone_for_python_backend("npu")
        first = first_call()
        again = statistics.median(first_call() for _ in range(51))
        op, tensor = stub_op(), torch._C._acc.create_empty_tensor((4, 2), torch.float32)
        op(tensor)
        gated, ungated = devices.require_target, lambda op, target: None

        def call_with() -> None:
            registration.require_target = gated
            op(tensor)

        def call_without() -> None:
            registration.require_target = ungated
            op(tensor)

        times = interleaved(
            {
                "gate": lambda: gate.require_npu("tilevl.gate_bench", "ascend"),
                "nothing": lambda: ungated("tilevl.gate_bench", "ascend"),
                "with": call_with,
                "without": call_without,
            },
            rounds=2001,
            inner=50,
        )
    print(f"checks of the first call  {first:9.2f} ms; median of 51 more, with files and modules warm: {again:.2f} ms")
    gate_ns, nothing_ns = times["gate"] * 1e3, times["nothing"] * 1e3
    print(f"gate of a later call      {gate_ns:9.1f} ns; an empty function: {nothing_ns:.1f} ns")
    gated_us, ungated_us = times["with"], times["without"]
    print(f"a later call of an op     {gated_us:9.3f} us; without the gate: {ungated_us:.3f} us")
    print(f"ratio of the two          {gated_us / ungated_us:9.3f}")


if __name__ == "__main__":
    main()
