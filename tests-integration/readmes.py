"""The examples in the READMEs, and the recipes for transformers and vLLM, which need more than the packages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RECIPES = "In transformers and vLLM"
_SECTION = re.compile(r"^## ", re.MULTILINE)
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def readme_of(op: str) -> Path:
    """The README of an op."""
    return ROOT / "packages" / op / "README.md"


def examples(path: Path) -> list[str]:
    """The examples that stand for themselves, in their order."""
    return [block for title, blocks in _sections(path) if title != RECIPES for block in blocks]


def recipe(op: str, library: str) -> dict[str, Any]:
    """What the recipe of an op defines, run as it stands.

    Args:
        op: the package.
        library: ``transformers``, whose recipe comes first, or ``vllm``, whose recipe comes second.
    """
    path = readme_of(op)
    (found,) = [blocks for title, blocks in _sections(path) if title == RECIPES]
    for_transformers, for_vllm = found
    names: dict[str, Any] = {}
    exec(compile({"transformers": for_transformers, "vllm": for_vllm}[library], str(path), "exec"), names)
    return names


def _sections(path: Path) -> list[tuple[str, list[str]]]:
    parts = _SECTION.split(path.read_text(encoding="utf-8"))
    return [(part.partition("\n")[0], _BLOCK.findall(part)) for part in parts]
