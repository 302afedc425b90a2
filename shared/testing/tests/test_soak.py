"""What measures memory over many calls: lines through samples, and leaks that it must see."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from tilevl.testing import soak

CPU = torch.device("cpu")


def test_line_is_the_one_of_least_squares() -> None:
    rng = np.random.default_rng(5)
    samples = 3.0 * np.arange(60) + rng.normal(0, 4, 60)
    slope, half_width = soak.fitted(samples.tolist(), 10)
    (expected, _), covariance = np.polyfit(np.arange(60), samples, 1, cov=True)
    assert slope == pytest.approx(expected / 10)
    assert half_width == pytest.approx(1.96 * covariance[0, 0] ** 0.5 / 10)


@pytest.mark.parametrize("samples", [[], [1.0, 2.0]])
def test_too_few_samples_are_refused(samples: list[float]) -> None:
    with pytest.raises(ValueError, match=f"samples must be at least 3, got {len(samples)}"):
        soak.fitted(samples, 1)


@pytest.mark.parametrize("calls", [0, 50, 150])
def test_calls_must_fill_the_samples(calls: int) -> None:
    with pytest.raises(ValueError, match=f"calls must be a multiple of 100, got {calls}"):
        soak.soaked(lambda i: None, calls, CPU)


def trends(call: Callable[[int], object]) -> dict[str, soak.Trend]:
    return {trend.name: trend for trend in soak.soaked(call, 500, CPU)}


def test_each_call_is_made_once_in_order_and_a_clean_one_is_flat() -> None:
    made = np.zeros(500, dtype=np.int64)

    def call(i: int) -> None:
        made[i] = made[i - 1] + 1 if i else 1
        torch.zeros(1000).add_(1)

    seen = trends(call)
    assert made.tolist() == list(range(1, 501))
    assert all(trend.is_flat for trend in seen.values()), [*map(str, seen.values())]


def test_one_object_kept_by_each_call_is_seen() -> None:
    kept: list[object] = []
    seen = trends(lambda i: kept.append(object()))
    assert not seen["Python's blocks"].is_flat
    assert seen["Python's blocks"].slope == pytest.approx(1, abs=0.2)


def test_memory_kept_outside_python_is_seen() -> None:
    kept: list[torch.Tensor] = []
    seen = trends(lambda i: kept.append(torch.ones(2**16)))
    assert not seen["resident memory"].is_flat
    assert seen["resident memory"].slope == pytest.approx(2**18, rel=0.1)
    assert "NOT FLAT" in str(seen["resident memory"])
