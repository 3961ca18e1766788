"""Routed ways with every event dealt to some way: the answer is that of the naive one."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from tests.operators.reading import slots_in_spans, slots_of

from standfast.indexes.sorted_runs import SortedRuns
from standfast.operators import router
from standfast.operators.band_join.naive import Naive as NaiveBands
from standfast.operators.band_join.routed import Routed as RoutedBands
from standfast.operators.base import Arrivals
from standfast.operators.select_join.naive import Naive as NaiveSelects
from standfast.operators.select_join.routed import Routed as RoutedSelects
from standfast.operators.window_join.naive import Naive as NaiveWindows
from standfast.operators.window_join.routed import Routed as RoutedWindows


@pytest.fixture
def dealing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every way is built at once, and events are dealt to all of them in turn."""
    monkeypatch.setattr(router, "PATIENCE", -1.0)
    monkeypatch.setattr(router, "LOOK_EVERY", 1)
    monkeypatch.setattr(router, "LOOK_FIRST", 10**9)
    monkeypatch.setattr(router, "EXPLORE_EVERY", 1)
    monkeypatch.setattr(router, "EXPLORE_EVENTS", 1)
    monkeypatch.setattr(router, "EXPLORE_WITHIN", 1e9)
    monkeypatch.setattr(router, "EXPLORE_CALL", 1e9)


@pytest.mark.usefixtures("dealing")
@pytest.mark.parametrize("seed", range(3))
def test_select_joins_dealt_to_all_ways_equal_the_naive_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    routed, naive, n = RoutedSelects(), NaiveSelects(), 40
    lows = rng.integers(-20, 20, (2, n))
    highs = lows + rng.integers(0, 15, (2, n))
    for way in (routed, naive):
        way.add(np.arange(n), lows, highs)
    stored = SortedRuns(coded=True)
    stored.insert(rng.integers(-20, 20, 30), np.arange(30), rng.integers(0, 8, 30))
    for step in range(8):
        side: Literal[0, 1] = 1 if step % 2 else 0
        codes = np.sort(rng.integers(0, 9, 20))
        events = Arrivals(codes, rng.integers(-25, 25, 20), np.empty(0, np.int64))
        hits = routed.process(events, stored, side=side)
        expected = slots_of(naive.process(events, stored, side=side))
        assert slots_of(hits) == slots_in_spans(hits) == expected
        if step % 3 == 2:
            gone = rng.choice(routed.inner.routing.queries.living(), 4, replace=False)
            for way in (routed, naive):
                way.remove(gone)
        routed.check()
    assert set(routed.inner.routing.built) == set(routed.inner.routing.model.ways)
    assert np.count_nonzero(routed.inner.routing.ledger.events) == len(
        routed.inner.routing.model.ways
    )
    assert routed.memory_bytes() > 0
    assert "of events, measured at" in str(routed.describe()["routes"])


@pytest.mark.usefixtures("dealing")
@pytest.mark.parametrize("is_float", [False, True])
def test_window_joins_dealt_to_all_ways_equal_the_naive_one(is_float: bool) -> None:
    rng = np.random.default_rng(3)
    routed, naive = RoutedWindows(is_float=is_float), NaiveWindows(is_float=is_float)
    n = 40
    lows = rng.integers(-20, 20, (3, n))
    highs = lows + rng.integers(0, 15, (3, n))
    lows[2], highs[2] = 0, rng.integers(0, 9, n)
    for way in (routed, naive):
        way.add(np.arange(n), lows, highs)
    stored = SortedRuns(coded=True, n_extras=1)
    stored.insert(
        rng.integers(-20, 20, 30), np.arange(30), rng.integers(0, 8, 30),
        rng.integers(0, 30, (1, 30)),
    )  # fmt: skip
    for step in range(8):
        side: Literal[0, 1] = 1 if step % 2 else 0
        codes = np.sort(rng.integers(0, 9, 20))
        events = Arrivals(codes, rng.integers(-25, 25, 20), rng.integers(0, 35, 20))
        hits = routed.process(events, stored, side=side)
        expected = slots_of(naive.process(events, stored, side=side))
        assert slots_of(hits) == slots_in_spans(hits) == expected
        if step % 3 == 2:
            gone = rng.choice(routed.inner.routing.queries.living(), 4, replace=False)
            for way in (routed, naive):
                way.remove(gone)
        routed.check()
    ledger = routed.inner.routing.ledger
    assert np.count_nonzero(ledger.events) == len(routed.inner.routing.model.ways)


@pytest.mark.usefixtures("dealing")
@pytest.mark.parametrize("is_float", [False, True])
def test_band_joins_dealt_to_all_ways_equal_the_naive_one(is_float: bool) -> None:
    rng = np.random.default_rng(7)
    routed, naive, n = RoutedBands(is_float=is_float), NaiveBands(is_float=is_float), 40
    lows = rng.integers(-20, 20, (1, n))
    highs = lows + rng.integers(0, 8, (1, n))
    for way in (routed, naive):
        way.add(np.arange(n), lows, highs)
    stored = SortedRuns()
    stored.insert(rng.integers(-50, 50, 30), np.arange(30))
    for step in range(6):
        values = np.sort(rng.integers(-60, 60, 20))
        hits = routed.process(values, stored, minuend=step % 2 == 0)
        expected = slots_of(naive.process(values, stored, minuend=step % 2 == 0))
        assert slots_of(hits) == slots_in_spans(hits) == expected
        gone = rng.choice(routed.routing.queries.living(), 4, replace=False)
        for way in (routed, naive):
            way.remove(gone)
        routed.check()
    assert np.count_nonzero(routed.routing.ledger.events) == len(routed.routing.model.ways)
