"""The judge of fuzzed tests: any call gives the right value or a documented error, and touches nothing else."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import currently_in_test_context, note
from torch import Tensor
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from tilevl.core import data_checks, schemas
from tilevl.testing.errors import ErrorTable, Rule
from tilevl.testing.guards import Guarded, guarded_results

Args = tuple[Any, ...]


def places_of(tensor: Tensor) -> list[int]:
    """Where each element of a tensor lies in its storage, in bytes."""
    grid = torch.zeros(tensor.shape, dtype=torch.int64)
    for axis, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        steps = torch.arange(size, dtype=torch.int64) * stride
        grid += steps.view([-1 if i == axis else 1 for i in range(tensor.dim())])
    item = tensor.element_size()
    return [(int(place) + int(tensor.storage_offset())) * item for place in grid.flatten().tolist()]


def is_dense(tensor: Tensor) -> bool:
    """Whether the elements of each row lie side by side, or there is nothing to lie."""
    return tensor.numel() == 0 or tensor.shape[-1] == 1 or tensor.stride(-1) == 1


def is_contiguous(tensor: Tensor) -> bool:
    """Whether the elements lie in row-major order without gaps; a size-1 axis has no stride."""
    places = places_of(tensor)
    start, item = tensor.storage_offset(), tensor.element_size()
    return places == [(start + i) * item for i in range(len(places))]


def share_memory(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors have a byte in common."""
    if one.untyped_storage().data_ptr() != other.untyped_storage().data_ptr() or "meta" in (
        one.device.type,
        other.device.type,
    ):
        return False
    first = {place + i for place in places_of(one) for i in range(one.element_size())}
    return any(place + i in first for place in places_of(other) for i in range(other.element_size()))


def rows_apart(tensor: Tensor) -> bool:
    """Whether no two elements share a place."""
    places = places_of(tensor)
    return len(set(places)) == len(places)


def _shown(args: Args) -> int:
    """Notes the arguments for the case that the test fails, and makes a seed of them."""
    text = described(args)
    if currently_in_test_context():
        note(text)
    return zlib.crc32(text.encode())


def described(args: Args) -> str:
    """The arguments, tensors with their layout."""
    shown = []
    for arg in args:
        if isinstance(arg, Tensor):
            layout = f"{arg.dtype} {list(arg.shape)} strides {list(arg.stride())} offset {arg.storage_offset()}"
            small = "" if arg.numel() > 64 or arg.device.type == "meta" else f" {arg.tolist()}"
            shown.append(f"{arg.device.type} {layout}{small}")
        else:
            shown.append(repr(arg))
    return "\n".join(shown)


@dataclass(frozen=True)
class FuzzedOp:
    """An op and what its contract says of any call, in code that it doesn't share.

    Attributes:
        table: its errors, and its function.
        op: the overload.
        metadata_holds: whether the contract admits the shapes, dtypes, devices, strides and numbers of a call.
        data_holds: whether it admits the contents of the tensors of such a call.
        judge: raises AssertionError where a result, or the written tensor, isn't right; called with it and with the
            arguments as they were, on the CPU.
        judge_unchecked: the same for bad contents that a device didn't check, as far as their result is defined; None
            where nothing is.
    """

    table: ErrorTable
    op: torch._ops.OpOverload
    metadata_holds: Callable[..., bool]
    data_holds: Callable[..., bool]
    judge: Callable[[Tensor, Args], None]
    judge_unchecked: Callable[[Tensor, Args], None] | None = None

    def check(self, args: Args, device: torch.device) -> None:
        """Real, fake and dynamic fake calls give the right value or the same documented error; data is checked."""
        seed = _shown(args)
        generator = torch.Generator().manual_seed(seed)
        guarded = Guarded(args, device, generator)
        with pytest.MonkeyPatch.context() as patch, guarded_results(generator), _pipes_in_any_order(device, seed):
            patch.setenv(data_checks.ENVIRONMENT_VARIABLE, "1")
            before = _on_cpu(guarded.args)
            result, error = self._attempt(guarded.args)
        if not self.metadata_holds(*guarded.args):
            rule = self._refused(error, guarded)
            self._fakes_refuse(guarded.args, str(error), rule)
            return
        self._fakes_accept(guarded.args, result)
        if all(arg.device.type == "meta" for arg in guarded.args if isinstance(arg, Tensor)):
            assert error is None, f"a valid call without data raised {error!r}"
        elif self.data_holds(*before):
            assert error is None, f"a valid call raised {error!r}"
            self.judge(result, before)
            assert guarded.changed_bytes(self.written) == []
        else:
            self._refused(error, guarded)

    def check_unchecked(self, args: Args, device: torch.device) -> None:
        """A device that doesn't look at the contents touches nothing outside of what the call may write."""
        seed = _shown(args)
        generator = torch.Generator().manual_seed(seed)
        guarded = Guarded(args, device, generator)
        before = _on_cpu(guarded.args)
        with guarded_results(generator), _pipes_in_any_order(device, seed):
            result, error = self._attempt(guarded.args)
            if device.type == "cuda":
                torch.cuda.synchronize()
        assert error is None, f"contents that nobody looks at raised {error!r}"
        assert guarded.changed_bytes(self.written) == []
        if self.data_holds(*before):
            self.judge(result, before)
        elif self.judge_unchecked is not None:
            self.judge_unchecked(result, before)

    @property
    def written(self) -> tuple[int, ...]:
        """Positions of the arguments that the op writes."""
        return schemas.written(self.op._schema)

    def _attempt(self, args: Args) -> tuple[Any, BaseException | None]:
        """What a call gives and what it raises: one of the two."""
        try:
            result = self.table.function(*args)
        except (ValueError, TypeError, RuntimeError) as error:  # which of them, and what it says, is judged
            return None, error
        return (args[self.written[0]] if self.written else result), None

    def _refused(self, error: BaseException | None, guarded: Guarded) -> Rule:
        assert error is not None, "a call that the contract doesn't admit was taken"
        rule = self.table.rule_of(type(error), str(error))
        assert guarded.changed_bytes() == []
        return rule

    def _fakes_refuse(self, args: Args, text: str, rule: Rule) -> None:
        _, fake = self._attempt_fake(args)
        assert fake is not None, f"the fake takes what the real call refuses: {text}"
        assert (type(fake), str(fake)) == (rule.error, text)
        if "share memory" in rule.text:  # where views of one storage lie is not known of symbolic sizes
            return
        _, dynamic = self._attempt_dynamic(args)
        assert dynamic is not None, f"the dynamic fake takes what the real call refuses: {text}"
        # Numbers are symbols in its text.
        assert self.table.rule_of(type(dynamic), str(dynamic)) == rule, (
            f"{dynamic!r} is not what the real call says, {text}"
        )

    def _fakes_accept(self, args: Args, result: Any) -> None:
        for attempt in (self._attempt_fake, self._attempt_dynamic):
            fake, error = attempt(args)
            assert error is None, f"the fake of a valid call raised {error!r}"
            if result is not None and not self.written:
                assert fake is not None and fake.device == result.device
                assert (fake.dtype, [int(n) for n in fake.shape]) == (result.dtype, list(result.shape))
                assert [int(n) for n in fake.stride()] == list(result.stride())

    def _attempt_fake(self, args: Args) -> tuple[Any, BaseException | None]:
        with _silent(), FakeTensorMode() as mode:
            return self._attempt(tuple(mode.from_tensor(arg) if isinstance(arg, Tensor) else arg for arg in args))

    def _attempt_dynamic(self, args: Args) -> tuple[Any, BaseException | None]:
        """With a symbol for every size and every int."""
        environment = ShapeEnv()
        with _silent(), FakeTensorMode(shape_env=environment) as mode:
            return self._attempt(tuple(_symbolic(mode, environment, i, arg) for i, arg in enumerate(args)))


def _symbolic(mode: FakeTensorMode, environment: ShapeEnv, position: int, arg: Any) -> Any:
    source = ConstantSource(f"argument_{position}")
    if isinstance(arg, Tensor):
        context: Any = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * arg.dim())
        return mode.from_tensor(arg, symbolic_context=context, source=source)
    if isinstance(arg, int) and not isinstance(arg, bool):
        return environment.create_unspecified_symint_and_symbol(arg, source, DimDynamic.DYNAMIC)
    return arg


@contextmanager
def _pipes_in_any_order(device: torch.device, seed: int) -> Iterator[None]:
    """The host model's pipes in an order drawn from the seed, where it stands in for the device."""
    npu: Any = getattr(torch, device.type, None)
    if not hasattr(npu, "launches"):
        yield
        return
    npu.options = {"order": "random", "seed": seed}
    try:
        yield
    finally:
        npu.options = {}


@contextmanager
def _silent() -> Iterator[None]:
    """Without PyTorch's own log of each error that a fake raises."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def _on_cpu(args: Args) -> Args:
    return tuple(arg.cpu().clone() if isinstance(arg, Tensor) and arg.device.type != "meta" else arg for arg in args)
