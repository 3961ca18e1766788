"""Range maximum: where the largest of some neighbouring values stands, for values that stay.

    values    3 1 4 1 | 5 9 2 6 | 5 3 5 8       cells of CELL values
    tops, 0         4 |       9 |       8       the largest of each cell,
    tops, 1           9         9               of two cells from here on, of four ...

A range is a few values at either end, compared one by one, and whole cells between, which two
overlapping entries of `tops` cover.

Invariant  `tops[k, c]` is the place of a largest value of the cells c to c + 2^k - 1.
Cost       lookup O(CELL); build O(n); 4 / CELL log2(n / CELL) bytes a value.
Source     sparse tables over cells (Bender and Farach-Colton 2000).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from standfast._numba import inlined, kernel
from standfast.arrays import Int32s, Int64s

CELL = 8


class RangeMaximum(NamedTuple):
    """The values and what is known of their cells."""

    values: Int64s
    tops: Int32s  # [level, cell]
    levels: Int32s  # [n]: the largest level whose entries span at most n cells


@kernel
def range_maximum(values: Int64s) -> RangeMaximum:
    """Prepare for lookups."""
    n_cells = values.size // CELL  # a last cell that is not full is never whole between two ends
    levels = np.zeros(n_cells + 1, np.int32)
    for n in range(2, n_cells + 1):
        levels[n] = levels[n // 2] + 1
    tops = np.empty((levels[n_cells] + 1, n_cells), np.int32)
    for cell in range(n_cells):
        tops[0, cell] = _scan(values, CELL * cell, CELL * cell, CELL * cell + CELL)
    for level in range(1, tops.shape[0]):
        half = 1 << (level - 1)
        for cell in range(n_cells - 2 * half + 1):
            one, other = tops[level - 1, cell], tops[level - 1, cell + half]
            tops[level, cell] = one if values[one] >= values[other] else other
    return RangeMaximum(values, tops, levels)


def check(made: RangeMaximum) -> None:
    """Assert the invariant."""
    for level in range(made.tops.shape[0]):
        for cell in range(made.tops.shape[1] - (1 << level) + 1):
            begin, end = CELL * cell, CELL * (cell + (1 << level))
            top = made.tops[level, cell]
            assert begin <= top < end, "a top stands outside its cells"
            assert made.values[top] == made.values[begin:end].max(), "a top is not the largest"


@inlined
def highest(made: RangeMaximum, begin: int, end: int) -> int:
    """The place of a largest value of `values[begin:end]`, which is not empty."""
    values = made.values
    first, last = (begin + CELL - 1) // CELL, end // CELL
    if first >= last:
        return _scan(values, begin, begin, end)
    level = made.levels[last - first]
    best, other = made.tops[level, first], made.tops[level, last - (1 << level)]
    if values[other] > values[best]:
        best = other
    return _scan(values, _scan(values, best, begin, first * CELL), last * CELL, end)


@inlined
def _scan(values: Int64s, best: int, begin: int, end: int) -> int:
    """The place of the largest of `values[best]` and `values[begin:end]`."""
    for i in range(begin, end):
        if values[i] > values[best]:
            best = i
    return best
