"""Small histories of equality joins: rows and queries that come and go, and events in between.

A `History` holds the two sides' stores and the living queries in plain Python, next to any number
of strategies that are told the same. `expected` answers by looping over everything.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from standfast.arrays import Hits
from standfast.indexes.sorted_runs import SortedRuns
from standfast.model.numbers import FAR, INF_KEY, LEAST, float_keys, floats_of
from standfast.operators.base import Arrivals

NO_TIMES = np.empty(0, np.int64)


class Row(NamedTuple):
    code: int
    key: int
    time: int = 0


def hit_by(hits: Hits) -> list[list[int]]:
    """The slots of each event, ascending; a slot that is hit twice stands there twice."""
    counts = hits.counts()
    out = np.empty(int(counts.sum()), np.int64)
    hits.fill(np.cumsum(counts) - counts, np.arange(10_000), out)
    rows = np.split(out, np.cumsum(counts)[:-1]) if counts.size else []
    return [sorted(row.tolist()) for row in rows]


def within(window: int, one: int, other: int, *, is_float: bool) -> bool:
    """Whether two times lie at most a window apart, in Python's numbers."""
    if is_float:
        first, second, most = (float(x) for x in floats_of(np.array([one, other, window])))
        return abs(first - second) <= most
    return min(abs(one - other), FAR) <= window


class History:
    """What happened so far; `is_float` is None for select-joins."""

    def __init__(self, *ways, is_float: bool | None = None, ratio: int = 8) -> None:
        self.ways, self.is_float = ways, is_float
        self.stores = [
            SortedRuns(ratio, coded=True, n_extras=int(is_float is not None)) for _ in range(2)
        ]
        self.rows: list[dict[int, Row]] = [{}, {}]
        self.queries: dict[int, tuple[tuple[int, int], ...]] = {}
        self.n_slots = self.n_rows = 0

    def add(self, boxes) -> None:
        slots = np.arange(self.n_slots, self.n_slots + len(boxes))
        self.n_slots += len(boxes)
        self.queries.update(zip(slots.tolist(), boxes, strict=True))
        n_attributes = 2 if self.is_float is None else 3
        bounds = np.array(boxes, np.int64).reshape(-1, n_attributes, 2)
        for way in self.ways:
            way.add(slots, bounds[:, :, 0].T, bounds[:, :, 1].T)

    def remove(self, picks) -> None:
        for slot in self._picked(self.queries, picks):
            del self.queries[slot]
            for way in self.ways:
                way.remove(np.array([slot]))

    def insert(self, side: int, rows) -> None:
        ids = np.arange(self.n_rows, self.n_rows + len(rows))
        self.n_rows += len(rows)
        self.rows[side].update(zip(ids.tolist(), rows, strict=True))
        codes, keys, times = np.array(rows, np.int64).reshape(-1, 3).T
        store = self.stores[side]
        store.insert(keys, ids, codes, times[None] if store.n_extras else np.empty((0, 0)))

    def delete(self, side: int, picks) -> None:
        gone = self._picked(self.rows[side], picks)
        if gone:
            codes, keys, _ = np.array([self.rows[side].pop(i) for i in gone], np.int64).T
            self.stores[side].delete(keys, np.array(gone), codes)

    def answers(self, side: int, events) -> tuple[list[Hits], list[list[int]]]:
        """What each way says, and what is right."""
        events = sorted(events)
        codes, values, times = np.array(events, np.int64).reshape(-1, 3).T.copy()
        arrivals = Arrivals(codes, values, NO_TIMES if self.is_float is None else times)
        hits = [way.process(arrivals, self.stores[1 - side], side=side) for way in self.ways]
        for part in (*self.ways, *self.stores):
            part.check()
        return hits, [self.expected(side, event) for event in events]

    def expected(self, side: int, event: Row) -> list[int]:
        return [
            slot
            for slot, box in self.queries.items()
            if box[side][0] <= event.key <= box[side][1]
            and any(self._joins(event, row, box, 1 - side) for row in self.rows[1 - side].values())
        ]

    def _joins(self, event: Row, row: Row, box, other: int) -> bool:
        if row.code != event.code or not box[other][0] <= row.key <= box[other][1]:
            return False
        if self.is_float is None:
            return True
        return within(box[2][1], event.time, row.time, is_float=self.is_float)

    @staticmethod
    def _picked(living, picks) -> list[int]:
        names = list(living)
        return sorted({names[pick % len(names)] for pick in picks}) if names else []


CODES = st.sampled_from([0, 0, 0, LEAST, 5, FAR])
KEYS = st.integers(-6, 6) | st.sampled_from([LEAST, LEAST + 1, FAR - 1, FAR])
RANGES = st.tuples(KEYS, KEYS).map(sorted).map(tuple) | st.just((LEAST, FAR))
NUMBERS = [-np.inf, -1e300, -2.5, -0.1, 0.0, 5e-324, 0.1, 0.3, 1.0, 1e300, np.inf]
FLOATS = st.sampled_from(float_keys(np.array(NUMBERS)).tolist())
FLOAT_WINDOWS = FLOATS.map(abs) | st.just(INF_KEY)
WHOLE_WINDOWS = st.integers(0, 6) | st.sampled_from([FAR - 1, FAR])


def histories(is_float: bool | None):
    """Steps for a `History`: the name of a method and its arguments."""
    times = st.just(0) if is_float is None else FLOATS if is_float else KEYS
    row = st.builds(Row, CODES, KEYS, times)
    box = (RANGES, RANGES)
    if is_float is not None:
        windows = FLOAT_WINDOWS if is_float else WHOLE_WINDOWS
        box = (*box, st.tuples(st.just(0), windows))
    sides, picks = st.integers(0, 1), st.lists(st.integers(0, 50), max_size=6)
    boxes = st.lists(st.tuples(*box), min_size=1, max_size=9)
    some, few = st.lists(row, min_size=4, max_size=12), st.lists(row, max_size=6)
    add, insert = st.tuples(st.just("add"), boxes), st.tuples(st.just("insert"), sides, some)
    delete = st.tuples(st.just("delete"), sides, picks)
    remove = st.tuples(st.just("remove"), picks)
    answers = st.tuples(st.just("answers"), sides, few)
    step = st.one_of(insert, delete, answers, add, remove)
    start = st.tuples(add, insert, insert, answers)
    end = st.tuples(delete, answers, delete, answers)
    return st.tuples(start, st.lists(step, max_size=9), end).map(lambda h: [*h[0], *h[1], *h[2]])


def play(history: History, steps) -> int:
    """Do the steps; every way must answer as expected, each slot once, and never change it.

    Returns how many answers were checked.
    """
    kept = []
    for name, *arguments in steps:
        outcome = getattr(history, name)(*arguments)
        if name == "answers":
            hits, right = outcome
            kept += [(way, answer, right) for way, answer in zip(history.ways, hits, strict=True)]
            for way, answer in zip(history.ways, hits, strict=True):
                assert hit_by(answer) == right, type(way)
    for way, answer, right in kept:
        assert hit_by(answer) == right, f"{type(way)} changed a published answer"
    return len(kept)


def crowd(history: History, *, n_queries: int, n_rows: int, seed: int, late: bool = False) -> None:
    """Many queries and rows of few codes, in several runs and with tombstones, seeded."""
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.integers(0, 1000, (n_queries, 3, 2)), axis=2)
    ends[:, 2, 0], ends[:, 2, 1] = 0, rng.integers(0, 20 if late else 300, n_queries)
    n_attributes = 2 if history.is_float is None else 3
    history.add([tuple(map(tuple, box[:n_attributes])) for box in ends.tolist()])
    history.remove(rng.integers(0, n_queries, n_queries // 5).tolist())
    for share in (1.0, 0.1, 0.01):
        batch = rng.integers(0, [3, 1000, 1000], (int(n_rows * share), 3))
        for side in (0, 1):
            history.insert(side, [Row(*row) for row in batch.tolist()])
            history.delete(side, rng.integers(0, n_rows, n_rows // 20).tolist())


def crowd_events(n: int, seed: int, *, late: bool = False) -> list[Row]:
    """Events for a `crowd`: after all rows, or anywhere among them."""
    rng = np.random.default_rng(seed)
    events = rng.integers(0, [4, 1000, 1000], (n, 3))
    if not late:
        events[:, 2] = 1000
    return [Row(*event) for event in events.tolist()]
