"""Whether an op may register: its name is free, and this core is what its installed metadata asks for."""

from __future__ import annotations

from importlib import metadata

from tilevl.core._version import __version__

CORE = "tilevl-core"

_claims: dict[str, tuple[str, str]] = {}


def claim(name: str, package: str, version: str) -> bool:
    """Takes an op's name for a version of its package; False where the same version has it already.

    Raises:
        RuntimeError: another version has it, or the installed op asks for another core than this one.
    """
    known = _claims.get(name)
    if known == (package, version):
        return False
    if known is not None:
        raise RuntimeError(
            f"{name}: {known[0]} {known[1]} is registered in this process, so {package} {version} can't be; "
            f"import one of them only"
        )
    check_core_range(package)
    _claims[name] = (package, version)
    return True


def release(name: str) -> None:
    """Gives back a name whose registration failed."""
    del _claims[name]


def distribution_of(package: str) -> str:
    """The pip name of an import name: ``tilevl.bmp_to_patches`` is ``tilevl-bmp-to-patches``."""
    return package.replace(".", "-").replace("_", "-")


def core_range(distribution: str) -> str | None:
    """The range of ``tilevl-core`` that a distribution requires, None where it isn't installed or names none."""
    try:
        lines = metadata.requires(distribution) or []
    except metadata.PackageNotFoundError:  # imported from a source tree that nobody installed
        return None
    lines = [line for line in lines if line.startswith(CORE) and ";" not in line]
    if not lines:
        return None
    from packaging.requirements import Requirement  # some milliseconds, and only needed here

    for line in lines:
        requirement = Requirement(line)
        if requirement.name == CORE and requirement.marker is None:
            return str(requirement.specifier)
    return None


def check_core_range(package: str) -> None:
    """Refuses an op whose installed metadata asks for another core than this one.

    Raises:
        RuntimeError: this core's version lies outside the range; says which to install.
    """
    distribution = distribution_of(package)
    wanted = core_range(distribution)
    if wanted is None:
        return
    from packaging.specifiers import SpecifierSet

    if not SpecifierSet(wanted).contains(__version__, prereleases=True):
        raise RuntimeError(
            f"{distribution} needs {CORE}{wanted}, and {CORE} {__version__} is imported: "
            f"pip install '{CORE}{wanted}', or another version of {distribution}"
        )
