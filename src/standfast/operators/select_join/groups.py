"""Select-joins by a stabbing set index: cost per event follows the number of groups of ranges.

    group g, all ranges hold the point p        rows with the event's join key
      [-----.---]                                     s1     p    s2
   [--------.----------]      a range is hit   ---o---o------.----o-----o----
        [---.-----]           iff its low <= s1 or its high >= s2

Only the two stored rows next to the point matter, and they are the same for all events of one join
key. So a batch needs one search among the rows and one in each order of the group for every join
key that occurs in it, and finds every event's block among the group's own ranges in one walk. The
answer stays there, in places, until somebody asks who was hit (`indexes.rectangle_hits`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from standfast._numba import in_parts, kernel
from standfast.arrays import Hits, Int64s, Matches, SpanList, Together
from standfast.indexes.rectangle_hits import Located
from standfast.indexes.rectangle_index import RATIO, SMALL, RectangleIndex
from standfast.indexes.rectangle_layout import Ends
from standfast.indexes.rectangle_tree import BLOCK, FANOUT_BITS, LONG, Standing
from standfast.indexes.rectangle_visits import Callers, Limits
from standfast.indexes.signposts import count_at_most
from standfast.indexes.sorted_runs import (
    Run,
    SortedRuns,
    blocks,
    first_above,
    living_above,
    living_below,
)
from standfast.model.query import SelectJoin
from standfast.operators.base import Arrivals, SelectStrategy, Spec

# Searching the rows of a code for one group costs about as much as merging this many rows.
MERGE_PER_SEARCH = 8
# Cells (group, code) of an answer held in memory, 8 bytes each; beyond that it is deferred.
CELLS_AT_ONCE = 1 << 25


class ByGroups(SelectStrategy):
    """Search the rows once per join key and stabbing group; find the event among the own ranges."""

    spec = Spec(
        question=SelectJoin,
        paper="SJ-SSI [hotspot] 3.2.2",
        time="O(tau log m) a join key and O(tau log n) an event, O(tau log^2 n) more as spans",
        space="O(n log n)",
    )

    def __init__(
        self,
        *,
        block: int = BLOCK,
        fanout_bits: int = FANOUT_BITS,
        long: int = LONG,
        ratio: float = RATIO,
        small: int = SMALL,
    ) -> None:
        self._indexes = tuple(
            RectangleIndex(
                block=block, fanout_bits=fanout_bits, long=long, ratio=ratio, small=small
            )
            for _ in range(2)
        )
        self._is_asked = [False, False]

    def __len__(self) -> int:
        return len(self._indexes[0])

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        for side, index in enumerate(self._indexes):
            order = [side, 1 - side]
            index.add(slots, lows[order], highs[order])

    def remove(self, slots: Int64s) -> None:
        for index in self._indexes:
            index.remove(slots)

    def process(self, events: Arrivals, stored: SortedRuns, *, side: Literal[0, 1]) -> Hits:
        self._is_asked[side] = True
        return probe(self._indexes[side], events, stored)

    def group_sizes(self, side: Literal[0, 1]) -> Int64s:
        """The size of every group that an event on `side` meets."""
        return self._indexes[side].group_sizes()

    def check(self) -> None:
        assert len(self._indexes[0]) == len(self._indexes[1]), "the sides differ"
        for index in self._indexes:
            index.check()

    def memory_bytes(self) -> int:
        return sum(index.memory_bytes() for index in self._indexes)

    def describe(self) -> dict[str, object]:
        asked = [i for i, is_asked in zip(self._indexes, self._is_asked, strict=True) if is_asked]
        return {
            "groups": [sum(tree.n_groups for tree in index.trees()) for index in asked],
            "trees": [len(index.trees()) for index in asked],
        }


def probe(index: RectangleIndex, events: Arrivals, stored: SortedRuns) -> Hits:
    """What events hit among rectangles whose own ranges are those of the events' side."""
    trees = [tree.standing() for tree in index.trees()]
    if not trees or not len(stored) or not events.codes.size:
        return Matches.none(events.codes.size)
    n_codes = 1 + np.count_nonzero(events.codes[1:] != events.codes[:-1])
    cells = n_codes * sum(tree.rectangles.points.size for tree in trees)
    n_more = len(stored.runs) - 1
    # Another run costs as much as the search again: merge when that is less work than searching.
    if n_more and len(stored) < MERGE_PER_SEARCH * cells * n_more:
        stored.consolidate()
    if cells <= CELLS_AT_ONCE:
        return _located(trees, events, stored.runs)
    stored.clean()
    return Deferred(trees, events, stored.published())


@dataclass(frozen=True, slots=True)
class Deferred:
    """An answer with too many cells to hold: codes and groups, located in turns when asked."""

    trees: list[Standing]
    events: Arrivals
    runs: tuple[Run, ...]  # without tombstones, so that no later deletion can reach them

    @property
    def n_events(self) -> int:
        return self.events.codes.size

    def counts(self) -> Int64s:
        return np.concatenate([hits.counts() for _, hits in self._turns()])

    def fill(self, starts: Int64s, ids: Int64s, out: Int64s) -> None:
        for first, hits in self._turns():
            hits.fill(starts[first : first + hits.n_events], ids, out)

    def spans(self) -> SpanList:
        lists = [(first, hits.spans()) for first, hits in self._turns()]
        bases = np.cumsum([0] + [s.n_entries for _, s in lists[:-1]])
        return SpanList(
            np.concatenate([s.events + first for first, s in lists]),
            np.concatenate([s.starts + b for (_, s), b in zip(lists, bases, strict=True)]),
            np.concatenate([s.stops + b for (_, s), b in zip(lists, bases, strict=True)]),
            np.concatenate([s.floors for _, s in lists]),
            tuple(piece for _, s in lists for piece in s.pieces),
        )

    def take(self, events: Int64s) -> Hits:
        some = Arrivals(*(column[events] if column.size else column for column in self.events))
        return replace(self, events=some)

    def _turns(self) -> Iterator[tuple[int, Hits]]:
        n_groups = sum(tree.rectangles.points.size for tree in self.trees)
        at_once, codes = max(1, CELLS_AT_ONCE // n_groups), self.events.codes
        begins = np.concatenate([[0], np.flatnonzero(codes[1:] != codes[:-1]) + 1])[::at_once]
        for first, last in zip(begins, [*begins[1:], codes.size], strict=True):
            part = Arrivals(*(column[first:last] for column in self.events))
            yield int(first), _located(self.trees, part, self.runs)


def _located(trees: list[Standing], events: Arrivals, runs: tuple[Run, ...]) -> Hits:
    """Where the events, by ascending code, stand in each tree."""
    is_new = np.concatenate([[True], events.codes[1:] != events.codes[:-1]])
    codes, code_of = events.codes[is_new], np.cumsum(is_new) - 1
    found = np.empty((len(runs), 2, codes.size), np.int64)
    for run, (starts, stops) in zip(runs, found, strict=True):
        blocks(run.codes, codes, starts, stops)
    has_rows = np.any(found[:, 0] < found[:, 1], axis=0)
    callers = np.flatnonzero(has_rows[code_of])
    callers = callers[np.argsort(events.values[callers])]
    number_of = np.cumsum(has_rows) - 1
    calling = Callers(
        callers.astype(np.int32), events.values[callers],
        number_of[code_of[callers]].astype(np.int32),
    )  # fmt: skip
    found = np.ascontiguousarray(found[:, :, has_rows])
    parts = tuple(
        Located.of(tree, calling, _limits(tree, runs, found), events.codes.size) for tree in trees
    )
    return parts[0] if len(parts) == 1 else Together(parts)


def _limits(tree: Standing, runs: tuple[Run, ...], found: Int64s) -> Limits:
    """What the rows of each code, which stand in blocks of the runs, say about each group."""
    offsets, n_codes = tree.rectangles.offsets, found.shape[2]
    n_groups, points = offsets.size - 1, tree.rectangles.points
    limits = Limits(
        np.zeros((n_groups, n_codes), np.int32), np.empty((n_groups, n_codes), np.int32)
    )
    limits.highs[:] = np.diff(offsets)[:, None]
    for run, (starts, stops) in zip(runs, found, strict=True):

        def search(
            first: int, last: int, run: Run = run, starts: Int64s = starts, stops: Int64s = stops
        ) -> None:
            _search(points, tree.ends, run, starts, stops, first, last, limits)

        in_parts(search, n_groups, cost=50 * limits.lows.size)
    return limits


@kernel
def _search(
    points: Int64s,
    ends: Ends,
    run: Run,
    starts: Int64s,
    stops: Int64s,
    first: int,
    last: int,
    limits: Limits,
) -> None:
    """Widen the limits of groups `first` to `last` by the rows of a run next to their points."""
    n, keys, places = starts.size, run.keys, starts.copy()
    lefts, rights = np.empty(n, np.int64), np.empty(n, np.int64)
    values, counts = np.empty(n, np.int64), np.empty(n, np.int64)
    for g in range(first, last):
        for c in range(n):
            places[c] = first_above(keys, points[g], places[c], stops[c])
            lefts[c] = living_below(run, places[c] - 1)
            rights[c] = living_above(run, places[c])
        for c in range(n):
            values[c] = keys[max(lefts[c], 0)]
        count_at_most(ends.lows, g, values, counts)
        for c in range(n):
            if lefts[c] >= starts[c]:
                limits.lows[g, c] = max(limits.lows[g, c], counts[c])
        for c in range(n):
            # A row above the point is above some key, so one less does not overflow.
            values[c] = keys[rights[c]] - 1 if rights[c] < stops[c] else points[g]
        count_at_most(ends.highs, g, values, counts)
        for c in range(n):
            if rights[c] < stops[c]:
                limits.highs[g, c] = min(limits.highs[g, c], counts[c])
