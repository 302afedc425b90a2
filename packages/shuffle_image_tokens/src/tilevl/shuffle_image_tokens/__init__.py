"""Interleaves each image's token rows in place: a torch op for CPU, CUDA and Ascend NPU."""

from tilevl.shuffle_image_tokens._version import __version__
from tilevl.shuffle_image_tokens.op import shuffle_image_tokens

__all__ = ["__version__", "shuffle_image_tokens"]
