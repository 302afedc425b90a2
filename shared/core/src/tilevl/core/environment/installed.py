"""Checks that read installed metadata: torch, torch_npu, and the TileVL packages."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING

from tilevl.core import requirements
from tilevl.core._version import __version__
from tilevl.core.environment import sight
from tilevl.core.environment.check import Check, Scene

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

OPS_GROUP = "tilevl.ops"

_WITHOUT_NPU = "To work without the NPU, set TORCH_DEVICE_BACKEND_AUTOLOAD=0 or run pip uninstall torch-npu"


def version_of(distribution: str) -> str | None:
    """Version of an installed distribution; None where it isn't installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def range_of(distribution: str, requirement: str, *, extra: str = "") -> SpecifierSet:
    """The range in which an installed distribution wants another one; any version where it says nothing.

    Args:
        distribution: the one that requires.
        requirement: the one that is required.
        extra: the extra that brings the requirement, for example ``"kernels"``.
    """
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

    try:
        lines = metadata.requires(distribution) or []
    except metadata.PackageNotFoundError:
        return SpecifierSet()
    for line in lines:
        wanted = Requirement(line)
        here = wanted.marker is None or wanted.marker.evaluate({"extra": extra})
        if here and wanted.name.replace("_", "-").lower() == requirement:
            return wanted.specifier
    return SpecifierSet()


def torch(scene: Scene) -> Check:
    """Whether torch is there, imports, and is new enough."""
    name = "torch"
    installed = version_of("torch")
    wanted = range_of(requirements.CORE, "torch")
    if installed is None and not sight.importable("torch"):
        return Check(name, "failed", "torch is not installed", f"Run pip install 'torch{wanted}'")
    seen = scene.sight.torch()
    version = seen.version or installed or ""
    if seen.broken is not None:
        return Check(
            name,
            "failed",
            f"torch is there, but import torch raises {seen.broken.reason}",
            f"Run pip install --force-reinstall 'torch{wanted}', and see that no file or folder named torch lies "
            f"in the working directory or on PYTHONPATH",
        )
    if seen.autoload_broken is not None:
        return Check(
            name,
            "failed",
            f"torch {version} is fine, but import torch raises, because it loads torch_npu by itself, and that raises "
            f"{seen.autoload_broken.reason}",
            _WITHOUT_NPU if scene.target in ("cpu", "cuda") else f"Do what torch-npu-import says. {_WITHOUT_NPU}",
        )
    if version and not wanted.contains(version, prereleases=True):
        remedy = f"Run pip install 'torch{wanted}'"
        return Check(name, "failed", f"torch {version}, and {requirements.CORE} needs torch{wanted}", remedy)
    return Check(name, "ok", f"torch {version}")


def torch_npu_installed(_scene: Scene) -> Check:
    """torch_npu is there."""
    name = "torch-npu-installed"
    version = version_of("torch-npu")
    if version is not None:
        return Check(name, "ok", f"torch-npu {version}")
    if sight.importable("torch_npu"):
        return Check(name, "ok", "torch_npu can be imported; it has no pip metadata, so that its version is not known")
    return Check(name, "failed", "torch_npu is not installed", f"Run pip install {_matching_torch_npu()}")


def torch_npu_version(_scene: Scene) -> Check:
    """torch_npu is made for the torch that is here."""
    name = "torch-npu-version"
    torch_version, version = version_of("torch"), version_of("torch-npu")
    if version is None or torch_version is None:
        missing = "torch_npu" if version is None else "torch"
        return Check(name, "not applicable", f"{missing} is not installed, or not by pip")
    wanted = range_of("torch-npu", "torch")
    if wanted.contains(torch_version, prereleases=True):
        return Check(name, "ok", f"torch-npu {version} is for torch{wanted}, torch is {torch_version}")
    return Check(
        name,
        "failed",
        f"torch-npu {version} is for torch{wanted}, but torch is {torch_version}",
        f"Install a pair: pip install {_matching_torch_npu()} for the torch that is here, or "
        f"pip install 'torch{wanted}' for the torch_npu that is here",
    )


def _matching_torch_npu() -> str:
    from packaging.version import InvalidVersion, Version

    try:
        return f"'torch-npu=={Version(version_of('torch') or '').base_version}.*'"
    except InvalidVersion:  # no torch, or one without a version: pip picks a pair
        return "torch-npu"


@dataclass(frozen=True)
class InstalledPackage:
    """One installed TileVL distribution.

    Attributes:
        name: its pip name.
        version: its version.
        core_range: the range of ``tilevl-core`` that it asks for; empty where it asks for none.
        fits: whether the installed ``tilevl-core`` lies in that range.
        ops: the ops that it brings, by its entry points.
    """

    name: str
    version: str
    core_range: str
    fits: bool
    ops: tuple[str, ...]


def tilevl_distributions() -> list[InstalledPackage]:
    """The installed TileVL distributions by name, the core first."""
    from packaging.specifiers import SpecifierSet

    ops: dict[str, set[str]] = {}
    for entry_point in metadata.entry_points(group=OPS_GROUP):
        if entry_point.dist is not None:
            ops.setdefault(_normalized(entry_point.dist.name), set()).add(entry_point.name)
    named = {_normalized(name) for d in metadata.distributions() if d.metadata and (name := d.metadata["Name"])}
    core = version_of(requirements.CORE)
    found = []
    for name in sorted(ops.keys() | {name for name in named if name.startswith("tilevl-")}):
        wanted = requirements.core_range(name) or ""
        fits = not wanted or (core is not None and SpecifierSet(wanted).contains(core, prereleases=True))
        found.append(InstalledPackage(name, version_of(name) or "", wanted, fits, tuple(sorted(ops.get(name, ())))))
    return sorted(found, key=lambda package: package.name != requirements.CORE)


def _normalized(name: str) -> str:
    return name.replace("_", "-").replace(".", "-").lower()


def tilevl_packages(_scene: Scene) -> Check:
    """The installed ops ask for the core that is here."""
    name = "tilevl-packages"
    packages = tilevl_distributions()
    core = version_of(requirements.CORE) or f"{__version__} from a folder, not installed by pip"
    wrong = [package for package in packages if not package.fits]
    if wrong:
        wishes = ", ".join(f"{p.name} {p.version} needs {requirements.CORE}{p.core_range}" for p in wrong)
        together = " ".join([requirements.CORE, *(package.name for package in wrong)])
        return Check(
            name,
            "failed",
            f"{requirements.CORE} is {core}, but {wishes}",
            f"Run pip install --upgrade {together}, in one command, so that pip picks versions that fit",
        )
    listed = ", ".join(f"{package.name} {package.version}" for package in packages)
    if not any(package.ops for package in packages):
        evidence = f"{listed or f'{requirements.CORE} {core}'}; no op is installed"
        return Check(
            name,
            "warning",
            evidence,
            "Install the ops that you use, as with pip install tilevl-bmp-to-patches",
        )
    return Check(name, "ok", listed)
