"""Attention of the SAM image encoders through ``attn_rel_h_rel_w``: the bias stays two small tables, never S x S."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tilevl.attn_rel_h_rel_w import attn_rel_h_rel_w
from tilevl.integrations.transformers import own_path

OP = "attn_rel_h_rel_w"


def unusable(module: Any) -> str:
    """Why a module's attention can't be swapped at all; empty where it can."""
    if not module.use_rel_pos:
        return "it has no relative position"
    sample = torch.empty(1, 0, module.num_attention_heads, module.rel_pos_h.shape[1], device="meta")
    try:
        attn_rel_h_rel_w(sample, sample, sample, sample, sample, 0, 0)
    except ValueError as error:  # the op's own words about the head dim
        return str(error)
    return ""


def forward(
    module: Any, run: str, hidden_states: Tensor, output_attentions: bool | None = None
) -> tuple[Tensor, Tensor | None]:
    """Stands for ``forward`` of a SAM vision attention, global or windowed.

    Args:
        module: the attention, with ``qkv``, ``proj``, ``rel_pos_h`` ``[2 * rows - 1, head dim]``, ``rel_pos_w``.
        run: names the call of ``accelerate``.
        hidden_states: ``[batch, grid_h, grid_w, channels]``; of a windowed layer the batch holds the windows.
        output_attentions: true keeps the model's own path.

    Returns:
        The result ``[batch, grid_h, grid_w, channels]``, and None for the attention weights, which never exist.
    """
    reason = _against(module, hidden_states, output_attentions)
    if reason:
        own_path.warn_once(run, reason)
        result: tuple[Tensor, Tensor | None] = type(module).forward(module, hidden_states, output_attentions)
        return result
    _, height, width, _ = hidden_states.shape
    qkv = module.qkv(hidden_states).flatten(1, 2).unflatten(2, (3, module.num_attention_heads, -1))
    query, key, value = qkv.unbind(2)
    rel_h, rel_w = tables(query, module.rel_pos_h, module.rel_pos_w, height, width)
    out = attn_rel_h_rel_w(query, key, value, rel_h, rel_w, height, width)
    return module.proj(out.flatten(2).unflatten(1, (height, width))), None


def tables(query: Tensor, rel_pos_h: Tensor, rel_pos_w: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Each query's bias for each row and each column of keys: its products with the embeddings of their distances.

    Args:
        query: ``[batch, height * width, heads, head dim]``, not scaled.
        rel_pos_h: ``[any, head dim]``, an embedding for each distance of rows, interpolated where it has other than
            ``2 * height - 1``.
        rel_pos_w: the same for columns.
        height: rows of the grid.
        width: columns of the grid.

    Returns:
        ``[batch, height * width, heads, height]`` and ``[batch, height * width, heads, width]``.
    """
    heads = query.shape[2]
    grid = query.unflatten(1, (height, width))
    by_row = grid.flatten(2, 3) @ _by_distance(rel_pos_h, height)
    by_column = grid.transpose(1, 2).flatten(2, 3) @ _by_distance(rel_pos_w, width)
    rel_h = by_row.unflatten(2, (width, heads)).flatten(1, 2)
    rel_w = by_column.unflatten(2, (height, heads)).transpose(1, 2).flatten(1, 2)
    return rel_h, rel_w


def _by_distance(rel_pos: Tensor, side: int) -> Tensor:
    """``[side, head dim, side]``: for a query's place i and a key's place j, row ``i - j + side - 1`` of rel_pos."""
    distances = 2 * side - 1
    if rel_pos.shape[0] != distances:
        rel_pos = nn.functional.interpolate(rel_pos.t().unsqueeze(0), size=distances, mode="linear")[0].t()
    return rel_pos.flip(0).unfold(0, side, 1).flip(0)


def _against(module: Any, hidden_states: Tensor, output_attentions: bool | None) -> str:
    reason = own_path.gradient(hidden_states, *module.parameters())
    if reason:
        return reason
    if output_attentions or _are_recorded(module):
        return "output_attentions asks for weights that the op never makes"
    if module.training and module.dropout > 0:
        return "the op has no dropout, and the model is in training mode: use model.eval()"
    kind = hidden_states.device.type
    autocast = torch.is_autocast_enabled(kind) if kind in ("cpu", "cuda") else False
    dtype = torch.get_autocast_dtype(kind) if autocast else hidden_states.dtype
    if dtype not in own_path.FLOATS or (dtype == torch.float32 and kind != "cpu"):
        return f"{OP} takes bfloat16 and float16, on CPU float32 too, got {dtype} on {kind}"
    return own_path.device(OP, kind)


def _are_recorded(module: Any) -> bool:
    """Whether transformers collects attention weights, which it does by hooks and never says to the module."""
    from transformers.utils import output_capturing

    collector = output_capturing._active_collector
    if not torch.compiler.is_compiling():
        recorded = collector.get()
    else:  # as transformers itself does: a graph can't ask a context variable
        recorded = collector.global_var
        if recorded is None:  # the collector may lie outside of the graph, and its hook within
            return any(hook.__module__ == output_capturing.__name__ for hook in module._forward_hooks.values())
    return recorded is not None and "attentions" in recorded
