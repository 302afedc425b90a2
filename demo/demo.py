"""A page image through all five ops on the CPU: ``nox -s demo``, or ``nox -s demo -- path/to/page.bmp``.

Prints a line per step (shape, dtype, checksum of the bytes, milliseconds) and writes ``page-from-patches.png``, the
page put together again from its patches, so that orientation and colours can be seen.
"""

from __future__ import annotations

import argparse
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch
from model import IMAGE_TOKEN, MERGE, VOCABULARY, LanguageSide, Merge, Sizes, VisionBlock
from page import render
from PIL import Image
from rich.console import Console
from rich.table import Table
from torch import Tensor

from tilevl.bmp_to_patches import BmpBatch, bmp_to_patches, read_bmp
from tilevl.bmp_to_patches.preview import patches_to_image
from tilevl.prepare_image_attn_pos_id import prepare_image_attn_pos_id
from tilevl.testing.require import cpp_compiler

PATCH = 16
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)

Result = TypeVar("Result")


class Steps:
    """Runs the steps of the demo one after another, and remembers what each gave."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._table = Table("step", "result", "dtype", "checksum", "ms", title="One page through the five ops, on CPU")
        self._table.columns[4].justify = "right"

    def run(self, name: str, step: Callable[[], Result], show: Callable[[Result], Tensor] | None = None) -> Result:
        """Runs a step with a spinner, and adds its line to the table."""
        with self._console.status(f"{name} ..."):
            start = time.perf_counter()
            result = step()
            spent = (time.perf_counter() - start) * 1e3
        tensor = result if show is None else show(result)
        assert isinstance(tensor, Tensor)
        self._table.add_row(name, str(list(tensor.shape)), str(tensor.dtype)[6:], checksum(tensor), f"{spent:,.1f}")
        self._console.print(f"  {name}: {spent:,.1f} ms", style="dim")
        return result

    def print(self) -> None:
        """Prints the table."""
        self._console.print(self._table)


def checksum(tensor: Tensor) -> str:
    """CRC-32 of a tensor's bytes, row-major."""
    data = tensor.detach().contiguous().flatten().view(torch.uint8)
    return f"{zlib.crc32(data.numpy()):08x}"


def main(arguments: list[str] | None = None) -> int:
    """Runs the demo; returns the exit code."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "page", type=Path, nargs="?", help="a 24-bit or 32-bit BMP (default: a page with text is drawn)"
    )
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the pictures (default: %(default)s)")
    parser.add_argument("--side", type=int, default=1024, help="pixels of the drawn page's side (default: %(default)s)")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    page = options.page
    if page is None:
        page = options.out / "page.bmp"
        render(page, options.side)
    console = Console(width=None if sys.stdout.isatty() else 110)
    console.print(f"page: {page}")
    steps = Steps(console)
    try:  # trimmed to whole squares of MERGE x MERGE patches
        batch = steps.run("read_bmp", lambda: read_bmp(page, PATCH, window=MERGE), lambda batch: batch.pixels)
    except (OSError, ValueError) as error:  # no such file, or not a BMP that can be read
        parser.exit(2, f"demo: {error}\n")
    if batch.total_patches == 0:
        parser.exit(2, f"demo: {page} is smaller than {MERGE * PATCH} x {MERGE * PATCH} pixels: nothing to look at\n")
    picture = options.out / "page-from-patches.png"
    with torch.no_grad():
        same = run(steps, batch, picture)
    steps.print()
    if cpp_compiler() is None:
        console.print("There is no C++ compiler here, which the inductor backend needs, so the graph ran on aot_eager.")
    console.print(f"The compiled graph gives the bytes of eager mode: {'yes' if same else 'NO'}")
    console.print(f"The page from its patches: {picture}")
    return 0 if same else 1


def run(steps: Steps, batch: BmpBatch, picture: Path) -> bool:
    """Takes a page through the chain, writes the picture; whether the compiled graph gave the bytes of eager mode."""
    torch.manual_seed(0)
    sizes = Sizes()
    height, width = batch.crops[0, 2:].tolist()
    grid = height // PATCH, width // PATCH
    count = batch.total_patches // MERGE**2

    def patchify() -> Tensor:
        return bmp_to_patches(
            batch.pixels, batch.crops, batch.cu_patches, batch.total_patches, PATCH, CLIP_MEAN, CLIP_STD,
            bytes_per_pixel=batch.bytes_per_pixel,
        )  # fmt: skip

    patches = steps.run("bmp_to_patches", patchify)
    image = steps.run("page from patches", lambda: patches_to_image(patches, height, width, PATCH, CLIP_MEAN, CLIP_STD))
    Image.fromarray(image.numpy()).save(picture)

    vision = VisionBlock(patches.shape[1], grid, sizes).bfloat16()
    tokens = steps.run(f"vision block, attn_rel_h_rel_w over {grid[0]} x {grid[1]}", lambda: vision(patches))
    total = grid[0] * grid[1]
    position = steps.run(
        "prepare_image_attn_pos_id",
        lambda: prepare_image_attn_pos_id(torch.tensor([grid]), torch.tensor([0, total]), total),
    )
    merge = Merge(grid, sizes).bfloat16()
    image_embeds = steps.run(f"merge {MERGE} x {MERGE}", lambda: merge(tokens, position))

    before, after = 12, 20
    prompt = torch.randint(IMAGE_TOKEN + 1, VOCABULARY, (before + count + after,))
    prompt[before : before + count] = IMAGE_TOKEN
    groups = 2 if count % 2 == 0 else 1  # a count is a multiple of the groups
    language = LanguageSide(sizes, groups).bfloat16()
    inputs = prompt, image_embeds, torch.tensor([before]), torch.tensor([count])
    backend = "inductor" if cpp_compiler() else "aot_eager"
    compiled = torch.compile(language, fullgraph=True, backend=backend)
    steps.run(f"language side, torch.compile({backend}), first call", lambda: compiled(*inputs), lambda out: out[0])
    sequence, scores = steps.run("replace and shuffle in that graph", lambda: compiled(*inputs), lambda out: out[0])
    steps.run("scores of the next token", lambda: scores)
    return torch.equal(language(*inputs)[0], sequence)


if __name__ == "__main__":
    sys.exit(main())
