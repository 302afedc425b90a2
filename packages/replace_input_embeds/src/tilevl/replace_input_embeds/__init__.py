"""Image embeddings into the language model's input, in place: a torch op for CPU, CUDA and Ascend NPU."""

from tilevl.replace_input_embeds._version import __version__
from tilevl.replace_input_embeds.op import replace_input_embeds
from tilevl.replace_input_embeds.token_index.op import image_token_index

__all__ = ["__version__", "image_token_index", "replace_input_embeds"]
