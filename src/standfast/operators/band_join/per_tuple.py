"""Band joins row by row: the difference of every stored row to the event stabs the bands."""

from __future__ import annotations

import numpy as np

from standfast._numba import kernel
from standfast.arrays import Hits, Int64s, Matches
from standfast.indexes.interval_index import IntervalIndex
from standfast.indexes.keys import differences
from standfast.indexes.sorted_runs import SortedRuns
from standfast.model.query import BandJoin
from standfast.operators.base import BandStrategy, Spec


class PerTuple(BandStrategy):
    """Index the bands as intervals and stab them with every stored row, once per event."""

    spec = Spec(
        question=BandJoin,
        paper="BJ-DOuter [hotspot] 3.1.1",
        time="O(m log n) an event",
        space="O(n)",
    )

    def __init__(self, *, is_float: bool) -> None:
        super().__init__(is_float=is_float)
        self._bands = IntervalIndex()

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        self._bands.add(slots, lows[0], highs[0])

    def remove(self, slots: Int64s) -> None:
        self._bands.remove(slots)

    def process(self, values: Int64s, stored: SortedRuns, *, minuend: bool) -> Hits:
        rows = stored.keys()
        gaps = np.empty(rows.size, np.int64)
        offsets, hit = np.zeros(values.size + 1, np.int64), []
        for e, value in enumerate(values):
            differences(rows, np.full(rows.size, value), self.is_float, gaps)
            hit.append(_covered(self._bands.stab(-gaps if minuend else gaps)))
            offsets[e + 1] = offsets[e] + hit[-1].size
        return Matches(offsets, np.concatenate(hit)) if hit else Matches.none(values.size)

    def check(self) -> None:
        self._bands.check()

    def memory_bytes(self) -> int:
        return self._bands.memory_bytes()


def _covered(hits: Hits) -> np.ndarray:
    """The slots that any of the events hit, once each: sweep over the order that spans cut."""
    spans = hits.spans()
    edges = np.zeros(spans.order.size + 1, np.int64)
    _sweep(spans.starts, spans.stops, edges)
    covered = spans.order[np.cumsum(edges[:-1]) > 0]
    return np.unique(covered[covered >= 0])


@kernel
def _sweep(starts: Int64s, stops: Int64s, edges: Int64s) -> None:
    for i in range(starts.size):
        edges[starts[i]] += 1
        edges[stops[i]] -= 1
