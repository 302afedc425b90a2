"""Fixtures of the host model's tests."""

from __future__ import annotations

import numpy as np
import pytest
import torch


@pytest.fixture
def generator(rng: torch.Generator) -> np.random.Generator:
    """Numpy's generator, seeded from the test's id as ``rng`` is."""
    return np.random.default_rng(rng.initial_seed())
