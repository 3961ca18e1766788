"""The specification of select-joins: every event, every stored row of its code, every query."""

from __future__ import annotations

from typing import Literal

import numpy as np

from standfast.arrays import Hits, Int64s, Matches
from standfast.indexes.sorted_runs import SortedRuns
from standfast.model.query import SelectJoin
from standfast.operators.base import Arrivals, SelectStrategy, Spec


class Naive(SelectStrategy):
    """Compare every query with every event and then with every row of the event's code."""

    spec = Spec(
        question=SelectJoin, paper="the definition", time="O(m + n m') an event", space="O(n)"
    )

    def __init__(self) -> None:
        self._slots = np.empty(0, np.int64)
        self._lows = np.empty((2, 0), np.int64)
        self._highs = np.empty((2, 0), np.int64)

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        self._slots = np.concatenate([self._slots, slots])
        self._lows = np.concatenate([self._lows, lows], axis=1)
        self._highs = np.concatenate([self._highs, highs], axis=1)

    def remove(self, slots: Int64s) -> None:
        kept = ~np.isin(self._slots, slots)
        self._slots = self._slots[kept]
        self._lows, self._highs = self._lows[:, kept], self._highs[:, kept]

    def process(self, events: Arrivals, stored: SortedRuns, *, side: Literal[0, 1]) -> Hits:
        offsets, hit = np.zeros(events.codes.size + 1, np.int64), [np.empty(0, np.int32)]
        for e, (code, value) in enumerate(zip(events.codes, events.values, strict=True)):
            joined = np.zeros(self._slots.size, np.bool_)
            for run in stored.runs:
                for key in run.keys[run.alive & (run.codes == code)]:
                    joined |= (self._lows[1 - side] <= key) & (key <= self._highs[1 - side])
            selected = (self._lows[side] <= value) & (value <= self._highs[side])
            hit.append(self._slots[selected & joined].astype(np.int32))
            offsets[e + 1] = offsets[e] + hit[-1].size
        return Matches(offsets, np.concatenate(hit))

    def check(self) -> None:
        assert np.unique(self._slots).size == self._slots.size, "a slot lives twice"
        assert np.all(self._lows <= self._highs), "a range is empty"

    def memory_bytes(self) -> int:
        return self._slots.nbytes + self._lows.nbytes + self._highs.nbytes
