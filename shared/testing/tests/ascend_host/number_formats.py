"""Small floating formats as sorted tables of their values, and rounding to them by search."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Format:
    """A sign bit, then exponent and fraction bits; ``infinities`` says whether the largest exponent holds them."""

    exponent_bits: int
    fraction_bits: int
    infinities: bool

    @cached_property
    def magnitudes(self) -> NDArray[np.float64]:
        """The values of the finite non-negative codes, in code order, which is their order too."""
        bias = 2 ** (self.exponent_bits - 1) - 1
        codes = np.arange(2 ** (self.exponent_bits + self.fraction_bits))
        field, fraction = np.divmod(codes, 2**self.fraction_bits)
        value = np.where(
            field == 0,
            np.ldexp(fraction.astype(np.float64), 1 - bias - self.fraction_bits),
            np.ldexp(2.0**self.fraction_bits + fraction, field - bias - self.fraction_bits),
        )
        finite = field < 2**self.exponent_bits - 1 if self.infinities else codes < codes[-1]
        return value[finite]

    @property
    def sign(self) -> int:
        return 1 << (self.exponent_bits + self.fraction_bits)

    def values(self) -> NDArray[np.float64]:
        """The value of every code, NaN and infinities included."""
        half = np.full(self.sign, np.nan)
        half[: len(self.magnitudes)] = self.magnitudes
        if self.infinities:
            half[len(self.magnitudes)] = np.inf
        return np.concatenate([half, -half])

    def rounded(self, x: NDArray[np.floating], mode: str) -> NDArray[np.float64]:
        """Finite ``x`` to a neighbour in the table extended by one value past its end; that one stands for overflow."""
        x = np.asarray(x, dtype=np.float64)
        step = self.magnitudes[-1] - self.magnitudes[-2]
        grid = np.append(self.magnitudes, self.magnitudes[-1] + step)
        size = np.minimum(np.abs(x), grid[-1])
        low = np.minimum(np.searchsorted(grid, size, side="right") - 1, len(grid) - 2)
        below, above = grid[low], grid[low + 1]
        middle = (below + above) / 2
        toward_higher = {
            "even": (size > middle) | ((size == middle) & (low % 2 == 1)),
            "away": size >= middle,
            "floor": (x < 0) & (size > below),
            "ceil": (x > 0) & (size > below),
            "zero": np.zeros_like(size, dtype=bool),
            "odd_ties": (size > middle) | ((size == middle) & (low % 2 == 0)),
            "odd_sticky": (size > below) & (low % 2 == 0),
        }[mode]
        return np.copysign(np.where((size == above) | toward_higher, above, below), x)


FP16 = Format(5, 10, infinities=True)
BF16 = Format(8, 7, infinities=True)
E4M3 = Format(4, 3, infinities=False)
E5M2 = Format(5, 2, infinities=True)


def float32_probes(generator: np.random.Generator, target: Format, count: int = 4000) -> NDArray[np.float32]:
    """Values around the target's range: random bits, its own values, ties between them and their float32 neighbours."""
    grid = target.magnitudes
    pick = generator.integers(0, len(grid) - 1, count)
    exact = grid[pick]
    tie = (grid[pick] + grid[pick + 1]) / 2
    near = np.concatenate([exact, tie]).astype(np.float32)
    spread = np.concatenate([near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))])
    random = generator.integers(0, 2**32, count, dtype=np.uint32).view(np.float32)
    with np.errstate(over="ignore"):
        top = np.float32(grid[-1]) * np.array([0.999, 1.0, 1.01, 1.0625, 1.5, 2.0], dtype=np.float32)
        both = np.concatenate([spread, random, top, np.float32([0.0])])
    return np.concatenate([both, -both])
