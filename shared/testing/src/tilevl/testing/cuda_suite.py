"""What every op promises on CUDA beyond the standard suite: streams, captures, no hidden synchronisation or build."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from tilevl.core import cuda
from tilevl.testing.bits import same_bits
from tilevl.testing.case import Case
from tilevl.testing.cuda_early_start import late_copy, need_early_starts
from tilevl.testing.require import required, skip_unless

Args = tuple[Any, ...]
ARCHITECTURES = ("sm_90a", "sm_80")


def build_without_gpu(program: Any, architecture: str, pass_configs: dict[str, Any] | None = None) -> None:
    """Generates and compiles a traced program, or skips where the compilers are missing.

    The first architecture is built always, the others, which double the minutes, where ``TILEVL_REQUIRE`` asks for
    ``cuda_compiler``.
    """
    there = importlib.util.find_spec("tilelang") is not None and shutil.which("nvcc") is not None
    skip_unless(there, "cuda_compiler", "TileLang or nvcc is missing: pip install 'tilevl-core[kernels]', CUDA toolkit")
    if architecture != ARCHITECTURES[0] and "cuda_compiler" not in required():
        pytest.skip(f"cuda_compiler: TILEVL_REQUIRE=cuda_compiler builds for {architecture} too, which takes minutes")
    assert callable(cuda.compiled(program, architecture, pass_configs))


class CudaSuite:
    """Subclass it as ``TestCuda``, with the attributes of the op's standard suite.

    Attributes:
        function: the op's public function.
        cases: calls that must work; those that are traced run here.
        written: position of the argument that the op writes, None where it returns a tensor.
        oracle: an independent implementation of the same.
    """

    function: ClassVar[Callable[..., Any]]
    cases: ClassVar[Sequence[Case]]
    written: ClassVar[int | None] = None
    oracle: ClassVar[Callable[..., Tensor]]

    def outcome(self, args: Args, call: Callable[..., Any] | None = None) -> Tensor:
        """What a call gives, as a tensor of its own."""
        result = (call or type(self).function)(*args)
        outcome: Tensor = result if self.written is None else args[self.written]
        return outcome.clone()

    def expected(self, args: Args) -> Tensor:
        """What it should give, on the CPU."""
        return type(self).oracle(*(arg.cpu().clone() if isinstance(arg, Tensor) else arg for arg in args))

    @pytest.mark.targets("cuda")
    def test_second_call_neither_synchronises_nor_compiles(
        self,
        traced_case: Case,
        target: str,
        device: torch.device,
        rng: torch.Generator,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """With new tensors of the same kind."""
        type(self).function(*on_device(traced_case.make(rng), device))
        args = on_device(traced_case.make(rng), device)
        expected = self.expected(args)
        monkeypatch.setattr(cuda, "compiled", _refuse)
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            result = type(self).function(*args)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert same_bits(result if self.written is None else args[self.written], expected)

    @pytest.mark.targets("cuda")
    def test_work_goes_to_the_current_stream(
        self, traced_case: Case, target: str, device: torch.device, rng: torch.Generator
    ) -> None:
        """A slow producer on the same side stream comes first; nobody waits for it but the stream."""
        versions = [on_device(traced_case.make(rng), device) for _ in range(2)]
        right = [self.expected(args).to(device) for args in versions]
        args = on_device(traced_case.make(rng), device)
        type(self).function(*args)
        wrong = torch.zeros(1, dtype=torch.int64, device=device)
        streams = [torch.cuda.Stream() for _ in range(2)]
        torch.cuda.synchronize()
        for turn in range(200):
            stream, other = streams[turn % 2], streams[1 - turn % 2]
            stream.wait_stream(other)
            with torch.cuda.stream(stream):
                torch.cuda._sleep(2000)
                for old, new in zip(args, versions[turn % 2], strict=True):
                    if isinstance(old, Tensor):
                        old.copy_(new)
                wrong += (self.outcome(args) != right[turn % 2]).sum()
        torch.cuda.synchronize()
        assert int(wrong) == 0

    @pytest.mark.targets("cuda")
    def test_kernel_ahead_that_lets_others_start_early_is_waited_for(
        self, traced_case: Case, target: str, device: torch.device, rng: torch.Generator
    ) -> None:
        """Each tensor in turn is what it writes last."""
        need_early_starts(device)
        type(self).function(*on_device(traced_case.make(rng), device))
        args = on_device(traced_case.make(rng), device)
        expected = self.expected(args)
        storages = [_bytes_of(arg) for arg in args if isinstance(arg, Tensor)]
        contents = [storage.clone() for storage in storages]
        for last in range(len(storages)):
            for storage in storages:
                storage.zero_()
            torch.cuda.synchronize()
            for k in (*range(last), *range(last + 1, len(storages)), last):
                late_copy(contents[k], storages[k])
            assert same_bits(self.outcome(args), expected)

    @pytest.mark.targets("cuda")
    def test_reduce_overhead_is_eager(
        self, traced_case: Case, target: str, device: torch.device, rng: torch.Generator
    ) -> None:
        """Torch captures by itself, and replays on new contents."""
        compiled = torch.compile(type(self).function, fullgraph=True, mode="reduce-overhead")
        args = on_device(traced_case.make(rng), device)
        for _ in range(4):
            for old, new in zip(args, traced_case.make(rng), strict=True):
                if isinstance(old, Tensor):
                    old.copy_(new)
            expected = self.expected(args)
            assert same_bits(self.outcome(args, compiled), expected)


def on_device(args: Args, device: torch.device) -> Args:
    """Copies of a call's tensors on a device, with the same strides where they have gaps or are transposed."""
    return tuple(_moved(arg, device) if isinstance(arg, Tensor) else arg for arg in args)


def _bytes_of(tensor: Tensor) -> Tensor:
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def _moved(tensor: Tensor, device: torch.device) -> Tensor:
    storage = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
    return storage.to(device, copy=True).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def _refuse(*_: Any) -> Any:
    raise AssertionError("compiled again")
