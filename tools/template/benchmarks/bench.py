"""new_op beside torch's own gather: verifies, then times. ``nox -s "bench(op='new_op', target='cpu')"``."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from tilevl.new_op import new_op
from tilevl.testing import same_bits
from tilevl.testing.benchmark import Row, interleaved, report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="cpu", choices=["cpu"], help="where it runs")
    parser.add_argument("--out", type=Path, help="folder for the JSON file and the picture")
    options = parser.parse_args()
    table = []
    for count, width in ((1000, 256), (8000, 1024)):
        rows, index = torch.randn(count, width).bfloat16(), torch.randint(0, count, (count,))
        assert same_bits(new_op(rows, index), rows[index])
        calls = {"new_op": lambda r=rows, i=index: new_op(r, i), "rows[index]": lambda r=rows, i=index: r[i]}
        for name, microseconds in interleaved(calls).items():
            table.append(Row(f"[{count}, {width}]", name, microseconds))
    report(f"new_op-{options.target}", table, options.out)


if __name__ == "__main__":
    main()
