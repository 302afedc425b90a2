"""Every way in which a check fails or warns, with the evidence that it shows and the remedy that it gives."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tilevl.core import cache_directory
from tilevl.core.environment import cann, codegen, gpu, npu, settings, tools
from tilevl.core.environment.check import Check, Scene
from tilevl.core.environment.sight import Broken, TileLangSeen, TorchNpuSeen, TorchSeen
from tilevl.core.environment.table import Row

from .conftest import Machine

BROKEN = Broken("ImportError: no")
VARIABLES = (
    *("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH", "ASCEND_NPU_ARCH", "ASCEND_RT_VISIBLE_DEVICES"),
    *("BISHENG_HOME", "PTOAS_ROOT", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH"),
    *("TILELANG_DEFAULT_TARGET", "TILEVL_CACHE_DIR", "TILELANG_CACHE_DIR", "XDG_CACHE_HOME"),
)


class Seen:
    """What the imports would show."""

    def __init__(self, torch=TorchSeen("2.13.0+cpu"), torch_npu=TorchNpuSeen(broken=BROKEN), tilelang=TileLangSeen()):
        self.seen = {"torch": torch, "torch_npu": torch_npu, "tilelang": tilelang}

    def torch(self) -> TorchSeen:
        return self.seen["torch"]

    def torch_npu(self) -> TorchNpuSeen:
        return self.seen["torch_npu"]

    def tilelang(self) -> TileLangSeen:
        return self.seen["tilelang"]


Ask = Callable[..., Check]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Asks one check on a machine that has nothing: no variables, no programs, no devices."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    for folder in ("bin", "dev", "home"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(npu, "DEVICE_FOLDER", tmp_path / "dev")
    monkeypatch.setattr(cann, "USUAL_ROOTS", (tmp_path / "usual" / "cann",))
    monkeypatch.setattr(gpu, "USUAL_HOME", tmp_path / "usual" / "cuda")
    monkeypatch.setattr(tools, "TIMEOUT", 1.0)

    def ask(check: Callable[[Scene], Check], *, target: str = "ascend", run_tools: bool = True, **seen: object) -> Check:
        return check(Scene(target, Seen(**seen), run_tools))

    return ask


def program(path: Path, script: str = "echo 'clang version 15.0.5'", mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(mode)
    return path


def folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


# CANN


def test_cann_root_says_how_to_install_cann_where_there_is_none(ask: Ask) -> None:
    check = ask(cann.root)
    assert check.state == "failed"
    assert "ASCEND_HOME_PATH and ASCEND_TOOLKIT_HOME are not set" in check.evidence
    assert check.remedy == (
        "Install the CANN toolkit for Ascend 950 and source its set_env.sh in the shell that starts Python; "
        "in a container, start from an image that has it"
    )


def test_cann_root_only_warns_where_torch_npu_imports_all_the_same(ask: Ask) -> None:
    check = ask(cann.root, torch_npu=TorchNpuSeen("2.13.0"))
    assert check.state == "warning"
    assert check.remedy.startswith("Install the CANN toolkit")


@pytest.mark.parametrize("variable", cann.ROOT_VARIABLES)
def test_cann_root_fails_where_a_variable_names_no_folder(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "gone"))
    check = ask(cann.root)
    assert check.state == "failed"
    assert check.evidence == f"{variable} is {tmp_path / 'gone'}, and there is no such folder"
    assert check.remedy.startswith(f"Unset {variable} and let CANN set it: source its set_env.sh")


def test_cann_root_takes_the_usual_folder_without_variables(ask: Ask, tmp_path: Path) -> None:
    root = folder(tmp_path / "usual" / "cann")
    check = ask(cann.root)
    assert (check.state, check.evidence) == ("ok", str(root))


def test_cann_version_warns_without_a_version_file(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_HOME_PATH", str(folder(tmp_path / "cann")))
    check = ask(cann.version)
    assert check.state == "warning"
    assert "its <machine>-linux folder should hold ascend_toolkit_install.info" in check.remedy


@pytest.mark.parametrize(
    ("file", "text", "version"),
    [
        ("aarch64-linux/ascend_toolkit_install.info", "package_name=Ascend-cann-toolkit\nversion=9.1.0\narch=aarch64\n", "9.1.0"),
        ("compiler/version.info", "Version=8.5.0\nversion_dir=8.5.0\n", "8.5.0"),
    ],
)
def test_cann_version_is_read_from_its_files(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, version: str
) -> None:
    path = tmp_path / "cann" / file
    folder(path.parent)
    path.write_text(text)
    monkeypatch.setenv("ASCEND_TOOLKIT_HOME", str(tmp_path / "cann"))
    check = ask(cann.version)
    assert (check.state, check.evidence) == ("ok", f"CANN {version}, by {path}")


def test_cann_environment_names_the_script_to_source_and_what_is_missing(ask: Ask, tmp_path: Path) -> None:
    root = folder(tmp_path / "usual" / "cann")
    (root / "set_env.sh").touch()
    check = ask(cann.environment)
    assert check.state == "failed"
    assert check.evidence == (
        "set_env.sh was not sourced: ASCEND_HOME_PATH, ASCEND_OPP_PATH, CANN's lib64 in LD_LIBRARY_PATH are missing"
    )
    assert check.remedy == f"Source {root / 'set_env.sh'} in the shell that starts Python"


def test_cann_environment_finds_the_script_beside_a_folder_named_latest(ask: Ask, tmp_path: Path, monkeypatch) -> None:
    root = folder(tmp_path / "ascend-toolkit" / "latest")
    (root.parent / "set_env.sh").touch()
    monkeypatch.setenv("ASCEND_HOME_PATH", str(root))
    monkeypatch.setenv("ASCEND_OPP_PATH", str(root / "opp"))
    monkeypatch.setenv("LD_LIBRARY_PATH", "/usr/lib:")
    check = ask(cann.environment)
    assert check.evidence == "set_env.sh was not sourced: CANN's lib64 in LD_LIBRARY_PATH is missing"
    assert check.remedy == f"Source {root.parent / 'set_env.sh'} in the shell that starts Python"


def test_cann_environment_only_warns_where_torch_npu_imports_all_the_same(ask: Ask, tmp_path: Path) -> None:
    folder(tmp_path / "usual" / "cann")
    assert ask(cann.environment, torch_npu=TorchNpuSeen("2.13.0")).state == "warning"


# The compilers


def test_bisheng_fails_where_there_is_none(ask: Ask) -> None:
    check = ask(cann.bisheng)
    assert check.state == "failed"
    assert check.evidence == "the compiler bisheng is neither in BISHENG_HOME/bin nor on PATH"
    assert check.remedy.startswith("It comes with the CANN toolkit: install the toolkit and source its set_env.sh")


@pytest.mark.parametrize("part", cann.COMPILER_FOLDERS)
def test_bisheng_that_cann_holds_but_path_does_not_is_pointed_out(ask: Ask, tmp_path: Path, part: str) -> None:
    root = folder(tmp_path / "usual" / "cann")
    hidden = program(root / part / "bin" / "bisheng")
    check = ask(cann.bisheng)
    assert check.state == "failed"
    assert check.evidence.startswith(f"{hidden} is there, but")
    assert check.remedy.endswith(f"or set BISHENG_HOME={root / part}")


def test_bisheng_of_bisheng_home_wins_over_path(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin" / "bisheng", "exit 1")
    mine = program(tmp_path / "mine" / "bin" / "bisheng")
    monkeypatch.setenv("BISHENG_HOME", str(tmp_path / "mine"))
    check = ask(cann.bisheng)
    assert (check.state, check.evidence) == ("ok", f"{mine}, version 15.0.5")


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo 'cannot execute' >&2; exit 7", "exit status 7: cannot execute"),
        ("kill -KILL $$", "ended by signal SIGKILL"),
        ("sleep 60 & sleep 60", "no answer within 1 s"),
        ("printf '\\377\\376' >&2; exit 2", "exit status 2"),
    ],
)
def test_a_compiler_that_does_not_run_is_reported_with_what_it_did(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, problem: str
) -> None:
    path = program(tmp_path / "bin" / "bisheng", script)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.defpath}")
    check = ask(cann.bisheng)
    assert check.state == "failed"
    assert check.evidence.startswith(f"{path} --version fails, {problem}")
    assert check.remedy.startswith("Reinstall the CANN toolkit for this machine, or take this bisheng off PATH")


def test_a_compiler_whose_interpreter_is_missing_cannot_be_started(ask: Ask, tmp_path: Path) -> None:
    path = tmp_path / "bin" / "bisheng"
    path.write_text("#!/nonexistent/interpreter\n")
    path.chmod(0o755)
    check = ask(cann.bisheng)
    assert check.state == "failed"
    assert "it can't be started" in check.evidence


@pytest.mark.parametrize("hostile", ["folder", "not executable", "dangling link"])
def test_what_is_no_program_on_path_is_passed_over(ask: Ask, tmp_path: Path, hostile: str) -> None:
    place = tmp_path / "bin" / "bisheng"
    if hostile == "folder":
        place.mkdir()
    elif hostile == "not executable":
        program(place, mode=0o644)
    else:
        place.symlink_to(tmp_path / "nowhere")
    assert ask(cann.bisheng).evidence == "the compiler bisheng is neither in BISHENG_HOME/bin nor on PATH"


@pytest.mark.parametrize("path", ["", ":", "relative:also/relative", "/nonexistent"])
def test_a_hostile_path_finds_nothing_and_raises_nothing(ask: Ask, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setenv("PATH", path)
    assert [ask(check).state for check in (cann.bisheng, cann.ld_lld, cann.pto_assembler)] == ["failed"] * 3


def test_a_bisheng_that_is_not_executable_is_named(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = program(tmp_path / "home" / "bin" / "bisheng", mode=0o644)
    monkeypatch.setenv("BISHENG_HOME", str(tmp_path / "home"))
    check = ask(cann.bisheng)
    assert (check.state, check.evidence) == ("failed", f"{path} is not executable")
    assert check.remedy.startswith("Reinstall the CANN toolkit")


def test_compilers_are_not_started_at_run_time(ask: Ask, tmp_path: Path) -> None:
    path = program(tmp_path / "bin" / "bisheng", "exit 1")
    check = ask(cann.bisheng, run_tools=False)
    assert (check.state, check.evidence) == ("ok", str(path))


def test_ld_lld_fails_where_there_is_none(ask: Ask) -> None:
    check = ask(cann.ld_lld)
    assert check.state == "failed"
    assert check.evidence.startswith("the linker ld.lld is neither beside bisheng")
    assert check.remedy.startswith("It comes with the CANN toolkit: install the toolkit and source its set_env.sh")


def test_ld_lld_from_path_may_be_llvms_own(ask: Ask, tmp_path: Path) -> None:
    program(tmp_path / "bin" / "ld.lld", "echo 'LLD 14.0.6 (compatible with GNU linkers)'")
    check = ask(cann.ld_lld)
    assert check.state == "warning"
    assert "a plain LLVM linker can't link Ascend kernels" in check.evidence
    assert check.remedy.endswith("or set BISHENG_HOME")


def test_ld_lld_beside_bisheng_is_canns(ask: Ask, tmp_path: Path) -> None:
    program(tmp_path / "bin" / "bisheng")
    program(tmp_path / "bin" / "ld.lld")
    assert ask(cann.ld_lld).state == "ok"


def test_pto_assembler_fails_where_there_is_none(ask: Ask) -> None:
    check = ask(cann.pto_assembler, target="pto")
    assert check.state == "failed"
    assert check.evidence == "the PTO assembler ptoas is not on PATH, and PTOAS_ROOT is not set"
    assert check.remedy == (
        "Install PTOAS and set PTOAS_ROOT to its folder, or set TILELANG_DEFAULT_TARGET=ascend, which needs none"
    )


def test_pto_assembler_of_a_wrong_root_is_not_replaced_by_one_on_path(ask: Ask, tmp_path: Path, monkeypatch) -> None:
    program(tmp_path / "bin" / "ptoas")
    monkeypatch.setenv("PTOAS_ROOT", str(tmp_path / "home"))
    check = ask(cann.pto_assembler, target="pto")
    assert (check.state, check.evidence) == ("failed", f"the PTO assembler ptoas is not in PTOAS_ROOT, {tmp_path / 'home'}")


@pytest.mark.parametrize("part", ["ptoas", "ptoas.sh", "bin/ptoas"])
def test_pto_assembler_is_found_in_its_root(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    program(tmp_path / "root" / part, "echo 'ptoas version 0.54'")
    monkeypatch.setenv("PTOAS_ROOT", str(tmp_path / "root"))
    assert ask(cann.pto_assembler, target="pto").evidence.endswith(f"{part}, version 0.54")


# The NPU


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ("ImportError: libhccl.so: cannot open", "libhccl.so belongs to CANN, and the loader doesn't find it: do what cann-root"),
        ("ImportError: /x/libascend_hal.so: cannot open", "libascend_hal.so belongs to the Ascend driver: install it"),
        ("OSError: libtorch_cpu.so: cannot open", "libtorch_cpu.so belongs to torch: see torch-npu-version"),
        ("ImportError: /x/_C.so: undefined symbol: _ZN3c10", "torch_npu, torch and CANN don't fit together"),
        ("ModuleNotFoundError: No module named 'yaml'", "Run pip install --force-reinstall torch-npu"),
        ("AttributeError: module 'torch' has no attribute 'x'", "Run python -c 'import torch_npu' for the whole error"),
    ],
)
def test_torch_npu_import_gives_the_remedy_for_what_it_raised(machine: Machine, message: str, remedy: str) -> None:
    error, _, text = message.partition(": ")
    text = text.replace("cannot open", "cannot open shared object file: No such file or directory")
    machine.torch()
    machine.broken_torch_npu(f"raise {error}({text!r})")
    check = machine.diagnose("ascend")["by_name"]["torch-npu-import"]
    assert check["state"] == "failed"
    assert check["evidence"] == f"import torch_npu raises {error}: {text}"
    assert check["remedy"].startswith(remedy)


def test_torch_npu_import_says_which_script_to_source_where_cann_is_there(ask: Ask, tmp_path: Path, monkeypatch) -> None:
    (folder(tmp_path / "usual" / "cann") / "set_env.sh").touch()
    monkeypatch.setattr("tilevl.core.environment.sight.importable", lambda module: True)
    broken = Broken("RuntimeError: x", "ImportError: libhccl.so: ...", missing_library="libhccl.so")
    check = ask(npu.torch_npu_import, torch_npu=TorchNpuSeen(broken=broken))
    assert check.evidence == "import torch_npu raises ImportError: libhccl.so: ..."
    assert check.remedy.endswith(f"source {tmp_path / 'usual' / 'cann' / 'set_env.sh'} in the shell that starts Python")


def test_npu_visible_fails_without_a_device(ask: Ask, tmp_path: Path) -> None:
    check = ask(npu.visible)
    assert (check.state, check.evidence) == ("failed", f"no NPU: {tmp_path / 'dev'} has no davinci device")
    assert "npu-smi info" in check.remedy
    assert "--device /dev/davinci0" in check.remedy


def test_npu_visible_does_not_take_the_manager_for_a_device(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "dev" / "davinci_manager").touch()
    assert ask(npu.visible).state == "failed"


def test_npu_visible_warns_where_a_device_is_there_but_torch_npu_is_not(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "dev" / "davinci0").touch()
    check = ask(npu.visible)
    assert check.state == "warning"
    assert check.evidence.endswith("has davinci0; torch_npu can't be asked yet")
    assert "torch-npu-installed" in check.remedy


def test_npu_visible_points_at_the_variable_that_hides_the_npus(ask: Ask, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "dev" / "davinci0").touch()
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "7")
    check = ask(npu.visible, torch_npu=TorchNpuSeen("2.13.0"))
    assert check.state == "failed"
    assert "ASCEND_RT_VISIBLE_DEVICES='7'" in check.evidence
    assert check.remedy.startswith("Unset ASCEND_RT_VISIBLE_DEVICES")


@pytest.mark.parametrize(
    ("error", "evidence"),
    [("", "but torch_npu sees none"), ("RuntimeError: drvErr=87", "and torch_npu says RuntimeError: drvErr=87")],
)
def test_npu_visible_sends_to_the_driver_where_torch_npu_sees_no_device(
    ask: Ask, tmp_path: Path, error: str, evidence: str
) -> None:
    (tmp_path / "dev" / "davinci3").touch()
    check = ask(npu.visible, torch_npu=TorchNpuSeen("2.13.0", device_error=error))
    assert check.state == "failed"
    assert check.evidence.endswith(evidence)
    assert check.remedy.startswith("Run npu-smi info")


@pytest.mark.parametrize("device", ["Ascend910B3", "Ascend310P3", "Ascend910_9392", "Ascend95"])
def test_npu_soc_refuses_other_npus(ask: Ask, device: str) -> None:
    check = ask(npu.soc, torch_npu=TorchNpuSeen("2.13.0", 1, device))
    assert (check.state, check.evidence) == ("failed", f"{device} is not supported")
    assert check.remedy == "The kernels are for Ascend 950PR and 950DT (dav-3510): use such an NPU, or the CPU"


@pytest.mark.parametrize("device", ["Ascend950PR_9589", "Ascend950DT_9582", "Ascend910_9589", "Ascend910_95A3"])
def test_npu_soc_accepts_the_950_by_its_new_and_old_names(ask: Ask, device: str) -> None:
    assert ask(npu.soc, torch_npu=TorchNpuSeen("2.13.0", 1, device)).state == "ok"


def test_npu_soc_refuses_an_architecture_for_another_npu(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_NPU_ARCH", "dav-2201")
    check = ask(npu.soc, torch_npu=TorchNpuSeen("2.13.0", 1, "Ascend950PR_9589"))
    assert check.state == "failed"
    assert "ASCEND_NPU_ARCH=dav-2201" in check.evidence
    assert check.remedy == "Unset ASCEND_NPU_ARCH"


# TileLang


def test_tilelang_says_how_to_install_it(machine: Machine) -> None:
    machine.torch()
    by_name = machine.diagnose("ascend")["by_name"]
    assert by_name["tilelang"]["evidence"] == "TileLang is not installed"
    assert by_name["tilelang"]["remedy"] == "Run pip install 'tilevl-core[kernels]'"
    assert by_name["ascend-codegen"]["state"] == "not applicable"


def test_tilelang_that_is_too_old_is_named_with_the_range(machine: Machine) -> None:
    machine.torch()
    machine.tilelang("0.1.9")
    check = machine.diagnose("ascend")["by_name"]["tilelang"]
    assert check["evidence"] == "TileLang 0.1.9, and the kernels need tilelang>=0.1.15"
    assert check["remedy"] == "Run pip install 'tilevl-core[kernels]'"


def test_tilelang_that_does_not_import_is_named_with_the_error(machine: Machine) -> None:
    machine.torch()
    machine.tilelang()
    (machine.site / "tilelang" / "__init__.py").write_text("raise OSError('libtvm.so: cannot open shared object file')")
    check = machine.diagnose("ascend")["by_name"]["tilelang"]
    assert check["evidence"].endswith("import tilelang raises OSError: libtvm.so: cannot open shared object file")
    assert check["remedy"].startswith("If import torch fails too, see to that first; else run pip install")


def test_the_code_generators_are_asked_of_the_registry_not_of_the_version(machine: Machine) -> None:
    machine.torch()
    machine.tilelang("99.0", codegens=["cuda"])
    by_name = machine.diagnose("pto")["by_name"]
    assert by_name["tilelang"]["state"] == "ok"
    assert by_name["ascend-codegen"]["evidence"] == "TileLang's registry has no code generator 'ascend', only cuda"
    assert by_name["ascend-codegen"]["remedy"].startswith("Install a TileLang for Linux with the Ascend backend")
    assert by_name["pto-codegen"]["remedy"] == (
        "Build TileLang from a source that has the PTO backend, or set TILELANG_DEFAULT_TARGET=ascend"
    )


@pytest.mark.parametrize(("codegens", "declared"), [(["ascend"], ["ascend", "pto"]), (["ascend", "pto"], ["ascend"])])
def test_a_code_generator_counts_only_where_it_is_declared_and_in_the_library(
    machine: Machine, codegens: list[str], declared: list[str]
) -> None:
    machine.torch()
    machine.tilelang(codegens=codegens, declared=declared)
    by_name = machine.diagnose("pto")["by_name"]
    assert (by_name["ascend-codegen"]["state"], by_name["pto-codegen"]["state"]) == ("ok", "failed")


def test_a_tilelang_with_another_registry_is_told_apart(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilevl.core.environment.sight.importable", lambda module: True)
    seen = TileLangSeen("0.1.6", "/opt/tilelang", registry_error="ModuleNotFoundError: No module named 'tilelang.backend'")
    check = ask(codegen.ascend, tilelang=seen)
    assert check.state == "failed"
    assert "tile-ai/tilelang-ascend, which have the same pip name" in check.evidence
    assert check.remedy.startswith("Install a TileLang for Linux")


def test_cuda_codegen_gives_its_own_remedy(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilevl.core.environment.sight.importable", lambda module: True)
    check = ask(codegen.cuda, target="cuda", tilelang=TileLangSeen("0.1.15", "/opt/tilelang", ["ascend"]))
    assert check.remedy == "Install a TileLang built with CUDA: pip install 'tilevl-core[kernels]' --force-reinstall"


# The GPU


def test_gpu_fails_with_a_torch_built_without_cuda(ask: Ask) -> None:
    check = ask(gpu.gpu, target="cuda")
    assert (check.state, check.evidence) == ("failed", "torch 2.13.0+cpu is built without CUDA")
    assert check.remedy.startswith("Install a CUDA build of torch")


def test_gpu_fails_where_none_is_seen_and_names_the_variable_that_may_hide_it(ask: Ask, monkeypatch) -> None:
    check = ask(gpu.gpu, target="cuda", torch=TorchSeen("2.13.0", "13.0"))
    assert (check.state, check.evidence) == ("failed", "torch 2.13.0 sees no GPU")
    assert check.remedy.startswith("Run nvidia-smi: if it lists a GPU, see to CUDA_VISIBLE_DEVICES")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert ask(gpu.gpu, target="cuda", torch=TorchSeen("2.13.0", "13.0")).evidence.endswith("CUDA_VISIBLE_DEVICES=''")


def test_gpu_fails_with_the_drivers_error(ask: Ask) -> None:
    seen = TorchSeen("2.13.0", "13.0", gpu_error="RuntimeError: driver too old")
    check = ask(gpu.gpu, target="cuda", torch=seen)
    assert (check.state, check.evidence) == ("failed", "asking torch for GPUs fails with RuntimeError: driver too old")
    assert check.remedy == "Run nvidia-smi: the driver must be there, and new enough for torch's CUDA 13.0"


def test_gpu_warns_of_an_architecture_that_is_not_tested(ask: Ask) -> None:
    check = ask(gpu.gpu, target="cuda", torch=TorchSeen("2.13.0", "13.0", [("NVIDIA A100", 8, 0)]))
    assert (check.state, check.evidence) == ("warning", "NVIDIA A100 (sm_80)")
    assert check.remedy.endswith("tested on sm_90 only")


def test_nvcc_fails_where_there_is_none(ask: Ask) -> None:
    check = ask(gpu.nvcc, target="cuda")
    assert check.state == "failed"
    assert check.remedy.startswith("Install the CUDA toolkit, or run pip install 'tilelang[nvcc]'; set CUDA_HOME")


def test_nvcc_of_cuda_home_that_fails_is_named(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = program(tmp_path / "cuda" / "bin" / "nvcc", "echo 'Illegal instruction'; exit 132")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    check = ask(gpu.nvcc, target="cuda")
    assert check.evidence == f"{path} --version fails, exit status 132: Illegal instruction"
    assert check.remedy.endswith("set CUDA_HOME so that it is found before the broken one")


def test_nvcc_is_found_in_its_usual_folder(ask: Ask, tmp_path: Path) -> None:
    program(tmp_path / "usual" / "cuda" / "bin" / "nvcc", "echo 'Cuda compilation tools, release 12.8, V12.8.93'")
    assert ask(gpu.nvcc, target="cuda").evidence.endswith("nvcc, version 12.8")


# torch, its pairs, and the TileVL packages


def test_torch_that_is_too_old_is_named_with_the_range(machine: Machine) -> None:
    machine.torch("2.9.1")
    check = machine.diagnose("cpu")["by_name"]["torch"]
    assert (check["state"], check["evidence"]) == ("failed", "torch 2.9.1, and tilevl-core needs torch>=2.10")
    assert check["remedy"] == "Run pip install 'torch>=2.10'"


def test_torch_that_does_not_import_is_named_with_the_innermost_error(machine: Machine) -> None:
    machine.torch()
    source = "try:\n    raise OSError('libgomp.so.1: broken')\nexcept OSError as e:\n    raise RuntimeError('no') from e"
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
    machine.distribution("tilevl-rope", "2.0.0", requires=["tilevl-core>=7,<8"], entry_points={"tilevl.ops": ["rope = x"]})
    machine.distribution("tilevl-fine", "1.0.0", requires=["tilevl-core>=0.1"], entry_points={"tilevl.ops": ["fine = x"]})
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


# Settings


@pytest.mark.parametrize("value", ["cuda", "", "Ascend", "ascend "])
def test_default_target_lists_the_valid_values(ask: Ask, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", value)
    check = ask(settings.default_target)
    assert check.state == "failed"
    assert repr(value) in check.evidence
    assert check.remedy == "Unset TILELANG_DEFAULT_TARGET, or set it to one of auto, ascend, pto"


def test_default_target_warns_where_it_chooses_another_target(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "pto")
    check = ask(settings.default_target, target="ascend")
    assert check.state == "warning"
    assert check.remedy == "Set TILELANG_DEFAULT_TARGET=ascend to run ascend"
    assert ask(settings.default_target, target="pto").state == "ok"


def test_cache_directory_warns_where_it_cannot_be_written(ask: Ask, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(cache_directory.VARIABLE, str(tmp_path / "file" / "cache"))
    check = ask(settings.cache_folder)
    assert check.state == "warning"
    assert f"{tmp_path / 'file'} is not a folder" in check.evidence
    assert check.remedy == "Make it a folder that this user may write, or set TILEVL_CACHE_DIR to one"


# What holds for all checks


def test_a_check_that_breaks_is_reported_and_hides_no_other() -> None:
    def breaks(scene: Scene) -> Check:
        raise ZeroDivisionError("oops")

    check = Row("gpu", breaks, ("cuda",)).check(Scene("cuda", Seen()))
    assert (check.name, check.state) == ("gpu", "failed")
    assert check.evidence == "the check itself broke with ZeroDivisionError: oops"
    assert check.remedy.startswith("Report this as a bug of tilevl-core")


@pytest.mark.parametrize(("state", "remedy"), [("ok", "do"), ("not applicable", "do"), ("failed", ""), ("warning", "")])
def test_a_remedy_goes_with_warning_and_failed_only(state: str, remedy: str) -> None:
    with pytest.raises(ValueError, match="a remedy goes with warning and failed only"):
        Check("gpu", state, "seen", remedy)
