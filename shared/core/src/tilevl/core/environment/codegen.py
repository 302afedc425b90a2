"""Checks of TileLang: that it is there, and which code generators it has, by its own registry."""

from __future__ import annotations

from tilevl.core import requirements
from tilevl.core.environment import sight
from tilevl.core.environment.check import Check, Scene
from tilevl.core.environment.installed import range_of, version_of

_INSTALL = f"pip install '{requirements.CORE}[kernels]'"


def tilelang(scene: Scene) -> Check:
    """TileLang is there, imports, and is new enough."""
    name = "tilelang"
    installed = version_of("tilelang")
    wanted = range_of(requirements.CORE, "tilelang", extra="kernels")
    if installed is None and not sight.importable("tilelang"):
        return Check(name, "failed", "TileLang is not installed", f"Run {_INSTALL}")
    if installed is not None and not wanted.contains(installed, prereleases=True):
        evidence = f"TileLang {installed}, and the kernels need tilelang{wanted}"
        return Check(name, "failed", evidence, f"Run {_INSTALL}")
    seen = scene.sight.tilelang()
    if seen.broken is not None:
        return Check(
            name,
            "failed",
            f"TileLang {installed or 'without pip metadata'} is there, but import tilelang raises {seen.broken.reason}",
            f"If import torch fails too, see to that first; else run {_INSTALL} --force-reinstall --no-deps",
        )
    return Check(name, "ok", f"TileLang {installed or seen.version} in {seen.folder}")


def ascend(scene: Scene) -> Check:
    """TileLang can generate AscendC."""
    remedy = f"Install a TileLang for Linux with the Ascend backend: {_INSTALL} --force-reinstall"
    return _codegen("ascend-codegen", "ascend", scene, remedy)


def pto(scene: Scene) -> Check:
    """TileLang can generate PTO."""
    remedy = "Build TileLang from a source that has the PTO backend, or set TILELANG_DEFAULT_TARGET=ascend"
    return _codegen("pto-codegen", "pto", scene, remedy)


def cuda(scene: Scene) -> Check:
    """TileLang can generate CUDA."""
    return _codegen("cuda-codegen", "cuda", scene, f"Install a TileLang built with CUDA: {_INSTALL} --force-reinstall")


def _codegen(name: str, codegen: str, scene: Scene, remedy: str) -> Check:
    if not sight.importable("tilelang"):
        return Check(name, "not applicable", "TileLang is not installed")
    seen = scene.sight.tilelang()
    if seen.broken is not None:
        return Check(name, "not applicable", "TileLang can't be imported")
    if seen.registry_error:
        return Check(
            name,
            "failed",
            f"the TileLang in {seen.folder} has no backend registry that can be asked ({seen.registry_error}); "
            "older releases are like that, and the builds of tile-ai/tilelang-ascend, which have the same pip name",
            remedy,
        )
    if codegen in seen.codegens:
        return Check(name, "ok", f"TileLang's registry has the code generator {codegen!r}")
    has = ", ".join(seen.codegens) or "none"
    return Check(name, "failed", f"TileLang's registry has no code generator {codegen!r}, only {has}", remedy)
