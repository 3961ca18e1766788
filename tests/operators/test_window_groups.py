"""Window joins by skylines: histories against the definition, stale marks, what is counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast import _numba
from standfast.arrays import Hits
from standfast.indexes import skyline_tree
from standfast.indexes.changed_codes import ChangedCodes
from standfast.indexes.keys import FAR, LEAST, difference
from standfast.indexes.sorted_runs import SortedRuns
from standfast.model.numbers import INF_KEY, float_keys
from standfast.operators.base import Arrivals
from standfast.operators.window_join import groups as groups_module
from standfast.operators.window_join.groups import ByGroups
from standfast.operators.window_join.hotspot import Hotspot

MAKERS = {
    "groups": ByGroups,
    "hotspot": Hotspot,
    "hotspot of halves": lambda *, is_float: Hotspot(is_float=is_float, alpha=0.3),
}
EVERY_WAY = pytest.mark.parametrize("way", MAKERS)


class World:
    """A strategy with its two stores, and everything once more in plain Python."""

    def __init__(self, way: str = "groups", *, is_float: bool = False, ratio: int = 2) -> None:
        self.strategy = MAKERS[way](is_float=is_float)
        self.is_float = is_float
        self.boxes: dict[int, tuple[tuple[int, int], ...]] = {}
        self.stores = [SortedRuns(ratio, coded=True, n_extras=1) for _ in range(2)]
        self.rows: list[dict[int, tuple[int, int, int]]] = [{}, {}]
        self._next = 0

    def add(self, *boxes) -> list[int]:
        """Queries ((low, high), (low, high), window); their slots."""
        first, self._next = self._next, self._next + len(boxes)
        slots = list(range(first, self._next))
        for slot, (one, other, window) in zip(slots, boxes, strict=True):
            self.boxes[slot] = (one, other, (0, window))
        bounds = np.array([self.boxes[s] for s in slots], np.int64).reshape(-1, 3, 2)
        self.strategy.add(np.array(slots, np.int64), bounds[:, :, 0].T, bounds[:, :, 1].T)
        return slots

    def remove(self, *slots: int) -> None:
        self.strategy.remove(np.array(slots, np.int64))
        for slot in slots:
            del self.boxes[slot]

    def insert(self, side: int, *rows: tuple[int, int, int]) -> list[int]:
        """Rows (code, key, time); their ids."""
        first, self._next = self._next, self._next + len(rows)
        ids = list(range(first, self._next))
        self.rows[side].update(zip(ids, rows, strict=True))
        codes, keys, times = np.array(rows, np.int64).reshape(-1, 3).T
        self.stores[side].insert(keys, np.array(ids, np.int64), codes, times[None])
        return ids

    def delete(self, side: int, *ids: int) -> None:
        rows = np.array([self.rows[side].pop(i) for i in ids], np.int64).reshape(-1, 3)
        self.stores[side].delete(rows[:, 1], np.array(ids, np.int64), rows[:, 0])

    def process(self, side: int, *events: tuple[int, int, int]) -> Hits:
        """Events (code, value, time), by code."""
        columns = np.array(sorted(events), np.int64).reshape(-1, 3).T
        return self.strategy.process(Arrivals(*columns.copy()), self.stores[1 - side], side=side)

    def answer(self, side: int, *events: tuple[int, int, int]) -> list[list[int]]:
        return self.named(self.process(side, *events))

    def named(self, hits: Hits) -> list[list[int]]:
        counts = hits.counts()
        out = np.empty(int(counts.sum()), np.int64)
        hits.fill(np.cumsum(counts) - counts, np.arange(self._next + 1), out)
        return [sorted(part.tolist()) for part in np.split(out, np.cumsum(counts)[:-1])]

    def expected(self, side: int, *events: tuple[int, int, int]) -> list[list[int]]:
        return [
            [slot for slot, box in self.boxes.items() if self._is_hit(box, event, side)]
            for event in sorted(events)
        ]

    def _is_hit(self, box, event, side: int) -> bool:
        code, value, time = event
        (low, high), window = box[1 - side], box[2][1]
        return box[side][0] <= value <= box[side][1] and any(
            c == code and low <= key <= high and self._distance(t, time) <= window
            for c, key, t in self.rows[1 - side].values()
        )

    def _distance(self, one: int, other: int) -> int:
        return abs(int(difference(np.int64(one), np.int64(other), self.is_float)))

    def agree(self, side: int, *events: tuple[int, int, int]) -> None:
        assert self.answer(side, *events) == self.expected(side, *events)


LINE = (LEAST, FAR)
codes = st.integers(0, 2)
keys = st.integers(-8, 8) | st.sampled_from([LEAST, FAR])
int_times = st.integers(0, 12) | st.sampled_from([LEAST, -FAR, FAR])
float_times = st.sampled_from(
    float_keys(np.array([-np.inf, -2.5, -1.0, 0.0, 0.1, 0.3, 1.0, 1e300, np.inf])).tolist()
)
ranges = st.tuples(keys, keys).map(lambda pair: tuple(sorted(pair))) | st.just(LINE)


def histories(times, windows):
    """Steps of one kind each; who is to go is told by numbers that are taken modulo."""
    rows = st.lists(st.tuples(codes, keys, times), max_size=6)
    picks = st.lists(st.integers(0, 99), max_size=4)
    side = st.integers(0, 1)
    return st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.lists(st.tuples(ranges, ranges, windows), max_size=6)),
            st.tuples(st.just("remove"), picks),
            st.tuples(st.just("insert"), side, rows),
            st.tuples(st.just("delete"), side, picks),
            st.tuples(st.just("process"), side, rows),
            st.tuples(st.just("process"), side, rows),
        ),
        max_size=25,
    )


def picked(known, picks):
    living = sorted(known)
    return sorted({living[i % len(living)] for i in picks}) if living else []


def play(way: str, history, *, is_float: bool) -> None:
    world = World(way, is_float=is_float)
    for name, *rest in history:
        if name == "add":
            world.add(*rest[0])
        elif name == "remove":
            world.remove(*picked(world.boxes, rest[0]))
        elif name == "insert":
            world.insert(rest[0], *rest[1])
        elif name == "delete":
            world.delete(rest[0], *picked(world.rows[rest[0]], rest[1]))
        elif rest[1]:
            world.agree(rest[0], *rest[1])
            world.strategy.check()


@EVERY_WAY
@settings(max_examples=35, deadline=None)
@given(st.data())
def test_histories_with_integer_times_are_answered_as_defined(way, data):
    play(way, data.draw(histories(int_times, st.integers(0, 9) | st.just(FAR))), is_float=False)


@EVERY_WAY
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_histories_with_float_times_are_answered_as_defined(way, data):
    limits = float_keys(np.array([0.0, 0.2, 1.0, 3.5, np.inf])).tolist()
    play(way, data.draw(histories(float_times, st.sampled_from([*limits, FAR]))), is_float=True)


NEAR_ZERO = [((-5, 5), (-9, 1), 3), ((0, 9), (0, 4), 5), (LINE, (-1, 9), 0), (LINE, LINE, 2)]


@EVERY_WAY
def test_a_row_that_comes_between_two_batches_is_seen(way):
    world = World(way)
    world.add(*NEAR_ZERO)
    world.insert(1, (7, -3, 10))
    assert world.answer(0, (7, 0, 12)) == [[0, 3]]
    world.insert(1, (7, 2, 12))
    assert world.answer(0, (7, 0, 12)) == [[0, 1, 2, 3]]


@EVERY_WAY
def test_a_row_that_goes_between_two_batches_is_not_seen(way):
    world = World(way)
    world.add(*NEAR_ZERO)
    world.insert(1, (7, -3, 10))
    ids = world.insert(1, (7, 2, 12))
    assert world.answer(0, (7, 0, 12)) == [[0, 1, 2, 3]]
    world.delete(1, *ids)
    assert world.answer(0, (7, 0, 12)) == [[0, 3]]


@EVERY_WAY
def test_a_query_that_brings_a_new_point_sees_rows_that_no_skyline_had(way):
    world = World(way)
    world.add((LINE, (0, 20), 9))
    # Seen from the point of the first query the row at 12 hides behind newer ones.
    world.insert(1, *((7, key, 10 - abs(key - 10) % 3) for key in range(0, 21)))
    world.agree(0, (7, 0, 12))
    for low in range(0, 20):
        world.add((LINE, (low, low), 2), (LINE, (low, low + 1), 3))
        world.agree(0, (7, 0, 12))


@EVERY_WAY
def test_a_window_that_grows_reaches_rows_that_were_outside(way):
    world = World(way)
    (slot,) = world.add((LINE, (0, 9), 2))
    world.insert(1, (7, 5, 10))
    assert world.answer(0, (7, 0, 20)) == [[]]
    (wide,) = world.add((LINE, (0, 9), 10))
    assert world.answer(0, (7, 0, 20)) == [[wide]]
    assert world.answer(0, (7, 0, 12)) == [[slot, wide]]
    world.remove(wide)
    assert world.answer(0, (7, 0, 20)) == [[]]


def test_time_that_goes_on_makes_no_skyline_stale():
    world = World()
    world.add((LINE, (0, 9), 5), (LINE, (3, 4), 2))
    world.insert(1, (7, 1, 10), (7, 4, 7), (7, 8, 9))
    for time in range(10, 20):
        world.agree(0, (7, 0, time), (7, 1, time))
    assert world.strategy.describe()["skylines made"] == 1


def test_an_event_older_than_rows_gets_a_skyline_of_its_own():
    world = World()
    world.add(*((LINE, (-k, k), k) for k in range(8)))
    world.insert(1, *((7, key, 10 + (key * 5) % 7) for key in range(-7, 8)))
    world.agree(0, *((7, 0, time) for time in range(5, 20)))
    assert world.strategy.describe()["skylines made for one event"] == 11


def test_without_the_mark_of_changed_rows_answers_would_be_wrong(monkeypatch):
    monkeypatch.setattr(ChangedCodes, "note", lambda _log, _codes: None)
    world = World()
    world.add((LINE, (0, 9), 1))
    world.insert(1, (7, 1, 10))
    world.answer(0, (7, 0, 20))
    world.insert(1, (7, 2, 20))
    assert world.answer(0, (7, 0, 20)) == [[]] != world.expected(0, (7, 0, 20))


def test_without_the_mark_of_changed_points_answers_would_be_wrong():
    world = World()
    world.add((LINE, (0, 0), 1), (LINE, (20, 20), 1))
    world.insert(1, (7, 5, 19), (7, 8, 18), (7, 9, 20))  # the one at 8 hides between the points
    world.answer(0, (7, 0, 20))
    (slot,) = world.add((LINE, (8, 8), 2))
    cache = world.strategy.sides.of(0).cache
    cache._points = np.append(cache._points, 8)  # as if the skylines had been made for it
    assert world.answer(0, (7, 0, 20)) == [[]] != world.expected(0, (7, 0, 20)) == [[slot]]


def test_an_event_looks_at_no_more_points_than_rows_and_at_few_when_times_are_random():
    rng, world = np.random.default_rng(5), World(ratio=8)
    middles = rng.integers(0, 5, 300) * 2000 + 1000
    reaches = rng.integers(0, 900, (2, 300))
    world.add(
        *(
            (LINE, (int(m - r), int(m + s)), int(w))
            for m, r, s, w in zip(middles, *reaches, rng.integers(0, 1000, 300), strict=True)
        )
    )
    n_rows = 2000
    keys, times = rng.permutation(10_000)[:n_rows], rng.integers(0, 1000, n_rows)
    world.insert(1, *((7, int(k), int(t)) for k, t in zip(keys, times, strict=True)))
    world.agree(0, *((7, 0, 1000 + i) for i in range(3)))
    told = world.strategy.describe()
    assert told["groups"] == [5]
    assert told["joining rows an event"] == n_rows
    # Two skylines a group, each of about ln(rows between two points) entries.
    assert told["skyline points an event"] <= 2 * 5 * 3 * np.log(n_rows / 5)
    assert told["queries tested an event"] == 300


def test_stairs_as_long_as_the_rows_are_searched_too():
    world = World()
    world.add(*((LINE, (-reach, reach), w) for reach in range(0, 60, 3) for w in range(0, 60, 5)))
    world.insert(1, *((7, key, abs(key)) for key in range(-50, 51)))
    world.agree(0, (7, 0, 50), (7, 0, 55), (7, 0, 25))


def test_many_groups_and_few_candidates_climb_only_the_stairs_they_need():
    world = World()
    world.add(*(((5 * i, 5 * i + 6), (10 * i, 10 * i + 3), 4) for i in range(200)))
    world.insert(1, *((7, key, key % 9) for key in range(0, 2000, 2)))
    world.agree(0, *((7, value, 9) for value in range(0, 1000, 70)))


@EVERY_WAY
def test_batches_in_parts_and_on_threads_are_answered_alike(way, monkeypatch):
    rng, world = np.random.default_rng(9), World(way)
    ends = rng.integers(0, 100, (200, 5)).tolist()
    world.add(*(((min(a, b), max(a, b)), (min(c, d), max(c, d)), w) for a, b, c, d, w in ends))
    world.insert(1, *map(tuple, rng.integers(0, [3, 100, 50], (60, 3)).tolist()))
    events = [tuple(e) for e in rng.integers(0, [4, 100, 120], (40, 3)).tolist()]
    plain = world.answer(0, *events)
    assert plain == world.expected(0, *events)
    monkeypatch.setattr(groups_module, "AT_ONCE", 100)
    assert world.answer(0, *events) == plain
    monkeypatch.setattr(_numba, "THREADS", 3)
    monkeypatch.setattr(
        skyline_tree, "in_parts", lambda work, n, *, cost: _numba.in_parts(work, n, cost=10**9)
    )
    assert world.answer(0, *events) == plain


@EVERY_WAY
def test_an_answer_does_not_change_when_queries_and_rows_do(way):
    rng, world = np.random.default_rng(2), World(way)
    world.add(*(((0, int(high)), (0, 50), 20) for high in rng.integers(0, 99, 300)))
    ids = world.insert(1, *((7, key, key) for key in range(40)))
    hits = world.process(0, *((7, value, 50) for value in range(0, 90, 9)))
    before, spans = world.named(hits), hits.spans()
    order = spans.order.copy()
    world.remove(*range(0, 300, 2))
    world.delete(1, *ids[:30])
    world.add(*((LINE, (0, 1), 1) for _ in range(50)))
    world.answer(0, (7, 5, 50))
    assert world.named(hits) == before
    assert np.array_equal(spans.order, order)


@EVERY_WAY
def test_memory_follows_the_queries_however_many_came_and_went(way):
    world, sizes = World(way), []
    world.insert(1, *((key % 3, key, key) for key in range(30)))
    for step in range(60):
        slots = world.add(*(((0, step + i), (i, i + 9), i) for i in range(20)))
        if step % 3 == 0:
            world.answer(0, (1, 5, 30))  # nothing ever arrives on side 1
        world.remove(*slots)
        sizes.append(world.strategy.memory_bytes())
    per_slot = 200  # arrays by slot grow; slots are never used twice
    assert sizes[-1] <= sizes[10] + per_slot * 20 * 50


@EVERY_WAY
def test_nothing_is_hit_without_queries_or_rows_or_events(way):
    world = World(way)
    assert world.answer(0, (1, 1, 1)) == [[]]
    world.add(*NEAR_ZERO)
    assert world.answer(0, (1, 1, 1)) == [[]]
    assert world.process(0).counts().size == 0
    world.insert(1, (2, 0, 1))
    assert world.answer(0, (1, 1, 1)) == [[]]
    assert world.process(0).counts().size == 0


def test_infinite_times_match_only_by_definition():
    world = World(is_float=True)
    world.add((LINE, LINE, INF_KEY), (LINE, LINE, FAR))
    one = int(float_keys(np.array([1.0]))[0])
    world.insert(1, (7, 0, INF_KEY), (7, 1, -INF_KEY))
    world.agree(0, (7, 0, INF_KEY), (7, 0, -INF_KEY), (7, 0, one))
    assert world.answer(0, (7, 0, one)) == [[0, 1]]


def test_what_a_router_asks_for_is_told_per_side():
    world = World()
    world.add(((0, 1), (0, 9), 5), ((0, 5), (20, 29), 5), ((4, 6), (5, 25), 5))
    world.insert(1, (7, 3, 1), (7, 22, 1), (7, 40, 0))
    world.agree(0, (7, 0, 3), (8, 0, 3))
    assert sorted(world.strategy.group_sizes(0).tolist()) == [1, 2]
    assert world.strategy.group_sizes(1).size == 2
    part = world.strategy.sides.of(0)
    assert part.rows_each == 1.5
    assert 1 <= part.points_each <= 1.5
