"""Why a call keeps the model's own path, and the one warning that says so."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from tilevl.core import targets
from tilevl.core.environment import can_run

FLOATS = (torch.bfloat16, torch.float16, torch.float32)

_Function = TypeVar("_Function", bound=Callable[..., object])

_warned: set[tuple[str, str]] = set()
_availability: dict[tuple[str, str], str] = {}


def _while_traced(function: _Function) -> _Function:
    """What ``torch.compiler.assume_constant_result`` does, without loading the compiler: a graph calls it once."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@_while_traced
def warn_once(run: str, reason: str) -> None:
    """Warns that a call keeps the model's own path, unless the same ``accelerate`` has said so before.

    Args:
        run: names one call of ``accelerate``.
        reason: the rule that the call breaks.
    """
    if (run, reason) not in _warned:
        _warned.add((run, reason))
        warnings.warn(f"accelerate: the model's own path is kept: {reason}", stacklevel=2)


def gradient(*tensors: Tensor) -> str:
    """Against a call whose result would have to carry a gradient; empty where none is wanted."""
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return "the ops have no gradient, and grad mode is on: use torch.inference_mode() or torch.no_grad()"
    return ""


@_while_traced
def device(op: str, device_type: str) -> str:
    """Against a device that can't run an op, with what to do about it; empty where it can. Looks once in a process.

    Args:
        op: the op's name, which is that of its package below ``tilevl`` too.
        device_type: ``torch.device.type`` of the data.
    """
    if (op, device_type) not in _availability:
        _availability[op, device_type] = _look(op, device_type)
    return _availability[op, device_type]


def _look(op: str, device_type: str) -> str:
    served = {target.device_type: target.name for target in targets.TARGETS.values()}
    if device_type not in served:
        return f"{op} doesn't run on {device_type}"
    target = targets.npu_target() if device_type == "npu" else served[device_type]
    if not targets.has_kernel(f"tilevl.{op}", target):
        return f"{op} has no kernels for {target}"
    if target == "cpu":
        return ""
    failed = [f"{check.name}: {check.evidence}. {check.remedy}" for check in can_run(target)]
    return f"{op} can't run on {target}: {'; '.join(failed)}" if failed else ""


def version(installed: str, specifiers: str) -> str:
    """Against a version of transformers that this package doesn't know; empty where it does.

    Args:
        installed: version of the transformers that is loaded.
        specifiers: the range that this package asks for.
    """
    from packaging.specifiers import SpecifierSet

    if SpecifierSet(specifiers).contains(installed, prereleases=True):
        return ""
    return f"transformers must be {specifiers}, got {installed}"
