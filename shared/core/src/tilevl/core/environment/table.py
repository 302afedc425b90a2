"""Which checks there are, in the order in which to mend what fails, and which targets need them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilevl.core.environment import cann, codegen, gpu, installed, npu, settings
from tilevl.core.environment.check import Check, Scene

_NPU = ("ascend", "pto")
_KERNELS = ("cuda", *_NPU)


@dataclass(frozen=True)
class Row:
    """One check.

    Attributes:
        name: its stable name.
        ask: makes the check.
        targets: the targets that need it.
        costly: whether it starts with an import of several seconds that nothing else needs.
    """

    name: str
    ask: Callable[[Scene], Check]
    targets: tuple[str, ...]
    costly: bool = False

    def check(self, scene: Scene) -> Check:
        """The check, for a target that needs it."""
        try:
            return self.ask(scene)
        except ModuleNotFoundError as error:  # packaging, which reads version ranges, is taken away
            missing = error.name or "a module"
            return Check(self.name, "failed", f"{missing} is not installed", f"Run pip install {missing}")
        except Exception as error:  # one broken check must not hide the others: it is reported as failed
            evidence = f"the check itself broke with {type(error).__name__}: {error}"
            return Check(self.name, "failed", evidence, "Report this as a bug of tilevl-core, with the whole output")


ROWS = (
    Row("tilevl-packages", installed.tilevl_packages, ("cpu", *_KERNELS)),
    Row("npu-visible", npu.visible, _NPU),
    Row("npu-soc", npu.soc, _NPU),
    Row("cann-root", cann.root, _NPU),
    Row("cann-version", cann.version, _NPU),
    Row("cann-environment", cann.environment, _NPU),
    Row("torch", installed.torch, ("cpu", *_KERNELS)),
    Row("gpu", gpu.gpu, ("cuda",)),
    Row("nvcc", gpu.nvcc, ("cuda",)),
    Row("torch-npu-installed", installed.torch_npu_installed, _NPU),
    Row("torch-npu-version", installed.torch_npu_version, _NPU),
    Row("torch-npu-import", npu.torch_npu_import, _NPU),
    Row("bisheng", cann.bisheng, _NPU),
    Row("ld-lld", cann.ld_lld, _NPU),
    Row("tilelang", codegen.tilelang, _KERNELS, costly=True),
    Row("cuda-codegen", codegen.cuda, ("cuda",), costly=True),
    Row("ascend-codegen", codegen.ascend, _NPU, costly=True),
    Row("pto-codegen", codegen.pto, ("pto",), costly=True),
    Row("pto-assembler", cann.pto_assembler, ("pto",)),
    Row("default-target", settings.default_target, _NPU),
    Row("cache-directory", settings.cache_folder, _KERNELS),
)
