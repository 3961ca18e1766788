"""Window joins on hotspots: skylines where ranges crowd, selecting first for the scattered rest."""

from __future__ import annotations

from typing import Literal

from standfast.arrays import Hits, Int64s, Together
from standfast.indexes.hotspot_tracker import HotspotTracker
from standfast.indexes.sorted_runs import SortedRuns
from standfast.model.query import WindowJoin
from standfast.operators.base import Arrivals, Spec, WindowStrategy
from standfast.operators.equality import BoxTable
from standfast.operators.sides import HotAndScattered, Sides
from standfast.operators.window_join.groups import GroupsOfSide, described
from standfast.operators.window_join.select_first import SelectFirst

# A group that holds this share of all ranges is a hotspot: at most 2 / ALPHA of them.
ALPHA = 0.001


class Hotspot(WindowStrategy):
    """Skylines around the hotspots; each scattered query that selects the event looks alone."""

    spec = Spec(
        question=WindowJoin,
        paper="WJ-SSI on hotspots, WJ-SelectFirst on the rest [hotspot] 3.3.3",
        time="as groups for the hot queries, as select_first for the scattered ones",
        space="O(n + m)",
    )

    def __init__(
        self, *, is_float: bool, alpha: float | tuple[float, float] = ALPHA, epsilon: float = 1.0
    ) -> None:
        """`alpha` is the share of the queries that makes a hotspot, for events of either side."""
        super().__init__(is_float=is_float)
        boxes, alphas = BoxTable(3), alpha if isinstance(alpha, tuple) else (alpha, alpha)

        def make(side: Literal[0, 1]) -> HotAndScattered[GroupsOfSide, SelectFirst]:
            return HotAndScattered(
                boxes, 1 - side, HotspotTracker(alphas[side], epsilon),
                GroupsOfSide(side, is_float=is_float, epsilon=epsilon),
                SelectFirst(is_float=is_float),
            )  # fmt: skip

        self.sides = Sides(boxes, make)

    def __len__(self) -> int:
        return len(self.sides.boxes)

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        self.sides.add(slots, lows, highs)

    def remove(self, slots: Int64s) -> None:
        self.sides.remove(slots)

    def process(self, events: Arrivals, stored: SortedRuns, *, side: Literal[0, 1]) -> Hits:
        part = self.sides.of(side)
        part.settle()
        hot = part.hot.process(events, stored)
        if not len(part.scattered):
            return hot
        return Together((hot, part.scattered.process(events, stored, side=side)))

    def check(self) -> None:
        self.sides.check()

    def memory_bytes(self) -> int:
        return self.sides.memory_bytes()

    def describe(self) -> dict[str, object]:
        trackers = [part.tracker for part in self.sides.made]
        return {
            "hotspots": [tracker.n_hot for tracker in trackers],
            "scattered queries": [tracker.n_scattered for tracker in trackers],
            "moves per update": [t.moves_total / max(1, t.updates_total) for t in trackers],
            **described([part.hot for part in self.sides.made]),
        }
