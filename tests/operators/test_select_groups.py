"""Select-joins in groups and on hotspots, against the definition, with every capacity tiny.

That all ways agree on generated histories is a law of tests/contract; here is what is special
about groups: several trees, slices with floors, answers in turns, what stays as published.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.arrays import Hits, Together
from standfast.indexes import (
    rectangle_hits,
    rectangle_reach,
    rectangle_slices,
    rectangle_sweep,
    rectangle_visits,
)
from standfast.indexes.rectangle_hits import Located
from standfast.indexes.rectangle_layout import ancestors_of
from standfast.indexes.rectangle_visits import callers_of
from standfast.indexes.sorted_runs import SortedRuns
from standfast.operators.base import Arrivals, SelectStrategy
from standfast.operators.select_join import groups as groups_module
from standfast.operators.select_join.groups import ByGroups
from standfast.operators.select_join.hotspot import Hotspot
from standfast.operators.select_join.naive import Naive
from standfast.workloads import DOMAIN, bands_in_groups, selections

LEAST, FAR = np.iinfo(np.int64).min, np.iinfo(np.int64).max
WAYS = {
    "by_default": lambda: ByGroups(),
    "tiny": lambda: ByGroups(block=1, fanout_bits=1, long=1, ratio=0.5, small=0),
    "small": lambda: ByGroups(block=3, fanout_bits=2, long=2, ratio=2.0, small=4),
    "hot": lambda: Hotspot(alpha=0.3),
    "mixed": lambda: Hotspot(alpha=0.1),
}


def rows_of(hits: Hits, n_slots: int) -> list[list[int]]:
    """What each event hit, by way of counts and fill, sorted; spans must say the same."""
    counts = hits.counts()
    assert counts.size == hits.n_events
    stops = np.cumsum(counts)
    out = np.full(counts.sum(), -1, np.int64)
    hits.fill(stops - counts, np.arange(n_slots) * 3, out)
    rows = [sorted((row // 3).tolist()) for row in np.split(out, stops[:-1])] if counts.size else []
    spans, listed = hits.spans(), [[] for _ in rows]
    order, ranks = spans.order, spans.ranks
    for event, start, stop, floor in zip(*spans[:4], strict=True):
        places = np.arange(start, stop)
        counted = places[(order[places] >= 0) & (ranks[places] >= floor)]
        listed[event] += order[counted].tolist()
    assert [sorted(row) for row in listed] == rows
    return rows


class World:
    """A way and the definition, fed the same random changes; rows in several runs."""

    def __init__(self, way: str, seed: int) -> None:
        self.way: SelectStrategy = WAYS[way]()
        self.naive = Naive()
        self.rng = np.random.default_rng(seed)
        self.reach = int(self.rng.choice([3, 12, 200]))
        self.stored = SortedRuns(int(self.rng.choice([1, 2, 8])), coded=True)
        self.rows = np.empty((3, 0), np.int64)  # key, id, code
        self.slots = np.empty(0, np.int64)
        self.n_slots = 0

    def _keys(self, *shape: int) -> np.ndarray:
        keys = self.rng.integers(0, self.reach, shape)
        for extreme in (LEAST, FAR):
            keys[self.rng.random(shape) < 0.05] = extreme
        return keys

    def add_queries(self, n: int) -> None:
        bounds = np.sort(self._keys(2, 2, n), axis=0)
        slots = np.arange(self.n_slots, self.n_slots + n)
        for way in (self.way, self.naive):
            way.add(slots, bounds[0], bounds[1])
        self.slots, self.n_slots = np.append(self.slots, slots), self.n_slots + n

    def remove_queries(self, n: int) -> None:
        gone = self.rng.permutation(self.slots)[:n]
        for way in (self.way, self.naive):
            way.remove(gone)
        self.slots = np.setdiff1d(self.slots, gone)

    def insert_rows(self, n: int) -> None:
        first = 0 if not self.rows.size else int(self.rows[1].max()) + 1
        keys, ids, codes = self._keys(n), np.arange(first, first + n), self.rng.integers(0, 4, n)
        self.stored.insert(keys, ids, codes)
        self.rows = np.concatenate([self.rows, [keys, ids, codes]], axis=1)

    def delete_rows(self) -> None:
        gone = self.rng.random(self.rows.shape[1]) < 0.3
        gone[-1:] = False  # what follows is numbered by the largest id
        self.stored.delete(*self.rows[:, gone])
        self.rows = self.rows[:, ~gone]

    def events(self, n: int) -> Arrivals:
        return Arrivals(np.sort(self.rng.integers(0, 5, n)), self._keys(n), np.empty(0, np.int64))

    def compare(self, side) -> tuple[Hits, list[list[int]]]:
        events = self.events(int(self.rng.integers(0, 12)))
        hits = self.way.process(events, self.stored, side=side)
        expected = rows_of(self.naive.process(events, self.stored, side=side), self.n_slots)
        assert rows_of(hits, self.n_slots) == expected
        self.way.check()
        return hits, expected

    def step(self) -> None:
        self.add_queries(int(self.rng.integers(1, 30)))
        if self.rng.random() < 0.6:
            self.remove_queries(int(self.rng.integers(1, 25)))
        self.insert_rows(int(self.rng.integers(1, 15)))
        if self.rng.random() < 0.5:
            self.delete_rows()


@given(st.sampled_from(sorted(WAYS)), st.integers(0, 1 << 30), st.booleans(), st.booleans())
def test_any_history_is_answered_like_the_definition(way, seed, merges, in_turns) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups_module, "MERGE_PER_SEARCH", 8 if merges else 0)
        patch.setattr(groups_module, "CELLS_AT_ONCE", 3 if in_turns else 1 << 25)
        patch.setattr(rectangle_visits, "GALLOP", 0 if seed % 2 else 16)
        patch.setattr(rectangle_visits, "SEARCH", 0 if seed % 3 else 8)
        # Counted by lists, by a sweep, or by what suits each code.
        patch.setattr(rectangle_hits, "AN_END", [np.inf, 1.5, 0.0][seed % 7 % 3])
        patch.setattr(rectangle_hits, "A_CALLER", 0.0)
        patch.setattr(rectangle_sweep, "AT_ONCE", 1 + seed % 5)
        world, held = World(way, seed), []
        for _ in range(4):
            world.step()
            sides = [(), (0,), (1,), (0, 1)][int(world.rng.integers(4))]
            held += [world.compare(side) for side in sides]
        for hits, rows in held:
            assert rows_of(hits, world.n_slots) == rows, "a published answer changed"


def crowded(n: int, n_groups: int, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Queries that select about a tenth of the events of side 0, in groups on side 1."""
    rng = np.random.default_rng(seed)
    own, point = rng.integers(0, 900, n), (rng.integers(0, n_groups, n) + 1) * 1000
    reach = rng.integers(1, 400, (2, n))
    return np.array([own, point - reach[0]]), np.array([own + 100, point + reach[1]])


def rows_around(points: list[int], code: int = 1) -> SortedRuns:
    stored = SortedRuns(coded=True)
    stored.insert(np.array(points), np.arange(len(points)), np.full(len(points), code))
    return stored


def arrivals(values, code: int = 1) -> Arrivals:
    values = np.asarray(values, np.int64)
    return Arrivals(np.full(values.size, code), values, np.empty(0, np.int64))


def test_slices_with_floors_count_nobody_twice() -> None:
    lows, highs = crowded(4000, 2)
    way, naive = ByGroups(long=1), Naive()
    for strategy in (way, naive):
        strategy.add(np.arange(4000), lows, highs)
    # One row far to the left and one far to the right: few are hit, some of them by both.
    stored = rows_around([700, 1300, 1650, 2250])
    events = arrivals(np.arange(0, 1000, 97))
    hits = way.process(events, stored, side=0)
    assert isinstance(hits, Located)
    assert hits.spans().floors.any()
    expected = rows_of(naive.process(events, stored, side=0), 4000)
    assert rows_of(hits, 4000) == expected
    way.remove(np.arange(0, 4000, 3))
    naive.remove(np.arange(0, 4000, 3))
    assert rows_of(hits, 4000) == expected
    left = rows_of(naive.process(events, stored, side=0), 4000)
    assert rows_of(way.process(events, stored, side=0), 4000) == left


def test_an_event_whose_code_has_no_rows_hits_nothing() -> None:
    way = ByGroups()
    way.add(np.arange(2), np.full((2, 2), LEAST), np.full((2, 2), FAR))
    assert way.process(arrivals([3, 4], code=2), rows_around([5]), side=0).counts().tolist() == [
        0,
        0,
    ]
    assert way.process(arrivals([3, 4]), rows_around([5]), side=0).counts().tolist() == [2, 2]
    assert way.process(arrivals([3]), SortedRuns(coded=True), side=0).counts().tolist() == [0]
    assert ByGroups().process(arrivals([3]), rows_around([5]), side=1).counts().tolist() == [0]


@pytest.mark.parametrize("row", [LEAST, FAR])
def test_rows_at_the_ends_of_the_line_are_found(row) -> None:
    ranges = [(LEAST, LEAST), (LEAST, 0), (0, 0), (0, FAR), (FAR, FAR), (LEAST, FAR)]
    lows, highs = (np.array([[LEAST] * 6, e]) for e in zip(*ranges, strict=True))
    way = ByGroups(block=1)
    way.add(np.arange(6), lows, np.array([[FAR] * 6, highs[1]]))
    expected = [i for i, (low, high) in enumerate(ranges) if low <= row <= high]
    assert rows_of(way.process(arrivals([LEAST, FAR]), rows_around([row]), side=0), 6) == [
        expected, expected,
    ]  # fmt: skip


def test_locating_follows_groups_and_join_keys_not_queries() -> None:
    cells, visits = [], []
    for n in (300, 30_000):
        way = ByGroups()
        way.add(np.arange(n), *crowded(n, 6))
        hits = way.process(arrivals(np.arange(50)), rows_around([1100, 3200]), side=0)
        assert isinstance(hits, Located)
        cells.append(hits.limits.lows.size)
        visits.append(np.sum(hits.visits.stops - hits.visits.offsets[:-1]))
    assert cells == [6, 6]
    assert max(visits) <= 6 * 50


def test_an_answer_has_logarithmically_many_slices() -> None:
    n, n_groups = 30_000, 3
    way = ByGroups(block=16, fanout_bits=2)
    way.add(np.arange(n), *crowded(n, n_groups))
    events = arrivals(np.arange(100, 900))
    hits = way.process(events, rows_around([1050, 1950, 2990, 3005]), side=0)
    n_levels = 1 + np.log(2 * n / n_groups / 16) / np.log(4)
    per_event = np.bincount(hits.spans().events, minlength=800)
    assert per_event.max() <= n_groups * (2 * n_levels + 1)
    assert hits.counts().min() > 10 * per_event.max()


def lists_looked_into(hits: Located) -> tuple[int, int]:
    """How many lists of nodes events meet once they are located, and how many hold a hit."""
    tree, visits, nodes = hits.tree, hits.visits, np.empty(64, np.int64)
    n_lists = n_hit = 0
    for g in range(tree.points.size):
        for visit in range(visits.offsets[g], visits.stops[g]):
            n_nodes = ancestors_of(tree, g, visits.blocks[visit], nodes)
            for k in range(*callers_of(visits, g, visit, 0, hits.callers.events.size)):
                low, high = (of[g, hits.callers.codes[k]] for of in hits.limits)
                for node in nodes[:n_nodes]:
                    ranks = tree.node_lows[tree.node_offsets[node] : tree.node_offsets[node + 1]]
                    highs = tree.low_to_high[tree.offsets[g] + ranks]
                    n_lists += 1
                    n_hit += bool(((ranks < low) | (highs >= high)).any())
    return n_lists, n_hit


def test_where_rows_are_dense_almost_every_list_that_is_looked_into_holds_a_hit() -> None:
    """So what is left to do after locating grows with the answer (decision 008)."""
    n, scale = 20_000, 100
    c, a = bands_in_groups(n, 30, seed=1).whole(scale), selections(n, 0.1, 2).whole(scale)
    way, rng = ByGroups(), np.random.default_rng(3)
    way.add(np.arange(n), np.stack([a.lows, c.lows]), np.stack([a.highs, c.highs]))
    stored = rows_around(rng.integers(0, DOMAIN * scale, 1000))
    hits = way.process(arrivals(rng.integers(0, DOMAIN * scale, 100)), stored, side=0)
    assert isinstance(hits, Located)
    n_lists, n_hit = lists_looked_into(hits)
    assert n_lists > 1000
    assert n_hit > 0.95 * n_lists


def test_many_events_of_a_join_key_are_counted_without_lists_and_few_without_a_sweep(
    monkeypatch,
) -> None:
    def not_here(*_arguments: object) -> None:
        raise AssertionError("counted the other way")

    n, stored = 5_000, rows_around([1200, 2900])
    lows, highs = crowded(n, 6)
    way, naive = ByGroups(), Naive()
    for strategy in (way, naive):
        strategy.add(np.arange(n), lows, highs)
    few, many = arrivals([7, 100, 840]), arrivals(np.arange(2_000) % 1_000)
    with monkeypatch.context() as patch:
        patch.setattr(rectangle_hits, "swept", not_here)
        hits = way.process(few, stored, side=0)
        memory = way.memory_bytes()
        assert hits.counts().tolist() == naive.process(few, stored, side=0).counts().tolist()
        assert way.memory_bytes() < memory + 20 * n  # no ends were put in order
    monkeypatch.setattr(rectangle_hits, "_count", not_here)
    for gone in (np.empty(0, np.int64), np.arange(0, n, 3)):
        way.remove(gone)
        naive.remove(gone)
        hits = way.process(many, stored, side=0)
        assert hits.counts().tolist() == naive.process(many, stored, side=0).counts().tolist()
        assert hits.counts().sum() > 10_000
    # Of several join keys each is counted as suits it: here one has nearly all events.
    monkeypatch.undo()
    codes = np.append(np.full(2_000, 1), [2, 3])
    stored.insert(np.array([1100]), np.array([9]), np.array([3]))
    mixed = Arrivals(codes, np.append(many.values, [50, 50]), np.empty(0, np.int64))
    calls = []
    for name in ("swept", "_count"):
        counted = getattr(rectangle_hits, name)
        monkeypatch.setattr(
            rectangle_hits, name, lambda *a, name=name, f=counted: calls.append(name) or f(*a)
        )
    found = way.process(mixed, stored, side=0).counts()
    assert calls == ["swept", "_count"]
    assert found.tolist() == naive.process(mixed, stored, side=0).counts().tolist()
    assert found[-2:].tolist()[0] == 0 < found[-1]
    way.check()


def test_parts_of_a_batch_do_not_write_over_each_other(monkeypatch) -> None:
    def backwards(work, n: int, *, cost: int) -> None:
        for first in reversed(range(0, n, 3)):
            work(first, min(first + 3, n))

    lows, highs = crowded(2000, 2)
    events, stored = arrivals(np.arange(0, 1000, 40)), rows_around([950, 1100, 1980])
    way = ByGroups(block=4)
    way.add(np.arange(2000), lows, highs)
    expected = rows_of(way.process(events, stored, side=0), 2000)
    for module in (rectangle_hits, rectangle_reach, rectangle_slices, rectangle_sweep):
        monkeypatch.setattr(module, "in_parts", backwards)
    assert rows_of(way.process(events, stored, side=0), 2000) == expected
    assert sum(map(len, expected))


def test_an_answer_in_turns_holds_on_to_its_rows(monkeypatch) -> None:
    monkeypatch.setattr(groups_module, "CELLS_AT_ONCE", 4)
    way, stored = ByGroups(), SortedRuns(coded=True)
    way.add(np.arange(200), *crowded(200, 3))
    keys, codes = np.arange(900, 3100, 50), np.arange(44) % 5
    stored.insert(keys, np.arange(44), codes)
    events = Arrivals(np.arange(20) // 4, np.arange(20) * 40, np.empty(0, np.int64))
    hits = way.process(events, stored, side=0)
    assert isinstance(hits, groups_module.Deferred)
    before = rows_of(hits, 200)
    assert sum(map(len, before))
    stored.delete(keys[::2], np.arange(0, 44, 2), codes[::2])
    way.remove(np.arange(100))
    assert rows_of(hits, 200) == before


def test_a_side_without_events_is_not_built() -> None:
    lows, highs = crowded(20_000, 4)
    way = ByGroups()
    way.add(np.arange(20_000), lows, highs)
    waiting = way.memory_bytes()
    assert waiting <= 2 * 20_000 * 40 + 1000
    assert way.describe() == {"groups": [], "trees": []}
    way.process(arrivals([5]), rows_around([1000]), side=0)
    assert way.describe() == {"groups": [4], "trees": [1]}
    assert way.group_sizes(0).size == 4
    assert way.group_sizes(0).sum() == 20_000


def test_a_query_that_changes_between_hot_and_scattered_is_answered_once() -> None:
    rng = np.random.default_rng(8)
    way, naive = Hotspot(alpha=0.2), Naive()
    n_slots, alive = 0, np.empty(0, np.int64)
    events, stored = arrivals(np.arange(0, 1000, 50)), rows_around([990, 1500, 2011, 3400])
    for turn in range(12):
        for _ in range(int(rng.integers(1, 6))):  # several moves before anybody asks
            n = int(rng.integers(5, 60))
            slots, ranges = np.arange(n_slots, n_slots + n), crowded(n, 1 + turn % 5, seed=turn)
            n_slots += n
            gone = rng.permutation(alive)[: int(rng.integers(0, alive.size + 1))]
            for strategy in (way, naive):
                strategy.add(slots, *ranges)
                strategy.remove(gone)
            alive = np.append(np.setdiff1d(alive, gone), slots)
            way.check()
        if turn % 2:
            hits = way.process(events, stored, side=0)
            expected = rows_of(naive.process(events, stored, side=0), n_slots)
            assert rows_of(hits, n_slots) == expected
            way.check()


def test_hotspots_are_told_apart_and_described() -> None:
    lows, highs = crowded(3000, 3)
    lonely = np.arange(100) * 10 + 50_000
    lows = np.concatenate([lows, [np.zeros(100, np.int64), lonely]], axis=1)
    highs = np.concatenate([highs, [np.full(100, 999), lonely + 1]], axis=1)
    way = Hotspot(alpha=0.05)
    way.add(np.arange(3100), lows, highs)
    hits = way.process(arrivals([500]), rows_around([1000, 50_000]), side=0)
    assert isinstance(hits, Together)
    described = way.describe()
    assert described["hotspots"] == [3]
    assert described["scattered queries"] == [100]
    tracker = way.side(0).tracker
    assert tracker.n_hot == 3
    assert tracker.group_sizes()[0].sum() == 3000
