"""What the wheels and sdists hold."""

from __future__ import annotations

import shutil
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

import pytest
import tree
import wheels

PACKAGES = {package.name: package for package in tree.packages()}


def wheel_of(name: str, house: Path) -> Path:
    return next(path for path in wheels.files_of(PACKAGES[name], house) if path.suffix == ".whl")


def sdist_of(name: str, house: Path) -> Path:
    return next(path for path in wheels.files_of(PACKAGES[name], house) if path.suffix == ".gz")


@pytest.mark.parametrize("name", PACKAGES)
def test_a_wheel_is_complete_and_keeps_to_its_folder(name: str, wheelhouse: Path) -> None:
    wheel = wheel_of(name, wheelhouse)
    assert wheels.problems(wheel, PACKAGES[name]) == []
    about = wheels.metadata(wheel)
    assert about["Summary"] and about["Keywords"] and about["Author"]
    assert about["Description-Content-Type"] == "text/markdown"
    assert "Typing :: Typed" in about.get_all("Classifier", [])


def test_no_path_is_in_two_wheels(wheelhouse: Path) -> None:
    paths: Counter[str] = Counter()
    for name in PACKAGES:
        with zipfile.ZipFile(wheel_of(name, wheelhouse)) as archive:
            paths.update(archive.namelist())
    assert [path for path, count in paths.items() if count > 1] == []


@pytest.mark.parametrize("name", PACKAGES)
def test_an_sdist_builds_the_same_wheel_on_its_own(name: str, wheelhouse: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist_of(name, wheelhouse)) as archive:
        members = [member for member in archive.getmembers() if member.isfile()]
        for member in members:
            assert ".." not in Path(member.name).parts and not Path(member.name).is_absolute()
            content = archive.extractfile(member)
            assert content is not None
            target = tmp_path / "unpacked" / member.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.read())
    (folder,) = (tmp_path / "unpacked").iterdir()
    alone = tree.Package(name, folder, is_op=PACKAGES[name].is_op)
    (rebuilt,) = wheels.build(alone, tmp_path / "out", "wheel")
    assert wheels.problems(rebuilt, PACKAGES[name]) == []
    with zipfile.ZipFile(rebuilt) as new, zipfile.ZipFile(wheel_of(name, wheelhouse)) as old:
        assert {i.filename: i.CRC for i in new.infolist()} == {i.filename: i.CRC for i in old.infolist()}
    assert (folder / "CHANGELOG.md").is_file() and (folder / "tests").is_dir()


def spoiled(wheel: Path, folder: Path, *, add: str = "", drop: str = "", text: tuple[str, str] = ("", "")) -> Path:
    copy = folder / wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(copy, "w") as new:
        for info in old.infolist():
            if not drop or not info.filename.endswith(drop):
                content = old.read(info)
                if info.filename.endswith("METADATA"):
                    content = content.replace(text[0].encode(), text[1].encode()) if text[0] else content
                new.writestr(info, content)
        if add:
            new.writestr(add, "")
    return copy


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        ({"add": "tilevl/__init__.py"}, "holds tilevl/__init__.py, outside"),
        ({"add": "tilevl/other/op.py"}, "holds tilevl/other/op.py, outside"),
        ({"add": "tests/test_op.py"}, "holds tests/test_op.py, outside"),
        ({"add": "tilevl/core/__pycache__/cache.cpython-311.pyc"}, "which is compiled"),
        ({"drop": "py.typed"}, "lacks tilevl/core/py.typed"),
        ({"drop": "licenses/LICENSE"}, "lacks the LICENSE of the tree"),
        ({"text": ("Requires-Dist: packaging>=", "Requires-Dist: packaging==")}, "which is no range"),
        ({"text": ("Requires-Python: >=3.10", "Requires-Python: >=3.12")}, "says Requires-Python: >=3.12"),
        ({"text": ("License-Expression: Apache-2.0", "License-Expression: MIT")}, "says License-Expression: MIT"),
    ],
)
def test_a_spoiled_wheel_is_found(spoil: dict[str, str], problem: str, wheelhouse: Path, tmp_path: Path) -> None:
    wheel = spoiled(wheel_of("core", wheelhouse), tmp_path, **spoil)
    assert any(problem in found for found in wheels.problems(wheel, PACKAGES["core"]))


def test_a_build_replaces_what_was_built_of_that_package_alone(wheelhouse: Path, tmp_path: Path) -> None:
    house = Path(shutil.copytree(wheelhouse, tmp_path / "house"))
    (house / "tilevl_core-0.0.1-py3-none-any.whl").touch()
    others = {path.name for path in house.iterdir() if not path.name.startswith("tilevl_core-")}
    built = wheels.build(PACKAGES["core"], house)
    assert {path.name for path in house.iterdir()} == others | {path.name for path in built}
    assert len(built) == 2
