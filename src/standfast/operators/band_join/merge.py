"""Band joins by merging: bands in order of their low end walk beside the sorted rows."""

from __future__ import annotations

import numpy as np

from standfast._numba import kernel
from standfast.arrays import Hits, Int64s, Matches, with_room
from standfast.indexes.keys import difference
from standfast.indexes.sorted_runs import Run, SortedRuns
from standfast.model.query import BandJoin
from standfast.operators.band_join.marks import Marks, matches_by_marks
from standfast.operators.base import BandStrategy, Spec


class Merge(BandStrategy):
    """Keep the bands sorted by their low end and merge them with the rows, once per event."""

    spec = Spec(
        question=BandJoin, paper="BJ-MJ [hotspot] 3.1.1", time="O(n + m) an event", space="O(n)"
    )

    def __init__(self, *, is_float: bool) -> None:
        super().__init__(is_float=is_float)
        self._bands = SortedRuns()  # low -> slot
        self._lows = np.empty(0, np.int64)  # by slot, as are the highs
        self._highs = np.empty(0, np.int64)

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        n_slots = int(slots.max(initial=-1)) + 1
        self._lows, self._highs = with_room(self._lows, n_slots), with_room(self._highs, n_slots)
        self._lows[slots], self._highs[slots] = lows[0], highs[0]
        self._bands.insert(lows[0], slots)

    def remove(self, slots: Int64s) -> None:
        self._bands.delete(self._lows[slots], slots)

    def process(self, values: Int64s, stored: SortedRuns, *, minuend: bool) -> Hits:
        self._bands.consolidate()
        if not self._bands.runs:
            return Matches.none(values.size)
        (bands,) = self._bands.runs
        lows, slots = bands.keys[bands.alive], bands.ids[bands.alive]
        highs = self._highs[slots]

        def mark(events: Int64s, marks: Marks) -> None:
            for run in stored.runs:
                _mark(run, events, lows, highs, self.is_float, minuend, marks)

        return matches_by_marks(values, slots.astype(np.int32), mark)

    def check(self) -> None:
        self._bands.check()
        for run in self._bands.runs:
            slots = run.ids[run.alive]
            assert np.all(self._lows[slots] == run.keys[run.alive]), "a low end changed"

    def memory_bytes(self) -> int:
        return self._bands.memory_bytes() + self._lows.nbytes + self._highs.nbytes


@kernel
def _mark(
    run: Run, events: Int64s, lows: Int64s, highs: Int64s,
    is_float: bool, minuend: bool, marks: Marks,
) -> None:  # fmt: skip
    """One pass over bands (lows ascend) and rows per event; rows are walked in the bands' order."""
    n = run.keys.size
    step = -1 if minuend else 1
    for e in range(events.size):
        place = n - 1 if minuend else 0
        for q in range(lows.size):
            while 0 <= place < n:
                gap = step * difference(run.keys[place], events[e], is_float)
                if run.alive[place] and gap >= lows[q]:
                    if gap <= highs[q]:
                        marks[e, q] = True
                    break
                place += step
