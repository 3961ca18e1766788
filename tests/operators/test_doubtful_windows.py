"""Windows of small values after far larger ones: running totals must not tell what is left of them.

A total keeps a sum and what rounding left out of it. Where values of 10^38 stood before a window
of ones, both are larger than anything the window holds; such windows are read row by row.
"""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from standfast.indexes.lanes import Lanes
from standfast.operators.aggregates import aggregate_of
from standfast.operators.interval_kernels import read_doubtful
from standfast.operators.plain import _root, plain_answers
from standfast.operators.window_aggregate.running_intervals import RunningIntervals

REACH = 99


def way_over(name: str, batches: list[np.ndarray]) -> RunningIntervals:
    is_float = batches[0].dtype == np.float64
    lanes = Lanes("rows", is_float=is_float, reach=REACH)
    way = RunningIntervals(aggregate_of(name, is_float=is_float), lanes)
    lows, highs = np.triu_indices(REACH + 1)
    way.add(np.arange(lows.size), lows[None, :], highs[None, :])
    n_rows = 0
    for values in batches:
        times = np.arange(n_rows, n_rows + values.size)
        way.append(times, times, values, np.ones(values.size, np.bool_))
        n_rows += values.size
    return way


def check_all_windows(way: RunningIntervals) -> None:
    slots = np.arange(way.lows.shape[1])
    lanes = np.zeros_like(slots)
    found = way.lookup(slots, lanes)
    windows = (lanes, *way.lanes.positions(lanes, way.lows[0], way.highs[0]))
    wanted, known, _ = plain_answers(way.aggregate, way.lanes, windows, np.zeros(slots.size))
    assert np.array_equal(found.known, known)
    np.testing.assert_allclose(found.values[known], wanted[known], rtol=1e-9)


def glitches(scale: float, n: int) -> np.ndarray:
    rng = np.random.default_rng(5)
    return rng.normal(size=n) * scale


@pytest.mark.parametrize("name", ["SUM", "AVG", "VARIANCE", "STDDEV"])
@pytest.mark.parametrize("scale", [1e15, 1e30, 3.4e38, 1e100])
def test_floats_after_far_larger_ones_are_summed_up_from_their_rows(name, scale):
    small = np.random.default_rng(6).uniform(1.0, 2.0, 60)
    check_all_windows(way_over(name, [glitches(scale, 30), small]))


@pytest.mark.parametrize("name", ["SUM", "AVG", "VARIANCE", "STDDEV"])
def test_whole_numbers_after_far_larger_ones_keep_their_digits(name):
    rng = np.random.default_rng(7)
    large = rng.integers(-(2**63), 2**63 - 1, 30)
    check_all_windows(way_over(name, [large, rng.integers(0, 100, 60)]))


def n_doubtful(way: RunningIntervals) -> int:
    """How many of all windows are read row by row."""
    slots, totals, g = np.arange(way.lows.shape[1]), way._totals, way.lanes.geometry
    lanes = np.zeros_like(slots)
    windows = (lanes, *way.lanes.positions(lanes, way.lows[0], way.highs[0]))
    if way.aggregate.name == "SUM":
        return totals.reread(way.lanes, windows, way.lookup(slots, lanes))
    found, values = totals.differences(way.lanes, windows), way.lanes.values
    return read_doubtful(
        way.aggregate.kind, totals.ints, totals.floats, g, *windows,
        values.view(np.int64), values.view(np.float64), way.lanes.valid, found,
        found.view(np.float64),
    )  # fmt: skip


@pytest.mark.parametrize("name", ["SUM", "VARIANCE"])
def test_ordinary_values_leave_no_window_in_doubt(name):
    rng = np.random.default_rng(8)
    prices, signed = rng.uniform(90.0, 110.0, 500), rng.integers(-3, 4, 500).astype(np.float64)
    for values in (prices, signed, np.zeros(500), np.full(500, 0.1)):
        assert n_doubtful(way_over(name, [values])) == 0
    assert n_doubtful(way_over(name, [glitches(1e30, 30), prices[:60]])) > 1000


def test_doubt_ends_when_totals_start_anew():
    """Two rounds of the ring later nothing is left of what was large."""
    few = [np.full(50, 0.1)]
    assert n_doubtful(way_over("SUM", [glitches(1e30, 30), *few])) > 1000
    way = way_over("SUM", [glitches(1e30, 30), *few * 8])
    assert n_doubtful(way) == 0
    check_all_windows(way)


def test_the_root_of_what_float64_cannot_hold_is_rounded_once():
    rng = Random(15)
    for _ in range(500):
        root = rng.randrange(1, 2**53) * Fraction(2) ** rng.randrange(-1074, 971)
        assert _root(root * root) == root
        near = Fraction(rng.randrange(1, 2**70), rng.randrange(1, 2**70))
        found, half = Fraction(_root(near)), Fraction(math.ulp(_root(near))) / 2
        assert (found - half) ** 2 <= near <= (found + half) ** 2
