"""Range maxima against looking through the range."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast._numba import kernel
from standfast.arrays import Int64s
from standfast.indexes.range_maximum import CELL, RangeMaximum, check, highest, range_maximum

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
VALUES = st.integers(-9, 9) | st.sampled_from([LEAST, LEAST + 1, MOST])


@kernel
def highest_of(made: RangeMaximum, begins: Int64s, ends: Int64s, out: Int64s) -> None:
    for i in range(begins.size):
        out[i] = highest(made, begins[i], ends[i])


def looked_up(made: RangeMaximum, begins: Int64s, ends: Int64s) -> Int64s:
    out = np.empty(begins.size, np.int64)
    highest_of(made, begins, ends, out)
    return out


@given(st.lists(VALUES, max_size=9 * CELL))
def test_the_highest_of_every_range_is_found(numbers):
    values = np.array(numbers, np.int64)
    made = range_maximum(values)
    check(made)
    begins, ends = np.triu_indices(values.size)
    places = looked_up(made, begins, ends + 1)
    assert np.all((begins <= places) & (places <= ends))
    right = [values[b : e + 1].max() for b, e in zip(begins, ends, strict=True)]
    assert values[places].tolist() == right


def test_a_top_that_is_not_the_largest_is_noticed():
    made = range_maximum(np.arange(5 * CELL))
    made.tops[1, 2] -= 1
    with pytest.raises(AssertionError, match="not the largest"):
        check(made)
    made.tops[1, 2] = 0
    with pytest.raises(AssertionError, match="outside"):
        check(made)
