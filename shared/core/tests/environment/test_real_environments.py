"""The doctor in real virtual environments: torch alone, torch_npu without CANN, a wrong pair, TileLang without an NPU.

They take some minutes to make, and a package index; ``nox -s environments`` makes them and runs these tests, or set
``TILEVL_REQUIRE=real_environments``. ``TILEVL_REAL_ENVIRONMENTS`` names the folder that keeps them for the next time.
"""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilevl.testing.require import required, skip_unless

from .machine import CORE_SOURCE

MARK = "real_environments"
pytestmark = pytest.mark.real_environments

VARIABLE = "TILEVL_REAL_ENVIRONMENTS"
TREE = Path(__file__).parents[4]
CORE = TREE / "shared" / "core"
PAIR, OTHER = ("2.13.0", "2.14.0")  # two releases of torch and of torch_npu
EXTRAS = {
    "torch": [],
    "torch_npu": [f"torch-npu=={PAIR}"],
    "wrong_pair": ["--no-deps", f"torch-npu=={OTHER}"],
    "tilelang": ["tilelang==0.1.15"],
}


class Environment:
    """A virtual environment with real packages, and the source tree's core."""

    def __init__(self, python: Path, home: Path) -> None:
        self.python = python
        self.environ = {
            "HOME": str(home),
            "PATH": os.defpath,
            "PYTHONPATH": str(CORE_SOURCE),
            "COLUMNS": "110",
        }

    def run(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.python), *arguments]
        environ = self.environ | environ
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=600, cwd=environ["HOME"])

    def diagnose(self, asked: str = "auto", **environ: str) -> dict[str, Any]:
        done = self.run("-m", "tilevl.core.doctor", "--json", "--target", asked, **environ)
        assert not done.stderr, done.stderr
        report = json.loads(done.stdout)
        return report | {"status": done.returncode, "by_name": {check["name"]: check for check in report["checks"]}}


@pytest.fixture(scope="module")
def make(request: pytest.FixtureRequest) -> Callable[[str], Path]:
    """Makes an environment: torch in one layer that all share, the rest over it."""
    asked = MARK in request.config.option.markexpr or MARK in required() or VARIABLE in os.environ
    skip_unless(
        asked, MARK, f"run nox -s environments; or set {VARIABLE} to a folder to make them in, some minutes once"
    )
    import environments

    place = Path(os.environ.get(VARIABLE, TREE / ".nox" / "real-environments"))
    manifest = (CORE / "pyproject.toml").read_text(encoding="utf-8")

    def make(name: str) -> Path:
        def install_torch(python: Path) -> None:
            environments.pip_install(python, f"torch=={PAIR}", "packaging")
            environments.pip_install(python, "--no-deps", str(CORE))

        base = environments.make(place / "base", environments.digest(PAIR, manifest), install_torch)
        extra = EXTRAS[name]
        return environments.make(
            place / name,
            environments.digest(PAIR, manifest, *extra),
            lambda python: environments.pip_install(python, *extra) if extra else None,
            over=environments.sites_of(str(base)),
        )

    return make


@pytest.fixture
def environment(make: Callable[[str], Path], tmp_path: Path, request: pytest.FixtureRequest) -> Environment:
    """The environment that the test names."""
    return Environment(make(request.param), tmp_path)


def within(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("environment", [name], indirect=True)


@within("torch")
def test_torch_alone_runs_the_cpu_target(environment: Environment) -> None:
    report = environment.diagnose()
    assert (report["target"]["resolved"], report["status"]) == ("cpu", 0)
    assert report["by_name"]["torch"]["evidence"].startswith(f"torch {PAIR}")


@within("torch")
def test_torch_alone_lacks_tilelang_and_torch_npu_for_the_npu(environment: Environment) -> None:
    report = environment.diagnose("ascend")
    assert report["status"] == 1
    assert {"tilelang", "torch-npu-installed"} <= set(report["targets"]["ascend"]["failed"])
    assert report["by_name"]["tilelang"]["remedy"] == "Run pip install 'tilevl-core[kernels]'"
    assert report["by_name"]["torch-npu-installed"]["remedy"] == f"Run pip install 'torch-npu=={PAIR}.*'"


@within("torch_npu")
def test_import_torch_itself_fails_with_torch_npu_and_without_cann(environment: Environment) -> None:
    done = environment.run("-c", "import torch")
    assert done.returncode != 0
    assert "libhccl.so: cannot open shared object file" in done.stderr


@within("torch_npu")
def test_the_doctor_names_the_library_that_torch_npu_misses_without_cann(environment: Environment) -> None:
    report = environment.diagnose()
    assert (report["target"]["resolved"], report["status"]) == ("ascend", 1)
    torch, torch_npu = report["by_name"]["torch"], report["by_name"]["torch-npu-import"]
    assert torch["evidence"].startswith(f"torch {PAIR}")
    assert "is fine, but import torch raises, because it loads torch_npu by itself" in torch["evidence"]
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in torch["remedy"]
    assert "libhccl.so" in torch_npu["evidence"]
    assert torch_npu["remedy"].startswith("libhccl.so belongs to CANN, and the loader doesn't find it")
    assert report["by_name"]["torch-npu-version"]["state"] == "ok"


@within("torch_npu")
def test_the_cpu_target_runs_beside_torch_npu_without_autoload(environment: Environment) -> None:
    assert environment.diagnose("cpu")["status"] == 1
    assert environment.diagnose("cpu", TORCH_DEVICE_BACKEND_AUTOLOAD="0")["status"] == 0


@within("torch_npu")
def test_a_call_gets_one_error_with_the_import_error_of_torch_npu_as_its_cause(environment: Environment) -> None:
    code = """
        from tilevl.core import TargetUnavailableError
        from tilevl.core.environment import require_npu

        try:
            require_npu("tilevl.rope", "ascend")
        except TargetUnavailableError as error:
            cause = error.__cause__
            print(type(cause).__name__, "libhccl.so" in str(cause), "torch-npu-import" in str(error))
    """
    done = environment.run("-c", textwrap.dedent(code), TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.stdout.split() == ["ImportError", "True", "True"], done.stderr


@within("torch_npu")
def test_torch_npu_brings_the_compile_backend(environment: Environment) -> None:
    code = "from tilevl.core import compile_backend; print(compile_backend('npu'), compile_backend('cpu'))"
    done = environment.run("-c", code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.stdout.split() == ["npugraph_ex", "inductor"], done.stderr


@within("wrong_pair")
def test_a_torch_npu_for_another_torch_is_named_with_both_ways_out(environment: Environment) -> None:
    check = environment.diagnose("ascend")["by_name"]["torch-npu-version"]
    assert check["state"] == "failed"
    assert check["evidence"].startswith(f"torch-npu {OTHER} is for torch=={OTHER}.*, but torch is {PAIR}")
    assert f"pip install 'torch-npu=={PAIR}.*'" in check["remedy"]
    assert f"pip install 'torch=={OTHER}.*'" in check["remedy"]


@within("tilelang")
def test_tilelang_has_the_ascend_codegen_and_no_pto_codegen(environment: Environment) -> None:
    report = environment.diagnose("pto")
    by_name = report["by_name"]
    assert by_name["tilelang"]["evidence"].startswith("TileLang 0.1.15 in ")
    assert by_name["ascend-codegen"]["state"] == "ok"
    assert by_name["pto-codegen"]["state"] == "failed"
    assert by_name["pto-codegen"]["remedy"].startswith("Build TileLang from a source that has the PTO backend")
    assert "npu-visible" in report["targets"]["ascend"]["failed"]
    assert report["targets"]["cpu"]["can_run"] is True


@within("tilelang")
def test_tilelang_imports_where_its_cache_folder_cannot_be_written(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = str(tmp_path / "file" / "cache")
    assert environment.run("-c", "import tilelang", TILELANG_CACHE_DIR=cache).returncode != 0
    code = "from tilevl.core.cache_directory import direct_tilelang; direct_tilelang(); import tilelang"
    done = environment.run("-c", code, TILELANG_CACHE_DIR=cache)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("RuntimeWarning: tilevl: the kernel cache can't use") == 1
