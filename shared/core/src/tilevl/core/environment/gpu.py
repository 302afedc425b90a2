"""Checks of the GPU and of CUDA's compiler."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

from tilevl.core.environment import tools
from tilevl.core.environment.check import Check, Scene

TESTED = (9, 0)
USUAL_HOME = Path("/usr/local/cuda")


def gpu(scene: Scene) -> Check:
    """A GPU that torch can use."""
    name = "gpu"
    seen = scene.sight.torch()
    if seen.broken is not None:
        return Check(name, "not applicable", "torch can't be imported")
    if not seen.cuda:
        evidence = f"torch {seen.version} is built without CUDA"
        return Check(name, "failed", evidence, "Install a CUDA build of torch, as torch's own installation page says")
    if seen.gpu_error:
        remedy = f"Run nvidia-smi: the driver must be there, and new enough for torch's CUDA {seen.cuda}"
        return Check(name, "failed", f"asking torch for GPUs fails with {seen.gpu_error}", remedy)
    if not seen.gpus:
        chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
        hidden = f" with CUDA_VISIBLE_DEVICES={chosen!r}" if chosen is not None else ""
        remedy = "Run nvidia-smi: if it lists a GPU, see to CUDA_VISIBLE_DEVICES; give a container --gpus all"
        return Check(name, "failed", f"torch {seen.version} sees no GPU{hidden}", remedy)
    names = ", ".join(f"{model} (sm_{major}{minor})" for model, major, minor in seen.gpus)
    if all((major, minor) != TESTED for _, major, minor in seen.gpus):
        remedy = f"Expect compile errors or low speed: the kernels are tested on sm_{TESTED[0]}{TESTED[1]} only"
        return Check(name, "warning", names, remedy)
    return Check(name, "ok", names)


def nvcc(scene: Scene) -> Check:
    """CUDA's compiler is found and runs."""
    name = "nvcc"
    homes = [*tools.folders("CUDA_HOME", "CUDA_PATH")]
    found = tools.find("nvcc", [home / "bin" / "nvcc" for home in homes]) or _packaged() or _usual()
    install = "Install the CUDA toolkit, or run pip install 'tilelang[nvcc]'"
    if found is None:
        evidence = f"nvcc is neither in CUDA_HOME/bin, nor on PATH, nor a pip package, nor in {USUAL_HOME}"
        return Check(name, "failed", evidence, f"{install}; set CUDA_HOME where it lies elsewhere")
    remedy = f"{install} for this machine, and set CUDA_HOME so that it is found before the broken one"
    return tools.checked(name, found, scene, remedy=remedy)


def _packaged() -> Path | None:
    try:
        files = metadata.files("nvidia-cuda-nvcc") or []
    except metadata.PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in files if file.name == "nvcc"), None)


def _usual() -> Path | None:
    path = USUAL_HOME / "bin" / "nvcc"
    return path if path.is_file() else None
