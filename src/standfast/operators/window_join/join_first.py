"""Window joins joining first: every row in reach of the event is a point among the boxes."""

from __future__ import annotations

from typing import Literal

import numpy as np

from standfast.arrays import Hits, Int64s, Matches
from standfast.indexes.box_index import BoxIndex
from standfast.indexes.keys import differences
from standfast.indexes.sorted_runs import Run, SortedRuns
from standfast.model.query import WindowJoin
from standfast.operators.base import Arrivals, Spec, WindowStrategy
from standfast.operators.equality import BoxTable, blocks_of
from standfast.operators.joined import Points, stab_with_rows


class JoinFirst(WindowStrategy):
    """Index the queries as boxes; stab with every row of the block within the largest window."""

    spec = Spec(
        question=WindowJoin,
        paper="WJ-JoinFirst [hotspot] 3.3.1",
        time="O(log m + m' + m_b g(n)) an event, g(n) for a stab of n boxes",
        space="O(n)",
    )

    def __init__(self, *, is_float: bool) -> None:
        super().__init__(is_float=is_float)
        self._boxes = BoxTable(3)
        self._index = BoxIndex()
        self._largest: int | None = None  # window of a living query; None after a change

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        self._boxes.add(slots, lows, highs)
        self._index.add(slots, lows, highs)
        self._largest = None

    def remove(self, slots: Int64s) -> None:
        self._boxes.remove(slots)
        self._index.remove(slots)
        self._largest = None

    def process(self, events: Arrivals, stored: SortedRuns, *, side: Literal[0, 1]) -> Hits:
        n_events = events.codes.size
        if not len(self._boxes) or not len(stored):
            return Matches.none(n_events)
        if self._largest is None:
            self._largest = int(self._boxes.bounds[self._boxes.living(), 5].max())
        largest = self._largest

        def points_of(joining: Int64s, run: Run, places: Int64s) -> Points:
            gaps = np.empty(places.size, np.int64)
            differences(run.extras[0, places], events.times[joining], self.is_float, gaps)
            np.abs(gaps, out=gaps)
            near = gaps <= largest
            joining, places, gaps = joining[near], places[near], gaps[near]
            own, other = events.values[joining], run.keys[places]
            return Points(joining, np.array([other, own, gaps] if side else [own, other, gaps]))

        found = blocks_of(stored, events.codes)
        return stab_with_rows(self._index, self._boxes.n_slots, found, n_events, points_of)

    def check(self) -> None:
        self._boxes.check()
        self._index.check()
        assert self._index.n_boxes == len(self._boxes), "the index missed a change"
        if self._largest is not None:
            windows = self._boxes.bounds[self._boxes.living(), 5]
            assert self._largest == windows.max(), "the largest window is stale"

    def memory_bytes(self) -> int:
        return self._boxes.memory_bytes() + self._index.memory_bytes()

    def describe(self) -> dict[str, object]:
        return {"box trees": self._index.n_trees()}
