"""Storage with guard bytes around it, to show that a call touches nothing but what it may write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor

GUARD = 256  # bytes before and after each storage; a multiple of every element size and of the usual alignments
_UNIT = 8  # bytes of the widest element: what storages are padded to


class Guarded:
    """Copies of a call's tensors, each storage set between guard bytes; shapes, strides, offsets and aliasing kept.

    Args:
        args: the arguments of a call; what isn't a CPU tensor (a scalar, a meta tensor) is passed on.
        device: where the copies live.
        generator: fills the guards, so that no constant can pass for them.

    Attributes:
        args: the arguments to call with.
    """

    def __init__(self, args: tuple[Any, ...], device: torch.device | str, generator: torch.Generator) -> None:
        self._buffers: dict[int, Tensor] = {}
        self._homes: list[int | None] = []
        rebuilt: list[Any] = []
        for arg in args:
            if not isinstance(arg, Tensor) or arg.device.type != "cpu":
                self._homes.append(None)
                rebuilt.append(arg)
                continue
            storage = arg.untyped_storage()
            home = storage._cdata
            if home not in self._buffers:
                size = storage.nbytes()
                padded = size + -size % _UNIT
                content = torch.randint(0, 256, (padded + 2 * GUARD,), dtype=torch.uint8, generator=generator)
                content[GUARD : GUARD + size] = torch.empty(0, dtype=torch.uint8).set_(storage, 0, (size,), (1,))
                self._buffers[home] = content.view(arg.dtype).to(device)
            self._homes.append(home)
            rebuilt.append(self._view(home, arg))
        self.args = tuple(rebuilt)
        self._before = {home: self._content(home) for home in self._buffers}

    def _view(self, home: int, like: Tensor) -> Tensor:
        buffer = self._buffers[home]
        if buffer.dtype != like.dtype:
            buffer = buffer.view(like.dtype)
        offset = GUARD // like.element_size() + like.storage_offset()
        return buffer.as_strided(like.shape, like.stride(), offset).data  # an alias that is no view for autograd

    def _content(self, home: int) -> Tensor:
        return self._buffers[home].cpu().clone().view(torch.uint8)

    def changed_bytes(self, written: tuple[int, ...] = ()) -> list[tuple[int, int]]:
        """Bytes that changed and that no written argument covers.

        Args:
            written: positions of the arguments that the call may write.

        Returns:
            (argument position, byte offset from the start of its storage), the first of each storage.
        """
        found = []
        for home, before in self._before.items():
            changed = self._content(home) != before
            for position in written:
                if self._homes[position] == home:
                    changed &= ~self._covered(self.args[position], before.numel())
            if changed.any():
                found.append((self._homes.index(home), int(changed.to(torch.uint8).argmax()) - GUARD))
        return found

    @staticmethod
    def _covered(tensor: Tensor, size: int) -> Tensor:
        item = tensor.element_size()
        elements = torch.zeros(-(-size // item), dtype=torch.bool)
        elements.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).fill_(True)
        return elements.repeat_interleave(item)[:size]


@contextmanager
def guarded_results(generator: torch.Generator) -> Iterator[None]:
    """Sets what ``torch.empty`` makes between guard bytes, and raises AssertionError at the end where one changed.

    Results of ops and scratch of their kernels come from there. They hold random bytes at first, so that elements that
    nobody writes show.

    Args:
        generator: fills guards and elements.
    """
    made: list[tuple[Tensor, Tensor, int, int]] = []
    empty = torch.empty

    def between_guards(*size: Any, **kwargs: Any) -> Tensor:
        if not kwargs.keys() <= {"dtype", "device"} or kwargs.get("dtype") is None:
            return empty(*size, **kwargs)
        like = empty(*size, dtype=kwargs["dtype"], device="meta")
        if torch.device(kwargs.get("device") or "cpu").type == "meta":
            return like
        room, length = GUARD // like.element_size(), like.numel()
        count = (length + 2 * room) * like.element_size()
        content = torch.randint(0, 256, (count,), dtype=torch.uint8, generator=generator, device="cpu")
        buffer = content.view(like.dtype).to(kwargs.get("device"))
        made.append((buffer, content.clone(), GUARD, count - GUARD))  # on CPU the buffer is the content
        if buffer.device.type not in ("cpu", "cuda"):
            return buffer.as_strided(like.shape, like.stride(), room)
        part = buffer.untyped_storage()[GUARD : count - GUARD]  # a storage of its own, which kernels may rely on
        return empty(0, dtype=like.dtype, device=buffer.device).set_(part, 0, like.shape, like.stride())

    with mock.patch.object(torch, "empty", between_guards):
        yield
    for buffer, content, start, stop in made:
        changed = buffer.cpu().view(torch.uint8) != content
        changed[start:stop] = False
        if changed.any():
            at = int(changed.to(torch.uint8).argmax()) - start
            raise AssertionError(f"byte {at} changed beside a tensor of {stop - start} bytes that torch.empty made")
