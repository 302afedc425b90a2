"""What can be seen only by importing torch, torch_npu or TileLang. Each function runs in this process or in a child."""

from __future__ import annotations

import importlib
import importlib.util
import re
from dataclasses import dataclass, field
from typing import Protocol

from tilevl.core import cache_directory

_MISSING_LIBRARY = re.compile(r"(\S+\.so[.\d]*): cannot open shared object file")


@dataclass(frozen=True)
class Broken:
    """Why a module can't be imported or a question can't be answered.

    Attributes:
        error: class and message of the error, on one line.
        root: the same of the error that caused it, where there is one.
        missing_library: the shared library that the loader didn't find.
        exception: the error itself, where it was raised in this process.
    """

    error: str
    root: str = ""
    missing_library: str = ""
    exception: Exception | None = field(default=None, compare=False, repr=False)

    @property
    def reason(self) -> str:
        """The innermost reason."""
        return self.root or self.error


@dataclass(frozen=True)
class TorchSeen:
    """torch, and the GPUs it can use."""

    version: str = ""
    cuda: str = ""
    gpus: list[tuple[str, int, int]] = field(default_factory=list)
    gpu_error: str = ""
    broken: Broken | None = None
    autoload_broken: Broken | None = None


@dataclass(frozen=True)
class TorchNpuSeen:
    """torch_npu, and the NPUs it can use."""

    version: str = ""
    count: int = 0
    device_name: str = ""
    device_error: str = ""
    broken: Broken | None = None


@dataclass(frozen=True)
class TileLangSeen:
    """TileLang, where it lies, and the code generators that its registry holds."""

    version: str = ""
    folder: str = ""
    codegens: list[str] = field(default_factory=list)
    registry_error: str = ""
    broken: Broken | None = None


class Sight(Protocol):
    """The three things to look at; each is looked at once."""

    def torch(self) -> TorchSeen:
        """Imports torch."""

    def torch_npu(self) -> TorchNpuSeen:
        """Imports torch_npu and asks for devices."""

    def tilelang(self) -> TileLangSeen:
        """Imports TileLang and asks its registry."""


def describe(error: Exception) -> Broken:
    """An error as text: its own line, its root cause, and the library that was missing."""
    root: BaseException = error
    while (deeper := root.__cause__ or (None if root.__suppress_context__ else root.__context__)) is not None:
        root = deeper
    missing = _MISSING_LIBRARY.search(str(root)) or _MISSING_LIBRARY.search(str(error))
    return Broken(
        error=one_line(error),
        root=one_line(root) if root is not error else "",
        missing_library=missing.group(1).rpartition("/")[2] if missing else "",
        exception=error,
    )


def one_line(error: BaseException) -> str:
    """Class and message of an error without line breaks, cut after 300 characters."""
    text = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(".").removesuffix(":")
    return text if len(text) <= 300 else f"{text[:297]}..."


def importable(module: str) -> bool:
    """Whether a top-level module is there to be imported, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # ValueError: in sys.modules without a spec, as a stub put there by hand
        return False


def look_at_torch() -> TorchSeen:
    """What this process sees of torch."""
    try:
        torch = importlib.import_module("torch")
    except Exception as error:  # an import runs the package's own code, which may raise anything
        return TorchSeen(broken=describe(error))
    version, cuda = str(torch.__version__), torch.version.cuda or ""
    try:
        count = torch.cuda.device_count() if cuda else 0
        gpus = [(torch.cuda.get_device_name(i), *torch.cuda.get_device_capability(i)) for i in range(count)]
    except RuntimeError as error:  # the driver is too old, a GPU is lost, or the process was forked
        return TorchSeen(version, cuda, gpu_error=one_line(error))
    return TorchSeen(version, cuda, gpus)


def look_at_torch_npu() -> TorchNpuSeen:
    """What this process sees of torch_npu."""
    try:
        importlib.import_module("torch")
        torch_npu = importlib.import_module("torch_npu")
        version, npu = str(getattr(torch_npu, "__version__", "")), torch_npu.npu
    except Exception as error:  # ImportError or OSError without CANN, RuntimeError, AttributeError of a wrong pair, ...
        return TorchNpuSeen(broken=describe(error))
    try:
        count = int(npu.device_count()) if npu.is_available() else 0
        name = str(npu.get_device_name(0)) if count else ""
    except Exception as error:  # the driver's errors come as RuntimeError, AssertionError or a class of torch_npu's
        return TorchNpuSeen(version=version, device_error=one_line(error))
    return TorchNpuSeen(version=version, count=count, device_name=name)


def look_at_tilelang() -> TileLangSeen:
    """What this process sees of TileLang.

    A code generator counts where a backend declares it and the native library has its function.
    """
    cache_directory.direct_tilelang()
    try:
        importlib.import_module("torch")
        tilelang = importlib.import_module("tilelang")
    except Exception as error:  # loads native libraries and runs the package's own code
        return TileLangSeen(broken=describe(error))
    version, folder = str(getattr(tilelang, "__version__", "")), str(next(iter(tilelang.__path__)))
    try:
        backends = importlib.import_module("tilelang.backend").list_backends().values()
        find = tilelang.tvm.ffi.get_global_func
        declared = {codegen.name for backend in backends for codegen in backend.device_codegens.values()}
        prefix, suffix = "target.build.tilelang_", "_without_compile"
        there = [name for name in declared if find(f"{prefix}{name}{suffix}", allow_missing=True) is not None]
    except (ImportError, AttributeError, TypeError, ValueError) as error:  # another TileLang, with another registry
        return TileLangSeen(version, folder, registry_error=one_line(error))
    return TileLangSeen(version, folder, sorted(there))


class InProcess:
    """Looks from this process. For run time, where torch is imported already and TileLang is needed next."""

    def __init__(self) -> None:
        self._torch: TorchSeen | None = None
        self._torch_npu: TorchNpuSeen | None = None
        self._tilelang: TileLangSeen | None = None

    def torch(self) -> TorchSeen:
        """Imports torch."""
        if self._torch is None:
            self._torch = look_at_torch()
        return self._torch

    def torch_npu(self) -> TorchNpuSeen:
        """Imports torch_npu and asks for devices."""
        if self._torch_npu is None:
            self._torch_npu = look_at_torch_npu()
        return self._torch_npu

    def tilelang(self) -> TileLangSeen:
        """Imports TileLang and asks its registry."""
        if self._tilelang is None:
            self._tilelang = look_at_tilelang()
        return self._tilelang
