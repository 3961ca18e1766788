"""Window joins by a stabbing set index: an event looks at skylines instead of all rows of its key.

    queries by the range of the other side      rows of the event's key, seen from the group
      [-----.---]                                 distance in time
   [--------.----------]                            |       .   o  o       a query is affected iff
        [---.-----]                                 |  o o  .o   o     o   its range and window
            ^ point of the group                    |   o   .  o     o     hold a row of the stairs
                                                    +-------.-------------> that lead off the point

Only rows that are nearer in time than all others between them and the point can decide a query of
the group. They are kept per key as a skyline, over batches, and made anew when rows or points
changed. Each query that selects the event is tested against the stairs of its group.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from standfast._numba import kernel
from standfast.arrays import Hits, Int32s, Int64s, Matches, pooled
from standfast.indexes.forest import Forest
from standfast.indexes.keys import INF_KEY, differences
from standfast.indexes.skyline_tree import SkylineTree, Views, candidate_counts
from standfast.indexes.skylines import SkylineCache, rows_of, skylines_around
from standfast.indexes.sorted_runs import SortedRuns
from standfast.indexes.stabbing_partition import StabbingPartition
from standfast.model.query import WindowJoin
from standfast.operators.base import Arrivals, Spec, WindowStrategy
from standfast.operators.equality import BoxTable
from standfast.operators.sides import Sides

RATIO = 2.0
SMALL = 512
# Candidates whose answers are written at once, 4 bytes each.
AT_ONCE = 1 << 24
MOST_EVENTS = 4096


class ByGroups(WindowStrategy):
    """Test the queries that select an event against the skyline around their group's point."""

    spec = Spec(
        question=WindowJoin,
        paper="WJ-SSI [hotspot] 3.3.2",
        time="O(n' log s) an event, for s rows on a skyline; O(m_b) when the skyline is stale",
        space="O(n + m)",
    )

    def __init__(self, *, is_float: bool, epsilon: float = 1.0) -> None:
        super().__init__(is_float=is_float)

        def make(side: Literal[0, 1]) -> GroupsOfSide:
            return GroupsOfSide(side, is_float=is_float, epsilon=epsilon)

        self.sides = Sides(BoxTable(3), make)

    def __len__(self) -> int:
        return len(self.sides.boxes)

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        self.sides.add(slots, lows, highs)

    def remove(self, slots: Int64s) -> None:
        self.sides.remove(slots)

    def process(self, events: Arrivals, stored: SortedRuns, *, side: Literal[0, 1]) -> Hits:
        return self.sides.of(side).process(events, stored)

    def group_sizes(self, side: Literal[0, 1]) -> Int64s:
        """The size of every group that an event on `side` meets."""
        return self.sides.of(side).partition.group_sizes()[1]

    def check(self) -> None:
        self.sides.check()

    def memory_bytes(self) -> int:
        return self.sides.memory_bytes()

    def describe(self) -> dict[str, object]:
        return described(self.sides.made)


class GroupsOfSide:
    """The queries as events of one side see them: own range, groups by the other side's range."""

    def __init__(self, side: int, *, is_float: bool, epsilon: float = 1.0) -> None:
        self.is_float = is_float
        self.partition = StabbingPartition(epsilon)
        self.cache = SkylineCache()
        self.n_events = self.n_points = self.n_rows = self.n_candidates = self.n_around = 0
        self.n_stabbing = 0  # groups, at each event that has rows to join
        self._order = [side, 1 - side, 2]
        self._forest = Forest(SkylineTree, ratio=RATIO, small=SMALL)
        self._points = np.empty(0, np.int64)  # by number of the group
        self._sorted_points = np.empty(0, np.int64)
        self._largest = 0  # no window is larger
        self._is_changed = False
        self._candidates_each = 0.0  # of an event, by the last batch

    def __len__(self) -> int:
        return self.partition.n_intervals

    @property
    def points_each(self) -> float:
        """Skyline points that an event saw on average."""
        return self.n_points / max(1, self.n_events)

    @property
    def rows_each(self) -> float:
        """Rows of an event's code on average."""
        return self.n_rows / max(1, self.n_events)

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        """Take in queries, as a strategy does."""
        self._forest.add(slots, lows[self._order], highs[self._order])
        self.partition.add(slots, lows[self._order[1]], highs[self._order[1]])
        self._is_changed = True

    def remove(self, slots: Int64s) -> None:
        """Forget these slots."""
        self._forest.remove(slots)
        self.partition.remove(slots)
        self._is_changed = True

    def process(self, events: Arrivals, stored: SortedRuns) -> Hits:
        """Hits of events of this side."""
        n = events.codes.size
        if not len(self) or not n or not stored.runs:
            return Matches.none(n)
        trees = self._settled()
        first, totals, slots = 0, list[Int64s](), list[Int32s]()
        estimate = self._candidates_each or float(len(self))
        while first < n:
            last = first + int(min(max(AT_ONCE / estimate, 1), MOST_EVENTS))
            part = Arrivals(*(column[first:last] for column in events))
            counts, hit = self._answer(part, stored, trees)
            totals.append(counts)
            slots.append(hit)
            estimate = max(self._candidates_each, 1.0)
            first = last
        offsets = np.zeros(n + 1, np.int64)
        np.cumsum(np.concatenate(totals), out=offsets[1:])
        return Matches(offsets, slots[0] if len(slots) == 1 else np.concatenate(slots))

    def check(self) -> None:
        """Assert the invariants."""
        self._settled()
        self._forest.check()
        self.partition.check()
        self.cache.check()

    def memory_bytes(self) -> int:
        """Bytes of all arrays held."""
        parts = self._forest.memory_bytes() + self.partition.memory_bytes()
        return parts + self.cache.memory_bytes() + self._points.nbytes + self._sorted_points.nbytes

    def _settled(self) -> list[SkylineTree]:
        """The trees, with their groups, and the points as they are now."""
        trees = self._forest.settled()
        if self._is_changed:
            numbers, _ = self.partition.group_sizes()
            self._points = np.zeros(int(numbers.max(initial=-1)) + 1, np.int64)
            self._points[numbers] = self.partition.group_points()
            self._sorted_points = np.sort(self._points[numbers])
            for tree in trees:
                if tree.partition_version != self.partition.reconstructions:
                    groups = self.partition.group_of(tree.slots.astype(np.int64))
                    tree.set_groups(np.maximum(groups, 0))  # those of buried boxes do not matter
                    tree.partition_version = self.partition.reconstructions
            self._largest = max((tree.largest_window for tree in trees), default=0)
            self._is_changed = False
        return trees

    def _answer(
        self, events: Arrivals, stored: SortedRuns, trees: list[SkylineTree]
    ) -> tuple[Int64s, Int32s]:
        """How many slots each event hit, and those of all events one after the other."""
        views = self._views(events, stored)
        seeing = np.flatnonzero(views.starts < views.stops)
        by_value = seeing[np.argsort(events.values[seeing], kind="stable")]
        found = [tree.candidates(events.values[by_value]) for tree in trees]
        most = np.zeros(events.codes.size, np.int64)
        most[by_value] = sum(candidate_counts(part) for part in found)
        starts = np.cumsum(most) - most
        ends = starts.copy()
        out = pooled(int(most.sum()) + 1, np.int32)  # the last is for writing in vain
        for tree, part in zip(trees, found, strict=True):
            tree.test(part, by_value, views, self._points, ends, out, is_float=self.is_float)
        counts = ends - starts
        hit = pooled(int(counts.sum()), np.int32)
        _compact(starts, ends, out, hit)
        self.n_candidates += int(most.sum())
        self._candidates_each = float(most.mean())
        return counts, hit

    def _views(self, events: Arrivals, stored: SortedRuns) -> Views:
        """The skyline that each event sees."""
        codes, owners = np.unique(events.codes, return_inverse=True)
        places = self.cache.find(codes, stored, self._sorted_points)[owners]
        past, (starts, stops, newest, n_rows) = self.cache.skylines, self.cache.extents
        is_past = events.times >= newest[places]
        if self.is_float:
            is_past &= np.abs(events.times) < INF_KEY
        gaps = np.empty(places.size, np.int64)
        differences(events.times, newest[places], self.is_float, gaps)
        begins = starts[places]
        ends = np.where(is_past & (gaps > self._largest), begins, stops[places])
        amid = np.flatnonzero(~is_past & (begins < ends))
        amid_codes, owners = np.unique(events.codes[amid], return_inverse=True)
        around, extents = skylines_around(
            rows_of(stored, amid_codes), owners, events.times[amid], self._sorted_points,
            is_float=self.is_float,
        )  # fmt: skip
        begins[amid], ends[amid] = extents.starts, extents.stops
        self.n_events += events.codes.size
        self.n_points += int((ends - begins).sum())
        self.n_stabbing += int(np.count_nonzero(n_rows[places])) * self.partition.n_groups
        self.n_rows += int(n_rows[places].sum())
        self.n_around += amid.size
        return Views(is_past, begins, ends, events.times, past, around)


def described(parts: list[GroupsOfSide]) -> dict[str, object]:
    """What `explain()` shows of the sides that were asked."""
    n_events = max(1, sum(part.n_events for part in parts))
    return {
        "groups": [part.partition.n_groups for part in parts],
        "skyline points an event": sum(part.n_points for part in parts) / n_events,
        "joining rows an event": sum(part.n_rows for part in parts) / n_events,
        "queries tested an event": sum(part.n_candidates for part in parts) / n_events,
        "skylines made": sum(part.cache.n_made for part in parts),
        "skylines made for one event": sum(part.n_around for part in parts),
    }


@kernel
def _compact(starts: Int64s, ends: Int64s, scattered: Int32s, out: Int32s) -> None:
    """Put the pieces next to each other."""
    at = 0
    for e in range(starts.size):
        size = ends[e] - starts[e]
        out[at : at + size] = scattered[starts[e] : ends[e]]
        at += size
