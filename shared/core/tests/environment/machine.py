"""Machines made of small faked modules, programs and settings, for a Python that sees nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import packaging

import tilevl.core

CORE_SOURCE = Path(tilevl.core.__file__).parents[2]

TORCH = """
    import os
    from importlib.metadata import entry_points

    __version__ = {version!r}

    class version:
        cuda = {cuda!r}

    class cuda:
        device_count = staticmethod(lambda: {gpus})
        get_device_name = staticmethod(lambda index: "NVIDIA H100")
        get_device_capability = staticmethod(lambda index: (9, 0))

    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "1":
        for backend in entry_points(group="torch.backends"):
            try:
                backend.load()
            except Exception as error:
                raise RuntimeError(f"Failed to load the backend extension: {{backend.name}}.") from error
"""

TORCH_NPU = """
    __version__ = {version!r}

    def _autoload():
        pass

    class npu:
        is_available = staticmethod(lambda: {count} > 0)
        device_count = staticmethod(lambda: {count})

        def get_device_name(index):
            properties = [{device!r}] * {count}
            return properties[index]
"""

TILELANG = """
    __version__ = {version!r}

    class tvm:
        class ffi:
            def get_global_func(name, allow_missing=False):
                known = ["target.build.tilelang_%s_without_compile" % codegen for codegen in {codegens!r}]
                return print if name in known else None
"""

TILELANG_BACKEND = """
    class Codegen:
        def __init__(self, name):
            self.name = name

    class Backend:
        def __init__(self, name):
            self.device_codegens = {{name: Codegen(name)}}

    def list_backends():
        return {{name: Backend(name) for name in {declared!r}}}
"""


# What the machine that runs the tests has in fixed places must not be seen.
PRELUDE = """
    from pathlib import Path
    from tilevl.core.environment import cann, gpu, npu

    cann.USUAL_ROOTS, gpu.USUAL_HOME, npu.DEVICE_FOLDER = (), Path("no cuda"), Path("no devices")
"""


class Machine:
    """A folder with a site-packages, a bin and a home folder, and a Python that sees only these and tilevl.core."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.site, self.bin, self.home = folder / "site", folder / "bin", folder / "home"
        for place in (self.site, self.bin, self.home, folder / "vendor"):
            place.mkdir()
        (folder / "vendor" / "packaging").symlink_to(Path(packaging.__file__).parent)
        self.environ = {
            "HOME": str(self.home),
            "PATH": str(self.bin),
            "PYTHONPATH": os.pathsep.join([str(self.site), str(CORE_SOURCE), str(folder / "vendor")]),
        }
        self.distribution(
            "tilevl-core",
            tilevl.core.__version__,
            requires=["torch>=2.10", "packaging>=22", "tilelang>=0.1.15; extra == 'kernels'"],
        )

    def distribution(
        self,
        name: str,
        version: str,
        *,
        requires: Sequence[str] = (),
        entry_points: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Installs a distribution's metadata."""
        folder = self.site / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        (folder / "METADATA").write_text("\n".join(lines + [f"Requires-Dist: {line}" for line in requires]) + "\n")
        groups = [f"[{group}]\n" + "\n".join(points) for group, points in (entry_points or {}).items()]
        (folder / "entry_points.txt").write_text("\n\n".join(groups) + "\n")

    def module(self, name: str, source: str) -> None:
        """Writes a module; a dotted name makes packages of its parents."""
        *parents, last = name.split(".")
        folder = self.site.joinpath(*parents)
        if last == "__init__":
            folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{last}.py").write_text(textwrap.dedent(source))

    def torch(self, version: str = "2.13.0+cpu", *, cuda: str | None = None, gpus: int = 0) -> None:
        self.distribution("torch", version)
        self.module("torch.__init__", TORCH.format(version=version, cuda=cuda, gpus=gpus))

    def torch_npu(self, version: str = "2.13.0", *, device: str = "Ascend950PR_9589", count: int = 1) -> None:
        self.torch_npu_metadata(version)
        self.module("torch_npu.__init__", TORCH_NPU.format(version=version, device=device, count=count))

    def broken_torch_npu(self, statement: str, version: str = "2.13.0") -> None:
        self.torch_npu_metadata(version)
        self.module("torch_npu.__init__", statement)

    def torch_npu_metadata(self, version: str) -> None:
        release = version.partition(".post")[0]
        self.distribution(
            "torch-npu",
            version,
            requires=[f"torch=={release}.*"],
            entry_points={"torch.backends": ["torch_npu = torch_npu:_autoload"]},
        )

    def tilelang(
        self,
        version: str = "0.1.15",
        *,
        codegens: Sequence[str] = ("ascend", "cuda"),
        declared: Sequence[str] | None = None,
    ) -> None:
        """TileLang with code generators in its library, and declared by its backends (the same, if not given)."""
        self.distribution("tilelang", version)
        self.module("tilelang.__init__", TILELANG.format(version=version, codegens=list(codegens)))
        names = list(codegens if declared is None else declared)
        self.module("tilelang.backend", TILELANG_BACKEND.format(declared=names))

    def tool(self, path: Path | str, script: str = "echo 'clang version 15.0.5'", *, mode: int = 0o755) -> Path:
        """Writes a shell script, below bin where the path is relative."""
        place = self.bin / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"#!/bin/sh\n{script}\n")
        place.chmod(mode)
        return place

    def cann(self, *, sourced: bool = True, version: str | None = "9.1.0") -> Path:
        """CANN with its compiler and linker, and the environment that its set_env.sh makes."""
        root = self.folder / "Ascend" / "cann"
        (root / "lib64").mkdir(parents=True)
        (root / "set_env.sh").write_text("export ASCEND_HOME_PATH=...\n")
        if version is not None:
            (root / "x86_64-linux").mkdir()
            (root / "x86_64-linux" / "ascend_toolkit_install.info").write_text(
                f"package_name=toolkit\nversion={version}\n"
            )
        self.tool(root / "bin" / "bisheng")
        self.tool(root / "bin" / "ld.lld", "echo 'LLD 15.0.5'")
        if sourced:
            self.environ |= {
                "ASCEND_HOME_PATH": str(root),
                "ASCEND_TOOLKIT_HOME": str(root),
                "ASCEND_OPP_PATH": str(root / "opp"),
                "LD_LIBRARY_PATH": f"{root / 'lib64'}:{root / 'lib64' / 'plugin'}",
                "PATH": f"{root / 'bin'}:{self.environ['PATH']}",
            }
        return root

    def npu(self, *codegens: str) -> None:
        """Everything that the ascend target needs, with these code generators in TileLang."""
        self.torch()
        self.torch_npu()
        self.cann()
        self.tilelang(codegens=codegens or ("ascend", "cuda"))

    def python(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Runs Python without the real site-packages."""
        return subprocess.run(
            [sys.executable, "-S", *arguments],
            env=self.environ | environ,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def run(self, code: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Runs code without the real site-packages, and without what lies in fixed places."""
        return self.python("-c", textwrap.dedent(PRELUDE) + textwrap.dedent(code), *arguments, **environ)

    def doctor(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Runs the doctor."""
        start = "import runpy\nrunpy.run_module('tilevl.core.doctor', run_name='__main__', alter_sys=True)"
        done = self.run(start, *arguments, **environ)
        assert not done.stderr, done.stderr
        return done

    def diagnose(self, target: str = "auto", **environ: str) -> dict[str, Any]:
        """The doctor's JSON, with the checks by name and the exit status under ``status``."""
        done = self.doctor("--json", "--target", target, **environ)
        report = json.loads(done.stdout)
        return report | {"status": done.returncode, "by_name": {check["name"]: check for check in report["checks"]}}
