"""Sorted base intervals: distinct values when rows come late, and which rank a share asks for."""

from __future__ import annotations

import math

import duckdb
import numpy as np
import pytest

from standfast.indexes.lane_changes import PutBy
from standfast.indexes.lanes import Lanes
from standfast.model.numbers import float_keys
from standfast.operators.aggregates import aggregate_of
from standfast.operators.catalog import WINDOW_AGGREGATES
from standfast.operators.window_aggregate.base_interval_quantiles import (
    BaseIntervalQuantiles,
    ranks_of,
)

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
    for n_rows in (100, 800):
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


def least_rank(share, n):
    return next(r for r in range(1, n + 1) if r / n >= share)


def test_a_share_asks_for_the_least_rank_that_reaches_it():
    """Their product may be above or below a whole number where the share is not."""
    shares = [percent / 100 for percent in range(1, 101)]
    for n in range(10, 201):
        ranks = ranks_of(np.array(shares), np.full(100, n))
        assert ranks.tolist() == [least_rank(share, n) for share in shares]
        edges = np.arange(1, n + 1) / n
        assert ranks_of(edges, np.full(n, n)).tolist() == list(range(1, n + 1))
        above = np.nextafter(edges[:-1], 1)
        assert ranks_of(above, np.full(n - 1, n)).tolist() == list(range(2, n + 1))
    many = np.array([10**7, 10**9 + 7, 2**40 + 1])
    assert ranks_of(np.ones(3), many).tolist() == many.tolist()
    assert ranks_of(np.full(3, 5e-324), many).tolist() == [1, 1, 1]


@pytest.mark.parametrize("way", ["naive", "materialise_all", "base_interval_quantiles", "routed"])
@pytest.mark.parametrize("is_float", [True, False])
def test_quantiles_have_the_rank_that_sql_says(way, is_float):
    # 0.55 of 100 was the 56th, as 0.55 * 100 is above 55 in float64.
    shares = [0.07, 0.14, 0.28, 0.55, 0.56, 0.57, 0.5, 0.99, 1.0]
    for n in (25, 50, 100):
        lanes = Lanes("rows", is_float=is_float, reach=n)
        made = WINDOW_AGGREGATES[way](aggregate_of("PERCENTILE_DISC", is_float=is_float), lanes)
        slots, keys = np.arange(len(shares)), float_keys(np.array(shares))
        made.add(slots, np.array([slots * 0, keys]), np.array([slots * 0 + n, keys]))
        values = np.random.default_rng(n).permutation(np.arange(1, n + 1))
        made.append(NOTHING, np.arange(n), values.astype(lanes.dtype), np.ones(n, np.bool_))
        found = made.lookup(slots, slots * 0).values.tolist()
        assert found == [least_rank(share, n) for share in shares]
        with duckdb.connect(config={"threads": 1}) as database:
            said = [
                database.execute(
                    f"SELECT PERCENTILE_DISC({share}) WITHIN GROUP (ORDER BY v)"
                    f" FROM range(1, {n + 1}) t(v)"
                ).fetchone()
                for share in shares
            ]
        assert [(value,) for value in found] == said
    assert math.ceil(0.55 * 100) == 56


def test_a_check_asks_for_the_share_of_a_query_that_is_there(monkeypatch):
    """It asked for that of slot 0, which nobody had set, and did not come back from it."""
    lanes = Lanes("rows", is_float=False, reach=9)
    way = BaseIntervalQuantiles(aggregate_of("PERCENTILE_DISC", is_float=False), lanes)
    share, times = int(float_keys(np.array([0.5]))[0]), np.arange(5)
    way.add(np.array([1]), np.array([[0], [share]]), np.array([[9], [share]]))
    way.append(NOTHING, times, times, np.ones(5, np.bool_))
    asked, read = set(), BaseIntervalQuantiles.read

    def watched(self, slots, *windows):
        asked.update(slots.tolist())
        return read(self, slots * 0 + 1, *windows)

    monkeypatch.setattr(BaseIntervalQuantiles, "read", watched)
    way.check()
    assert asked == {1}
