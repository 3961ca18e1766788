"""Every way of answering filters against the naive one, and that one against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.arrays import Hits
from standfast.operators.base import FilterStrategy
from standfast.operators.filter.boxes import Boxes
from standfast.operators.filter.interval_tree import IntervalTree
from standfast.operators.filter.naive import Naive

LEAST, FAR = np.iinfo(np.int64).min, np.iinfo(np.int64).max
FAST: list[type[FilterStrategy]] = [IntervalTree, Boxes]
SPECIAL = np.array([LEAST, LEAST + 1, -(2**53) - 1, -1, 0, 1, 2**53, 2**53 + 1, FAR - 1, FAR])


def rows_of(hits: Hits, n_slots: int) -> list[list[int]]:
    """What each event hit, sorted."""
    counts = hits.counts()
    stops = np.cumsum(counts)
    out = np.full(counts.sum(), -1, np.int64)
    hits.fill(stops - counts, np.arange(n_slots), out)
    return [np.sort(row).tolist() for row in np.split(out, stops[:-1])] if counts.size else []


def boxes(rng: np.random.Generator, n_attributes: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Boxes of every kind: points, narrow, wide, one-sided, unlimited, at the ends of the line."""
    low = rng.integers(0, 50, (n_attributes, n))
    high = low + rng.choice([0, 1, 5, 40], (n_attributes, n))
    kind = rng.integers(0, 6, (n_attributes, n))
    low[kind == 0], high[kind == 1] = LEAST, FAR
    low[kind == 2], high[kind == 2] = LEAST, FAR
    ends = np.sort(rng.choice(SPECIAL, (2, n_attributes, n)), axis=0)
    return np.where(kind == 3, ends[0], low), np.where(kind == 3, ends[1], high)


def events(rng: np.random.Generator, n_attributes: int, n: int) -> np.ndarray:
    values = rng.integers(-2, 60, (n_attributes, n))
    return np.where(rng.random(values.shape) < 0.1, rng.choice(SPECIAL, values.shape), values)


def test_naive_says_what_the_definition_says() -> None:
    naive = Naive(2)
    naive.add(
        np.array([0, 1, 2]), np.array([[0, 5, 0], [0, 0, 7]]), np.array([[9, 9, 9], [3, 9, 9]])
    )
    naive.remove(np.array([1]))
    naive.check()
    assert rows_of(naive.process(np.array([[0, 9, 5], [3, 7, 5]])), 3) == [[0], [2], []]


@pytest.mark.parametrize("way", FAST)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1 << 30), n_attributes=st.sampled_from([1, 2, 3, 5, 16]))
def test_a_fast_way_agrees_with_naive_through_any_history(
    way: type[FilterStrategy], seed: int, n_attributes: int
) -> None:
    rng = np.random.default_rng(seed)
    n_attributes = min(n_attributes, way.spec.max_attributes)
    fast, naive, alive, n_slots = way(n_attributes), Naive(n_attributes), np.empty(0, np.int64), 0
    for _ in range(6):
        slots = np.arange(n_slots, n_slots + rng.integers(0, 60))
        lows, highs = boxes(rng, n_attributes, slots.size)
        gone = rng.permutation(alive)[: rng.integers(0, alive.size + 1)]
        for strategy in (fast, naive):
            strategy.add(slots, lows, highs)
            strategy.remove(gone)
        alive = np.setdiff1d(np.concatenate([alive, slots]), gone)
        n_slots += slots.size
        values = events(rng, n_attributes, int(rng.integers(0, 20)))
        answer, truth = fast.process(values), naive.process(values)
        assert rows_of(answer, n_slots) == rows_of(truth, n_slots)
        fast.check()
        naive.check()


@pytest.mark.parametrize("way", [Naive, *FAST])
def test_an_answer_stays_as_it_was_when_queries_come_and_go(way: type[FilterStrategy]) -> None:
    rng = np.random.default_rng(8)
    n_attributes = min(2, way.spec.max_attributes)
    strategy = way(n_attributes)
    lows, highs = boxes(rng, n_attributes, 400)
    values = events(rng, n_attributes, 25)
    strategy.add(np.arange(300), lows[:, :300], highs[:, :300])
    answer = strategy.process(values)
    before = rows_of(answer, 400)
    strategy.remove(np.arange(0, 300, 3))
    strategy.process(values)
    strategy.add(np.arange(300, 400), lows[:, 300:], highs[:, 300:])
    strategy.process(values)
    assert rows_of(answer, 400) == before


@pytest.mark.parametrize("way", [Naive, *FAST])
def test_what_is_added_and_removed_leaves_no_trace(way: type[FilterStrategy]) -> None:
    rng = np.random.default_rng(9)
    n_attributes = min(3, way.spec.max_attributes)
    strategy = way(n_attributes)
    lows, highs = boxes(rng, n_attributes, 200)
    strategy.add(np.arange(200), lows, highs)
    strategy.process(events(rng, n_attributes, 3))
    strategy.remove(np.arange(200))
    assert strategy.process(events(rng, n_attributes, 3)).counts().tolist() == [0, 0, 0]
    assert strategy.memory_bytes() < 1000
    strategy.check()
