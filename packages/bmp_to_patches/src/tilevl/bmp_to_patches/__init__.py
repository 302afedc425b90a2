"""Raw BMP pixel rows to normalised ViT patches, many images in one launch: a torch op for CPU, CUDA and Ascend NPU."""

from tilevl.bmp_to_patches._version import __version__
from tilevl.bmp_to_patches.op import bmp_to_patches
from tilevl.bmp_to_patches.read_bmp import BmpBatch, read_bmp

__all__ = ["BmpBatch", "__version__", "bmp_to_patches", "read_bmp"]
