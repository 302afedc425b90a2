from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import tree

from .conftest import Run

OP, OTHER = (op.name for op in tree.ops()[:2])
Spoil = Callable[[Path], None]


def replaced(name: str, old: str, new: str) -> Spoil:
    def spoil(root: Path) -> None:
        path = root / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    return spoil


def written(name: str, text: str) -> Spoil:
    def spoil(root: Path) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")

    return spoil


def targets(*names: str) -> Spoil:
    def spoil(root: Path) -> None:
        path = root / MANIFEST
        lines = path.read_text(encoding="utf-8").splitlines()
        lines = [f"targets = {list(names)}" if line.startswith("targets = ") else line for line in lines]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    return spoil


def removed(name: str) -> Spoil:
    return lambda root: (root / name).unlink()


PACKAGE = f"packages/{OP}"
SOURCE = f"{PACKAGE}/src/tilevl/{OP}"
MANIFEST = f"{PACKAGE}/pyproject.toml"
CORE_RANGE = "tilevl-core>=0.1,<1"

INTEGRATION = "packages/transformers"

SPOILED = {
    "namespace": (written(f"{PACKAGE}/src/tilevl/__init__.py", ""), "tilevl/__init__.py must not be"),
    "namespace_stub": (written("shared/core/src/tilevl/__init__.pyi", ""), "tilevl/__init__.pyi must not be"),
    "licence": (replaced(f"{PACKAGE}/LICENSE", "Apache", "Other"), f"{PACKAGE}/LICENSE differs from LICENSE"),
    "lacks_licence": (removed(f"{PACKAGE}/LICENSE"), f"{PACKAGE} lacks LICENSE"),
    "lacks_api": (removed("shared/core/api.txt"), "shared/core lacks api.txt"),
    "lacks_smoke_test": (removed(f"{SOURCE}/__main__.py"), f"{PACKAGE} lacks __main__.py"),
    "distribution": (replaced(MANIFEST, 'name = "tilevl-', 'name = "tile-'), "project.name must be tilevl-"),
    "entry_point": (replaced(MANIFEST, f"tilevl.{OP}.op", f"tilevl.{OP}.ops"), "needs the entry point tilevl.ops"),
    "second_version": (
        replaced(MANIFEST, 'dynamic = ["version"]', 'version = "0.1.0"'),
        "the version must come from _version.py alone",
    ),
    "two_packages_in_one": (
        written(f"{PACKAGE}/src/tilevl/extra/__init__.py", ""),
        f"src/tilevl must hold {OP} alone",
    ),
    "target_without_kernels": (removed(f"{SOURCE}/kernels/cpu.py"), f"{SOURCE}/kernels has"),
    "kernels_without_target": (targets(), "[tool.tilevl] targets asks for none"),
    "unknown_target": (targets("cpu", "tpu"), "there is no target tpu"),
    "pinned_core": (replaced(MANIFEST, CORE_RANGE, "tilevl-core==0.1.0"), "tilevl-core==0.1.0 must be a range"),
    "core_without_ceiling": (
        replaced(MANIFEST, CORE_RANGE, "tilevl-core>=0.1"),
        "tilevl-core>=0.1 must name the first version that will do and the next major one",
    ),
    "path": (
        replaced(MANIFEST, CORE_RANGE, "tilevl-core @ file:../core"),
        "tilevl-core @ file:../core must be a range",
    ),
    "torch_with_ceiling": (replaced(MANIFEST, '"torch>=2.10"', '"torch>=2.10,<3"'), "must have no upper bound"),
    "op_that_requires_an_op": (
        replaced(MANIFEST, f'"{CORE_RANGE}"', f'"{CORE_RANGE}", "tilevl-{OTHER.replace("_", "-")}>=0.1"'),
        "an op never needs another op",
    ),
    "namespace_of_integrations": (
        written(f"{INTEGRATION}/src/tilevl/integrations/__init__.py", ""),
        "tilevl.integrations is a namespace that all packages share",
    ),
    "two_packages_in_one_integration": (
        written(f"{INTEGRATION}/src/tilevl/integrations/vllm/__init__.py", ""),
        "src/tilevl/integrations must hold transformers alone",
    ),
    "integration_without_smoke_test": (
        removed(f"{INTEGRATION}/src/tilevl/integrations/transformers/__main__.py"),
        f"{INTEGRATION} lacks __main__.py",
    ),
    "op_without_ceiling": (
        replaced(f"{INTEGRATION}/pyproject.toml", "tilevl-attn-rel-h-rel-w>=0.1,<1", "tilevl-attn-rel-h-rel-w>=0.1"),
        "tilevl-attn-rel-h-rel-w>=0.1 must name the first version that will do and the next major one",
    ),
    "pinned_tool": (replaced("pyproject.toml", '"hatchling"', '"hatchling==1.1"'), "hatchling==1.1 is pinned in"),
    "op_that_imports_an_op": (
        written(f"{SOURCE}/kernels/extra.py", f'"""Extra."""\n\nfrom tilevl.{OTHER} import contract\n'),
        f"kernels/extra.py imports tilevl.{OTHER}",
    ),
    "op_that_imports_an_op_from_the_namespace": (
        written(f"{SOURCE}/kernels/extra.py", f'"""Extra."""\n\nfrom tilevl import {OTHER}\n'),
        f"kernels/extra.py imports tilevl.{OTHER}",
    ),
    "changelog": (
        replaced(f"{PACKAGE}/CHANGELOG.md", "## [Unreleased]", "## Soon"),
        "CHANGELOG.md must have '## [Unreleased]' as its first heading",
    ),
    "long_file": (written("tools/long.py", "x = 1\n" * 401), "tools/long.py has 401 lines"),
    "nameless_file": (written(f"{SOURCE}/utils.py", '"""All."""\n'), "utils.py must be named for its subject"),
    "machine_path": (
        written("demo/notes.md", f"see {'/'.join(['', 'home', 'someone', 'x'])}\n"),
        "demo/notes.md:1 holds a path of one machine",
    ),
    "old_table": (replaced("README.md", "| tests run |", "| guessed |"), "a table is out of date"),
    "no_table": (replaced("README.md", "<!-- table: end -->", ""), "README.md must hold, once"),
}


@pytest.mark.parametrize("name", SPOILED)
def test_a_broken_rule_is_found_and_named(name: str, repository: Path, run_tool: Run) -> None:
    spoil, text = SPOILED[name]
    present = [path.stem for path in (repository / SOURCE / "kernels").glob("[a-z]*.py")]
    targets(*sorted(present))(repository)
    run_tool("table", "--root", str(repository))
    before = run_tool("check_tree", "--root", str(repository)).stderr
    assert text not in before
    spoil(repository)
    done = run_tool("check_tree", "--root", str(repository))
    assert done.returncode == 1
    assert text in done.stderr, done.stderr
