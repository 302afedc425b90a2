"""Runs saved programs in a process of its own: run_programs.py GIVEN RESULT MODULES PROGRAM...

GIVEN holds the arguments of each program. MODULES, separated by commas, are imported first, and nothing else of
TileVL. A PROGRAM whose name ends in ``.exported.pt2`` is torch.export's, else AOTInductor's. RESULT then holds what
each program returned and its arguments after the call, or the text of the RuntimeError that refused to load it; and
which packages of TileVL are there.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import torch


def load(program: str) -> Callable[..., Any]:
    """The function that a file holds."""
    if program.endswith(".exported.pt2"):
        return torch.export.load(program).module()
    return torch._inductor.aoti_load_package(program)


def main(given: str, result: str, modules: str, *programs: str) -> None:
    """Imports, loads, runs, saves."""
    for module in filter(None, modules.split(",")):
        importlib.import_module(module)
    outcomes: list[dict[str, Any]] = []
    for program, args in zip(programs, torch.load(given), strict=True):
        try:
            call = load(program)
        except RuntimeError as error:  # what both loaders raise for an op that isn't registered
            outcomes.append({"error": str(error)})
        else:
            outcomes.append({"returned": call(*args), "args": args})
    there = sorted({".".join(name.split(".")[:2]) for name in sys.modules if name.startswith("tilevl.")})
    torch.save({"outcomes": outcomes, "packages": there}, result)


if __name__ == "__main__":
    main(*sys.argv[1:])
