"""How the checks of torch, of its pair with torch_npu and of the TileVL packages fail, with their remedies."""

from __future__ import annotations

from .machine import Machine


def test_torch_that_is_too_old_is_named_with_the_range(machine: Machine) -> None:
    machine.torch("2.9.1")
    check = machine.diagnose("cpu")["by_name"]["torch"]
    assert (check["state"], check["evidence"]) == ("failed", "torch 2.9.1, and tilevl-core needs torch>=2.10")
    assert check["remedy"] == "Run pip install 'torch>=2.10'"


def test_torch_that_does_not_import_is_named_with_the_innermost_error(machine: Machine) -> None:
    machine.torch()
    source = (
        "try:\n    raise OSError('libgomp.so.1: broken')\nexcept OSError as e:\n    raise RuntimeError('no') from e"
    )
    (machine.site / "torch" / "__init__.py").write_text(source)
    check = machine.diagnose("cpu")["by_name"]["torch"]
    assert check["evidence"] == "torch is there, but import torch raises OSError: libgomp.so.1: broken"
    assert check["remedy"].startswith("Run pip install --force-reinstall 'torch>=2.10'")


def test_torch_npu_that_is_missing_is_asked_for_in_the_version_of_torch(machine: Machine) -> None:
    machine.torch("2.14.0+cpu")
    check = machine.diagnose("ascend")["by_name"]["torch-npu-installed"]
    assert (check["state"], check["evidence"]) == ("failed", "torch_npu is not installed")
    assert check["remedy"] == "Run pip install 'torch-npu==2.14.0.*'"


def test_torch_npu_for_another_torch_names_both_ways_out(machine: Machine) -> None:
    machine.torch("2.13.0+cpu")
    machine.torch_npu("2.14.0")
    report = machine.diagnose("ascend")
    check = report["by_name"]["torch-npu-version"]
    assert report["status"] == 1
    assert check["evidence"] == "torch-npu 2.14.0 is for torch==2.14.0.*, but torch is 2.13.0+cpu"
    assert "pip install 'torch-npu==2.13.0.*' for the torch that is here" in check["remedy"]
    assert "pip install 'torch==2.14.0.*' for the torch_npu that is here" in check["remedy"]


def test_an_op_that_asks_for_another_core_is_named_and_upgraded_with_it(machine: Machine) -> None:
    machine.torch()
    machine.distribution(
        "tilevl-rope", "2.0.0", requires=["tilevl-core>=7,<8"], entry_points={"tilevl.ops": ["rope = x"]}
    )
    machine.distribution(
        "tilevl-fine", "1.0.0", requires=["tilevl-core>=0.1"], entry_points={"tilevl.ops": ["fine = x"]}
    )
    report = machine.diagnose("cpu")
    check = report["by_name"]["tilevl-packages"]
    assert report["status"] == 1
    assert "tilevl-rope 2.0.0 needs tilevl-core" in check["evidence"]
    assert "tilevl-fine" not in check["evidence"]
    assert check["remedy"].startswith("Run pip install --upgrade tilevl-core tilevl-rope, in one command")
    assert {p["name"]: (p["fits"], p["ops"]) for p in report["packages"]} == {
        "tilevl-core": (True, []),
        "tilevl-fine": (True, ["fine"]),
        "tilevl-rope": (False, ["rope"]),
    }


def test_without_any_op_the_packages_only_warn(machine: Machine) -> None:
    machine.torch()
    report = machine.diagnose("cpu")
    check = report["by_name"]["tilevl-packages"]
    assert (report["status"], check["state"]) == (0, "warning")
    assert check["remedy"].startswith("Install the ops that you use")
