"""Image embeddings into the text's through ``image_token_index`` and ``replace_input_embeds``.

The models ask ``get_placeholder_mask`` for a mask and give it to ``masked_scatter``. Here that mask is a tensor that
takes ``masked_scatter`` over, and nothing else: checks, order and outputs stay the model's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tilevl.integrations.transformers import own_path
from tilevl.replace_input_embeds import image_token_index, replace_input_embeds

OP = "replace_input_embeds"


class PlaceholderMask(Tensor):
    """A bool mask ``[batch, tokens, 1]`` for ``input_embeds.masked_scatter(mask, image_embeds)``."""

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Merges where the call is that ``masked_scatter``; does any other call as a plain tensor would."""
        with torch._C.DisableTorchFunctionSubclass():
            if func is Tensor.masked_scatter and len(args) == 3 and isinstance(args[1], PlaceholderMask):
                return merge(*args)
            return func(*args, **(kwargs or {}))


def merge(input_embeds: Tensor, mask: Tensor, image_embeds: Tensor) -> Tensor:
    """A copy of ``input_embeds`` with the rows that a mask names taken from ``image_embeds``, in order.

    Args:
        input_embeds: ``[batch, tokens, D]``.
        mask: bool ``[batch, tokens, 1]``, or expanded to D.
        image_embeds: as many rows of D as the mask has True entries, any leading dimensions.
    """
    rows = image_embeds.reshape(-1, input_embeds.shape[-1])
    merged = input_embeds.clone(memory_format=torch.contiguous_format)
    replace_input_embeds(merged, rows, image_token_index(mask[..., 0], rows.shape[0]))
    return merged


def get_placeholder_mask(
    module: Any, run: str, input_ids: Tensor | None, inputs_embeds: Tensor, *features: Tensor, **named_features: Tensor
) -> Any:
    """Stands for ``get_placeholder_mask`` of a multimodal model: the same checks, and masks that merge.

    Args:
        module: the model that merges.
        run: names the call of ``accelerate``.
        input_ids: ``[batch, tokens]``, or None.
        inputs_embeds: ``[batch, tokens, D]``.
        features: embeddings of images, or of videos.
        named_features: the same, by name.
    """
    masks = type(module).get_placeholder_mask(module, input_ids, inputs_embeds, *features, **named_features)
    given = [inputs_embeds, *(t for t in (*features, *named_features.values()) if t is not None)]
    reason = own_path.gradient(*given) or _against(given)
    if reason:
        own_path.warn_once(run, reason)
        return masks
    if isinstance(masks, tuple):
        return tuple(mask.as_subclass(PlaceholderMask) for mask in masks)
    return masks.as_subclass(PlaceholderMask)


def _against(given: list[Tensor]) -> str:
    first = given[0]
    if first.dtype not in own_path.FLOATS:
        return f"{OP} takes bfloat16, float16 and float32, got {first.dtype}"
    return own_path.device(OP, first.device.type)
