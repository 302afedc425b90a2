"""What tells two calls apart: everything that a check may look at, and nothing else."""

from __future__ import annotations

import pytest
import torch

from tilevl.core.signatures import signature

BASE = torch.arange(24).view(4, 6)


def test_contents_and_addresses_make_no_difference() -> None:
    one, other = (torch.randint(0, 9, (3, 4)) for _ in range(2))
    assert signature((one, 2), True) == signature((other, 2), True) is not None


@pytest.mark.parametrize(
    "other",
    [
        (BASE[:3], 2, [1.0]),
        (BASE.t().contiguous().t(), 2, [1.0]),
        (BASE.int(), 2, [1.0]),
        (BASE.to("meta"), 2, [1.0]),
        (BASE, 3, [1.0]),
        (BASE, 2, [1.5]),
    ],
    ids=["shape", "strides", "dtype", "device", "number", "list"],
)
def test_metadata_makes_a_difference(other: tuple[object, ...]) -> None:
    assert signature((BASE, 2, [1.0]), False) != signature(other, False)


def test_tensors_that_share_a_storage_have_no_signature_where_one_is_written() -> None:
    assert signature((BASE[:2], BASE[2:]), True) is None
    assert signature((BASE[:2], BASE[2:]), False) is not None
    assert signature((BASE[:2], BASE.clone()), True) is not None
