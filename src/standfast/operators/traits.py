"""What the cost of an event of an equality join depends on, for a whole batch at once.

rows      m'   rows of the event's code, counted in the runs: exact but for tombstones
stabbed   n'   own ranges that hold the event, estimated
scattered n''  the same of scattered queries only
is_new         1 for the first event of its code in the batch: what ways do once for a code
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from math import log2
from typing import Literal
from weakref import ref

import numpy as np

from standfast._numba import kernel
from standfast.arrays import Int64s
from standfast.indexes.hotspot_tracker import HotspotTracker
from standfast.indexes.interval_histogram import STALE, StabbedCounts
from standfast.indexes.sorted_runs import SortedRuns, block
from standfast.operators.costs import TRAITS, Floats
from standfast.operators.equality import BoxTable
from standfast.operators.group_stats import GroupStats
from standfast.operators.router import ranges_of

# Events that are enough to shape a histogram after.
ENOUGH = 64
# A batch moves the means of events by one part in so many.
SMOOTH = 8
# Queries whose ranges fit into a fast cache, about.
CACHED = 200_000
# Stored rows that are asked how many ranges hold them.
SAMPLE = 256


class SideStats:
    """What is known of the queries as events of one side meet them."""

    def __init__(self, side: Literal[0, 1], alpha: float | None = None) -> None:
        self.side = side
        self.is_float = False
        self.stabbed = StabbedCounts()  # ranges on the events' own side
        self.groups = GroupStats(alpha)  # of the ranges on the other side
        self.is_decided = False  # from which size on groups are hot
        self.share = 0.0
        # Means over events that join, smoothed: stabbed, search, is_new, reach, rows, met, part of
        # a call.
        self.means: tuple[float, ...] = ()
        self._scattered: StabbedCounts | None = None
        # Whose the scattered are; a way that was dropped must not live on in here.
        self._tracker: ref[HotspotTracker] | None = None
        self._n_updates = 0  # of the tracker, when they were counted
        self._n_stored = self._n_queries = -1  # when the share was taken

    def measure_by(self, is_float: bool) -> None:
        """Told before any query comes: whether the side's selected column is float64."""
        self.is_float = is_float
        self.stabbed = StabbedCounts(is_float=is_float)

    def add(self, lows: Int64s, highs: Int64s) -> None:
        self.stabbed.add(lows[self.side], highs[self.side])
        self.groups.forget(lows.shape[1])

    def remove(self, lows: Int64s, highs: Int64s) -> None:
        self.stabbed.remove(lows[self.side], highs[self.side])
        self.groups.forget(lows.shape[1])

    def scatter(self, tracker: HotspotTracker | None, queries: BoxTable) -> None:
        """Count the own ranges of the queries that a hotspot way holds as scattered.

        Without such a way they are guessed. The count is made anew after enough changes.
        """
        if tracker is None:
            self._scattered, self._tracker = None, None
            return
        n_changes = tracker.updates_total - self._n_updates
        is_same = self._tracker is not None and self._tracker() is tracker
        if not is_same or n_changes > STALE * tracker.n_intervals:
            self._tracker, self._n_updates = ref(tracker), tracker.updates_total
            lows, highs = ranges_of(queries, tracker.scattered_slots())
            self._scattered = StabbedCounts(is_float=self.is_float)
            self._scattered.add(lows[self.side], highs[self.side])

    def decide(
        self, us: Mapping[str, float], like: Mapping[str, float], alone: Mapping[str, float],
        skyline: float = 0.0,
    ) -> bool:  # fmt: skip
        """Find the size from which on a group is hot; tells whether it has drifted.

        `us` are the constants of the hotspot way, `like` those of groups, which stand in where no
        cost of a hot one was found, `alone` those of the way for the scattered; `skyline` is the
        rows of a skyline for each stabbing point, of window joins.
        """
        if not self.means or not self.stabbed.n_ranges:
            return False
        self.is_decided = True
        stabbed, search, *_ = self.means
        rate = stabbed / self.stabbed.n_ranges
        member = alone["stabbed"] + alone["stabbed_search"] * search
        if "stabbed" in us:  # hot ones are tested one by one too
            member -= us["stabbed"] + us["stabbed_search"] * search
        member = rate * max(member, 0.0)
        group = self._group_us(us, ("hot", "hot_depth", "hot_met"), skyline)
        if not any(group):
            group = self._group_us(like, ("groups", "depth", "met"), skyline)
        return self.groups.decide(*group, member)

    def _group_us(
        self, us: Mapping[str, float], names: tuple[str, str, str], skyline: float
    ) -> tuple[float, float]:
        """What a group costs an event, and what the logarithm of its size does."""
        _, search, is_new, reach, _, n_met, call = self.means
        name, depth, met = names
        known = defaultdict(float, us)  # window joins have fewer of them
        group = known[f"{name} x joins"] + known[f"{name} x reach"] * reach
        group += is_new * (known[f"{name} x is_new"] + known[f"{name} x new_search"] * search)
        group += known[f"{name} x call"] * call
        chance = min(1.0, n_met / max(self.groups.stats["groups"], 1.0))
        group += chance * (known[met] + known[f"skyline x {met}"] * skyline)
        return group, known[f"{name} x {depth}"] * reach

    @property
    def rows_each(self) -> float:
        """Rows that an event joins on average."""
        return self.means[4] if self.means else 0.0

    def refine(self, queries: BoxTable, values: Int64s) -> None:
        """Make the histograms fit the ranges and the events, if so much has changed."""
        if self.stabbed.is_due and values.size >= ENOUGH:
            lows, highs = ranges_of(queries, queries.living())
            self.stabbed.rebuild(lows[self.side], highs[self.side], values)

    def traits(self, codes: Int64s, values: Int64s, rows: Int64s) -> Floats:
        """The traits of equality joins, in the order of `TRAITS`; select-joins lack the last."""
        stabbed = self.stabbed.estimate(values)
        if self._scattered is not None:
            scattered = self._scattered.estimate(values)
        else:
            scattered = stabbed * (self.groups.stats["scattered"] / max(1, self.stabbed.n_ranges))
        out = np.empty((len(TRAITS["window_join"]), codes.size))
        n_groups, n_hot = self.groups.stats["groups"], self.groups.stats["hot"]
        _traits(codes, rows, stabbed, scattered, self.share, n_groups, n_hot, out)
        self._remember(out)
        return out

    def _remember(self, traits: Floats) -> None:
        n_joining = traits[2].sum()
        if n_joining:
            now = [*(traits[[8, 4, 3, 12, 6, 16]].sum(axis=1) / n_joining).tolist(), 1 / n_joining]
            self.means = tuple(
                old + (new - old) / SMOOTH for old, new in zip(self.means or now, now, strict=True)
            )

    def meet(self, other: StabbedCounts, stored: SortedRuns) -> None:
        """Look again which part of the queries a stored row meets, if much has changed.

        `other` counts the ranges on the side of the stored rows.
        """
        n_stored, n_queries = len(stored), self.stabbed.n_ranges
        if not (_is_near(n_stored, self._n_stored) and _is_near(n_queries, self._n_queries)):
            self._n_stored, self._n_queries = n_stored, n_queries
            self.share = _share(other, n_queries, stored)

    def stats(self) -> dict[str, float]:
        """The stats of a batch."""
        n_queries, groups = self.stabbed.n_ranges, self.groups.stats
        return groups | {
            "one": 1.0,
            "queries": float(n_queries),
            "share": self.share,
            "log_queries": log2(2 + n_queries),
            "log_scattered": log2(2 + groups["scattered"]),
            "far": n_queries / (n_queries + CACHED),
            "far_scattered": groups["scattered"] / (groups["scattered"] + CACHED),
        }


def rows_of(stored: SortedRuns, codes: Int64s) -> Int64s:
    """How many rows have each of the ascending codes."""
    rows = np.zeros(codes.size, np.int64)
    for run in stored.runs:
        _add_rows(run.codes, codes, rows)
    return rows


def _is_near(one: int, other: int) -> bool:
    """Whether neither is twice the other."""
    return other / 2 < one < other * 2


def _share(ranges: StabbedCounts, n_queries: int, stored: SortedRuns) -> float:
    """The part of the queries whose range on the stored side holds a row, on average."""
    if not stored.runs or not n_queries:
        return 0.0
    keys = stored.runs[0].keys
    sample = keys[:: max(1, keys.size // SAMPLE)]
    return float(np.mean(ranges.estimate(sample))) / n_queries


@kernel
def _add_rows(run: Int64s, codes: Int64s, rows: Int64s) -> None:
    place, size = 0, 0
    for e in range(codes.size):
        if e == 0 or codes[e] != codes[e - 1]:
            first, place = block(run, codes[e], place)
            size = place - first
        rows[e] += size


@kernel
def _traits(
    codes: Int64s, rows: Int64s, stabbed: Floats, scattered: Floats,
    share: float, n_groups: float, n_hot: float, out: Floats,
) -> None:  # fmt: skip
    search = reach = 0.0
    for e in range(codes.size):
        is_new = e == 0 or codes[e] != codes[e - 1]
        joins, m = min(rows[e], 1), float(rows[e])
        if is_new:
            search, reach = np.log2(1.0 + m), 1.0 - np.exp(-share * m)
        n, s = joins * stabbed[e], joins * scattered[e]
        out[0, e], out[1, e], out[2, e], out[3, e] = 0.0, 1.0, joins, joins * is_new
        out[4, e], out[5, e] = search, is_new * search
        out[6, e], out[7, e] = m, m * n
        out[8, e], out[9, e] = n, n * search
        out[10, e], out[11, e] = s, s * search
        out[12, e], out[13, e] = reach, reach * np.log2(1.0 + n / max(n_groups, 1.0))
        out[14, e] = reach * np.log2(1.0 + max(n - s, 0.0) / max(n_hot, 1.0))
        out[15, e] = is_new * m
        out[16, e], out[17, e] = min(n, joins * n_groups), min(max(n - s, 0.0), joins * n_hot)
