"""What must hold for read_bmp on any bytes whatever: the judge of the fuzzed tests."""

from __future__ import annotations

import io
import time
import tracemalloc
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils._python_dispatch import TorchDispatchMode

from tilevl.bmp_to_patches import BmpBatch, bmp_to_patches, read_bmp

# Memory that a call may take: a growing copy of the pixels (9/8), a piece of the file, a repacked copy, the batch.
TIMES_THE_FILE, BESIDE_THE_FILE = 5, 2**16
SECONDS = 1.0


class Allocated(TorchDispatchMode):
    """Adds up the bytes of the tensors that operators return with memory of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        mine = {value.untyped_storage().data_ptr() for value in args if isinstance(value, torch.Tensor)}
        if isinstance(result, torch.Tensor) and result.untyped_storage().data_ptr() not in mine:
            self.bytes += result.untyped_storage().nbytes()
        return result


def judge(content: bytes, patch_size: int = 1, window: int = 1) -> str:
    """Reads a file, and raises AssertionError where that breaks a rule; returns what became of it, in a few words.

    The rules: a batch, or a ValueError in read_bmp's own words; at most a second of this process's time, and memory of
    at most a small multiple of the file; a batch that the op takes, with the pixels that Pillow sees where Pillow takes
    the file too.
    """
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    batch, message, allocated = None, "", Allocated()
    start = time.process_time()
    try:
        with allocated:
            batch = read_bmp(content, patch_size, window)
    except ValueError as error:
        message = str(error)
        assert message.startswith("read_bmp: files[0] (bytes) "), message
        assert len(message) < 400, message
    finally:
        seconds = time.process_time() - start
        used = tracemalloc.get_traced_memory()[1] - before + allocated.bytes
        if not tracing:
            tracemalloc.stop()
    limit = TIMES_THE_FILE * len(content) + BESIDE_THE_FILE
    assert used <= limit, f"{used} bytes allocated for a file of {len(content)}, allowed are {limit}"
    assert seconds <= SECONDS, f"{seconds:.1f} s"
    if "convert it with Pillow" in message:
        return "refused by kind"
    if batch is None:
        return "called broken, Pillow " + ("refuses" if by_pillow(content) is None else "takes")
    seen, theirs = pixels_of(batch, patch_size, window), by_pillow(content)
    if theirs is None:
        return "taken, Pillow refuses"
    height, width = (size - size % (patch_size * window) for size in theirs.shape[:2])
    assert np.array_equal(seen, theirs[:height, :width]), f"Pillow sees other pixels:\n{theirs}\nread are:\n{seen}"
    return "taken, Pillow takes"


def pixels_of(batch: BmpBatch, patch_size: int, window: int) -> np.ndarray:
    """The one image of a batch, uint8 ``[height, width, 3]``, by way of the op."""
    assert batch.crops.shape == (1, 4) and batch.cu_patches.tolist() == [0, batch.total_patches]
    patches = bmp_to_patches(*batch[:4], patch_size, 0.0, 1.0, batch.bytes_per_pixel, window, torch.float32)
    rows, columns = (int(size) // patch_size for size in batch.crops[0, 2:])
    shape = (rows // window, columns // window, window, window, 3, patch_size, patch_size)
    image = (patches.numpy() * 255).round().astype(np.uint8).reshape(shape)
    return image.transpose(0, 2, 5, 1, 3, 6, 4).reshape(rows * patch_size, columns * patch_size, 3)


def by_pillow(content: bytes) -> np.ndarray | None:
    """The pixels that Pillow sees, uint8 ``[height, width, 3]``; None where it takes no such file.

    It makes the whole image before it looks whether the file holds it, so it isn't shown a header that asks for more.
    """
    try:
        image = Image.open(io.BytesIO(content), formats=["BMP"])
        if image.width * image.height > 100 * len(content):
            return None
        return np.asarray(image.convert("RGB"))
    except Exception:  # anything: a spoilt file is Pillow's to refuse in its own way, and Pillow isn't under test
        return None
