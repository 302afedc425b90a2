"""What can be chosen for a run of the model: meanings that the documentation leaves open, and how strict it is."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module


@dataclass(frozen=True)
class Choice:
    """An option with its values.

    Attributes:
        words: the values; their order is the number the C++ side gets.
        default: one of them.
        meaning: what it decides, in one line.
    """

    words: tuple[str, ...]
    default: str
    meaning: str

    def number(self, name: str, word: str) -> int:
        """The number of a value.

        Raises:
            ValueError: there is no such value.
        """
        if word not in self.words:
            raise ValueError(f"ascend_host: option {name} must be one of {', '.join(self.words)}, got {word!r}")
        return self.words.index(word)


#: In the order of ``enum class Option`` in ``include/tilevl_host/options.h``.
COPY_AND_CUBE_OPTIONS = {
    "unwritten_vector_reads": Choice(
        ("untouched", "fault", "allow"),
        "untouched",
        "UB reads of a vector instruction or SIMT thread: a fault where nothing wrote any of the bytes in this block, "
        "where nothing wrote one of them, or never. Register loads reach behind short rows by design",
    ),
    "unwritten_matrix_rows": Choice(
        ("fault", "allow"), "fault", "a matrix multiply that reads L0 or L0C bytes nothing wrote in this block"
    ),
    "row_tail": Choice(
        ("keep", "zero"), "keep", "L1 rows behind the last one of a layout-changing copy, up to a multiple of 16"
    ),
    "column_tail": Choice(("zero", "keep"), "zero", "the rest of the last L1 column group after a transposing copy"),
    "matrix_accumulation": Choice(
        ("float32", "float64"),
        "float32",
        "how a matrix multiply sums: along K in float32, or in float64, rounded once",
    ),
    "half_atomic_rounding": Choice(
        ("nearest_even", "toward_zero"), "nearest_even", "rounding of an accumulating store of 16-bit floats"
    ),
    "unscaled_requantisation": Choice(
        ("fault", "scale_one"), "fault", "L0C output codes that need a scale, when none is set (int8, int16, fp8)"
    ),
    "narrow_transpose": Choice(
        ("derived", "fault"), "derived", "the order inside a transposing L1 to L0 copy of 8- and 32-bit elements"
    ),
    "small_matrix_barrier": Choice(
        ("ignore", "report"), "report", "multiplies on one small C that follow each other without asc_sync_pipe(PIPE_M)"
    ),
}


@cache
def vector_options() -> Mapping[str, Choice]:
    """Options of the vector and SIMT instructions; empty where that half is not there."""
    name = "tilevl.testing.ascend_host.vector_options"
    if importlib.util.find_spec(name) is None:
        return {}
    table: Mapping[str, Choice] = import_module(name).VECTOR_OPTIONS
    return table


def check(options: Mapping[str, str]) -> None:
    """Whether every option and value is known.

    Raises:
        ValueError: one is not.
    """
    known = {**COPY_AND_CUBE_OPTIONS, **vector_options()}
    for name, word in options.items():
        if name not in known:
            raise ValueError(f"ascend_host: option must be one of {', '.join(known)}, got {name!r}")
        known[name].number(name, word)


def copy_and_cube_numbers(options: Mapping[str, str]) -> list[int]:
    """Values in the order of the C++ enumeration, defaults where nothing is said."""
    return [choice.number(name, options.get(name, choice.default)) for name, choice in COPY_AND_CUBE_OPTIONS.items()]


def vector_numbers(options: Mapping[str, str]) -> dict[str, int]:
    """Values of the vector half by name, defaults where nothing is said."""
    return {name: choice.number(name, options.get(name, choice.default)) for name, choice in vector_options().items()}
