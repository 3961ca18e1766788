"""Select-joins joining first: every row that joins the event is a point among the rectangles."""

from __future__ import annotations

from typing import Literal

import numpy as np

from standfast.arrays import Hits, Int64s, Matches
from standfast.indexes.box_index import BoxIndex
from standfast.indexes.sorted_runs import Run, SortedRuns
from standfast.model.query import SelectJoin
from standfast.operators.base import Arrivals, SelectStrategy, Spec
from standfast.operators.equality import blocks_of
from standfast.operators.joined import Points, stab_with_rows


class JoinFirst(SelectStrategy):
    """Index the queries as rectangles and stab them with every row of the event's block."""

    spec = Spec(
        question=SelectJoin,
        paper="SJ-JoinFirst [hotspot] 3.2.1",
        time="O(log m + m' g(n)) an event, g(n) for a stab of n rectangles",
        space="O(n)",
    )

    def __init__(self) -> None:
        self._rectangles = BoxIndex()
        self._n_slots = 0

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        self._rectangles.add(slots, lows, highs)
        self._n_slots = max(self._n_slots, int(slots.max(initial=-1)) + 1)

    def remove(self, slots: Int64s) -> None:
        self._rectangles.remove(slots)

    def process(self, events: Arrivals, stored: SortedRuns, *, side: Literal[0, 1]) -> Hits:
        n_events = events.codes.size
        if not self._rectangles.n_boxes or not len(stored):
            return Matches.none(n_events)

        def points_of(joining: Int64s, run: Run, places: Int64s) -> Points:
            own, other = events.values[joining], run.keys[places]
            # Equal rows of a block are neighbours and make the same point.
            differs = np.ones(other.size, np.bool_)
            differs[1:] = (other[1:] != other[:-1]) | (joining[1:] != joining[:-1])
            values = np.array([other, own] if side else [own, other])
            return Points(joining[differs], values[:, differs])

        found = blocks_of(stored, events.codes)
        return stab_with_rows(self._rectangles, self._n_slots, found, n_events, points_of)

    def check(self) -> None:
        self._rectangles.check()

    def memory_bytes(self) -> int:
        return self._rectangles.memory_bytes()

    def describe(self) -> dict[str, object]:
        return {"box trees": self._rectangles.n_trees()}
