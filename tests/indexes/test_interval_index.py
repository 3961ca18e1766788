"""The interval index against a few-line oracle, with capacities small enough to force merges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.arrays import Hits
from standfast.indexes.interval_index import IntervalIndex
from standfast.indexes.interval_tree import LONG

LEAST, FAR = np.iinfo(np.int64).min, np.iinfo(np.int64).max
KEYS = st.one_of(
    st.integers(-8, 8), st.integers(LEAST, FAR), st.sampled_from([LEAST, LEAST + 1, FAR - 1, FAR])
)
RANGES = st.tuples(KEYS, KEYS).map(sorted)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(RANGES, min_size=1, max_size=12)),
        st.tuples(st.just("remove"), st.integers(0, 1 << 30)),
        st.tuples(st.just("stab"), st.lists(KEYS, max_size=5)),
    ),
    max_size=25,
)


class Oracle:
    """Intervals in a dictionary."""

    def __init__(self) -> None:
        self.ranges: dict[int, tuple[int, int]] = {}

    def stab(self, value: int) -> list[int]:
        return sorted(s for s, (low, high) in self.ranges.items() if low <= value <= high)


def rows_of(hits: Hits, n_slots: int) -> list[list[int]]:
    """What each event hit, by way of counts and fill, sorted; spans must say the same."""
    counts = hits.counts()
    assert counts.size == hits.n_events
    stops = np.cumsum(counts)
    out = np.full(counts.sum(), -1, np.int64)
    hits.fill(stops - counts, np.arange(n_slots) * 3, out)
    rows = [sorted((row // 3).tolist()) for row in np.split(out, stops[:-1])] if counts.size else []
    spans = hits.spans()
    listed: list[list[int]] = [[] for _ in rows]
    for event, start, stop in zip(spans.events, spans.starts, spans.stops, strict=True):
        listed[event] += [s for s in spans.order[start:stop].tolist() if s >= 0]
    assert [sorted(row) for row in listed] == rows
    return rows


def filled(index: IntervalIndex, ranges: np.ndarray, first_slot: int = 0) -> None:
    ranges = np.asarray(ranges, np.int64).reshape(-1, 2)
    index.add(np.arange(first_slot, first_slot + len(ranges)), ranges[:, 0], ranges[:, 1])


def expected(ranges: np.ndarray, values: np.ndarray) -> list[list[int]]:
    holds = (ranges[:, 0] <= values[:, None]) & (values[:, None] <= ranges[:, 1])
    return [np.nonzero(row)[0].tolist() for row in holds]


@settings(max_examples=150, deadline=None)
@given(actions=ACTIONS, bucket=st.sampled_from([2, 3, 16]), ratio=st.sampled_from([1.0, 3.0]))
def test_any_history_is_answered_like_the_oracle(actions, bucket, ratio) -> None:
    index, oracle, n_slots = IntervalIndex(bucket=bucket, ratio=ratio, small=3), Oracle(), 0
    for action, argument in actions:
        if action == "add":
            oracle.ranges.update(enumerate(map(tuple, argument), n_slots))
            filled(index, argument, n_slots)
            n_slots += len(argument)
        elif action == "remove" and oracle.ranges:
            slots = sorted(oracle.ranges)
            gone = slots[argument % len(slots) :: 1 + argument % 5]
            index.remove(np.array(gone[::-1]))
            for slot in gone:
                del oracle.ranges[slot]
        elif action == "stab":
            hits = index.stab(np.array(argument, np.int64))
            assert rows_of(hits, n_slots) == [oracle.stab(v) for v in argument]
        index.check()
        assert index.n_intervals == len(oracle.ranges)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 30), spread=st.sampled_from([3, 50, 5000]))
def test_crowded_intervals_are_found_in_long_slices_too(seed, spread) -> None:
    rng = np.random.default_rng(seed)
    ranges = np.sort(rng.integers(0, spread, (700, 2)), axis=1)
    values = rng.integers(-2, spread + 2, 20)
    index = IntervalIndex(bucket=4, small=50)
    filled(index, ranges[:600])
    index.stab(values)
    filled(index, ranges[600:], 600)
    assert rows_of(index.stab(values), 700) == expected(ranges, values)
    gone = rng.permutation(700)[:300]
    index.remove(gone)
    index.check()
    kept = [[s for s in row if s not in set(gone.tolist())] for row in expected(ranges, values)]
    assert rows_of(index.stab(values), 700) == kept


def test_an_empty_index_hits_nothing() -> None:
    index = IntervalIndex()
    assert rows_of(index.stab(np.array([1, 2])), 0) == [[], []]
    assert rows_of(index.stab(np.empty(0, np.int64)), 0) == []
    filled(index, [[1, 2]])
    index.remove(np.array([0]))
    assert rows_of(index.stab(np.array([1, 2])), 1) == [[], []]
    assert index.n_intervals == 0


def test_ends_belong_to_the_interval_even_at_the_ends_of_the_number_line() -> None:
    index = IntervalIndex(bucket=2, small=0)
    filled(index, [[LEAST, LEAST], [FAR, FAR], [LEAST, FAR], [LEAST, 0], [0, FAR], [5, 5]])
    rows = rows_of(index.stab(np.array([FAR, LEAST, 0, 5, 6, -1])), 6)
    assert rows == [[1, 2, 4], [0, 2, 3], [2, 3, 4], [2, 4, 5], [2, 4], [2, 3]]


def test_equal_points_come_as_one_slice() -> None:
    index = IntervalIndex()
    points = np.repeat(np.arange(5), 1000)
    filled(index, np.stack([points, points], axis=1))
    hits = index.stab(np.array([3, 7, 3]))
    assert hits.counts().tolist() == [1000, 0, 1000]
    assert hits.spans().events.size <= 3 + 2, "two long slices and an empty row for each event"


def test_a_removed_interval_is_never_reported_and_costs_no_slice() -> None:
    index = IntervalIndex(small=0)
    filled(index, np.tile([[0, 10]], (10 * LONG, 1)))
    index.remove(np.arange(0, 10 * LONG, 4))
    hits = index.stab(np.array([5]))
    assert hits.counts().tolist() == [10 * LONG - 10 * LONG // 4]
    assert 0 not in rows_of(hits, 10 * LONG)[0]


def test_a_published_answer_does_not_change_when_queries_do() -> None:
    rng = np.random.default_rng(5)
    ranges = np.sort(rng.integers(0, 100, (1000, 2)), axis=1)
    values = rng.integers(0, 100, 30)
    index = IntervalIndex(small=100)
    filled(index, ranges)
    hits = index.stab(values)
    before = rows_of(hits, 1000)
    for step in range(9):
        index.remove(np.arange(step * 100, step * 100 + 50))
        filled(index, ranges[:60], 1000 + 60 * step)
        index.stab(values)
        assert rows_of(hits, 1000) == before


def test_a_mostly_removed_tree_is_built_anew() -> None:
    index = IntervalIndex()
    filled(index, np.tile([[0, 10]], (10_000, 1)))
    index.stab(np.array([0]))
    full = index.memory_bytes()
    index.remove(np.arange(9_000))
    assert index.stab(np.array([0])).counts().tolist() == [1000]
    assert index.memory_bytes() < full / 5


def test_a_remove_may_come_before_the_add_was_worked_in() -> None:
    index = IntervalIndex()
    filled(index, [[0, 1], [0, 2], [0, 3]])
    index.remove(np.array([1]))
    filled(index, [[0, 4]], 3)
    index.remove(np.array([3, 0]))
    index.check()
    assert rows_of(index.stab(np.array([1])), 4) == [[2]]


def test_removing_what_nobody_holds_is_an_error() -> None:
    index = IntervalIndex()
    filled(index, [[0, 1]])
    index.remove(np.array([7]))
    with pytest.raises(AssertionError, match=r"nobody holds: \[7\]"):
        index.stab(np.array([1]))


def test_slots_may_come_in_any_order() -> None:
    index = IntervalIndex()
    index.add(np.array([9, 2, 5]), np.array([0, 1, 2]), np.array([9, 9, 9]))
    index.remove(np.array([5]))
    assert rows_of(index.stab(np.array([3])), 10) == [[2, 9]]
    index.check()


def test_a_covering_interval_adds_one_slot_to_each_row_and_no_more() -> None:
    rng = np.random.default_rng(11)
    low = rng.integers(0, 10_000, 2_000)
    ranges = np.stack([low, low + 5], axis=1)
    values = rng.integers(0, 10_000, 50)
    plain, covered = IntervalIndex(), IntervalIndex()
    filled(plain, ranges)
    filled(covered, np.concatenate([ranges, [[LEAST, FAR]]]))
    without, with_cover = rows_of(plain.stab(values), 2001), rows_of(covered.stab(values), 2001)
    assert with_cover == [[*row, 2000] for row in without]


def test_an_interval_costs_at_most_60_bytes() -> None:
    rng = np.random.default_rng(3)
    low = rng.integers(0, 1 << 40, 20_000)
    index = IntervalIndex()
    index.add(np.arange(low.size), low, low + (1 << 24))
    index.stab(low[:1])
    assert index.memory_bytes() <= 60 * low.size
