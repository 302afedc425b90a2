"""Attention with a relative-position bias given as two small tables: a torch op for CPU, CUDA and Ascend NPU."""

from tilevl.attn_rel_h_rel_w._version import __version__
from tilevl.attn_rel_h_rel_w.op import attn_rel_h_rel_w

__all__ = ["__version__", "attn_rel_h_rel_w"]
