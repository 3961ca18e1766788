"""The number line: keys order like the numbers, and bounds round inwards exactly."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model import special
from model.special import satisfies
from standfast.model.numbers import (
    FAR,
    FLOATS,
    INF_KEY,
    INTEGER_DIFFERENCES,
    INTEGERS,
    LEAST,
    Line,
    at_least,
    at_most,
    float_keys,
    floats_of,
)

BOUNDS = [np.array(special.FLOATS), np.array(special.INTEGERS)]
DIFFERENCES = sorted(
    {a - b for a in special.INTEGERS for b in special.INTEGERS}
    | {2**64 - 1, 1 - 2**64, FAR, -FAR, FAR + 1, -FAR - 1, FAR - 1, 1 - FAR}
)
any_float = st.floats(allow_nan=False)
any_integer = st.integers(LEAST, FAR)


def keys_of(values: list[float] | list[int], line: Line) -> np.ndarray:
    if line.is_float:
        return float_keys(np.array(values, np.float64))
    return np.array([min(max(value, line.least), line.most) for value in values], np.int64)


def check_rounding(values: list, bounds: np.ndarray, line: Line) -> None:
    """Every value satisfies a bound exactly when its key lies on the bound's side."""
    keys = keys_of(values, line)
    for strict, end in ((False, "="), (True, "")):
        lows, none_above = at_least(bounds, line, strict=strict)
        highs, none_below = at_most(bounds, line, strict=strict)
        for i, bound in enumerate(bounds.tolist()):
            above = (keys >= lows[i]) & ~none_above[i]
            below = (keys <= highs[i]) & ~none_below[i]
            assert above.tolist() == [satisfies(v, f">{end}", bound) for v in values], bound
            assert below.tolist() == [satisfies(v, f"<{end}", bound) for v in values], bound


@pytest.mark.parametrize("bounds", BOUNDS, ids=["float bounds", "integer bounds"])
def test_special_bounds_on_a_float_column_are_exact(bounds):
    check_rounding(special.FLOATS, bounds, FLOATS)


@pytest.mark.parametrize("bounds", BOUNDS, ids=["float bounds", "integer bounds"])
def test_special_bounds_on_an_integer_column_are_exact(bounds):
    check_rounding(special.INTEGERS, bounds, INTEGERS)


@pytest.mark.parametrize("bounds", BOUNDS, ids=["float bounds", "integer bounds"])
def test_special_bounds_on_integer_differences_are_exact(bounds):
    size = np.abs(bounds.astype(np.float64))
    allowed = bounds[(size < 2.0**63 - 2048) | (size >= 2.0**64)]
    near = [FAR - 1, 1 - FAR] if bounds.dtype.kind == "i" else []
    bounds = np.append(allowed, np.array(near, bounds.dtype))
    check_rounding(DIFFERENCES[:: len(DIFFERENCES) // 400], bounds, INTEGER_DIFFERENCES)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.lists(any_float, min_size=1, max_size=8), st.lists(any_float, min_size=1, max_size=8))
def test_float_bounds_on_a_float_column_are_exact(values, bounds):
    check_rounding(values + bounds, np.array(bounds), FLOATS)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.lists(any_float, min_size=1, max_size=8), st.lists(any_integer, min_size=1, max_size=8))
def test_integer_bounds_on_a_float_column_are_exact(values, bounds):
    near = [math.nextafter(float(b), side) for b in bounds for side in (-math.inf, math.inf)]
    check_rounding([*values, *near, *map(float, bounds)], np.array(bounds), FLOATS)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.lists(any_integer, min_size=1, max_size=8), st.lists(any_float, min_size=1, max_size=8))
def test_float_bounds_on_an_integer_column_are_exact(values, bounds):
    near = [int(b) + step for b in bounds if abs(b) < 2.0**62 for step in (-1, 0, 1)]
    check_rounding(values + near, np.array(bounds), INTEGERS)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.lists(any_integer, min_size=1, max_size=8), st.lists(any_integer, min_size=1, max_size=8))
def test_integer_bounds_on_an_integer_column_are_exact(values, bounds):
    check_rounding(values + bounds, np.array(bounds), INTEGERS)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(any_integer, any_integer, st.integers(1 - FAR, FAR - 1))
def test_integer_bounds_on_differences_are_exact(left, right, bound):
    values = [left - right, bound, bound + 1, bound - 1]
    check_rounding(values, np.array([bound]), INTEGER_DIFFERENCES)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.lists(any_float, min_size=1, max_size=20))
def test_keys_order_like_the_floats_and_lead_back_to_them(values):
    keys = float_keys(np.array(values))
    assert floats_of(keys).tolist() == values
    for (a, key_a), (b, key_b) in itertools.combinations(zip(values, keys, strict=True), 2):
        assert (key_a < key_b, key_a == key_b) == (a < b, a == b)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(any_float)
def test_negating_a_float_negates_its_key(value):
    assert float_keys(np.array([-value]))[0] == -float_keys(np.array([value]))[0]


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.integers(-INF_KEY, INF_KEY))
def test_every_key_on_the_line_has_its_float(key):
    assert float_keys(floats_of(np.array([key]))).tolist() == [key]


def test_both_zeros_have_the_key_zero_and_zero_comes_back():
    assert float_keys(np.array([0.0, -0.0])).tolist() == [0, 0]
    assert not np.signbit(floats_of(np.array([0])))[0]


def test_neighbouring_floats_have_neighbouring_keys():
    values = np.array([x for x in special.FLOATS if x < special.LARGEST])
    steps = float_keys(np.nextafter(values, np.inf)) - float_keys(values)
    assert (steps == 1).all()


def test_infinities_are_the_ends_of_the_float_line():
    assert float_keys(np.array([np.inf, -np.inf])).tolist() == [FLOATS.most, FLOATS.least]


def test_the_next_float_after_an_integer_that_float64_cannot_hold():
    keys, empty = at_least(np.array([2**53 + 1]), FLOATS, strict=False)
    assert floats_of(keys).tolist() == [2.0**53 + 2]
    assert not empty.any()
