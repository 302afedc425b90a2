"""All ops on the CPU in a forked child, in a process of its own; run by test_first_calls.py.

``after_fork.py [called]`` imports every op, with ``called`` calls each as well, forks, and ends with 0 where the child
got what the parent gets afterwards. A child of a parent that has called takes one thread, as the workers of torch's
DataLoader do: the pool of OpenMP doesn't outlive a fork, and any parallel operator of torch would wait for it for ever.
"""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module

import every_op
import torch
from torch import Tensor


def outcomes() -> list[Tensor]:
    """What every op gives for the same draws."""
    device = torch.device("cpu")
    return [every_op.call(op, every_op.draw(op, 5, device)) for op in every_op.PACKAGES]


def main(called: bool) -> int:
    """Forks, compares, and returns the exit code."""
    for package in every_op.PACKAGES.values():
        import_module(f"tilevl.{package}")
    if called:
        outcomes()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        if called:
            torch.set_num_threads(1)
        with os.fdopen(writer, "wb") as pipe:
            torch.save(outcomes(), pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        content = pipe.read()
    _, status = os.waitpid(child, 0)
    theirs = torch.load(io.BytesIO(content))
    same = [torch.equal(a, b) for a, b in zip(outcomes(), theirs, strict=True)]
    sys.stdout.write(f"child ended with {status}, {sum(same)} of {len(same)} results are the parent's\n")
    return int(status != 0 or not all(same) or len(same) < 6)


if __name__ == "__main__":
    sys.exit(main("called" in sys.argv))
