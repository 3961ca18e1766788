"""Exact sums against Python's own: `math.fsum` and whole numbers of any size."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.indexes.exact_sums import float_sum, whole_sum

LEAST, MOST = -(2**63), 2**63 - 1
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
NEAR = st.integers(-(2**60), 2**60).map(lambda n: n / 64)


def rounded(values: list[float]) -> float:
    """The exact sum as a float, infinite where it is beyond all of them."""
    exact = sum(map(Fraction, values), Fraction())
    return float(exact) if abs(exact) < 2**1024 - 2**970 else math.copysign(math.inf, exact)


@given(st.lists(FLOATS | NEAR, min_size=1, max_size=20))
def test_floats_are_rounded_once(numbers):
    assert float_sum(np.array(numbers), 0, len(numbers)) == rounded(numbers)


@given(st.lists(FLOATS, min_size=1, max_size=9))
def test_what_cancels_leaves_nothing(numbers):
    both = np.array([*numbers, 1.0, *(-x for x in numbers)])
    assert float_sum(both, 0, both.size) == 1.0


@pytest.mark.parametrize(
    ("numbers", "total"),
    [
        ([1e308, 1e308, -1e308], 1e308),
        ([1.7e308, 1.7e308], math.inf),
        ([-1.7e308, -1.7e308], -math.inf),
        ([2.0**53, 1.0], 2.0**53),
        ([2.0**53, 1.0, 5e-324], 2.0**53 + 2),
        ([2.0**53 + 2, 1.0], 2.0**53 + 4),
        ([5e-324] * 3, 1.5e-323),
        ([0.1] * 10, 1.0),
        ([math.inf, 1.0], math.inf),
        ([1.0, -math.inf], -math.inf),
        ([-0.0], 0.0),
    ],
)
def test_ends_and_ties_of_floats(numbers, total):
    assert float_sum(np.array(numbers), 0, len(numbers)) == total


def test_both_infinities_are_no_number():
    assert math.isnan(float_sum(np.array([math.inf, 1.0, -math.inf]), 0, 3))


@given(st.lists(st.integers(LEAST, MOST), min_size=1, max_size=9))
def test_whole_numbers_end_where_int64_ends(numbers):
    assert whole_sum(np.array(numbers), 0, len(numbers)) == min(max(sum(numbers), LEAST), MOST)


def test_only_the_slice_is_added():
    assert whole_sum(np.array([1, 2, 4, 8]), 1, 3) == 6
    assert float_sum(np.array([1.0, 2.0, 4.0, 8.0]), 1, 3) == 6.0
