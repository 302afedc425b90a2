"""Row and column of every image token for 2-D position embeddings: a torch op for CPU, CUDA and Ascend NPU."""

from tilevl.prepare_image_attn_pos_id._version import __version__
from tilevl.prepare_image_attn_pos_id.op import prepare_image_attn_pos_id

__all__ = ["__version__", "prepare_image_attn_pos_id"]
