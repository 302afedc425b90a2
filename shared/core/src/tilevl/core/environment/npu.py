"""Checks of torch_npu at work: that it imports, sees an NPU, and that the NPU is one that the kernels are for."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tilevl.core.environment import cann, sight
from tilevl.core.environment.check import Check, Scene
from tilevl.core.environment.sight import Broken

DEVICE_FOLDER = Path("/dev")
ARCHITECTURE = "dav-3510"
# The 950PR and 950DT; CANN versions from before the name was settled call them 910_95.
SUPPORTED = re.compile(r"Ascend(950|910_95)")

_OF_DRIVER = ("libascend_hal", "libdrv", "libdcmi")
_OF_TORCH = ("libtorch", "libc10")
_NODE = re.compile(r"davinci\d+")


def device_nodes() -> list[str]:
    """Names of the NPU device nodes that the driver made, or that a container was given."""
    try:
        return sorted(path.name for path in DEVICE_FOLDER.iterdir() if _NODE.fullmatch(path.name))
    except OSError:  # no such folder on this system
        return []


def torch_npu_import(scene: Scene) -> Check:
    """torch_npu can be imported."""
    name = "torch-npu-import"
    seen = scene.sight.torch_npu()
    if seen.broken is None:
        return Check(name, "ok", f"torch_npu {seen.version} imports")
    if not sight.importable("torch_npu"):
        return Check(name, "not applicable", "torch_npu is not installed")
    return Check(name, "failed", f"import torch_npu raises {seen.broken.reason}", _import_remedy(seen.broken))


def _import_remedy(broken: Broken) -> str:
    library, cann_root = broken.missing_library, cann.root_of()
    if library.startswith(_OF_DRIVER):
        return f"{library} belongs to the Ascend driver: install it; in a container, mount /usr/local/Ascend/driver"
    if library.startswith(_OF_TORCH):
        return f"{library} belongs to torch: see torch-npu-version, and reinstall torch and torch_npu as a pair"
    if library:
        step = "do what cann-root says" if cann_root is None else cann.sourcing(cann_root)
        return f"{library} belongs to CANN, and the loader doesn't find it: {step}"
    if "undefined symbol" in broken.reason:
        return "torch_npu, torch and CANN don't fit together: install versions that torch_npu's release notes pair"
    if "No module named" in broken.reason:
        return "Run pip install --force-reinstall torch-npu, which brings the modules that it needs"
    return "Run python -c 'import torch_npu' for the whole error, and see that CANN's version suits this torch_npu"


def visible(scene: Scene) -> Check:
    """An NPU is visible to this process."""
    name = "npu-visible"
    seen, nodes = scene.sight.torch_npu(), device_nodes()
    chosen = os.environ.get("ASCEND_RT_VISIBLE_DEVICES")
    if seen.broken is None and seen.count:
        only = f", by ASCEND_RT_VISIBLE_DEVICES={chosen}" if chosen is not None else ""
        return Check(name, "ok", f"{seen.count} NPU{'s' if seen.count > 1 else ''}{only}")
    if not nodes:
        return Check(
            name,
            "failed",
            f"no NPU: {DEVICE_FOLDER} has no davinci device",
            "Use a machine with an Ascend 950 and its driver, where npu-smi info lists the NPU; give a container "
            "--device /dev/davinci0 --device /dev/davinci_manager --device /dev/devmm_svm --device /dev/hisi_hdc",
        )
    there = f"{DEVICE_FOLDER} has {', '.join(nodes)}"
    if seen.broken is not None:
        remedy = "First see to torch-npu-installed and torch-npu-import, then run this again"
        return Check(name, "warning", f"{there}; torch_npu can't be asked yet", remedy)
    if chosen is not None:
        remedy = "Unset ASCEND_RT_VISIBLE_DEVICES, or let it list NPUs that npu-smi info shows"
        return Check(name, "failed", f"{there}, but none is visible with ASCEND_RT_VISIBLE_DEVICES={chosen!r}", remedy)
    problem = f", and torch_npu says {seen.device_error}" if seen.device_error else ", but torch_npu sees none"
    remedy = "Run npu-smi info: an NPU that it doesn't list is a matter of driver, firmware or of this user's rights"
    return Check(name, "failed", f"{there}{problem}", remedy)


def soc(scene: Scene) -> Check:
    """The NPU is one that the kernels are written for."""
    name = "npu-soc"
    device = scene.sight.torch_npu().device_name
    if not device:
        return Check(name, "not applicable", "no NPU to ask")
    if SUPPORTED.match(device) is None:
        return Check(
            name,
            "failed",
            f"{device} is not supported",
            f"The kernels are for Ascend 950PR and 950DT ({ARCHITECTURE}): use such an NPU, or the CPU",
        )
    chosen = os.environ.get("ASCEND_NPU_ARCH")
    if chosen and chosen != ARCHITECTURE:
        evidence = f"{device} is {ARCHITECTURE}, but ASCEND_NPU_ARCH={chosen} makes TileLang compile for another"
        return Check(name, "failed", evidence, "Unset ASCEND_NPU_ARCH")
    return Check(name, "ok", f"{device}, {ARCHITECTURE}")
