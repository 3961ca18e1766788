"""The specification of window joins: every event, every row of its code, every query."""

from __future__ import annotations

from typing import Literal

import numpy as np

from standfast.arrays import Hits, Int64s, Matches
from standfast.indexes.keys import differences
from standfast.indexes.sorted_runs import SortedRuns
from standfast.model.query import WindowJoin
from standfast.operators.base import Arrivals, Spec, WindowStrategy


class Naive(WindowStrategy):
    """Compare every query with every pair of event and row: both columns and the time between."""

    spec = Spec(
        question=WindowJoin, paper="the definition", time="O(m + n m') an event", space="O(n)"
    )

    def __init__(self, *, is_float: bool) -> None:
        super().__init__(is_float=is_float)
        self._slots = np.empty(0, np.int64)
        self._lows = np.empty((3, 0), np.int64)
        self._highs = np.empty((3, 0), np.int64)

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
        for e, (code, value, time) in enumerate(zip(*events, strict=True)):
            joined = np.zeros(self._slots.size, np.bool_)
            for run in stored.runs:
                rows = run.alive & (run.codes == code)
                apart = np.empty(np.count_nonzero(rows), np.int64)
                differences(run.extras[0, rows], np.full(apart.size, time), self.is_float, apart)
                for key, gap in zip(run.keys[rows], np.abs(apart), strict=True):
                    point = np.array([value, key, gap])[[side, 1 - side, 2], None]
                    joined |= ((self._lows <= point) & (point <= self._highs)).all(axis=0)
            hit.append(self._slots[joined].astype(np.int32))
            offsets[e + 1] = offsets[e] + hit[-1].size
        return Matches(offsets, np.concatenate(hit))

    def check(self) -> None:
        assert np.unique(self._slots).size == self._slots.size, "a slot lives twice"
        assert np.all(self._lows <= self._highs), "a range is empty"

    def memory_bytes(self) -> int:
        return self._slots.nbytes + self._lows.nbytes + self._highs.nbytes
