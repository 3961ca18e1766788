"""What the cost of an event of an equality join depends on, for a whole batch at once.

rows      m'   rows of the event's code, counted in the runs: exact but for tombstones
stabbed   n'   own ranges that hold the event, estimated
scattered n''  the same of scattered queries only
is_new         1 for the first event of its code in the batch: what ways do once for a code
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from math import log2
from typing import Literal, NamedTuple
from weakref import ref

import numpy as np

from standfast._numba import Stopwatch, kernel
from standfast.arrays import Int64s
from standfast.indexes.hotspot_tracker import HotspotTracker
from standfast.indexes.interval_histogram import STALE, StabbedCounts
from standfast.indexes.sorted_runs import SortedRuns, block
from standfast.operators.costs import TRAITS, Floats
from standfast.operators.equality import BoxTable, ranges_of
from standfast.operators.group_stats import GroupStats
from standfast.operators.time_stats import moved, sampled

# Events that are enough to shape a histogram after.
ENOUGH = 64
# Histograms are made anew when answering has taken so many times what the last time took, so that
# they never cost more than that part of the time, on each side, however fast queries come and go.
REPAID = 200.0
# Queries whose ranges fit into a fast cache, about.
CACHED = 200_000
# Stored rows that are asked how many ranges hold them.
SAMPLE = 256
NO_SKYLINES = {"skyline": 0.0, "hot_skyline": 0.0}


class Means(NamedTuple):
    """Of traits over events that join; call is the part of a batch that each of them is."""

    stabbed: float
    search: float
    is_new: float
    reach: float
    rows: float
    call: float


class GroupNames(NamedTuple):
    """What the terms and stats of a way call groups, their depth, being met, their skylines."""

    groups: str
    depth: str
    met: str
    skyline: str


class GroupCosts(NamedTuple):
    """What a group costs an event: anyway, for log2 of its size, if it is met, for a member."""

    each: float
    log: float
    met: float
    member: float


ALL = GroupNames("groups", "depth", "met", "skyline")
HOT = GroupNames("hot", "hot_depth", "hot_met", "hot_skyline")
_MEANS = [TRAITS["window_join"].index(name) for name in Means._fields[:-1]]


class SideStats:
    """What is known of the queries as events of one side meet them."""

    def __init__(self, side: Literal[0, 1], alpha: float | None = None) -> None:
        self.side = side
        self.is_float = False
        self.stabbed = StabbedCounts()  # ranges on the events' own side
        self.groups = GroupStats(alpha)  # of the ranges on the other side
        self.is_decided = False  # from which size on groups are hot
        self.share = 0.0
        self.means: Means | None = None  # smoothed; unknown before the first event that joins
        self._scattered: StabbedCounts | None = None
        # Whose the scattered are; a way that was dropped must not live on in here.
        self._tracker: ref[HotspotTracker] | None = None
        self._n_updates = 0  # of the tracker, when they were counted
        self._n_stored = self._n_queries = -1  # when the share was taken
        self.n_refined = 0
        self._refine_at = 0.0  # seconds of answering

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
        skylines: Mapping[str, float] = NO_SKYLINES,
    ) -> bool:  # fmt: skip
        """Find the size from which on a group is hot; tells whether it has drifted.

        `us` are the constants of the hotspot way, `like` those of groups, which stand in where no
        cost of a hot one was found, `alone` those of the way for the scattered; `skylines` are the
        stats with these names, of window joins.
        """
        if self.means is None or not self.stabbed.n_ranges:
            return False
        self.is_decided = True
        rate = self.means.stabbed / self.stabbed.n_ranges
        group = self._group_us(us, HOT, skylines)
        if not any(group[:3]):
            group = self._group_us(like, ALL, skylines)
        saved = max(self._member_us(alone) - group.member, 0.0)
        return self.groups.decide(group.each, group.log, rate * saved, group.met, rate)

    def _group_us(
        self, us: Mapping[str, float], names: GroupNames, skylines: Mapping[str, float]
    ) -> GroupCosts:
        """What a group costs an event that joins."""
        assert self.means is not None
        means, known = self.means, defaultdict(float, us)  # not every question has every term
        group, met = names.groups, names.met
        each = known[f"{group} x joins"] + known[f"{group} x reach"] * means.reach
        new = known[f"{group} x is_new"] + known[f"{group} x new_search"] * means.search
        each += means.is_new * new + known[f"{group} x call"] * means.call
        return GroupCosts(
            each,
            known[f"{group} x {names.depth}"] * means.reach,
            known[met] + known[f"{names.skyline} x {met}"] * skylines[names.skyline],
            self._member_us(known),
        )

    def _member_us(self, us: Mapping[str, float]) -> float:
        """What a query costs that selects the event, where such queries cost one by one."""
        assert self.means is not None
        return us.get("stabbed", 0.0) + us.get("stabbed_search", 0.0) * self.means.search

    def refine(
        self, queries: BoxTable, values: Int64s, worked: float, clock: Callable[[], float]
    ) -> float:
        """Make the histograms fit the ranges and the events, if so much has changed and it pays.

        `worked` are the seconds that events took so far; gives back those that refining took.
        """
        if not self.stabbed.is_due or values.size < ENOUGH or worked < self._refine_at:
            return 0.0
        watch, begin = Stopwatch(), clock()
        lows, highs = ranges_of(queries, queries.living())
        self.stabbed.rebuild(lows[self.side], highs[self.side], values)
        took = clock() - begin
        self.n_refined += 1
        if watch.seconds() is not None:  # compiling happens once
            self._refine_at = worked + REPAID * took
        return took

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
            means = traits[_MEANS].sum(axis=1) / n_joining
            now = Means._make([*means.tolist(), 1 / n_joining])
            self.means = Means._make(map(moved, self.means or now, now))

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
    sample = sampled([run.keys for run in stored.runs], SAMPLE)
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
