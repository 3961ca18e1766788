"""Routing of equality joins: what the routed ways of select-joins and window joins share.

    events ->  rows of each code  ->  traits  \\
    queries -> ranges that hold each event    }-> costs -> parts -> answers in order
    built ways -> sizes of groups ->  stats   /
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np

from standfast.arrays import Hits, Int64s, Matches
from standfast.indexes.hotspot_tracker import HotspotTracker
from standfast.indexes.sorted_runs import SortedRuns
from standfast.operators.base import Arrivals, SelectStrategy, WindowStrategy
from standfast.operators.costs import Constants, Floats, Model, current
from standfast.operators.equality import ranges_of
from standfast.operators.group_stats import sizes_of
from standfast.operators.router import Routing
from standfast.operators.time_stats import Climbed, SkylineSize, TimeStats
from standfast.operators.traits import SideStats, rows_of

S = TypeVar("S", bound=SelectStrategy | WindowStrategy)
Side = Literal[0, 1]

# One batch in so many is asked what is hot.
DECIDE_EVERY = 16


class Grouped(Protocol):
    """What is asked of the groups way."""

    def group_sizes(self, side: Side) -> Int64s: ...


class Ways(Generic[S]):
    """How the ways of a question are made, and what they tell about groups."""

    def __init__(
        self, plain: dict[str, Callable[[], S]], hotspot: Callable[[tuple[float, float]], S],
        tracker: Callable[[Any, Side], HotspotTracker],
        climbed: Callable[[Any, Side], Climbed | None] = lambda way, side: None,
    ) -> None:  # fmt: skip
        """`hotspot` makes one for a share of the queries by side; `tracker` is that of a side.

        `climbed` has what the groups or hotspots of a side counted of skylines.
        """
        self.plain = plain
        self.hotspot = hotspot
        self.tracker = tracker
        self.climbed = climbed


class EqualityRouting(Generic[S]):
    """A router with the statistics of both sides."""

    def __init__(
        self, question: Literal["select_join", "window_join"], ways: Ways[S], *,
        constants: Constants | None, alpha: float | None, is_float: bool = False,
    ) -> None:  # fmt: skip
        known, self._warning = (constants, "") if constants else current()
        self.sides = (SideStats(0, alpha), SideStats(1, alpha))
        self.routing: Routing[S] = Routing(
            Model(question, known), ways.plain | {"hotspot": self._hotspot},
            3 if question == "window_join" else 2, "groups",
        )  # fmt: skip
        self._ways = ways
        self.times = (TimeStats(is_float=is_float), TimeStats(is_float=is_float))
        self._largest: int | None = 0  # the largest window, None if it may have left

    def measure_by(self, is_float: tuple[bool, bool]) -> None:
        """Told before any query comes: which selected columns are float64."""
        for side, kind in zip(self.sides, is_float, strict=True):
            side.measure_by(kind)

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        self.routing.add(slots, lows, highs)
        for side in self.sides:
            side.add(lows, highs)
        if highs.shape[0] > 2 and self._largest is not None:
            self._largest = max(self._largest, int(highs[2].max(initial=0)))

    def remove(self, slots: Int64s) -> None:
        ranges = ranges_of(self.routing.queries, slots)
        self.routing.remove(slots)
        for side in self.sides:
            side.remove(*ranges)
        if ranges[1].shape[0] > 2 and int(ranges[1][2].max(initial=-1)) == self._largest:
            self._largest = None

    def process(self, events: Arrivals, stored: SortedRuns, side: Side) -> Hits:
        """Answer a batch, each event by the way that is cheapest for it."""
        if not events.codes.size:
            return Matches.none(0)

        def features() -> tuple[dict[str, float], Floats]:
            return self.features(events, stored, side)

        def process(way: S, places: Int64s) -> Hits:
            whole = places.size == events.codes.size
            part = events if whole else Arrivals(*(c[places] if c.size else c for c in events))
            return way.process(part, stored, side=side)

        return self.routing.answer(events.codes.size, features, process)

    def features(
        self, events: Arrivals, stored: SortedRuns, side: Side
    ) -> tuple[dict[str, float], Floats]:
        """What the costs of a batch depend on: stats of the whole, traits of each event."""
        own, other = self.sides[side], self.sides[1 - side]
        routing = self.routing
        routing.refining += own.refine(
            routing.queries, events.values, routing.worked, routing.clock
        )
        hotspot = self.routing.built.get("hotspot")
        tracker = self._ways.tracker(hotspot, side) if hotspot else None
        if not own.groups.is_known:
            self._learn(own, tracker)
        own.scatter(tracker, self.routing.queries)
        own.meet(other.stabbed, stored)
        if self.routing.model.question == "window_join":
            self._watch(events, stored, side)
        self._decide(side)
        traits = own.traits(events.codes, events.values, rows_of(stored, events.codes))
        return own.stats() | self._time_stats(side), traits

    def forget_times(self) -> None:
        """Know nothing of rows in time: for whoever wants the stats of the next batch alone."""
        self.times = (self.times[0].anew(), self.times[1].anew())

    def check(self) -> None:
        self.routing.check()
        for side in self.sides:
            side.stabbed.check()
            n = side.stabbed.n_ranges
            assert n == len(self.routing.queries), "a side missed a change"

    def memory_bytes(self) -> int:
        return self.routing.memory_bytes()

    def describe(self) -> dict[str, object]:
        warning = {"warning": self._warning} if self._warning else {}
        return self.routing.describe() | warning

    def _learn(self, own: SideStats, tracker: HotspotTracker | None) -> None:
        """Take the sizes of the groups from the ways that keep them."""
        groups: Grouped | Any = self.routing.built.get("groups")
        hot, n_scattered = None, 0
        if tracker is not None:
            hot, scattered = tracker.group_sizes()
            sizes, n_scattered = np.concatenate([hot, scattered]), tracker.n_scattered
        if groups is not None:
            sizes = groups.group_sizes(own.side)
        elif hot is None and own.groups.is_stale:
            lows, highs = ranges_of(self.routing.queries, self.routing.queries.living())
            sizes = sizes_of(lows[1 - own.side], highs[1 - own.side])
        elif hot is None:
            own.groups.keep()
            return
        own.groups.learn(sizes, hot, n_scattered)

    def _hotspot(self) -> S:
        n = len(self.routing.queries)
        one, other = (side.groups.hot_share(n) for side in self.sides)
        return self._ways.hotspot((one, other))

    def _watch(self, events: Arrivals, stored: SortedRuns, side: Side) -> None:
        """Learn about the rows in time, and about skylines from the ways that climb them."""
        times, built = self.times[side], self.routing.built
        if self._largest is None:
            queries = self.routing.queries
            self._largest = int(queries.bounds[queries.living(), -1].max(initial=0))
        times.look(events, stored, self._largest)
        sizes: dict[str, SkylineSize] = {"groups": times.skyline, "hotspot": times.hot_skyline}
        for name, size in sizes.items():
            size.learn(self._ways.climbed(built[name], side) if name in built else None)

    def _time_stats(self, side: Side) -> dict[str, float]:
        own = self.sides[side]
        n_groups, n_hot = own.groups.stats["groups"], own.groups.stats["hot"]
        rows = own.means.rows if own.means else 0.0
        return self.times[side].stats(own.share, rows, n_groups, n_hot)

    def _decide(self, side: Side) -> None:
        """See from time to time which groups are hot, and let hotspots go if others are now."""
        own, us = self.sides[side], self.routing.model.constants
        if own.is_decided and self.routing.n_batches % DECIDE_EVERY:
            return
        skylines = self._time_stats(side)
        if own.decide(us["hotspot"], us["groups"], us["select_first"], skylines):
            self.routing.give_up("hotspot")
            own.groups.forget()
