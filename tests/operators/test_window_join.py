"""Window joins by the ways that do not group: all of them against a loop over everything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.equality_histories import (
    FAR,
    LEAST,
    History,
    Row,
    crowd,
    crowd_events,
    histories,
    hit_by,
    play,
)
from standfast import _numba
from standfast.model.numbers import float_keys
from standfast.operators import joined
from standfast.operators.window_join import select_first
from standfast.operators.window_join.join_first import JoinFirst
from standfast.operators.window_join.naive import Naive
from standfast.operators.window_join.select_first import SelectFirst

WAYS = [Naive, JoinFirst, SelectFirst]
EVERY_WAY = pytest.mark.parametrize("way", WAYS)
SIDES = pytest.mark.parametrize("side", [0, 1])
EVERYTHING = (LEAST, FAR)


def of_every_way(*, is_float: bool = False, ratio: int = 8) -> History:
    ways = [way(is_float=is_float) for way in WAYS]
    return History(*ways, is_float=is_float, ratio=ratio)


def agreed(history: History, side: int, events) -> list[list[int]]:
    """What naive says; the others must say the same."""
    naive, *others = history.answers(side, events)[0]
    for way, hits in zip(history.ways[1:], others, strict=True):
        assert hit_by(hits) == hit_by(naive), type(way)
    return hit_by(naive)


@given(histories(is_float=False), st.sampled_from([1, 8]))
def test_every_way_answers_any_small_history_as_defined(steps, ratio):
    assert play(of_every_way(ratio=ratio), steps) >= 3 * len(WAYS)


@given(histories(is_float=True), st.sampled_from([1, 8]))
def test_every_way_answers_any_small_history_with_times_in_floats_as_defined(steps, ratio):
    assert play(of_every_way(is_float=True, ratio=ratio), steps) >= 3 * len(WAYS)


@EVERY_WAY
@SIDES
def test_rows_older_and_newer_than_the_event_count_within_the_window(way, side):
    history = History(way(is_float=False), is_float=False)
    history.add([(EVERYTHING, EVERYTHING, (0, window)) for window in (0, 4, 5, 6, 100)])
    history.insert(1 - side, [Row(1, 0, 95), Row(1, 1, 106), Row(2, 0, 100)])
    hits, right = history.answers(side, [Row(1, 7, 100), Row(2, 7, 100), Row(2, 7, 96)])
    assert right == [[2, 3, 4], [1, 2, 3, 4], [0, 1, 2, 3, 4]]  # in order of time
    assert hit_by(hits[0]) == right


@EVERY_WAY
def test_range_and_window_must_be_met_by_the_same_row(way):
    history = History(way(is_float=False), is_float=False)
    history.add([(EVERYTHING, (0, 5), (0, 10))])
    history.insert(1, [Row(1, 3, 0), Row(1, 9, 100)])
    assert hit_by(history.answers(0, [Row(1, 0, 100)])[0][0]) == [[]]
    history.insert(1, [Row(1, 4, 91)])
    assert hit_by(history.answers(0, [Row(1, 0, 100)])[0][0]) == [[0]]


@EVERY_WAY
def test_times_at_both_ends_of_the_line_are_an_unlimited_window_apart(way):
    history = History(way(is_float=False), is_float=False)
    history.add([(EVERYTHING, EVERYTHING, (0, window)) for window in (0, FAR - 1, FAR)])
    history.insert(1, [Row(1, 0, LEAST), Row(2, 0, FAR)])
    hits, right = history.answers(0, [Row(1, 0, FAR), Row(1, 0, -1), Row(1, 0, -2), Row(2, 0, FAR)])
    assert hit_by(hits[0]) == right == [[1, 2], [2], [2], [0, 1, 2]]


@EVERY_WAY
def test_infinite_times_are_infinitely_far_from_finite_ones_and_from_each_other_undecided(way):
    history = History(way(is_float=True), is_float=True)
    numbers = np.array([1e308, np.inf, -np.inf, 3.0])
    most, inf, minus_inf, three = float_keys(numbers).tolist()
    history.add([(EVERYTHING, EVERYTHING, (0, window)) for window in (0, most, inf)])
    history.insert(1, [Row(1, 0, inf), Row(2, 0, three), Row(3, 0, inf), Row(3, 1, three)])
    events = [Row(1, 0, three), Row(1, 0, inf), Row(1, 0, minus_inf), Row(2, 0, inf)]
    hits, right = history.answers(0, [*events, Row(3, 0, inf)])
    assert hit_by(hits[0]) == right
    assert right == [[2], [2], [], [2], [2]]  # -inf, 3.0 and inf in code 1, then codes 2 and 3


@SIDES
@pytest.mark.parametrize("late", [False, True])
def test_all_ways_agree_on_a_crowd(side, late):
    history = of_every_way()
    crowd(history, n_queries=300, n_rows=900, seed=14, late=late)
    assert len(history.stores[1 - side].runs) > 1
    found = agreed(history, side, crowd_events(25, 15, late=late))
    assert min(map(len, found)) == 0 < max(map(len, found))


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("n_queries", [2, 5, 60])
def test_few_candidates_in_a_long_block_are_decided_by_the_newest_row_or_by_all(n_queries, late):
    for seed in range(4):
        history = of_every_way()
        crowd(history, n_queries=n_queries, n_rows=1500, seed=seed, late=late)
        agreed(history, 0, crowd_events(20, seed, late=late))


@pytest.mark.parametrize("n_rows", [20, 200])
def test_a_deleted_newest_row_does_not_decide(n_rows):
    history = of_every_way()
    history.add([(EVERYTHING, EVERYTHING, (0, 10)), (EVERYTHING, (0, 3), (0, 10))])
    history.insert(1, [Row(1, key, key) for key in range(n_rows)])
    assert agreed(history, 0, [Row(1, 0, n_rows)]) == [[0]]
    history.delete(1, range(n_rows - 10, n_rows))
    assert not history.stores[1].runs[0].alive.all()
    assert agreed(history, 0, [Row(1, 0, n_rows)]) == [[]]
    assert agreed(history, 0, [Row(1, 0, n_rows - 1)]) == [[0]]


def test_rows_beyond_the_largest_window_are_no_points(monkeypatch):
    way, stabbed = JoinFirst(is_float=False), []
    history = History(way, is_float=False)
    history.add([(EVERYTHING, EVERYTHING, (0, 5)), (EVERYTHING, EVERYTHING, (0, 50))])
    history.insert(1, [Row(1, key, key) for key in range(100)])
    stab = way._index.stab

    def counting(values):
        stabbed.append(values.shape[1])
        return stab(values)

    monkeypatch.setattr(way._index, "stab", counting)
    history.answers(0, [Row(1, 0, 100)])
    history.remove([1])
    history.answers(0, [Row(1, 0, 100)])
    assert stabbed == [50, 5]


def test_times_are_prepared_once_for_a_run_that_stays(monkeypatch):
    prepared, original = [], select_first.range_maximum

    def counting(values):
        prepared.append(values.size)
        return original(values)

    monkeypatch.setattr(select_first, "range_maximum", counting)
    history = History(SelectFirst(is_float=False), is_float=False)
    history.add([((0, 1), EVERYTHING, (0, 5))])
    history.insert(1, [Row(1, key, key) for key in range(100)])
    history.answers(0, [Row(1, 9, 100)])
    history.delete(1, [3])
    history.answers(0, [Row(1, 9, 100)])
    history.insert(1, [Row(1, 0, 0)])
    history.answers(0, [Row(1, 9, 100)])
    assert prepared == [100, 1]


@pytest.mark.parametrize("at_once", [1, 700])
def test_many_candidates_are_tested_in_rounds(monkeypatch, at_once):
    history = of_every_way()
    crowd(history, n_queries=200, n_rows=300, seed=16, late=True)
    for module in (select_first, joined):
        monkeypatch.setattr(module, "CANDIDATES_AT_ONCE", at_once)
    monkeypatch.setattr(joined, "POINTS_AT_ONCE", 50)
    agreed(history, 0, crowd_events(12, 17, late=True))


def test_threads_share_the_events_and_answer_the_same(monkeypatch):
    monkeypatch.setattr(_numba, "THREADS", 3)
    for module in (select_first, joined):
        monkeypatch.setattr(
            module, "in_parts", lambda work, n, cost: _numba.in_parts(work, n, cost=10_000_000)
        )
    history = of_every_way()
    crowd(history, n_queries=200, n_rows=300, seed=18)
    agreed(history, 1, crowd_events(20, 19, late=True))
