"""Packages side by side: any order, one removed, editable and normal mixed, one alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tree

from .conftest import Installation

OPS = tree.ops()
FIRST, SECOND = OPS[0], OPS[1]
Make = Callable[..., Installation]


def works(made: Installation, op: tree.Package) -> bool:
    done = made.run("-m", f"tilevl.{op.name}")
    assert done.returncode in (0, 1), done.stderr
    return done.returncode == 0 and f"{op.distribution} {op.version}" in done.stdout


@pytest.mark.parametrize("order", [(FIRST, SECOND), (SECOND, FIRST)], ids=["first_first", "second_first"])
def test_two_ops_work_in_any_order_of_installation(order: tuple[tree.Package, ...], installation: Make) -> None:
    made = installation(*(op.distribution for op in order))
    assert works(made, FIRST) and works(made, SECOND)


def test_one_op_alone_brings_the_core_and_no_other_op(installation: Make) -> None:
    made = installation(FIRST.distribution)
    listed = made.pip("list", "--format=freeze").stdout.splitlines()
    found = {line.partition("==")[0] for line in listed if line.startswith("tilevl")}
    assert {name.replace("_", "-") for name in found} == {"tilevl-core", FIRST.distribution}
    assert works(made, FIRST)
    done = made.run("-c", f"import tilevl.{SECOND.name}")
    assert f"No module named 'tilevl.{SECOND.name}'" in done.stderr


@pytest.mark.parametrize("removed", [FIRST, SECOND], ids=["first", "second"])
def test_removing_one_op_leaves_the_others_working(removed: tree.Package, installation: Make) -> None:
    made = installation(FIRST.distribution, SECOND.distribution)
    assert made.pip("uninstall", "--yes", removed.distribution).returncode == 0
    kept = SECOND if removed is FIRST else FIRST
    assert works(made, kept)
    assert made.run("-c", f"import tilevl.{removed.name}").returncode != 0


@pytest.mark.parametrize("editable", [["core"], [FIRST.name], ["core", FIRST.name]], ids=["core", "op", "core_and_op"])
def test_editable_and_normal_installations_mix(editable: list[str], installation: Make) -> None:
    made = installation()
    folders = [argument for name in editable for argument in ("--editable", str(tree.find(name).folder))]
    done = made.install("--no-build-isolation", *folders, FIRST.distribution, SECOND.distribution)
    assert done.returncode == 0, done.stderr
    assert works(made, FIRST) and works(made, SECOND)
    where = made.run("-c", f"import tilevl.{FIRST.name} as op; print(op.__file__)").stdout
    assert (str(FIRST.source) in where) == (FIRST.name in editable)


def test_all_packages_together_register_all_ops(installation: Make) -> None:
    # An integration would bring the library that it is for, which no wheelhouse here holds.
    made = installation(*(package.distribution for package in tree.packages() if not package.is_integration))
    imports = "; ".join(f"import tilevl.{op.name}" for op in OPS)
    names = [op.name for op in OPS]
    done = made.run(
        "-W", "error", "-c", f"{imports}; import torch; print(all(hasattr(torch.ops.tilevl, n) for n in {names}))"
    )
    assert done.stdout == "True\n", done.stderr
