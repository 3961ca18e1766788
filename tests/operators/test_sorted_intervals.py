"""Sorted base intervals: distinct values when rows come late, and which rank a share asks for."""

from __future__ import annotations

import numpy as np
import pytest

from standfast.indexes.lane_changes import PutBy
from standfast.indexes.lanes import Lanes
from standfast.operators.aggregates import aggregate_of
from standfast.operators.window_aggregate.base_interval_quantiles import BaseIntervalQuantiles

NOTHING = np.empty(0, np.int64)


class Watched(np.ndarray):
    """An array that counts how many of its entries are read by arrays of places."""

    n_read = 0

    def __getitem__(self, at):
        found = super().__getitem__(at)
        parts = at if isinstance(at, tuple) else (at,)
        if any(isinstance(part, np.ndarray) for part in parts):
            Watched.n_read += found.size
        return found


def distinct_values(unit, reach):
    """A way for COUNT(DISTINCT) with one window that reaches as far."""
    lanes = Lanes(unit, is_float=False, reach=reach)
    way = BaseIntervalQuantiles(aggregate_of("COUNT_DISTINCT", is_float=False), lanes)
    way.add(np.zeros(1, np.int64), np.zeros((1, 1), np.int64), np.full((1, 1), reach))
    return way


def take(way, times, values):
    way.append(NOTHING, np.array(times), np.array(values), np.ones(len(times), np.bool_))


def entries_read(n_rows, n_values, n_later, n_late=1):
    """How many entries are read when rows of the least value come late by so many rows.

    Rows that come are read once to be taken in.
    """
    way, rng = distinct_values("rows", 2 * n_rows), np.random.default_rng(3)
    take(way, np.arange(n_rows), rng.integers(0, n_values, n_rows))
    way.lanes._values = way.lanes._values.view(Watched)
    way._lists = way._lists.view(Watched)
    Watched.n_read = 0
    take(way, [n_rows - n_later] * n_late, [-1] * n_late)
    n_read = Watched.n_read
    way.check()
    return n_read


@pytest.mark.parametrize("n_values", [3, 1000])
def test_a_late_row_reads_as_many_others_as_come_after_it(n_values):
    # All rows of the window were read, also for a row that is late by one place or by its value.
    for n_rows in (100, 1600):
        assert entries_read(n_rows, n_values, 0) == 1
        for n_later in (1, 7):
            for n_late in (1, 5):
                n_read = entries_read(n_rows, n_values, n_later, n_late)
                assert n_read <= 3 * n_later + n_late


@pytest.mark.parametrize("unit", ["rows", "range"])
def test_distinct_values_are_right_when_late_rows_are_put_by(unit):
    """As the router does: several batches in the lanes, then one change of all of them."""
    rng, now = np.random.default_rng(8), 0
    way, put_by = distinct_values(unit, 30), PutBy()
    for step in range(300):
        now += int(rng.integers(0, 4))
        times = np.sort(np.maximum(now - rng.integers(0, 25, 3), 0))
        valid = rng.random(3) < 0.8
        values = np.where(valid, rng.integers(0, 9, 3), 0)
        put_by.add(way.lanes.append(NOTHING, times, values, valid), way.lanes.n_lanes)
        if rng.random() < 0.5:
            way.take_in(put_by.take())
            kept = way.lanes.kept()
            inside = way.lookup(np.zeros(1, np.int64), np.zeros(1, np.int64)).values[0]
            last = slice(-31, None) if unit == "rows" else kept.times >= way.lanes.now - 30
            assert inside == np.unique(kept.values[last][kept.valid[last]]).size
            way.check()
        if step % 50 == 49 and way.lanes.look():
            put_by.add(way.lanes.all_changed(), way.lanes.n_lanes)
