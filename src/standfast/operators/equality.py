"""What the ways of equality joins share: boxes by slot, an index per side, blocks, candidates.

event -> its block in each run      rows of its code, ascending by their selected column
      -> candidates                 slots whose own range holds the event
      -> tested run by run          those that meet a row move to the front of their event

             event 0       event 1
slots     [ 4 9 | 2 7 ]  [ | 2 5 ]      4 and 9 met a row; 2 and 7 wait for the next run
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from standfast._numba import in_parts, inlined, kernel
from standfast.arrays import Hits, Int32s, Int64s, Matches, pooled
from standfast.indexes.interval_index import IntervalIndex
from standfast.indexes.sorted_runs import Run, SortedRuns, blocks, living_above

UInt64s = npt.NDArray[np.uint64]

# Candidates held at once, 8 bytes each; more events are done in rounds so that memory stays
# bounded.
CANDIDATES_AT_ONCE = 1 << 22
# Testing a candidate costs about as much as merging this many rows.
MERGE_PER_TEST = 2
# Binary searches done in step.
ABREAST = 128


class BoxTable:
    """The boxes of the living queries, by slot: `bounds[slot]` is low, high, low, high ..."""

    def __init__(self, n_attributes: int) -> None:
        self.bounds = np.empty((0, 2 * n_attributes), np.int64)
        self._alive = np.empty(0, np.bool_)
        self._living: Int64s | None = np.empty(0, np.int64)
        self._n = 0

    def __len__(self) -> int:
        return self._n

    @property
    def n_slots(self) -> int:
        """One more than the largest slot there is room for."""
        return self._alive.size

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        wanted, have = int(slots.max(initial=-1)) + 1, self._alive.size
        if wanted > have:
            alive = np.zeros(max(wanted, have * 3 // 2), np.bool_)
            alive[:have] = self._alive
            bounds = np.empty((alive.size, self.bounds.shape[1]), np.int64)
            bounds[:have] = self.bounds
            self._alive, self.bounds = alive, bounds
        self._alive[slots] = True
        self.bounds[slots, 0::2], self.bounds[slots, 1::2] = lows.T, highs.T
        self._n += slots.size
        self._living = None

    def remove(self, slots: Int64s) -> None:
        self._alive[slots] = False
        self._n -= slots.size
        self._living = None

    def living(self) -> Int64s:
        """All slots that were added and not removed, ascending."""
        if self._living is None:
            self._living = np.flatnonzero(self._alive)
        return self._living

    def check(self) -> None:
        living = np.flatnonzero(self._alive)
        assert living.size == self._n, "the living slots are miscounted"
        assert np.array_equal(self.living(), living), "the list of the living is stale"
        bounds = self.bounds[living]
        assert np.all(bounds[:, 0::2] <= bounds[:, 1::2]), "an empty range was added"

    def memory_bytes(self) -> int:
        living = 0 if self._living is None else self._living.nbytes
        return self.bounds.nbytes + self._alive.nbytes + living


def ranges_of(queries: BoxTable, slots: Int64s) -> tuple[Int64s, Int64s]:
    """The lows and the highs of slots, an attribute to each row."""
    bounds = queries.bounds.take(slots, axis=0).T
    return np.ascontiguousarray(bounds[0::2]), np.ascontiguousarray(bounds[1::2])


class OwnRanges:
    """For each side an interval index of its ranges, made when an event first asks for it.

    An index that nobody asks while as many changes came as there are queries is dropped, so that
    changes never pile up for a side without events.
    """

    def __init__(self, boxes: BoxTable) -> None:
        self._boxes = boxes
        self._indexes: list[IntervalIndex | None] = [None, None]
        self._changes = [0, 0]  # since the last event of the side

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        """Follow the boxes, which have these slots already."""
        for side, index in enumerate(self._indexes):
            if index is not None:
                index.add(slots, lows[side], highs[side])
        self._count(slots.size)

    def remove(self, slots: Int64s) -> None:
        """Follow the boxes, which have forgotten these slots already."""
        for index in self._indexes:
            if index is not None:
                index.remove(slots)
        self._count(slots.size)

    def stab(self, side: int, values: Int64s) -> Hits:
        """For each value the slots whose range on the side's column holds it."""
        index = self._indexes[side]
        if index is None:
            index = self._indexes[side] = IntervalIndex()
            slots = self._boxes.living()
            ends = self._boxes.bounds[slots, 2 * side : 2 * side + 2]
            index.add(slots, ends[:, 0], ends[:, 1])
        self._changes[side] = 0
        return index.stab(values)

    def check(self) -> None:
        for index in self._indexes:
            if index is not None:
                index.check()
                assert index.n_intervals == len(self._boxes), "an index missed a change"

    def memory_bytes(self) -> int:
        return sum(index.memory_bytes() for index in self._indexes if index is not None)

    def _count(self, n_changes: int) -> None:
        for side in (0, 1):
            self._changes[side] += n_changes
            if self._changes[side] > len(self._boxes):
                self._indexes[side] = None


class Blocks(NamedTuple):
    """Where the rows of each event's code lie in a run: `run.keys[starts[e]:stops[e]]`."""

    run: Run
    starts: Int64s
    stops: Int64s

    def of(self, events: Int64s | slice) -> Blocks:
        """The blocks of some of the events."""
        return Blocks(self.run, self.starts[events], self.stops[events])


def blocks_of(stored: SortedRuns, codes: Int64s) -> list[Blocks]:
    """The blocks of ascending codes in each run."""
    found = []
    for run in stored.runs:
        starts, stops = np.empty(codes.size, np.int64), np.empty(codes.size, np.int64)
        blocks(run.codes, codes, starts, stops)
        found.append(Blocks(run, starts, stops))
    return found


def with_rows(found: list[Blocks], n_events: int) -> Int64s:
    """The events that have a row, living or not, in some block."""
    n_rows = np.zeros(n_events, np.int64)
    for block in found:
        n_rows += block.stops - block.starts
    return np.flatnonzero(n_rows)


def merged_if_worth_it(stored: SortedRuns, n_tests: int) -> bool:
    """Merge the runs if that is less work than testing each candidate in each of them."""
    n_more = len(stored.runs) - 1
    if n_more < 1 or len(stored) >= MERGE_PER_TEST * n_tests * n_more:
        return False
    stored.consolidate()
    return True


class Candidates(NamedTuple):
    """Slots to test: those of event e from `starts[e]`, the first `counts[e]` of them are hits."""

    starts: Int64s
    stops: Int64s
    slots: Int64s
    counts: Int64s

    @staticmethod
    def of(hits: Hits, n_slots: int) -> Candidates:
        """Everything that was hit is a candidate."""
        counts = hits.counts()
        stops = np.cumsum(counts)
        slots = pooled(int(counts.sum()), np.int64)
        hits.fill(stops - counts, np.arange(n_slots), slots)
        return Candidates(stops - counts, stops, slots, np.zeros(counts.size, np.int64))

    def kept(self) -> Int32s:
        """The slots that were found to be hits, event by event."""
        out = np.empty(int(self.counts.sum()), np.int32)
        _take_kept(self, out)
        return out


def rounds(counts: Int64s, at_once: int) -> Iterator[tuple[int, int]]:
    """Cut events that need room for so many each into parts that need at most `at_once`, or one."""
    ends, first = np.cumsum(counts), 0
    while first < counts.size:
        before = ends[first] - counts[first]
        last = int(np.searchsorted(ends, before + at_once, side="right"))
        last = max(last, first + 1)
        yield first, last
        first = last


def tested(n_events: int, joining: Int64s, turns: Iterator[Candidates]) -> Matches:
    """The answer: of `n_events` the `joining` have candidates, which were tested in turns."""
    counts, kept = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for candidates in turns:
        counts.append(candidates.counts)
        kept.append(candidates.kept())
    offsets = np.zeros(n_events + 1, np.int64)
    offsets[joining + 1] = np.concatenate(counts)
    return Matches(np.cumsum(offsets), np.concatenate(kept))


def keep_meeting(candidates: Candidates, found: list[Blocks], bounds: Int64s, other: int) -> None:
    """Keep the candidates whose range on attribute `other` holds a living row of their block."""
    for block in found:

        def keep(first: int, last: int, block: Blocks = block) -> None:
            _keep_meeting(block, candidates, bounds, 2 * other, first, last)

        in_parts(keep, candidates.counts.size, cost=20 * candidates.slots.size)


@kernel
def _keep_meeting(
    block: Blocks, candidates: Candidates, bounds: Int64s, low: int, first: int, last: int
) -> None:
    run, slots = block.run, candidates.slots
    lows, highs = np.empty(ABREAST, np.int64), np.empty(ABREAST, np.int64)
    places = np.empty(ABREAST, np.uint64)
    for e in range(first, last):
        start, stop = block.starts[e], block.stops[e]
        keys, last_row = run.keys[start:stop], np.uint64(max(stop - start, 1) - 1)
        kept = at = candidates.starts[e] + candidates.counts[e]
        while at < candidates.stops[e] and start < stop:
            n = min(ABREAST, candidates.stops[e] - at)
            for i in range(n):
                query = np.uint64(slots[at + i])
                lows[i], highs[i] = bounds[query, low], bounds[query, low + 1]
            count_below(keys, lows[:n], places)
            if run.above.size:
                for i in range(n):
                    place = living_above(run, start + np.int64(places[i]))
                    places[i] = min(place, stop) - start
            for i in range(n):
                # Whether a candidate meets a row is a guess, so it moves to the front without a
                # branch: a miss only changes places with another one.
                slot = slots[at + i]
                slots[at + i] = slots[kept]
                slots[kept] = slot
                row = min(places[i], last_row)
                kept += (row == places[i]) & (keys[row] <= highs[i])
            at += n
        candidates.counts[e] = kept - candidates.starts[e]


@inlined
def count_below(keys: Int64s, values: Int64s, counts: UInt64s) -> None:
    """How many of the ascending keys are below each value: binary searches in step.

    All searches take the same steps, and no step waits for another search, so they need no
    guesses: 5 times as fast as one search after the other. Unsigned, since an index that cannot
    be negative needs no test.
    """
    one, left = np.uint64(1), np.uint64(keys.size)
    for i in range(values.size):
        counts[i] = 0
    while left > 0:
        half = (left + one) >> one
        for i in range(values.size):
            counts[i] += half * np.uint64(keys[counts[i] + half - one] < values[i])
        left -= half


@inlined
def count_up_to(keys: Int64s, values: Int64s, counts: UInt64s) -> None:
    """How many of the ascending keys are at most each value, as `count_below`."""
    one, left = np.uint64(1), np.uint64(keys.size)
    for i in range(values.size):
        counts[i] = 0
    while left > 0:
        half = (left + one) >> one
        for i in range(values.size):
            counts[i] += half * np.uint64(keys[counts[i] + half - one] <= values[i])
        left -= half


@kernel
def _take_kept(candidates: Candidates, out: Int32s) -> None:
    at = 0
    for e in range(candidates.counts.size):
        begin = candidates.starts[e]
        for i in range(begin, begin + candidates.counts[e]):
            out[at] = candidates.slots[i]
            at += 1
