"""Many calls of each op with changing counts: memory, and whether results stay the same.

``python tests-integration/soak.py --target cpu --calls 10000``; on CUDA ``--replays 10000`` adds as many replays of a
captured call, over inputs that change. It ends with 1 where memory isn't flat or a result differs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from collections.abc import Callable

import every_op
import torch
from torch import Tensor

from tilevl.core import targets
from tilevl.testing.graphs import capture
from tilevl.testing.soak import soaked

DRAWN = 8  # different arguments, in turn
WARM_UP = 50 * DRAWN  # torch.tensor of a list fills free lists for some hundred calls


class Calls:
    """Calls of one op, each compared with the first one on the same draw."""

    def __init__(self, op: str, device: torch.device) -> None:
        self.op = op
        self.drawn = [every_op.draw(op, seed, device) for seed in range(DRAWN)]
        self.first = [self.outcome(i).clone() for i in range(DRAWN)]
        self.different = 0

    def outcome(self, i: int) -> Tensor:
        """What a new call gives."""
        first, *rest = self.drawn[i % DRAWN]
        return every_op.call(self.op, (first.clone(), *rest))

    def __call__(self, i: int) -> None:
        """Calls and compares."""
        self.different += not torch.equal(self.outcome(i), self.first[i % DRAWN])


class Replays(Calls):
    """Replays of one captured call, its inputs overwritten before each."""

    def __init__(self, op: str, device: torch.device) -> None:
        super().__init__(op, device)
        self.fixed = tuple(arg.clone() if isinstance(arg, Tensor) else arg for arg in self.drawn[0])
        self.replay = capture(lambda: every_op.call(op, self.fixed))

    def outcome(self, i: int) -> Tensor:
        """What a replay gives."""
        if not hasattr(self, "replay"):
            return super().outcome(i)
        for place, value in zip(self.fixed, self.drawn[i % DRAWN], strict=True):
            if isinstance(place, Tensor):
                place.copy_(value)
        return self.replay()


def report(op: str, kind: str, make: Callable[[str, torch.device], Calls], count: int, device: torch.device) -> bool:
    """Soaks one op, prints a line for each measure, and returns whether all is well."""
    calls = make(op, device)
    for i in range(WARM_UP):
        calls(i)
    start = time.monotonic()
    trends = soaked(calls, count, device)
    print(f"{op}: {count} {kind} in {time.monotonic() - start:.1f} s, {calls.different} results differ")
    for trend in trends:
        print(f"  {trend}")
    return calls.different == 0 and all(trend.is_flat for trend in trends)


def main() -> int:
    """Soaks what is asked for, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="soak.py", description=__doc__)
    parser.add_argument("--target", choices=["cpu", "cuda", "ascend"], default="cpu")
    parser.add_argument("--op", choices=[*every_op.PACKAGES], action="append", help="one op; else all with the target")
    parser.add_argument("--calls", type=int, default=10000)
    parser.add_argument("--replays", type=int, default=0)
    options = parser.parse_args()
    if options.target == "ascend":
        from tilevl.testing.simulated_npu import simulated_npu

        simulated_npu().launches = deque(maxlen=1)  # else it keeps a thousand, with what they counted
    device = torch.device(targets.TARGETS[options.target].device_type)
    good = True
    for op in options.op or every_op.with_target(options.target):
        if options.calls:
            good &= report(op, "calls", Calls, options.calls, device)
        if options.replays:
            good &= report(op, "replays", Replays, options.replays, device)
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
