"""Band joins query by query: each band, moved by the event, searches the stored rows."""

from __future__ import annotations

import numpy as np

from standfast._numba import kernel
from standfast.arrays import Hits, Int64s
from standfast.indexes.keys import difference
from standfast.indexes.sorted_runs import Run, SortedRuns, first_beyond, living_above
from standfast.model.query import BandJoin
from standfast.operators.band_join.marks import Marks, matches_by_marks
from standfast.operators.base import BandStrategy, Spec


class PerQuery(BandStrategy):
    """Search the rows once for every band: no index on the queries at all."""

    spec = Spec(
        question=BandJoin,
        paper="BJ-QOuter [hotspot] 3.1.1",
        time="O(n log m) an event",
        space="O(n)",
    )

    def __init__(self, *, is_float: bool) -> None:
        super().__init__(is_float=is_float)
        self._slots = np.empty(0, np.int32)  # ascending
        self._lows = np.empty(0, np.int64)
        self._highs = np.empty(0, np.int64)

    def __len__(self) -> int:
        return self._slots.size

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        all_slots = np.concatenate([self._slots, slots.astype(np.int32)])
        order = np.argsort(all_slots, kind="stable")
        self._slots = all_slots[order]
        self._lows = np.concatenate([self._lows, lows[0]])[order]
        self._highs = np.concatenate([self._highs, highs[0]])[order]

    def remove(self, slots: Int64s) -> None:
        keep = np.ones(self._slots.size, np.bool_)
        keep[np.searchsorted(self._slots, slots)] = False
        self._slots, self._lows, self._highs = (
            self._slots[keep], self._lows[keep], self._highs[keep],
        )  # fmt: skip

    def process(self, values: Int64s, stored: SortedRuns, *, minuend: bool) -> Hits:
        def mark(events: Int64s, marks: Marks) -> None:
            for run in stored.runs:
                _mark(run, events, self._lows, self._highs, self.is_float, minuend, marks)

        return matches_by_marks(values, self._slots, mark)

    def check(self) -> None:
        assert np.all(self._slots[:-1] < self._slots[1:]), "slots do not ascend"
        assert np.all(self._lows <= self._highs), "an empty band was added"

    def memory_bytes(self) -> int:
        return self._slots.nbytes + self._lows.nbytes + self._highs.nbytes


@kernel
def _mark(
    run: Run, events: Int64s, lows: Int64s, highs: Int64s,
    is_float: bool, minuend: bool, marks: Marks,
) -> None:  # fmt: skip
    """Tick every band whose first row at or above its low end is not beyond its high end."""
    n = run.keys.size
    for e in range(events.size):
        for q in range(lows.size):
            low, high = lows[q], highs[q]
            if minuend:
                low, high = -high, -low
            place = living_above(run, first_beyond(run.keys, events[e], low - 1, is_float, 0))
            if place < n and difference(run.keys[place], events[e], is_float) <= high:
                marks[e, q] = True
