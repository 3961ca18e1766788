"""Differences of keys, against Python's integers and IEEE floats, over every special number."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.indexes.keys import (
    FAR,
    INF_KEY,
    LEAST,
    difference,
    differences,
    float_of,
    key_of,
    saturated_sum,
)
from standfast.model import numbers
from standfast.model.numbers import float_keys, floats_of

SPECIAL_INTEGERS = sorted(
    {
        sign * value + step
        for value in (0, 1, 2**31, 2**52, 2**53, 2**62, FAR - 2)
        for sign in (1, -1)
        for step in (-1, 0, 1)
    }
    | {LEAST, LEAST + 1, LEAST + 2, FAR - 1, FAR}
)
TINY, HUGE = 5e-324, 1.7976931348623157e308
SPECIAL_FLOATS = [
    sign * value
    for value in (0.0, TINY, 2 * TINY, 2.2250738585072014e-308, 0.1, 1.0, 2.5, 2.0**53, 2.0**53 + 2,
                  1e300, HUGE, math.inf)
    for sign in (1.0, -1.0)
]  # fmt: skip
integers = st.sampled_from(SPECIAL_INTEGERS) | st.integers(LEAST, FAR)
floats = st.sampled_from(SPECIAL_FLOATS) | st.floats(allow_nan=False)


def key(value: float) -> int:
    return int(float_keys(np.array([value]))[0])


def expected_of_floats(stored: float, event: float) -> int:
    """inf - inf is beyond every bound, on the side of the stored value."""
    exact = stored - event
    if math.isnan(exact):
        return FAR if stored > 0 else -FAR
    return key(exact)


def test_the_ends_of_the_line_agree_with_the_model():
    assert (FAR, LEAST, INF_KEY) == (numbers.FAR, numbers.LEAST, numbers.INF_KEY)
    assert key(math.inf) == INF_KEY
    assert key(-math.inf) == -INF_KEY


@pytest.mark.parametrize("value", SPECIAL_FLOATS)
def test_a_float_and_its_key_lead_to_each_other_as_in_the_model(value):
    assert key_of(np.float64(value)) == key(value)
    assert float_of(np.int64(key(value))) == value
    assert floats_of(np.array([key(value)]))[0] == value
    assert key_of(np.float64(-value)) == -key_of(np.float64(value))


def test_minus_zero_is_zero():
    assert key_of(np.float64(-0.0)) == key_of(np.float64(0.0)) == 0
    assert math.copysign(1.0, float_of(np.int64(0))) == 1.0


@given(st.floats(allow_nan=False))
def test_every_float_survives_the_way_to_its_key_and_back(value):
    assert float_of(np.int64(key_of(np.float64(value)))) == value
    assert key_of(np.float64(value)) == key(value)


def test_integer_differences_saturate_and_are_exact_between_all_special_numbers():
    for stored in SPECIAL_INTEGERS:
        for event in SPECIAL_INTEGERS:
            expected = min(max(stored - event, -FAR), FAR)
            found = difference(np.int64(stored), np.int64(event), False)
            assert found == expected, (stored, event)


def test_float_differences_are_those_of_ieee_between_all_special_numbers():
    for stored in SPECIAL_FLOATS:
        for event in SPECIAL_FLOATS:
            found = difference(np.int64(key(stored)), np.int64(key(event)), True)
            assert found == expected_of_floats(stored, event), (stored, event)


@given(integers, integers)
def test_integer_differences_are_exact_or_saturated(stored, event):
    expected = min(max(stored - event, -FAR), FAR)
    assert difference(np.int64(stored), np.int64(event), False) == expected


@given(floats, floats)
def test_float_differences_are_rounded_as_ieee_rounds(stored, event):
    found = difference(np.int64(key(stored)), np.int64(key(event)), True)
    assert found == expected_of_floats(stored, event)


@given(st.lists(integers, min_size=2, max_size=8), integers)
def test_integer_differences_ascend_in_the_stored_value_and_descend_in_the_event(values, one):
    values = np.sort(np.array(values, np.int64))
    rising = [int(difference(value, np.int64(one), False)) for value in values]
    falling = [int(difference(np.int64(one), value, False)) for value in values]
    assert rising == sorted(rising)
    assert falling == sorted(falling, reverse=True)


@given(st.lists(floats, min_size=2, max_size=8), floats)
def test_float_differences_ascend_in_the_stored_value(values, event):
    keys = np.sort(float_keys(np.array(values)))
    rising = [int(difference(stored, np.int64(key(event)), True)) for stored in keys]
    assert rising == sorted(rising)


def test_equal_infinities_differ_by_more_than_every_bound():
    assert difference(np.int64(INF_KEY), np.int64(INF_KEY), True) == FAR > INF_KEY
    assert difference(np.int64(-INF_KEY), np.int64(-INF_KEY), True) == -FAR < -INF_KEY
    assert difference(np.int64(INF_KEY), np.int64(-INF_KEY), True) == INF_KEY
    assert difference(np.int64(-INF_KEY), np.int64(INF_KEY), True) == -INF_KEY


def test_a_float_difference_that_overflows_is_infinite():
    assert difference(np.int64(key(HUGE)), np.int64(key(-HUGE)), True) == INF_KEY
    assert difference(np.int64(key(-HUGE)), np.int64(key(HUGE)), True) == -INF_KEY


@pytest.mark.parametrize("is_float", [False, True])
def test_the_difference_of_swapped_values_is_the_negated_difference(is_float):
    # Swapping inf and inf gives the same difference, which has no opposite; it matches nothing.
    keys = [key(v) for v in SPECIAL_FLOATS] if is_float else SPECIAL_INTEGERS
    for one in keys:
        for other in keys:
            both_infinite = is_float and one == other and abs(one) == INF_KEY
            there = difference(np.int64(one), np.int64(other), is_float)
            back = difference(np.int64(other), np.int64(one), is_float)
            assert there == (back if both_infinite else -back), (one, other)


@given(integers, integers)
def test_a_sum_stops_at_the_ends_of_int64(one, other):
    assert saturated_sum(np.int64(one), np.int64(other)) == min(max(one + other, LEAST), FAR)


@given(st.lists(st.tuples(integers, integers), max_size=8), st.booleans())
def test_differences_take_a_batch_pair_by_pair(pairs, is_float):
    if is_float:
        pairs = [(one % INF_KEY, other % INF_KEY) for one, other in pairs]
    stored = np.array([one for one, _ in pairs], np.int64)
    events = np.array([other for _, other in pairs], np.int64)
    out = np.empty(len(pairs), np.int64)
    differences(stored, events, is_float, out)
    single = [difference(s, e, is_float) for s, e in zip(stored, events, strict=True)]
    assert out.tolist() == [int(value) for value in single]
