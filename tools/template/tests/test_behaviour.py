"""What the contract promises beyond single calls."""

from __future__ import annotations

import torch
from torch import Generator

from tilevl.new_op import new_op
from tilevl.testing import same_bits


def test_an_order_and_its_inverse_restore_the_rows(device: torch.device, rng: Generator) -> None:
    rows = torch.randn(50, 12, generator=rng)
    order = torch.randperm(50, generator=rng)
    there = new_op(rows.to(device), order.to(device))
    assert not same_bits(there, rows)
    assert same_bits(new_op(there, torch.argsort(order).to(device)), rows)
