"""``accelerate``: finds the modules that the ops can serve, swaps them in place, and can undo it."""

from __future__ import annotations

import functools
import logging
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from types import TracebackType
from typing import Any

from torch import nn

from tilevl.integrations.transformers import attention, merge, own_path, position_ids

DISTRIBUTION = "tilevl-transformers"

_log = logging.getLogger("tilevl.integrations.transformers")


@dataclass(frozen=True)
class Swapped:
    """A module that runs an op now.

    Attributes:
        name: its place in the model, as ``named_modules`` writes it; empty for the model itself.
        op: the op that it runs.
        method: the module's method that the op stands in.
    """

    name: str
    op: str
    method: str


@dataclass(frozen=True)
class Skipped:
    """A module of a supported class that keeps the model's own path.

    Attributes:
        name: its place in the model.
        reason: why.
    """

    name: str
    reason: str


@dataclass(frozen=True)
class _Kind:
    """What is done with the modules of a class: one method gives way to a function that takes the module first."""

    op: str
    method: str
    function: Callable[..., Any]
    unusable: Callable[[nn.Module], str] = lambda module: ""


_ATTENTION = _Kind(attention.OP, "forward", attention.forward, attention.unusable)
_POSITIONS = _Kind(position_ids.OP, "forward", position_ids.forward)
_MERGE = _Kind(merge.OP, "get_placeholder_mask", merge.get_placeholder_mask)
_KINDS = {
    "deepseek_ocr2": {
        "DeepseekOcr2SamVisionAttention": _ATTENTION,
        "DeepseekOcr2SamVisionSdpaAttention": _ATTENTION,
        "DeepseekOcr2Model": _MERGE,
    },
    "got_ocr2": {"GotOcr2VisionAttention": _ATTENTION, "GotOcr2Model": _MERGE},
    "qwen2_5_vl": {"Qwen2_5_VisionTransformerPretrainedModel": _POSITIONS, "Qwen2_5_VLModel": _MERGE},
    "qwen2_vl": {"Qwen2VisionTransformerPretrainedModel": _POSITIONS, "Qwen2VLModel": _MERGE},
    "sam": {"SamVisionAttention": _ATTENTION, "SamVisionSdpaAttention": _ATTENTION},
    "sam_hq": {"SamHQVisionAttention": _ATTENTION, "SamHQVisionSdpaAttention": _ATTENTION},
}
_FUNCTIONS = {kind.function for kinds in _KINDS.values() for kind in kinds.values()}


class Acceleration:
    """What one call of ``accelerate`` swapped; a context manager that undoes it at its end.

    Attributes:
        swapped: the modules that run an op now, in the model's order.
        skipped: the modules of supported classes that were left alone, and why.
    """

    def __init__(self, model: nn.Module, swapped: list[Swapped], skipped: list[Skipped]) -> None:
        self.swapped = tuple(swapped)
        self.skipped = tuple(skipped)
        self._model = model

    def undo(self) -> None:
        """Gives the modules their own methods back; does nothing the second time.

        Raises:
            RuntimeError: a method was wrapped by something else since; nothing is undone.
        """
        modules = dict(self._model.named_modules())
        _give_back([(swap.name, modules[swap.name], swap.method) for swap in self.swapped if swap.name in modules])

    def __enter__(self) -> Acceleration:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.undo()

    def __repr__(self) -> str:
        lines = [f"{swap.name or 'the model'}: {swap.method} runs {swap.op}" for swap in self.swapped]
        lines += [f"{skip.name or 'the model'}: left alone, {skip.reason}" for skip in self.skipped]
        return "\n".join([f"Acceleration of {len(self.swapped)} modules", *lines])


def accelerate(model: nn.Module) -> Acceleration:
    """Lets a Hugging Face model run TileVL's ops, in place.

    Attention of the SAM encoders (``attn_rel_h_rel_w``), position ids of Qwen's vision towers
    (``prepare_image_attn_pos_id``) and the merge of image and text (``replace_input_embeds``) change; parameters,
    ``state_dict``, hooks and classes don't. A module that has been swapped before is left as it is. A call that an op
    can't do (a gradient, dropout in training, ``output_attentions``, a dtype or device) keeps the model's own path,
    with one warning for each reason.

    Args:
        model: the model, or any module that holds some of its modules; on any device, before or after
            ``torch.compile``.

    Returns:
        What was swapped; its ``undo`` takes it back.

    Raises:
        TypeError: it is no module.

    Example:
        >>> from transformers import SamConfig, SamModel
        >>> model = SamModel(SamConfig(vision_config={"num_hidden_layers": 2, "global_attn_indexes": [1]})).eval()
        >>> swapped = accelerate(model)
        >>> swapped
        Acceleration of 2 modules
        vision_encoder.layers.0.attn: forward runs attn_rel_h_rel_w
        vision_encoder.layers.1.attn: forward runs attn_rel_h_rel_w
        >>> swapped.undo()
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"accelerate: model must be a torch.nn.Module, got {type(model).__name__}")
    run = uuid.uuid4().hex
    swapped: list[Swapped] = []
    skipped: list[Skipped] = []
    unknown = _unknown_version()
    known = list(_known(model))
    for name, module, kind in known:
        override = module.__dict__.get(kind.method)
        if _is_ours(override):
            continue
        reason = unknown or kind.unusable(module)
        if not reason and override is not None:
            reason = f"its {kind.method} is wrapped already: accelerate first, or take the other's hooks away"
        if reason:
            skipped.append(Skipped(name, reason))
            own_path.warn_once(run, reason)
            continue
        setattr(module, kind.method, functools.partial(kind.function, module, run))
        swapped.append(Swapped(name, kind.op, kind.method))
        _log.info("%s.%s runs %s", name, kind.method, kind.op)
    if not known:
        own_path.warn_once(run, f"{type(model).__name__} holds no module of a class that is supported")
    return Acceleration(model, swapped, skipped)


def restore(model: nn.Module) -> None:
    """Undoes all that ``accelerate`` did to a model, which may be a copy or an unpickled one.

    Raises:
        RuntimeError: a method was wrapped by something else since; nothing is undone.
    """
    places = [(name, module, kind.method) for name, module, kind in _known(model)]
    # What wraps a method keeps the one that it wraps beside it.
    _give_back([place for place in places if any(map(_is_ours, place[1].__dict__.values()))])


def _give_back(places: list[tuple[str, nn.Module, str]]) -> None:
    found = [(name, module, method) for name, module, method in places if method in module.__dict__]
    wrapped = [name for name, module, method in found if not _is_ours(module.__dict__[method])]
    if wrapped:
        raise RuntimeError(f"undo: the methods must be as accelerate left them, got others in {', '.join(wrapped)}")
    for _, module, method in found:
        delattr(module, method)


def _known(model: nn.Module) -> Iterator[tuple[str, nn.Module, _Kind]]:
    for name, module in model.named_modules():
        home, _, file = type(module).__module__.rpartition(".")
        family = home.removeprefix("transformers.models.")
        if file == f"modeling_{family}" and type(module).__name__ in _KINDS.get(family, {}):
            yield name, module, _KINDS[family][type(module).__name__]


def _is_ours(override: object) -> bool:
    return isinstance(override, functools.partial) and override.func in _FUNCTIONS


def _unknown_version() -> str:
    """Against the transformers that is loaded; empty where none is, or one in the range that this package asks for."""
    loaded = sys.modules.get("transformers")
    if loaded is None:
        return ""
    from packaging.requirements import Requirement

    asked = [Requirement(line) for line in metadata.requires(DISTRIBUTION) or []]
    return own_path.version(loaded.__version__, next(str(r.specifier) for r in asked if r.name == "transformers"))
