"""Band joins by a stabbing set index: cost per event follows the number of groups of bands.

    group g, all bands hold the point p          stored rows minus the event
      [-----.---]                                     s1     p    s2
   [--------.----------]      a band is hit    ---o---o------.----o-----o----
        [---.-----]           iff its low <= s1 - b or its high >= s2 - b

Only the two stored rows next to the point matter, so an event needs one search among the rows and
one in each order of the group. The batch is ascending: each group walks the rows by galloping on
from where the event before stopped, and the orders from the point outwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from standfast._numba import in_parts, kernel
from standfast.arrays import Hits, Int32s, Int64s, SpanList, pooled
from standfast.group_spans import Groups, GroupSpans, LowRanks
from standfast.indexes.keys import FAR, INF_KEY, LEAST, difference
from standfast.indexes.refined_partition import RefinedPartition
from standfast.indexes.signposts import Signposts, count_at_most, signposts
from standfast.indexes.sorted_runs import (
    Run,
    SortedRuns,
    first_beyond,
    living_above,
    living_below,
)
from standfast.indexes.stabbing_partition import StabbingPartition
from standfast.model.query import BandJoin
from standfast.operators.base import BandStrategy, Spec


class ByGroups(BandStrategy):
    """Probe the rows once per stabbing group; the answer is two prefix lengths per group."""

    spec = Spec(
        question=BandJoin,
        paper="BJ-SSI [hotspot] 3.1.2",
        time="O(tau log m) an event as spans",
        space="O(n)",
    )

    partition: StabbingPartition | RefinedPartition

    def __init__(self, *, is_float: bool, epsilon: float = 1.0) -> None:
        super().__init__(is_float=is_float)
        self.partition = StabbingPartition(epsilon)
        self._posted: Posted | None = None

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        self.partition.add(slots, lows[0], highs[0])

    def remove(self, slots: Int64s) -> None:
        self.partition.remove(slots)

    def process(self, values: Int64s, stored: SortedRuns, *, minuend: bool) -> Hits:
        self._posted = posted(self.partition.groups(), self._posted)
        return probe_groups(self._posted, values, stored, is_float=self.is_float, minuend=minuend)

    def check(self) -> None:
        self.partition.check()

    def memory_bytes(self) -> int:
        posts = sum(p.posts.nbytes for p in self._posted[1:3]) if self._posted else 0
        return self.partition.memory_bytes() + posts

    def describe(self) -> dict[str, object]:
        return {
            "groups": self.partition.n_groups,
            "reconstructions": self.partition.reconstructions,
        }


class Posted(NamedTuple):
    """Groups with signposts on both orders, and room for ranks that counting may want."""

    groups: Groups
    lows: Signposts
    highs: Signposts
    ranks: LowRanks


def posted(groups: Groups, known: Posted | None) -> Posted:
    """The groups with signposts; those known already if the groups are the same."""
    if known is not None and known.groups is groups:
        return known
    return Posted(
        groups, signposts(groups.lows, groups.offsets), signposts(groups.highs, groups.offsets),
        LowRanks(),
    )  # fmt: skip


def probe_groups(
    groups: Posted, values: Int64s, stored: SortedRuns, *, is_float: bool, minuend: bool
) -> Hits:
    """Both prefix lengths for each group and event (keys ascending)."""
    cells, n_runs = groups.groups.n_groups * values.size, len(stored.runs)
    # A second run costs as much as the probe again: merge when that is less work than probing.
    if n_runs > 1 and len(stored) < MERGE_PER_PROBE * cells * (n_runs - 1):
        stored.consolidate()
    if cells <= CELLS_AT_ONCE:
        return _probed(groups, values, stored.runs, is_float, minuend)
    stored.clean()
    return Deferred(groups, values, stored.published(), is_float, minuend)


@dataclass(frozen=True, slots=True)
class Deferred:
    """An answer with too many cells to hold: events and groups, probed in turns when asked."""

    groups: Posted
    values: Int64s
    runs: tuple[Run, ...]  # without tombstones, so that no later deletion can reach them
    is_float: bool
    minuend: bool

    @property
    def n_events(self) -> int:
        return self.values.size

    def counts(self) -> Int64s:
        return np.concatenate([hits.counts() for _, hits in self._turns()])

    def fill(self, starts: Int64s, ids: Int64s, out: Int64s) -> None:
        for first, hits in self._turns():
            hits.fill(starts[first : first + hits.n_events], ids, out)

    def spans(self) -> SpanList:
        turns = [(first, hits.spans()) for first, hits in self._turns()]
        events, starts, stops, floors = (
            np.concatenate(columns)
            for columns in zip(
                *((s.events + first, s.starts, s.stops, s.floors) for first, s in turns),
                strict=True,
            )
        )
        return SpanList(events, starts, stops, floors, turns[0][1].pieces)

    def take(self, events: Int64s) -> Hits:
        return replace(self, values=self.values[events])

    def _turns(self) -> Iterator[tuple[int, GroupSpans]]:
        at_once = max(1, CELLS_AT_ONCE // self.groups.groups.n_groups)
        for first in range(0, self.values.size, at_once):
            values = self.values[first : first + at_once]
            yield first, _probed(self.groups, values, self.runs, self.is_float, self.minuend)


def _probed(
    groups: Posted, values: Int64s, runs: tuple[Run, ...], is_float: bool, minuend: bool
) -> GroupSpans:
    n_groups = groups.groups.n_groups
    low_counts = pooled((n_groups, values.size), np.int32)
    high_counts = pooled((n_groups, values.size), np.int32)
    low_counts.fill(0)
    high_counts.fill(0)
    edges = _edges(values, is_float=is_float)
    for run in runs:

        def probe(first: int, last: int, run: Run = run) -> None:
            _probe(
                *groups[:3], first, last, run, values, edges, is_float, minuend,
                low_counts, high_counts,
            )  # fmt: skip

        in_parts(probe, n_groups, cost=20 * low_counts.size)
    return GroupSpans(groups.groups, low_counts, high_counts, groups.ranks)


def _edges(values: Int64s, *, is_float: bool) -> Int64s:
    """Cut the events where they become infinite.

    A difference descends in the event only between such cuts: inf - 1 is inf, which a band may
    hold, but inf - inf is beyond every band.
    """
    if not is_float:
        return np.array([0, values.size])
    finite = np.searchsorted(values, [1 - INF_KEY, INF_KEY])
    return np.array([0, *finite, values.size])


# A probe of one group costs about as much as merging this many rows.
MERGE_PER_PROBE = 8
# Cells (group, event) of an answer held in memory, 8 bytes each; beyond that it is deferred.
CELLS_AT_ONCE = 1 << 25


@kernel
def _probe(
    groups: Groups, low_posts: Signposts, high_posts: Signposts, first: int, last: int, run: Run,
    values: Int64s, edges: Int64s, is_float: bool, minuend: bool,
    low_counts: Int32s, high_counts: Int32s,
) -> None:  # fmt: skip
    """Raise the counts of groups `first` to `last` to what this run's rows hit."""
    n = run.keys.size
    lows_to, highs_to = np.empty(values.size, np.int64), np.empty(values.size, np.int64)
    counts = np.empty(values.size, np.int64)
    for g in range(first, last):
        size = groups.offsets[g + 1] - groups.offsets[g]
        low, high = groups.lows[groups.offsets[g]], groups.highs[groups.offsets[g + 1] - 1]
        if minuend:
            low, high = -high, -low
        for part in range(edges.size - 1):
            # Only events whose rows reach into the bands' reach can hit anything.
            begin, stop = edges[part], edges[part + 1]
            begin = _first_not_above(values, begin, stop, run.keys[0], high, is_float)
            stop = _first_not_above(values, begin, stop, run.keys[n - 1], low - 1, is_float)
            m = stop - begin
            _reach(run, values[begin:stop], groups.points[g], is_float, minuend, lows_to, highs_to)
            count_at_most(low_posts, g, lows_to[:m], counts)
            for e in range(m):
                low_counts[g, begin + e] = max(low_counts[g, begin + e], counts[e])
            count_at_most(high_posts, g, highs_to[:m], counts)
            for e in range(m):
                high_counts[g, begin + e] = max(high_counts[g, begin + e], size - counts[e])


@kernel
def _reach(
    run: Run, events: Int64s, point: int, is_float: bool, minuend: bool,
    lows_to: Int64s, highs_to: Int64s,
) -> None:  # fmt: skip
    """How far the rows next to the point reach.

    Event e hits the bands with a low of at most `lows_to[e]` and those with a high above
    `highs_to[e]`.
    """
    n, place = run.keys.size, 0
    # Rows from `place` on lie on the far side of the point, in the order of the rows.
    limit = -point - 1 if minuend else point
    for e in range(events.size):
        place = first_beyond(run.keys, events[e], limit, is_float, place)
        left, right = living_below(run, place - 1), living_above(run, place)
        lows_to[e], highs_to[e] = LEAST, FAR
        if left >= 0:
            gap = difference(run.keys[left], events[e], is_float)
            if minuend:
                highs_to[e] = -gap - 1
            else:
                lows_to[e] = gap
        if right < n:
            gap = difference(run.keys[right], events[e], is_float)
            if minuend:
                lows_to[e] = -gap
            else:
                highs_to[e] = gap - 1


@kernel
def _first_not_above(
    values: Int64s, start: int, stop: int, row: int, limit: int, is_float: bool
) -> int:
    """First event of `start` to `stop` whose difference `row - event` is at most `limit`."""
    low, high = start, stop
    while low < high:
        middle = (low + high) >> 1
        if difference(row, values[middle], is_float) > limit:
            low = middle + 1
        else:
            high = middle
    return low
