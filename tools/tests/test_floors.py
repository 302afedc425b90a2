from __future__ import annotations

import floors
import pytest
import tree


class Op(tree.Package):
    @property
    def requirements(self) -> list[str]:
        return ["torch>=2.10", "tilevl-core>=0.3,<1"]


OP = Op("rope", tree.ROOT, is_op=True)


@pytest.mark.parametrize(
    ("released", "current", "lowest"),
    [
        (["0.2.0", "0.3.0", "0.4.0"], "0.4.0", "0.3.0"),
        (["0.10.0", "0.9.0"], "0.10.0", "0.9.0"),
        (["0.2.0"], "0.3.1", "0.3.1"),
        (["0.5.0"], "1.0.0", "0.5.0"),
    ],
)
def test_the_lowest_core_in_the_range_is_taken(released: list[str], current: str, lowest: str) -> None:
    assert floors.lowest_core(OP, released, current) == lowest


def test_a_range_that_no_core_is_in_is_an_error() -> None:
    with pytest.raises(SystemExit, match=r"asks for tilevl-core<1,>=0\.3, and there are only 0\.2\.0, 1\.0\.0"):
        floors.lowest_core(OP, ["0.2.0"], "1.0.0")
