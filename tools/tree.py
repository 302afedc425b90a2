"""What lies in the tree: its packages, their ops, targets, versions and requirements. Standard library only."""

from __future__ import annotations

import importlib.util
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Package:
    """One distribution of the tree.

    Attributes:
        name: the word used for it everywhere: the op's name, ``core`` or ``testing``, or that of the library that an
            integration puts the ops into.
        folder: where its ``pyproject.toml`` lies.
        is_op: whether it is an op, not one of the shared packages and no integration.
    """

    name: str
    folder: Path
    is_op: bool

    @property
    def is_integration(self) -> bool:
        """Whether it puts the ops into another library: its source lies in ``tilevl/integrations``."""
        return (self.folder / "src" / "tilevl" / "integrations").is_dir()

    @property
    def distribution(self) -> str:
        """Its name for pip."""
        return f"tilevl-{self.name.replace('_', '-')}"

    @property
    def module(self) -> str:
        """What is imported: ``tilevl.<name>``, or ``tilevl.integrations.<name>``."""
        return f"tilevl.integrations.{self.name}" if self.is_integration else f"tilevl.{self.name}"

    @property
    def source(self) -> Path:
        """The folder of what is imported."""
        return self.folder.joinpath("src", *self.module.split("."))

    @property
    def version_file(self) -> Path:
        """The one file that holds its version."""
        return self.source / "_version.py"

    @property
    def version(self) -> str:
        """Its version."""
        return version_in(self.version_file.read_text(encoding="utf-8"))

    @property
    def manifest(self) -> dict[str, Any]:
        """Its ``pyproject.toml``."""
        return read_toml(self.folder / "pyproject.toml")

    @property
    def targets(self) -> list[str]:
        """The targets that it declares; none for a shared package."""
        targets: list[str] = self.manifest.get("tool", {}).get("tilevl", {}).get("targets", [])
        return targets

    @property
    def requirements(self) -> list[str]:
        """Its run-time dependencies, as it writes them."""
        lines: list[str] = self.manifest["project"].get("dependencies", [])
        return lines

    def requires(self, other: Package) -> bool:
        """Whether it depends on another package of the tree at run time."""
        return other.distribution in {distribution_in(line) for line in self.requirements}


def packages(root: Path = ROOT) -> list[Package]:
    """All packages: the shared ones, then the ops and integrations, by name."""
    shared = [Package(folder.name, folder, is_op=False) for folder in _folders(root / "shared")]
    others = [Package(folder.name, folder, is_op=True) for folder in _folders(root / "packages")]
    return shared + [replace(package, is_op=not package.is_integration) for package in others]


def ops(root: Path = ROOT) -> list[Package]:
    """The packages that are ops, by name."""
    return [package for package in packages(root) if package.is_op]


def wares(root: Path = ROOT) -> list[Package]:
    """The packages that users ask for, by name: the ops and the integrations."""
    return [package for package in packages(root) if package.is_op or package.is_integration]


def find(name: str, root: Path = ROOT) -> Package:
    """The package of a name.

    Raises:
        SystemExit: there is none; names those that are there.
    """
    found = {package.name: package for package in packages(root)}
    if name not in found:
        raise SystemExit(f"there is no package {name!r}; the packages are {', '.join(found)}")
    return found[name]


def target_names(root: Path = ROOT) -> list[str]:
    """The targets that exist, by the core's own table."""
    path = root / "shared" / "core" / "src" / "tilevl" / "core" / "targets.py"
    spec = importlib.util.spec_from_file_location("tilevl_target_table", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} can't be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclasses look their annotations up
    spec.loader.exec_module(module)
    return list(module.TARGETS)


def version_in(text: str) -> str:
    """The version that the text of a ``_version.py`` holds."""
    found = re.fullmatch(r'__version__ = "([^"]+)"\n', text)
    if found is None:
        raise SystemExit(f'a _version.py must be one line, __version__ = "...", got {text!r}')
    return found[1]


def distribution_in(requirement: str) -> str:
    """The normalised name at the start of a requirement such as ``tilevl-core>=0.1,<1``."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    if found is None:
        raise SystemExit(f"a requirement must start with a name, got {requirement!r}")
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file."""
    content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    return content


def _folders(parent: Path) -> list[Path]:
    if not parent.is_dir():
        return []
    return sorted(manifest.parent for manifest in parent.glob("*/pyproject.toml"))
