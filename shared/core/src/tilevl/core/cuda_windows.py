# mypy: disable-error-code="misc,valid-type,no-untyped-def,untyped-decorator"
"""CUDA: the order of windows, which patches and position ids share: where one of them stands in its grid."""

from __future__ import annotations

from typing import Any

SHORT = 2**31
"""Below it, numbers and a row of windows are divided as int32, which takes a third of the instructions."""


def place_in_windows() -> Any:
    """What finds a row and a column in a grid whose windows are in raster order, as is what each holds.

    Returns:
        A macro ``place(small, where, slot, number, width, window)``. It leaves the row in ``where[slot]`` and the
        column in ``where[slot + 1]``, in the dtype of ``where``. ``number`` counts from 0 in that order, ``width`` is
        the grid's, ``window`` a window's side, which divides it: int64. ``small`` says that ``number``, ``width`` and
        ``width * window`` are below ``SHORT``.
    """
    import tilelang.language as T

    @T.macro
    def divide(kind, where, slot, number_long, width_long, window_long):
        number = T.alloc_var(kind, init=T.Cast(kind, number_long))
        width = T.alloc_var(kind, init=T.Cast(kind, width_long))
        window = T.alloc_var(kind, init=T.Cast(kind, window_long))
        if window == 1:
            line = T.alloc_var(kind, init=T.truncdiv(number, width))
            where[slot] = T.Cast(where.dtype, line)
            where[slot + 1] = T.Cast(where.dtype, number - line * width)
        else:
            band = T.alloc_var(kind, init=T.truncdiv(number, width * window))
            in_band = T.alloc_var(kind, init=number - band * width * window)
            square = T.alloc_var(kind, init=T.truncdiv(in_band, window * window))
            in_square = T.alloc_var(kind, init=in_band - square * window * window)
            down = T.alloc_var(kind, init=T.truncdiv(in_square, window))
            where[slot] = T.Cast(where.dtype, band * window + down)
            where[slot + 1] = T.Cast(where.dtype, square * window + in_square - down * window)

    @T.macro
    def place(small, where, slot, number, width, window):
        if small:
            divide("int32", where, slot, number, width, window)
        else:
            divide("int64", where, slot, number, width, window)

    return place
