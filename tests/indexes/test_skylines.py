"""Skylines against their definition, and the cache that keeps them until they are stale."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.indexes.keys import FAR, LEAST
from standfast.indexes.skylines import (
    SLACK,
    Rows,
    SkylineCache,
    check_skyline,
    past_skylines,
    rows_of,
    skylines_around,
)
from standfast.indexes.sorted_runs import SortedRuns

keys = st.integers(-6, 6) | st.sampled_from([LEAST, FAR])
times = st.integers(0, 8)
rows = st.lists(st.tuples(keys, times), max_size=14)
points = st.lists(keys, max_size=5).map(sorted)


def one_code(pairs) -> Rows:
    pairs = sorted(pairs)
    columns = np.array(pairs, np.int64).reshape(-1, 2).T
    return Rows(np.array([0, len(pairs)]), columns[0].copy(), columns[1].copy())


def between_points(pairs, points):
    """Rows right of each point up to the next, and left of each point down to the one before."""
    for i, point in enumerate(points):
        after = points[i + 1] if i + 1 < len(points) else None
        before = points[i - 1] if i else None
        right = {r for r in pairs if r[0] >= point and (after is None or r[0] < after)}
        left = {r for r in pairs if r[0] <= point and (before is None or r[0] > before)}
        yield point, right, left


def not_dominated(pairs, point):
    """Rows that are newer than every row between them and the point; one per key."""
    return {
        (key, time)
        for key, time in pairs
        if all(
            t < time or (k, t) == (key, time)
            for k, t in pairs
            if min(point, key) <= k <= max(point, key)
        )
    }


@given(rows, points)
def test_a_skyline_holds_the_rows_that_no_nearer_row_hides_from_a_point(pairs, points):
    lines, extents = past_skylines(one_code(pairs), np.array(points, np.int64))
    expected = set()
    for point, right, left in between_points(pairs, points):
        expected |= not_dominated(right, point) | not_dominated(left, point)
    assert list(zip(lines.keys.tolist(), lines.near.tolist(), strict=True)) == sorted(expected)
    check_skyline(lines)
    assert extents.n_rows[0] == len(pairs)
    assert extents.stops[0] - extents.starts[0] == len(expected) <= len(set(pairs))
    assert not pairs or extents.newest[0] == max(time for _, time in pairs)


@given(rows, points)
def test_a_walk_along_the_links_finds_all_rows_that_can_decide_a_range_of_the_group(pairs, points):
    lines, _ = past_skylines(one_code(pairs), np.array(points, np.int64))
    for point in points:
        for links, is_right in ((lines.right, True), (lines.left, False)):
            ahead = [r for r in pairs if (r[0] >= point if is_right else r[0] <= point)]
            if is_right:
                at = int(np.searchsorted(lines.keys, point))
                at = at if at < lines.keys.size else -1
            else:
                at = int(np.searchsorted(lines.keys, point, "right")) - 1
            walked = set()
            while at >= 0:
                walked.add((int(lines.keys[at]), int(lines.near[at])))
                at = int(links[at])
            assert walked == not_dominated(ahead, point)


@given(rows, points, st.integers(-2, 10))
def test_a_skyline_around_an_event_is_that_of_the_distances(pairs, points, time):
    at = np.array(points, np.int64)
    lines, extents = skylines_around(
        one_code(pairs), np.zeros(2, np.int64), np.array([time, time]), at, is_float=False
    )
    mirrored, _ = past_skylines(one_code([(k, -abs(t - time)) for k, t in pairs]), at)
    for e in range(2):
        part = lines.at(slice(int(extents.starts[e]), int(extents.stops[e])))
        for one, other in zip(part, mirrored, strict=True):
            assert np.array_equal(one, other)


def test_rows_of_several_runs_come_by_key_without_the_deleted():
    store = stored([(1, 5, 50), (1, 1, 10), (2, 3, 30)], [(1, 3, 31), (3, 9, 90)], ratio=1)
    assert len(store.runs) == 2
    store.delete(np.array([1]), np.array([1]), np.array([1]))
    found = rows_of(store, np.array([0, 1, 3]))
    assert found.offsets.tolist() == [0, 0, 2, 3]
    assert found.keys.tolist() == [3, 5, 9]
    assert found.times.tolist() == [31, 50, 90]


def stored(*batches, ratio: int = 8) -> SortedRuns:
    """A store of (code, key, time); ids count from 0."""
    store, first = SortedRuns(ratio, coded=True, n_extras=1), 0
    for batch in batches:
        insert(store, batch, first)
        first += len(batch)
    return store


def insert(store, batch, first):
    codes, row_keys, row_times = np.array(batch, np.int64).T
    store.insert(row_keys, np.arange(first, first + len(batch)), codes, row_times[None])


def lines_of(cache, code, store, points):
    place = cache.find(np.array([code]), store, points)[0]
    start, stop = cache.extents.starts[place], cache.extents.stops[place]
    cache.check()
    return list(
        zip(
            cache.skylines.keys[start:stop].tolist(),
            cache.skylines.near[start:stop].tolist(),
            strict=True,
        )
    )


@pytest.fixture
def store():
    return stored([(1, 5, 50), (1, 1, 10), (2, 3, 30), (2, 4, 20)])


POINTS = np.array([2, 8])


def test_a_skyline_is_made_once_while_nothing_changes(store):
    cache = SkylineCache()
    for _ in range(3):
        assert lines_of(cache, 1, store, POINTS) == [(1, 10), (5, 50)]
    assert cache.n_made == 1
    assert len(cache) == 1


def test_a_row_that_comes_makes_the_skyline_of_its_code_stale_and_no_other(store):
    cache = SkylineCache()
    cache.find(np.array([1, 2]), store, POINTS)
    insert(store, [(1, 3, 60)], 10)
    assert lines_of(cache, 1, store, POINTS) == [(1, 10), (3, 60), (5, 50)]
    assert lines_of(cache, 2, store, POINTS) == [(3, 30), (4, 20)]
    assert cache.n_made == 3


def test_a_row_that_goes_makes_the_skyline_of_its_code_stale_and_no_other(store):
    cache = SkylineCache()
    cache.find(np.array([1, 2]), store, POINTS)
    store.delete(np.array([5]), np.array([0]), np.array([1]))
    assert lines_of(cache, 1, store, POINTS) == [(1, 10)]
    cache.find(np.array([1, 2]), store, POINTS)
    assert cache.n_made == 3


def test_a_new_point_makes_all_skylines_stale_and_each_is_made_when_asked_for(store):
    cache = SkylineCache()
    cache.find(np.array([1, 2]), store, np.array([8]))
    assert lines_of(cache, 2, store, np.array([8])) == [(3, 30), (4, 20)]
    assert lines_of(cache, 2, store, np.array([4])) == [(3, 30), (4, 20)]
    assert cache.n_made == 3


def test_skylines_serve_fewer_points_too_until_most_points_are_gone(store):
    cache = SkylineCache()
    many = np.arange(-SLACK, SLACK)
    cache.find(np.array([1]), store, many)
    cache.find(np.array([1]), store, many[SLACK:])
    assert cache.n_made == 1
    cache.find(np.array([1]), store, many[SLACK : SLACK + 3])
    assert cache.n_made == 2


def test_another_store_makes_everything_stale(store):
    cache = SkylineCache()
    lines_of(cache, 1, store, POINTS)
    assert lines_of(cache, 1, stored([(1, 7, 70)]), POINTS) == [(7, 70)]


def test_a_forgotten_change_makes_everything_stale(store):
    cache = SkylineCache()
    lines_of(cache, 1, store, POINTS)
    store.changes.limit = 2
    insert(store, [(1, 3, 60)], 10)
    insert(store, [(2, 30, 1), (2, 31, 1), (2, 32, 1)], 11)
    assert lines_of(cache, 1, store, POINTS) == [(1, 10), (3, 60), (5, 50)]


def test_a_code_without_rows_leaves_no_trace(store):
    cache = SkylineCache()
    assert cache.find(np.arange(100, 200), store, POINTS).tolist() == [0] * 100
    assert len(cache) == 0
    assert cache.n_entries == 0


def test_memory_follows_the_rows_and_not_the_length_of_the_stream():
    store, cache, sizes = stored([(0, 0, 0)]), SkylineCache(), []
    rng = np.random.default_rng(3)
    window, batch = 20, 50
    history = [np.array([[0, 0, 0]])]
    for step in range(160):
        codes = rng.integers(10 * (step // 20), 10 * (step // 20) + 30, batch)
        fresh = np.stack([codes, rng.integers(0, 100, batch), np.full(batch, step)], 1)
        insert(store, fresh, 1 + step * batch)
        history.append(fresh)
        if step >= window:
            old, first = history[step - window + 1], 1 + (step - window) * batch
            store.delete(old[:, 1], np.arange(first, first + batch), old[:, 0])
        cache.find(np.unique(codes), store, np.arange(0, 100, 10))
        assert cache.n_entries <= len(store)
        sizes.append(cache.memory_bytes())
    cache.check()
    assert max(sizes[80:]) <= 1.5 * max(sizes[:80])
    codes = np.unique(fresh[:, 0])
    fresh_cache = SkylineCache()
    for code in codes.tolist():
        points = np.arange(0, 100, 10)
        assert lines_of(cache, code, store, points) == lines_of(fresh_cache, code, store, points)
