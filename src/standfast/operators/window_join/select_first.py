"""Window joins selecting first: queries that select the event look for a row near in time.

    rows of the event's code     key        1  3  3  4  7  8  9     ascending
                                 time       5  2  9  4  1  6  3
    a candidate with [3, 7]                   [2  9  4  1]          9 is the newest
    the event is of time 6       nearness  -1 -4 -3 -2 -5  0 -3
                                              [-4 -3 -2 -5]         hit if -2 >= -window

A range maximum over the nearness of each row of the block decides a candidate, but costs a pass
over the block for each event. It is worth it when the candidates are many. When they are few, a
range maximum over the times, which holds for all events, finds the newest row of the slice: that
decides if it is alive and older than the event. If not, the rows of a short slice are looked
through, and for a longer one the nearness is written down after all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from standfast._numba import in_parts, inlined, kernel
from standfast.arrays import Hits, Int64s
from standfast.indexes.keys import LEAST, difference
from standfast.indexes.range_maximum import RangeMaximum, highest, range_maximum
from standfast.indexes.sorted_runs import Run, SortedRuns
from standfast.model.query import WindowJoin
from standfast.operators.base import Arrivals, Spec, WindowStrategy
from standfast.operators.equality import (
    ABREAST,
    CANDIDATES_AT_ONCE,
    Blocks,
    BoxTable,
    Candidates,
    OwnRanges,
    blocks_of,
    count_below,
    count_up_to,
    merged_if_worth_it,
    rounds,
    tested,
    with_rows,
)

# The nearness is written down at once for an event with more candidates than one to so many rows
# of its block; slices of up to so many rows are looked through row by row.
SHORT = 32


class SelectFirst(WindowStrategy):
    """Stab the ranges of the event's side; look for a near row in the slice of every range hit."""

    spec = Spec(
        question=WindowJoin,
        paper="WJ-SelectFirst [hotspot] 3.3.1",
        time="O(log m + log^2 n + n' log m') an event, O(m') more if it is late",
        space="O(n + m)",
    )

    def __init__(self, *, is_float: bool) -> None:
        super().__init__(is_float=is_float)
        self._boxes = BoxTable(3)
        self._ranges = OwnRanges(self._boxes)
        self._newest: list[list[_Newest]] = [[], []]  # of the runs that events of a side met last

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
        values, times = events.values[joining], events.times[joining]
        selected = self._ranges.stab(side, values)
        counts = selected.counts()
        if merged_if_worth_it(stored, int(counts.sum())):
            found = blocks_of(stored, events.codes)
        found = [block.of(joining) for block in found]
        self._newest[side] = _newest_of(stored.runs, self._newest[side])

        def turns() -> Iterator[Candidates]:
            for first, last in rounds(counts, CANDIDATES_AT_ONCE):
                whole = last - first == counts.size
                hits = selected if whole else self._ranges.stab(side, values[first:last])
                candidates = Candidates.of(hits, self._boxes.n_slots)
                for block, newest in zip(found, self._newest[side], strict=True):
                    here = block.of(slice(first, last))
                    self._keep(candidates, here, newest.times, times[first:last], 1 - side)
                yield candidates

        return tested(events.codes.size, joining, turns())

    def check(self) -> None:
        self._boxes.check()
        self._ranges.check()

    def memory_bytes(self) -> int:
        tables = sum(
            made.times.tops.nbytes + made.times.levels.nbytes
            for side in self._newest
            for made in side
        )
        return self._boxes.memory_bytes() + self._ranges.memory_bytes() + tables

    def _keep(
        self, candidates: Candidates, block: Blocks, newest: RangeMaximum, times: Int64s, other: int
    ) -> None:
        bounds = self._boxes.bounds

        def keep(first: int, last: int) -> None:
            _keep_near(
                block, newest, candidates, bounds, 2 * other, times, self.is_float, first, last
            )

        in_parts(keep, times.size, cost=50 * candidates.slots.size)


class _Newest(NamedTuple):
    """The newest rows of a run, which is known by its extras: they never change."""

    extras: Int64s
    times: RangeMaximum


def _newest_of(runs: tuple[Run, ...], known: list[_Newest]) -> list[_Newest]:
    """A range maximum over the times of each run, made anew only for new runs."""
    old = {id(newest.extras): newest for newest in known}
    return [
        old.get(id(run.extras)) or _Newest(run.extras, range_maximum(run.extras[0])) for run in runs
    ]


_MISS, _HIT, _UNSURE = 0, 1, 2


@kernel
def _keep_near(
    block: Blocks, newest: RangeMaximum, candidates: Candidates, bounds: Int64s, low: int,
    times: Int64s, is_float: bool, first: int, last: int,
) -> None:  # fmt: skip
    """Keep the candidates that have a row in reach of their range and of their window."""
    run, slots = block.run, candidates.slots
    lows, highs = np.empty(ABREAST, np.int64), np.empty(ABREAST, np.int64)
    windows = np.empty(ABREAST, np.int64)
    begins, ends = np.empty(ABREAST, np.uint64), np.empty(ABREAST, np.uint64)
    for e in range(first, last):
        start, stop, time = block.starts[e], block.stops[e], times[e]
        keys, nearness, written = run.keys[start:stop], newest, False
        kept = at = candidates.starts[e] + candidates.counts[e]
        if SHORT * (candidates.stops[e] - at) > stop - start > 0:
            nearness, written = _nearness(run, start, stop, time, is_float), True
        while at < candidates.stops[e] and start < stop:
            n = min(ABREAST, candidates.stops[e] - at)
            for i in range(n):
                query = np.uint64(slots[at + i])
                lows[i], highs[i] = bounds[query, low], bounds[query, low + 1]
                windows[i] = bounds[query, 5]
            count_below(keys, lows[:n], begins)
            count_up_to(keys, highs[:n], ends)
            for i in range(n):
                begin, end, verdict = int(np.int64(begins[i])), int(np.int64(ends[i])), _MISS
                if begin < end and not written:
                    row = highest(newest, start + begin, start + end)
                    verdict = _judge(run, row, time, windows[i], is_float)
                if verdict == _UNSURE and end - begin <= SHORT:
                    for row in range(start + begin, start + end):
                        if _judge(run, row, time, windows[i], is_float) == _HIT:
                            verdict = _HIT
                elif verdict == _UNSURE:
                    nearness, written = _nearness(run, start, stop, time, is_float), True
                if begin < end and written:
                    row = highest(nearness, begin, end)
                    verdict = _HIT if nearness.values[row] >= -windows[i] else _MISS
                slot = slots[at + i]
                slots[at + i] = slots[kept]
                slots[kept] = slot
                kept += verdict == _HIT
            at += n
        candidates.counts[e] = kept - candidates.starts[e]


@inlined
def _judge(run: Run, row: int, time: int, window: int, is_float: bool) -> int:
    """What a row says of itself and all rows that are older."""
    gap = difference(run.extras[0, row], time, is_float)
    if -window <= gap <= window:
        return _HIT if run.alive[row] else _UNSURE
    return _MISS if gap < 0 else _UNSURE


@kernel
def _nearness(run: Run, start: int, stop: int, time: int, is_float: bool) -> RangeMaximum:
    """How near each row of a block is to a time: minus the gap, below all gaps if it is dead."""
    values = np.empty(stop - start, np.int64)
    for row in range(start, stop):
        gap = abs(difference(run.extras[0, row], time, is_float))
        values[row - start] = -gap if run.alive[row] else LEAST
    return range_maximum(values)
