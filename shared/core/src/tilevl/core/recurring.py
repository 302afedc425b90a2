"""Eager calls that recur: what passed its checks once passes again, and is launched as it was planned.

The checks, the choice of a kernel and its plan look at metadata and numbers alone, but for one rule: what is written
must not overlap what is read. So a call whose metadata and numbers are known needs its addresses compared, and is
launched.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._C._dynamo.guards import TensorGuards
from torch.autograd import forward_ad

from tilevl.core.cache import Kernel
from tilevl.core.plans import Launch, PlannedKernel

MOST = 1024
"""Kinds of calls that an op remembers; then it starts anew."""

Args = tuple[Any, ...]

_address = Tensor.data_ptr


def unobserved() -> bool:
    """Whether no mode and no profiler would be told of a call, and no forward-mode derivative is taken."""
    return not (
        torch._C._len_torch_dispatch_stack()
        or torch._C._len_torch_function_stack()
        or torch._C._autograd._profiler_enabled()
        or forward_ad._current_level >= 0
    )


class Kind(NamedTuple):
    """A kind of call: what all calls with the same metadata and numbers have in common.

    Attributes:
        alike: whether tensors have the metadata of this kind, none requires grad or is of a subclass, and the
            dispatcher would treat them the same on this thread. One call into torch, in a fifth of a key's time.
        numbers: the other arguments.
        types: those of the numbers; 2.0 equals 2, but may not stand for it.
        result: shape, strides, dtype and device of the result; None for an op that writes in place.
        kernel: is called where there is no ``launch``.
        launch: what the kernel planned.
        apart: positions and sizes in bytes of each tensor that is written and another one.
    """

    alike: Callable[..., bool]
    numbers: Args
    types: tuple[type, ...]
    result: tuple[tuple[int, ...], tuple[int, ...], torch.dtype, torch.device] | None
    kernel: Kernel
    launch: Launch | None
    apart: tuple[tuple[int, int, int, int], ...]

    def run(self, args: Args, addresses: Sequence[int]) -> Tensor | None:
        """Launches, and returns the result if the op has one."""
        launch = self.launch
        if self.result is None:
            if launch is None:
                self.kernel(*args)
            else:
                launch(*addresses)
            return None
        shape, strides, dtype, device = self.result
        result = torch.empty_strided(shape, strides, dtype=dtype, device=device)  # parsed in half the time of empty
        if launch is None:
            self.kernel(*args, result)
        else:
            launch(*addresses, result.data_ptr())
        return result


class RecurringCalls:
    """The kinds of calls that an op has seen on one target. Safe to use from several threads.

    Args:
        tensors: positions of the tensors among the arguments.
        written: positions of those that the op writes.
        count: of all arguments.
    """

    def __init__(self, tensors: Sequence[int], written: Sequence[int], count: int) -> None:
        self._tensors = _picker(tensors)
        self._numbers = _picker([i for i in range(count) if i not in tensors])
        self._written = [tensors.index(i) for i in written]
        self._kinds: dict[Hashable, Kind] = {}
        self._latest: Kind | None = None

    def find(self, args: Args, *, dispatched: bool) -> tuple[Kind, list[int]] | None:
        """The kind of a call, and the addresses of its tensors.

        Args:
            args: all arguments.
            dispatched: torch's dispatcher led here, with nothing left to do but to run the kernel. Else that is
                asked of ``alike``, and the arguments may be anything that a user gives.

        Returns:
            None for a new kind, and where memory that is written may be read as well: such a call needs its checks.
        """
        if not self._kinds:
            return None
        tensors, numbers = self._tensors(args), self._numbers(args)
        types = (*map(type, numbers),)
        if list in types:
            numbers = _frozen(numbers)
            types = (*map(type, numbers),)
        kind = self._latest
        if kind is None or types != kind.types or numbers != kind.numbers or not kind.alike(*tensors):
            kind = self._look_up(tensors, numbers, types, dispatched)
            if kind is None:
                return None
            self._latest = kind
        addresses = [*map(_address, tensors)]
        for one, size, other, other_size in kind.apart:
            if addresses[one] < addresses[other] + other_size and addresses[other] < addresses[one] + size:
                return None
        return kind, addresses

    def _look_up(self, tensors: Args, numbers: Args, types: tuple[type, ...], dispatched: bool) -> Kind | None:
        if not dispatched and not all(isinstance(tensor, Tensor) for tensor in tensors):  # the dispatcher refuses it
            return None
        key = _key(tensors, numbers)
        try:
            kind = self._kinds.get(key)
        except TypeError:  # no hash: the dispatcher refuses it
            return None
        if kind is None or types != kind.types:
            return None
        if not kind.alike(*tensors):
            if not dispatched:
                return None
            kind = self._kinds[key] = kind._replace(alike=_alike(tensors))
        return kind

    def remember(self, args: Args, result: Tensor | None, kernel: Kernel) -> None:
        """Keeps what a call that passed its checks and was launched has in common with others of its kind.

        Args:
            args: all arguments, as the dispatcher hands them over; each tensor has elements.
            result: None for an op that writes in place.
            kernel: what was launched.
        """
        tensors, numbers = self._tensors(args), _frozen(self._numbers(args))
        key = _key(tensors, numbers)
        if key in self._kinds:
            return
        sizes = [_size(tensor) for tensor in tensors]
        apart = tuple((i, sizes[i], j, sizes[j]) for i in self._written for j in range(len(tensors)) if i != j)
        layout, given = None, args
        if result is not None:
            layout, given = (tuple(result.shape), result.stride(), result.dtype, result.device), (*args, result)
        launch = kernel.plan(*given) if isinstance(kernel, PlannedKernel) else None
        if len(self._kinds) >= MOST:
            self._kinds.clear()
        types = (*map(type, numbers),)
        self._kinds[key] = Kind(_alike(tensors), numbers, types, layout, kernel, launch, apart)


def _alike(tensors: Args) -> Callable[..., bool]:
    for tensor in tensors:  # grad mode may be on again next time, and a subclass may have a __torch_function__
        if tensor.requires_grad or type(tensor) not in (Tensor, torch.nn.Parameter):
            return lambda *others: False
    check: Callable[..., bool] = TensorGuards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
    return check


def _picker(positions: Sequence[int]) -> Callable[[Args], Args]:
    first, stop = (positions[0], positions[-1] + 1) if positions else (0, 0)
    if stop - first == len(positions):
        return itemgetter(slice(first, stop))
    return itemgetter(*positions)


def _key(tensors: Args, numbers: Args) -> tuple[Any, ...]:
    key: list[Any] = []
    for tensor in tensors:
        key += (tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
    return *key, *numbers


def _frozen(numbers: Args) -> Args:  # the dispatcher makes lists of tuples
    return tuple([tuple(number) if type(number) is list else number for number in numbers])


def _size(tensor: Tensor) -> int:
    """Bytes from the first element of a tensor to the end of its last one."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return int(last + 1) * tensor.element_size()
