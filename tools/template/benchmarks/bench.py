"""new_op beside torch's own gather: verifies, then times."""

from __future__ import annotations

import torch

from tilevl.new_op import new_op
from tilevl.testing import same_bits
from tilevl.testing.benchmark import Row, interleaved, options, report


def main() -> None:
    choice = options(__doc__, "cpu")
    table = []
    for count, width in ((1000, 256), (8000, 1024)):
        rows, index = torch.randn(count, width).bfloat16(), torch.randint(0, count, (count,))
        assert same_bits(new_op(rows, index), rows[index])
        calls = {"new_op": lambda r=rows, i=index: new_op(r, i), "rows[index]": lambda r=rows, i=index: r[i]}
        for name, microseconds in interleaved(calls, rounds=choice.rounds).items():
            table.append(Row(f"[{count}, {width}]", name, microseconds))
    report(f"new_op-{choice.target}", table, choice.out)


if __name__ == "__main__":
    main()
