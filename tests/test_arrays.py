"""Every form of hits says the same in all its ways: counts, fill, spans."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast import _numba, group_spans
from standfast.arrays import (
    Hits,
    Matches,
    Spans,
    Together,
    pooled,
    with_room,
)
from standfast.engine.answer import repeated
from standfast.group_spans import Groups, GroupSpans
from standfast.indexes.stabbing_partition import StabbingPartition

SEEDS = st.integers(0, 10**6)


def by_fill(hits: Hits, n_slots: int, *, gap: int = 1) -> list[list[int]]:
    """The slots each event hit, written with `gap` free places between events."""
    counts = hits.counts()
    starts = np.cumsum(counts + gap) - counts
    out = np.full(int((counts + gap).sum()) + gap, -7, np.int64)
    hits.fill(starts, np.arange(n_slots) * 10, out)
    written = np.zeros(out.size, np.bool_)
    rows = []
    for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
        written[start : start + count] = True
        rows.append(sorted((out[start : start + count] // 10).tolist()))
    assert (out[~written] == -7).all(), "fill wrote outside of its places"
    return rows


def by_spans(hits: Hits) -> list[list[int]]:
    """The slots each event hit according to its spans."""
    rows: list[list[int]] = [[] for _ in range(hits.n_events)]
    spans = hits.spans()
    for event, start, stop, floor in zip(*(a.tolist() for a in spans[:4]), strict=True):
        inside = slice(start, stop)
        pairs = zip(spans.order[inside].tolist(), spans.ranks[inside].tolist(), strict=True)
        rows[event] += [slot for slot, rank in pairs if slot >= 0 and rank >= floor]
    return [sorted(row) for row in rows]


def check_agreement(hits: Hits, expected: list[list[int]], n_slots: int) -> None:
    expected = [sorted(row) for row in expected]
    assert hits.n_events == len(expected)
    assert hits.counts().dtype == np.int64
    assert hits.counts().tolist() == [len(row) for row in expected]
    assert by_fill(hits, n_slots) == expected
    assert by_spans(hits) == expected
    assert all(len(set(row)) == len(row) for row in expected), "a slot was hit twice"


def random_rows(rng: np.random.Generator, n_events: int, slots: np.ndarray) -> list[list[int]]:
    return [rng.permutation(slots)[: rng.integers(0, slots.size + 1)].tolist()
            for _ in range(n_events)]  # fmt: skip


def matches_of(rows: list[list[int]]) -> Matches:
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return Matches(offsets, np.array([slot for row in rows for slot in row], np.int32))


def random_spans(rng: np.random.Generator, n_events: int, slots: np.ndarray) -> Spans:
    """Disjoint slices of an order in which some slots were removed."""
    order = rng.permutation(slots).astype(np.int32)
    order[rng.random(order.size) < 0.3] = -1
    offsets, starts, stops = [0], [], []
    for _ in range(n_events):
        cuts = np.sort(rng.integers(0, order.size + 1, 2 * rng.integers(0, 3)))
        starts += cuts[::2].tolist()
        stops += cuts[1::2].tolist()
        offsets.append(len(starts))
    return Spans(
        np.array(offsets, np.int64), np.array(starts, np.int32), np.array(stops, np.int32), order
    )


def rows_of_spans(spans: Spans) -> list[list[int]]:
    return [
        [
            slot
            for i in range(spans.offsets[e], spans.offsets[e + 1])
            for slot in spans.order[spans.starts[i] : spans.stops[i]].tolist()
            if slot >= 0
        ]
        for e in range(spans.n_events)
    ]


def random_groups(rng: np.random.Generator, slots: np.ndarray) -> tuple[Groups, np.ndarray]:
    """Groups of random intervals, known by these slots; `bounds[i]` are those of `slots[i]`."""
    bounds = np.sort(rng.integers(-30, 30, (slots.size, 2)), axis=1)
    partition = StabbingPartition()
    partition.add(slots, bounds[:, 0].copy(), bounds[:, 1].copy())
    return partition.groups(), bounds


def random_group_spans(rng: np.random.Generator, n_events: int, groups: Groups) -> GroupSpans:
    sizes = np.diff(groups.offsets)[:, None]
    shape = (groups.n_groups, n_events)
    return GroupSpans(
        groups,
        rng.integers(0, sizes + 1, shape, np.int32),
        rng.integers(0, sizes + 1, shape, np.int32),
    )


def rows_of_group_spans(hits: GroupSpans) -> list[list[int]]:
    groups, rows = hits.groups, []
    for e in range(hits.n_events):
        found: set[int] = set()
        for g in range(groups.n_groups):
            begin, end = groups.offsets[g], groups.offsets[g + 1]
            found.update(groups.low_slots[begin : begin + hits.low_counts[g, e]].tolist())
            found.update(groups.high_slots[end - hits.high_counts[g, e] : end].tolist())
        rows.append(list(found))
    return rows


@given(SEEDS, st.integers(0, 5))
def test_matches_agree_with_themselves(seed, n_events):
    rows = random_rows(np.random.default_rng(seed), n_events, np.arange(9))
    check_agreement(matches_of(rows), rows, 9)


@given(SEEDS, st.integers(0, 5))
def test_spans_agree_with_themselves_and_skip_removed_slots(seed, n_events):
    spans = random_spans(np.random.default_rng(seed), n_events, np.arange(9))
    check_agreement(spans, rows_of_spans(spans), 9)


@given(SEEDS, st.integers(0, 5), st.integers(1, 40))
def test_group_spans_agree_with_themselves_and_count_nobody_twice(seed, n_events, n_slots):
    rng = np.random.default_rng(seed)
    groups, _ = random_groups(rng, np.arange(n_slots))
    hits = random_group_spans(rng, n_events, groups)
    check_agreement(hits, rows_of_group_spans(hits), n_slots)


@given(SEEDS, st.integers(0, 4))
def test_hits_together_are_the_hits_of_all_parts(seed, n_events):
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, n_events, np.arange(6))
    spans = random_spans(rng, n_events, np.arange(6, 14))
    grouped = random_group_spans(rng, n_events, random_groups(rng, np.arange(14, 30))[0])
    both = Together((matches_of(rows), Together((spans, grouped))))
    parts = zip(rows, rows_of_spans(spans), rows_of_group_spans(grouped), strict=True)
    check_agreement(both, [a + b + c for a, b, c in parts], 30)


def test_nobody_is_hit_by_any_number_of_events():
    for n_events in (0, 3):
        check_agreement(Matches.none(n_events), [[]] * n_events, 0)


def test_spans_of_removed_slots_only_hit_nobody():
    gone = Spans(np.array([0, 1]), np.array([0], np.int32), np.array([3], np.int32),
                 np.full(3, -1, np.int32))  # fmt: skip
    check_agreement(gone, [[]], 0)


def test_group_spans_without_groups_hit_nobody():
    empty = random_group_spans(np.random.default_rng(0), 3, StabbingPartition().groups())
    check_agreement(empty, [[], [], []], 0)


def test_an_interval_in_both_prefixes_counts_once():
    # Three nested intervals around 0; the event's neighbours reach the two outer ones both ways.
    partition = StabbingPartition()
    partition.add(np.arange(3), np.array([-3, -2, -1]), np.array([3, 2, 1]))
    counts = np.array([[2]], np.int32)
    hits = GroupSpans(partition.groups(), counts, counts)
    check_agreement(hits, [[0, 1]], 3)
    spans = hits.spans()
    assert spans.floors.tolist() == [0, 2]
    assert spans.order.tolist() == [0, 1, 2, 2, 1, 0]


class Watched:
    """Ranks that count how often they are read."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.reads = values, 0

    def __getitem__(self, i: int) -> int:
        self.reads += 1
        return int(self.values[i])


@pytest.mark.parametrize(("low", "high"), [(0, 0), (3, 5), (5, 3), (0, 90), (97, 2), (98, 95)])
def test_counting_looks_through_the_shortest_of_hits_and_misses(low, high):
    # Events that hit nothing once cost a look at every query of every group.
    halves = np.random.default_rng(1).permutation(100)
    partition = StabbingPartition()
    partition.add(np.arange(100), -np.arange(100), halves)
    groups = partition.groups()
    one, other = np.array([[low]], np.int32), np.array([[high]], np.int32)
    low_ranks, high_ranks = Watched(group_spans._low_ranks(groups)), Watched(groups.high_ranks)
    kernel = group_spans._count_groups
    count, counts = getattr(kernel, "py_func", kernel), np.empty(1)
    count(groups.offsets, low_ranks, high_ranks, one, other, 0, counts)
    hits = GroupSpans(groups, one, other)
    assert counts[0] == hits.counts()[0] == len(rows_of_group_spans(hits)[0])
    assert low_ranks.reads + high_ranks.reads <= min(low, high, 100 - low, 100 - high)


def test_a_group_hit_from_one_side_is_one_span():
    partition = StabbingPartition()
    partition.add(np.arange(3), np.array([-3, -2, -1]), np.array([3, 2, 1]))
    groups = partition.groups()
    some, none = np.array([[2]], np.int32), np.array([[0]], np.int32)
    assert GroupSpans(groups, some, none).spans().events.tolist() == [0]
    assert GroupSpans(groups, none, some).spans().events.tolist() == [0]
    check_agreement(GroupSpans(groups, none, some), [[0, 1]], 3)


@pytest.mark.parametrize("n_queries", [10, 1000])
def test_what_group_spans_hold_per_event_does_not_follow_the_number_of_queries(n_queries):
    rng = np.random.default_rng(4)
    half = rng.integers(1, 1000, n_queries)
    centers = np.resize(np.array([-9000, 0, 9000]), n_queries)
    partition = StabbingPartition()
    partition.add(np.arange(n_queries), centers - half, centers + half)
    hits = random_group_spans(rng, 50, partition.groups())
    assert hits.groups.n_groups == 3
    assert hits.low_counts.size + hits.high_counts.size == 2 * 3 * 50
    assert hits.spans().events.size <= 2 * 3 * 50


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_parts_cover_everything_once_on_any_number_of_threads(monkeypatch, n_threads):
    monkeypatch.setattr(_numba, "THREADS", n_threads)
    for n in (0, 1, 2, 7):
        for cost in (0, 10_000_000):
            seen: list[int] = []
            _numba.in_parts(lambda a, b, s=seen: s.extend(range(a, b)), n, cost=cost)
            assert sorted(seen) == list(range(n))


def test_an_error_in_a_part_reaches_the_caller(monkeypatch):
    monkeypatch.setattr(_numba, "THREADS", 2)

    def work(first: int, last: int) -> None:
        assert last < 4, "the second part fails"

    with pytest.raises(AssertionError, match="the second part fails"):
        _numba.in_parts(work, 4, cost=10_000_000)


FORKING = """
import os, sys, time
from standfast import _numba
_numba.THREADS = 2
_numba.in_parts(lambda first, last: time.sleep(0.05), 4, cost=10_000_000)
time.sleep(0.1)
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
_numba.in_parts(lambda first, last: None, 4, cost=10_000_000)
os._exit(7)
"""


def test_a_forked_process_has_threads_of_its_own():
    # It once waited forever for the threads of its parent.
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKING], timeout=60)
    assert done.returncode == 7


def test_group_spans_say_the_same_on_several_threads(monkeypatch):
    monkeypatch.setattr(_numba, "THREADS", 3)
    monkeypatch.setattr(
        group_spans, "in_parts", lambda work, n, cost: _numba.in_parts(work, n, cost=10_000_000)
    )
    rng = np.random.default_rng(11)
    for n_events in (1, 2, 20):
        hits = random_group_spans(rng, n_events, random_groups(rng, np.arange(40))[0])
        check_agreement(hits, rows_of_group_spans(hits), 40)


@given(st.lists(st.integers(0, 4), max_size=9))
def test_places_are_repeated_as_often_as_told(counts):
    found = repeated(np.array(counts, np.int64))
    assert found.tolist() == np.repeat(np.arange(len(counts)), counts).tolist()


@pytest.mark.parametrize("shape", [0, 5, (3, 4), (0, 4), (3, 0)])
def test_pooled_arrays_are_like_any_other(shape):
    array = pooled(shape, np.int32)
    assert (array.shape, array.dtype) == (np.empty(shape).shape, np.int32)
    array.fill(7)
    assert (array == 7).all()


def test_room_is_made_at_the_end_and_what_was_there_stays():
    held = np.arange(6).reshape(2, 3)
    assert with_room(held, 3) is held
    wide = with_room(held, 4)
    assert wide.shape == (2, 4)
    assert np.array_equal(wide[:, :3], held)
    # Half as much again, so that one more entry at a time does not copy every time.
    assert with_room(np.zeros(100, np.int64), 101).size == 150
