"""Select-joins selecting first: queries that select the event search the rows it joins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from standfast.arrays import Hits, Int64s
from standfast.indexes.sorted_runs import SortedRuns
from standfast.model.query import SelectJoin
from standfast.operators.base import Arrivals, SelectStrategy, Spec
from standfast.operators.equality import (
    CANDIDATES_AT_ONCE,
    BoxTable,
    Candidates,
    OwnRanges,
    blocks_of,
    keep_meeting,
    merged_if_worth_it,
    rounds,
    tested,
    with_rows,
)


class SelectFirst(SelectStrategy):
    """Stab the ranges of the event's side; search the event's block once for every range hit."""

    spec = Spec(
        question=SelectJoin,
        paper="SJ-SelectFirst, improved [hotspot] 4.1",
        time="O(log m + log^2 n + n' log m') an event",
        space="O(n)",
    )

    def __init__(self) -> None:
        self._boxes = BoxTable(2)
        self._ranges = OwnRanges(self._boxes)

    def __len__(self) -> int:
        return len(self._boxes)

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        self._boxes.add(slots, lows, highs)
        self._ranges.add(slots, lows, highs)

    def remove(self, slots: Int64s) -> None:
        self._boxes.remove(slots)
        self._ranges.remove(slots)

    def process(self, events: Arrivals, stored: SortedRuns, *, side: Literal[0, 1]) -> Hits:
        found = blocks_of(stored, events.codes)
        joining = with_rows(found, events.codes.size)
        values = events.values[joining]
        selected = self._ranges.stab(side, values)
        counts = selected.counts()
        if merged_if_worth_it(stored, int(counts.sum())):
            found = blocks_of(stored, events.codes)
        found = [block.of(joining) for block in found]

        def turns() -> Iterator[Candidates]:
            for first, last in rounds(counts, CANDIDATES_AT_ONCE):
                whole = last - first == counts.size
                hits = selected if whole else self._ranges.stab(side, values[first:last])
                candidates = Candidates.of(hits, self._boxes.n_slots)
                here = [block.of(slice(first, last)) for block in found]
                keep_meeting(candidates, here, self._boxes.bounds, 1 - side)
                yield candidates

        return tested(events.codes.size, joining, turns())

    def check(self) -> None:
        self._boxes.check()
        self._ranges.check()

    def memory_bytes(self) -> int:
        return self._boxes.memory_bytes() + self._ranges.memory_bytes()
