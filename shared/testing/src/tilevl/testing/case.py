"""What an op's ``tests/cases.py`` lists: calls that must work, and calls that must be refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Make = Callable[[torch.Generator], tuple[Any, ...]]


@dataclass(frozen=True)
class Case:
    """A call that must work.

    Attributes:
        name: what is special about it; becomes part of the test id.
        make: draws all the op's arguments, as CPU tensors of the strides wanted. Called once per test.
        traced: also runs under ``opcheck``, ``torch.compile`` and ``torch.export``, which take seconds each.
        targets: the targets it has a meaning on; empty for all.
        layout: has strides of a kind of its own, so that it runs under ``opcheck`` too, traced or not.
    """

    name: str
    make: Make
    traced: bool = False
    targets: tuple[str, ...] = ()
    layout: bool = False


@dataclass(frozen=True)
class Refusal:
    """A call that must be refused.

    Attributes:
        name: the rule it breaks.
        make: draws the arguments.
        error: the class that the contract names.
        text: the whole message, or a part of it that holds the given and the allowed value.
        data: the rule is on data, so only a call that may read it refuses; the fake accepts.
        targets: the targets it has a meaning on; empty for all.
    """

    name: str
    make: Make
    error: type[Exception]
    text: str
    data: bool = False
    targets: tuple[str, ...] = ()
