"""Select-joins query by query: no index on the queries, each is tested and then searches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from standfast._numba import in_parts, kernel
from standfast.arrays import Hits, Int64s, pooled
from standfast.indexes.sorted_runs import SortedRuns
from standfast.model.query import SelectJoin
from standfast.operators.base import Arrivals, SelectStrategy, Spec
from standfast.operators.equality import (
    CANDIDATES_AT_ONCE,
    BoxTable,
    Candidates,
    blocks_of,
    keep_meeting,
    rounds,
    tested,
    with_rows,
)


class Vanilla(SelectStrategy):
    """Find the event's block once; every query that selects the event searches it."""

    spec = Spec(
        question=SelectJoin,
        paper="SJ-Vanilla [hotspot] 4.1",
        time="O(log m + n + n' log m') an event",
        space="O(n)",
    )

    def __init__(self) -> None:
        self._boxes = BoxTable(2)

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        self._boxes.add(slots, lows, highs)

    def remove(self, slots: Int64s) -> None:
        self._boxes.remove(slots)

    def process(self, events: Arrivals, stored: SortedRuns, *, side: Literal[0, 1]) -> Hits:
        found = blocks_of(stored, events.codes)
        joining = with_rows(found, events.codes.size)
        found = [block.of(joining) for block in found]
        slots, values = self._boxes.living(), events.values[joining]
        lows, highs = self._boxes.bounds[slots, 2 * side : 2 * side + 2].T.copy()

        def turns() -> Iterator[Candidates]:
            for first, last in rounds(np.full(values.size, slots.size), CANDIDATES_AT_ONCE):
                candidates = _selecting(values[first:last], slots, lows, highs)
                here = [block.of(slice(first, last)) for block in found]
                keep_meeting(candidates, here, self._boxes.bounds, 1 - side)
                yield candidates

        return tested(events.codes.size, joining, turns())

    def check(self) -> None:
        self._boxes.check()

    def memory_bytes(self) -> int:
        return self._boxes.memory_bytes()


def _selecting(values: Int64s, slots: Int64s, lows: Int64s, highs: Int64s) -> Candidates:
    """For each value the slots whose range holds it."""
    starts = np.arange(values.size) * slots.size
    room = pooled(values.size * slots.size, np.int64)
    made = Candidates(starts, starts.copy(), room, np.zeros(values.size, np.int64))

    def select(first: int, last: int) -> None:
        _select(values, slots, lows, highs, made, first, last)

    in_parts(select, values.size, cost=room.size)
    return made


@kernel
def _select(
    values: Int64s, slots: Int64s, lows: Int64s, highs: Int64s,
    candidates: Candidates, first: int, last: int,
) -> None:  # fmt: skip
    for e in range(first, last):
        value, at = values[e], candidates.starts[e]
        for i in range(slots.size):
            # Written in any case and kept by moving on, since what a range holds is a guess.
            candidates.slots[np.uint64(at)] = slots[i]
            at += (lows[i] <= value) & (value <= highs[i])
        candidates.stops[e] = at
