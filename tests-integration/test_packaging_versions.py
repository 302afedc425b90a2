"""Independent versions: pip pairs what fits, refuses what doesn't, and a forced pair is an error at import."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import tree
import wheels

from .conftest import Installation

OPS = tree.ops()
OP, OTHER = OPS[0], OPS[1]
CORE = tree.find("core")
Make = Callable[..., Installation]


def version_of(package: tree.Package, version: str, core_range: str, folder: Path) -> tree.Package:
    """A copy of a package at another version, and an op's with another range of the core."""
    copy = Path(shutil.copytree(package.folder, folder / f"{package.name}-{version}"))
    made = tree.Package(package.name, copy, is_op=package.is_op)
    made.version_file.write_text(f'__version__ = "{version}"\n', encoding="utf-8")
    manifest = copy / "pyproject.toml"
    text = manifest.read_text(encoding="utf-8")
    changed = re.sub(r'"tilevl-core>=[^"]*"', f'"tilevl-core{core_range}"', text)
    assert not package.is_op or changed != text
    manifest.write_text(changed, encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three versions of the core, two of one op, one of another: as a package index would offer them."""
    out = tmp_path_factory.mktemp("house")
    versions = [(CORE, "0.7.0", ""), (CORE, "0.8.0", ""), (CORE, "1.0.0", "")]
    versions += [(OP, "0.7.0", ">=0.7,<1.0.0"), (OP, "0.8.0", ">=0.8,<1.0.0"), (OTHER, "0.7.0", ">=0.7,<1.0.0")]
    for number, (package, version, core_range) in enumerate(versions):
        made = version_of(package, version, core_range, tmp_path_factory.mktemp("source"))
        for path in wheels.build(made, out / str(number), "wheel"):
            shutil.move(path, out / path.name)
    return out


def resolved(made: Installation, *wishes: str) -> dict[str, str] | None:
    """What pip would install; None where it finds no set that fits."""
    done = made.install("--dry-run", "--quiet", "--report", "-", *wishes)
    if done.returncode:
        assert "conflict" in done.stderr, done.stderr
        return None
    report = json.loads(done.stdout)
    return {item["metadata"]["name"]: item["metadata"]["version"] for item in report["install"]}


def test_an_op_brings_the_newest_core_of_its_major_version(house: Path, installation: Make) -> None:
    made = installation(house=house)
    assert resolved(made, OP.distribution) == {OP.distribution: "0.8.0", CORE.distribution: "0.8.0"}
    assert resolved(made, f"{OP.distribution}==0.7.*") == {OP.distribution: "0.7.0", CORE.distribution: "0.8.0"}


@pytest.mark.parametrize(
    ("op", "core", "fits"),
    [
        ("0.7.0", "0.7.0", True),
        ("0.7.0", "0.8.0", True),
        ("0.8.0", "0.8.0", True),
        ("0.8.0", "0.7.0", False),
        ("0.7.0", "1.0.0", False),
        ("0.8.0", "1.0.0", False),
    ],
)
def test_a_pair_that_fits_installs_and_another_is_refused(
    op: str, core: str, fits: bool, house: Path, installation: Make
) -> None:
    found = resolved(installation(house=house), f"{OP.distribution}=={op}", f"{CORE.distribution}=={core}")
    assert found == ({OP.distribution: op, CORE.distribution: core} if fits else None)


def test_one_op_ahead_of_the_others_shares_their_core_and_works(house: Path, installation: Make) -> None:
    made = installation(f"{OP.distribution}==0.8.0", f"{OTHER.distribution}==0.7.0", house=house)
    for op, version in ((OP, "0.8.0"), (OTHER, "0.7.0")):
        done = made.run("-m", f"tilevl.{op.name}")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"{op.distribution} {version}\ntilevl-core 0.8.0\n")


def test_an_upgrade_of_one_op_leaves_the_other_alone(house: Path, installation: Make) -> None:
    made = installation(f"{OP.distribution}==0.7.0", f"{OTHER.distribution}==0.7.0", house=house)
    assert resolved(made, "--upgrade", OP.distribution) == {OP.distribution: "0.8.0"}


def test_a_pair_forced_together_says_at_import_what_to_install(house: Path, installation: Make) -> None:
    made = installation(f"{CORE.distribution}==0.7.0", house=house)
    assert made.install("--no-deps", f"{OP.distribution}==0.8.0").returncode == 0
    done = made.run("-c", f"import tilevl.{OP.name}")
    assert done.returncode == 1
    assert f"RuntimeError: {OP.distribution} needs tilevl-core" in done.stderr
    assert "and tilevl-core 0.7.0 is imported: pip install 'tilevl-core" in done.stderr
