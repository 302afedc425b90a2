"""``python -m tilevl.core.doctor``: what it prints, its JSON, its exit status, and that it always answers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tilevl.core
from tilevl.core import doctor
from tilevl.core.environment.table import ROWS
from tilevl.core.targets import TARGETS

from .machine import Machine

README = Path(__file__).parents[2] / "README.md"
STATES = {"ok", "warning", "failed", "not applicable"}


def test_a_plain_laptop_can_run_the_cpu_target_and_nothing_else(machine: Machine) -> None:
    machine.torch()
    report = machine.diagnose()
    assert report["status"] == 0
    assert report["target"]["requested"] == "auto"
    assert report["target"]["resolved"] == "cpu"
    assert {name for name, verdict in report["targets"].items() if verdict["can_run"]} == {"cpu"}


def test_a_machine_with_all_that_the_npu_needs_can_run_ascend(machine: Machine) -> None:
    machine.npu()
    report = machine.diagnose()
    assert report["target"]["resolved"] == "ascend"
    assert report["status"] == 0, report["targets"]["ascend"]
    assert report["by_name"]["npu-soc"]["evidence"] == "Ascend950PR_9589, dav-3510"
    assert report["by_name"]["cann-version"]["evidence"].startswith("CANN 9.1.0")
    assert report["targets"]["pto"]["failed"] == ["pto-codegen", "pto-assembler"]


def test_a_machine_with_a_pto_codegen_and_assembler_can_run_pto(machine: Machine) -> None:
    machine.npu("ascend", "pto")
    machine.tool("ptoas", "echo 'ptoas 0.54'")
    report = machine.diagnose(TILELANG_DEFAULT_TARGET="pto")
    assert report["target"]["resolved"] == "pto"
    assert report["status"] == 0, report["targets"]["pto"]


def test_a_machine_with_a_gpu_can_run_cuda(machine: Machine) -> None:
    machine.torch("2.13.0+cu130", cuda="13.0", gpus=2)
    machine.tilelang()
    machine.tool("nvcc", "echo 'Cuda compilation tools, release 13.0, V13.0.88'")
    report = machine.diagnose()
    assert report["target"]["resolved"] == "cuda"
    assert report["status"] == 0, report["targets"]["cuda"]
    assert report["by_name"]["gpu"]["evidence"] == "NVIDIA H100 (sm_90), NVIDIA H100 (sm_90)"
    assert report["by_name"]["nvcc"]["evidence"].endswith("nvcc, version 13.0")


@pytest.mark.parametrize("asked", ["cuda", "ascend", "pto"])
def test_the_exit_status_is_1_where_the_target_cannot_run(machine: Machine, asked: str) -> None:
    machine.torch()
    done = machine.doctor("--target", asked)
    assert done.returncode == 1
    assert f"{asked} can't run here" in " ".join(done.stdout.split())


def test_an_unknown_target_is_refused_with_the_valid_ones(machine: Machine) -> None:
    done = machine.python("-m", "tilevl.core.doctor", "--target", "tpu")
    assert done.returncode == 2
    for name in ("auto", *TARGETS):
        assert name in done.stderr


def test_without_torch_it_answers_and_says_how_to_install_it(machine: Machine) -> None:
    report = machine.diagnose()
    assert report["status"] == 1
    torch = report["by_name"]["torch"]
    assert torch["state"] == "failed"
    assert torch["remedy"] == "Run pip install 'torch>=2.10'"


def test_without_packaging_it_answers_and_says_how_to_install_it(machine: Machine) -> None:
    machine.torch()
    (machine.folder / "vendor" / "packaging").unlink()
    report = machine.diagnose()
    assert report["status"] == 1
    assert report["by_name"]["torch"]["remedy"] == "Run pip install packaging"


def test_torch_npu_without_cann_makes_import_torch_fail_and_the_doctor_still_answers(machine: Machine) -> None:
    machine.torch()
    machine.broken_torch_npu(
        "raise ImportError('libhccl.so: cannot open shared object file: No such file or directory')"
    )
    report = machine.diagnose()
    assert report["target"] == {"requested": "auto", "resolved": "ascend", "reason": "torch_npu is installed"}
    torch, torch_npu = report["by_name"]["torch"], report["by_name"]["torch-npu-import"]
    assert torch["state"] == torch_npu["state"] == "failed"
    assert "torch 2.13.0+cpu is fine" in torch["evidence"]
    assert "libhccl.so" in torch_npu["evidence"]
    assert torch_npu["remedy"] == "libhccl.so belongs to CANN, and the loader doesn't find it: do what cann-root says"
    assert "cann-root" in report["targets"]["ascend"]["failed"]


def test_where_autoload_breaks_import_torch_the_cpu_target_cannot_run_and_the_remedy_names_the_variable(
    machine: Machine,
) -> None:
    machine.torch()
    machine.broken_torch_npu(
        "raise OSError('libascendcl.so: cannot open shared object file: No such file or directory')"
    )
    refused = machine.diagnose("cpu")
    assert refused["status"] == 1
    assert "set TORCH_DEVICE_BACKEND_AUTOLOAD=0" in refused["by_name"]["torch"]["remedy"]
    assert machine.diagnose("cpu", TORCH_DEVICE_BACKEND_AUTOLOAD="0")["status"] == 0


def test_an_import_that_prints_does_not_spoil_the_answer(machine: Machine) -> None:
    machine.torch()
    init = machine.site / "torch" / "__init__.py"
    init.write_text("import sys; print('noise'); print('noise', file=sys.stderr)\n" + init.read_text())
    assert machine.diagnose()["by_name"]["torch"]["evidence"] == "torch 2.13.0+cpu"


def test_an_import_that_crashes_python_is_reported_with_the_signal(machine: Machine) -> None:
    machine.torch()
    machine.broken_torch_npu("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    report = machine.diagnose("ascend")
    assert report["status"] == 1
    assert "SIGSEGV" in report["by_name"]["torch-npu-import"]["evidence"]


def test_an_import_that_exits_python_is_reported(machine: Machine) -> None:
    machine.torch()
    machine.broken_torch_npu("import os; print('driver gone', flush=True); os._exit(3)")
    evidence = machine.diagnose("ascend")["by_name"]["torch-npu-import"]["evidence"]
    assert "exit status 3" in evidence
    assert "driver gone" in evidence


def test_a_file_named_torch_in_the_working_directory_is_found_out(machine: Machine) -> None:
    machine.distribution("torch", "2.13.0")
    (machine.home / "torch.py").write_text("answer = 42\n")
    check = machine.diagnose("cpu")["by_name"]["torch"]
    assert check["state"] == "failed"
    assert "no file or folder named torch lies in the working directory" in check["remedy"]


def test_the_checks_leave_nothing_in_the_home_folder(machine: Machine) -> None:
    machine.npu()
    machine.doctor()
    assert list(machine.home.iterdir()) == []


def test_json_has_the_documented_keys(machine: Machine) -> None:
    machine.torch()
    machine.distribution(
        "tilevl-rope", "0.3.0", requires=["tilevl-core>=0.1,<1"], entry_points={"tilevl.ops": ["rope = tilevl.rope.op"]}
    )
    report = json.loads(machine.doctor("--json").stdout)
    documented = documented_schema()
    assert flattened(report) == documented
    assert (report["schema"], report["schema_version"]) == (doctor.SCHEMA, doctor.SCHEMA_VERSION)
    assert [check["name"] for check in report["checks"]] == [row.name for row in ROWS]
    assert {check["state"] for check in report["checks"]} <= STATES
    assert all(bool(check["remedy"]) == (check["state"] in ("warning", "failed")) for check in report["checks"])


def documented_schema() -> set[str]:
    """The keys of the README's table of the JSON, as dotted paths."""
    text = README.read_text(encoding="utf-8")
    section = text.partition("### JSON")[2].partition("\n### ")[0]
    assert f"version {doctor.SCHEMA_VERSION}" in section
    return set(re.findall(r"^\| `([\w.\[\]{}]+)` \|", section, flags=re.MULTILINE))


def flattened(value: Any, path: str = "") -> set[str]:
    """The paths of all leaves; ``[]`` for the items of a list, ``{}`` for keys that are names of targets."""
    if isinstance(value, dict):
        by_target = set(value) == set(TARGETS)
        pairs = [(f"{path}{{}}" if by_target else f"{path}.{key}".lstrip("."), item) for key, item in value.items()]
        return set().union(*(flattened(item, name) for name, item in pairs))
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return set().union(*(flattened(item, f"{path}[]") for item in value))
    return {path}


def test_the_readme_lists_every_check_in_order_with_its_targets() -> None:
    section = README.read_text(encoding="utf-8").partition("### Checks")[2].partition("\n### ")[0]
    listed = re.findall(r"^\| `([\w-]+)` \| ([\w, ]+) \|", section, flags=re.MULTILINE)
    assert listed == [(row.name, "all" if len(row.targets) == len(TARGETS) else ", ".join(row.targets)) for row in ROWS]


def test_checks_that_the_target_does_not_need_are_not_applicable_but_keep_their_evidence(machine: Machine) -> None:
    machine.torch()
    report = machine.diagnose("cpu")
    for check in report["checks"]:
        if "cpu" not in check["needed_by"]:
            assert check["state"] == "not applicable"
            assert check["evidence"]
            assert not check["remedy"]
    assert report["by_name"]["tilelang"]["evidence"] == "TileLang is not installed"


def test_the_table_shows_every_failed_check_with_its_remedy_below(machine: Machine) -> None:
    machine.torch()
    report = machine.diagnose("pto")
    shown = " ".join(machine.doctor("--target", "pto", COLUMNS="90").stdout.split())
    for check in report["checks"]:
        if check["state"] == "failed":
            assert f"FAILED {check['name']} {check['evidence']} -> {check['remedy']}" in shown


@pytest.mark.parametrize("columns", ["40", "80", "300"])
def test_the_table_keeps_to_the_terminal_and_never_breaks_a_word(machine: Machine, columns: str) -> None:
    machine.torch()
    lines = machine.doctor("--target", "pto", COLUMNS=columns).stdout.splitlines()
    checks = machine.diagnose("pto")["checks"]
    words = {word for check in checks for word in f"{check['remedy']} {check['evidence']}".split()}
    printed = {word for line in lines for word in line.split()}
    assert words <= printed
    longest = max(len(word) for word in words)
    assert max(len(line) for line in lines) <= max(min(int(columns), 120), 36 + 40, 36 + longest)


def test_a_path_that_the_terminal_cannot_show_is_escaped(machine: Machine) -> None:
    machine.torch()
    report = machine.doctor(
        "--target", "ascend", PYTHONIOENCODING="ascii", ASCEND_HOME_PATH=str(machine.folder / "Größe"), PYTHONUTF8="0"
    )
    assert "Gr\\xf6\\xdfe" in report.stdout


def test_the_doctor_and_the_environment_package_import_nothing_heavy() -> None:
    code = (
        "import sys; before = set(sys.modules); import tilevl.core.doctor, tilevl.core.environment; "
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "sys.exit(', '.join(sorted(new - set(sys.stdlib_module_names) - {'tilevl'})) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_it_runs_as_a_module(machine: Machine) -> None:
    machine.torch()
    done = machine.python("-m", "tilevl.core.doctor", "--target", "cpu", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["can_run"] is True


def test_the_doctor_reports_its_own_version(machine: Machine) -> None:
    assert json.loads(machine.doctor("--json").stdout)["core_version"] == tilevl.core.__version__
    assert machine.doctor().stdout.startswith(f"tilevl-core {tilevl.core.__version__}, Python ")
