"""Pairs of an arrived row and a query: which stored rows join them, tested row by row.

    pair (event, query) -> slice of each run of the store -> rows of it that pass the tests

The slice is what the sorted order gives: a band around the event, or a range within the block of
its join key. The tests are what no order covers: the window in time and the further conditions.
Strategies never need this to find who is affected, unless there are further conditions; writing
result rows always does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from standfast._numba import in_parts, kernel
from standfast.arrays import Int64s
from standfast.engine.cutting import cuts, shorter
from standfast.indexes.keys import FAR, LEAST, difference
from standfast.indexes.sorted_runs import Run, block, first_above, slices


class Events(NamedTuple):
    """Arrived rows that can match, as keys; what a question does not use is empty."""

    codes: Int64s
    values: Int64s
    times: Int64s
    further: Int64s  # [k, e]


class Asked(NamedTuple):
    """Where the registry holds what a query asks, by row number; -1 for what it does not ask."""

    band: int
    window: int
    selected: int  # of the stored side
    here: Int64s  # further conditions on the arriving side
    there: Int64s  # further conditions on the stored side


Tests = tuple[Int64s, Int64s, Int64s, Int64s]  # times, windows, lows and highs of pairs


@dataclass(frozen=True, slots=True)
class Joining:
    """All it takes to find the stored rows of a pair; nothing in it changes later."""

    events: Events
    asked: Asked
    lows: Int64s
    highs: Int64s
    runs: tuple[Run, ...]
    is_float: bool  # of the band or the times
    minuend: bool

    def passing(self, events: Int64s, slots: Int64s) -> Int64s:
        """Which of these candidate pairs hold once the further conditions are tested."""
        holds = np.ones(events.size, np.bool_)
        for k, row in enumerate(self.asked.here):
            values = self.events.further[k, events]
            holds &= (self.lows[row, slots] <= values) & (values <= self.highs[row, slots])
        kept = np.flatnonzero(holds)
        if not self.asked.there.size:
            return kept
        counts = np.zeros(kept.size, np.int64)
        events, slots = events[kept], slots[kept]
        for run in self.runs:
            tests = self._tests(events, slots)
            counts += self._count(run, *self._slices(run, events, slots), tests, 1)
        return kept[counts > 0]

    def rows(self, events: Int64s, slots: Int64s, most: int) -> Iterator[tuple[Int64s, Int64s]]:
        """The stored rows of each pair: which pair, which row id; at most so many at a time."""
        for run in self.runs:
            pairs = np.arange(events.size)
            starts, stops = self._slices(run, events, slots)
            counts = self._count(run, starts, stops, self._tests(events, slots), FAR)
            if np.any(counts > most):
                pairs, starts, stops = shorter(starts, stops, np.flatnonzero(counts > most), most)
                tests = self._tests(events[pairs], slots[pairs])
                counts = self._count(run, starts, stops, tests, FAR)
            for first, last in cuts(counts, most):
                some = pairs[first:last]
                own = counts[first:last]
                found = np.empty(int(own.sum()), np.int64)
                if found.size:
                    tests = self._tests(events[some], slots[some])
                    _scan(
                        run, starts[first:last], stops[first:last], *tests, self.is_float, FAR,
                        own, np.cumsum(own) - own, found,
                    )  # fmt: skip
                    yield np.repeat(some, own), run.ids[found]

    def _count(self, run: Run, starts: Int64s, stops: Int64s, tests: Tests, most: int) -> Int64s:
        counts, nothing = np.empty(starts.size, np.int64), np.empty(0, np.int64)
        times, windows, lows, highs = tests

        def count(first: int, last: int) -> None:
            _scan(
                run, starts[first:last], stops[first:last], times[first:last],
                windows[first:last], lows[:, first:last], highs[:, first:last],
                self.is_float, most, counts[first:last], nothing, nothing,
            )  # fmt: skip

        in_parts(count, starts.size, cost=10 * starts.size)
        return counts

    def _slices(self, run: Run, events: Int64s, slots: Int64s) -> tuple[Int64s, Int64s]:
        starts, stops = np.empty(events.size, np.int64), np.empty(events.size, np.int64)
        if self.asked.band >= 0:
            slices(
                run.keys, self.events.values[events], self.lows[self.asked.band, slots],
                self.highs[self.asked.band, slots], self.is_float, self.minuend, starts, stops,
            )  # fmt: skip
            return starts, stops
        lows, highs = whole_line(slots.size)
        if self.asked.selected >= 0:
            lows = self.lows[self.asked.selected, slots]
            highs = self.highs[self.asked.selected, slots]
        _block_slices(run, self.events.codes[events], lows, highs, starts, stops)
        return starts, stops

    def _tests(self, events: Int64s, slots: Int64s) -> Tests:
        times = windows = np.empty(0, np.int64)
        if self.asked.window >= 0:
            times, windows = self.events.times[events], self.highs[self.asked.window, slots]
        there = self.asked.there[:, None]
        return times, windows, self.lows[there, slots], self.highs[there, slots]


def whole_line(n: int) -> tuple[Int64s, Int64s]:
    """The range of n queries that do not limit a column."""
    return np.full(n, LEAST), np.full(n, FAR)


@kernel
def _block_slices(
    run: Run, codes: Int64s, lows: Int64s, highs: Int64s, starts: Int64s, stops: Int64s
) -> None:
    """For each pair the slice of its code's block whose keys lie in its range."""
    begin, end = 0, 0
    for i in range(codes.size):
        if i == 0 or codes[i] != codes[i - 1]:
            begin, end = block(run.codes, codes[i], 0)
        start = begin
        if lows[i] > LEAST:
            start = first_above(run.keys, lows[i] - 1, begin, end)
        starts[i] = start
        stops[i] = first_above(run.keys, highs[i], start, end)


@kernel
def _scan(
    run: Run, starts: Int64s, stops: Int64s, times: Int64s, windows: Int64s,
    lows: Int64s, highs: Int64s, is_float: bool, most: int,
    counts: Int64s, offsets: Int64s, found: Int64s,
) -> None:  # fmt: skip
    """How many living rows of each slice pass the tests of its pair, up to `most`.

    With `offsets` their places are written to `found`. Extras are the time, if any, then further
    columns. The tests are written out here, because a call with arrays costs more than a test.
    """
    alive, extras = run.alive, run.extras
    first, writes = (1 if times.size else 0), offsets.size > 0
    for i in range(starts.size):
        n = 0
        for place in range(starts[i], stops[i]):
            passes = alive[place]
            for k in range(lows.shape[0]):
                value = extras[first + k, place]
                passes &= (value >= lows[k, i]) & (value <= highs[k, i])
            if passes and first:
                gap = abs(difference(extras[0, place], times[i], is_float))
                passes = gap <= windows[i]
            if passes:
                if writes:
                    found[offsets[i] + n] = place
                n += 1
                if n == most:
                    break
        counts[i] = n
