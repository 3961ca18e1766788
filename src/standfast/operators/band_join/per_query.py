"""Band joins query by query: each band, moved by the event, searches the stored rows."""

from __future__ import annotations

import numpy as np

from standfast._numba import kernel
from standfast.arrays import Hits, Int64s, with_room
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
        self._n = 0
        self._slots = np.empty(0, np.int32)  # the first n count, in no order, as of the ranges
        self._lows = np.empty(0, np.int64)
        self._highs = np.empty(0, np.int64)
        self._place_of = np.empty(0, np.int32)  # by slot

    def __len__(self) -> int:
        return self._n

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        first, self._n = self._n, self._n + slots.size
        self._slots = with_room(self._slots, self._n)
        self._lows = with_room(self._lows, self._n)
        self._highs = with_room(self._highs, self._n)
        self._place_of = with_room(self._place_of, int(slots.max(initial=-1)) + 1)
        self._slots[first : self._n] = slots
        self._lows[first : self._n] = lows[0]
        self._highs[first : self._n] = highs[0]
        self._place_of[slots] = np.arange(first, self._n)

    def remove(self, slots: Int64s) -> None:
        # The holes are filled with the last entries, those that are not to go themselves.
        places, left = self._place_of[slots], self._n - slots.size
        stays = np.ones(self._n - left, np.bool_)
        stays[places[places >= left] - left] = False
        holes, last = places[places < left], left + np.flatnonzero(stays)
        for array in (self._slots, self._lows, self._highs):
            array[holes] = array[last]
        self._place_of[self._slots[holes]] = holes
        self._n = left

    def process(self, values: Int64s, stored: SortedRuns, *, minuend: bool) -> Hits:
        lows, highs = self._lows[: self._n], self._highs[: self._n]

        def mark(events: Int64s, marks: Marks) -> None:
            for run in stored.runs:
                _mark(run, events, lows, highs, self.is_float, minuend, marks)

        return matches_by_marks(values, self._slots[: self._n], mark)

    def check(self) -> None:
        slots = self._slots[: self._n]
        assert np.array_equal(self._place_of[slots], np.arange(self._n)), "a slot is misplaced"
        assert np.all(self._lows[: self._n] <= self._highs[: self._n]), "an empty band was added"

    def memory_bytes(self) -> int:
        arrays = (self._slots, self._lows, self._highs, self._place_of)
        return sum(array.nbytes for array in arrays)


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
