"""Select-joins by the way that is cheapest for each event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from standfast.arrays import Hits, Int64s
from standfast.indexes.sorted_runs import SortedRuns
from standfast.model.query import SelectJoin
from standfast.operators.base import Arrivals, SelectStrategy, Spec
from standfast.operators.costs import Constants, Floats, Model, current
from standfast.operators.router import Routing
from standfast.operators.select_join.groups import ByGroups
from standfast.operators.select_join.hotspot import HotSide, Hotspot
from standfast.operators.select_join.join_first import JoinFirst
from standfast.operators.select_join.select_first import SelectFirst
from standfast.operators.select_join.vanilla import Vanilla
from standfast.operators.traits import SideStats, rows_of


class Routed(SelectStrategy):
    """Estimate what each of the other ways costs for each event, and go the cheapest."""

    spec = Spec(
        question=SelectJoin,
        paper="SJ-Dynamic [hotspot] 4.1",
        time="about that of the best other way, event by event",
        space="O(n) for each way in use",
    )

    def __init__(self, *, constants: Constants | None = None, alpha: float | None = None) -> None:
        """`alpha` is the share that makes a hotspot; the costs decide it if it is not given."""
        known, self._warning = (constants, "") if constants else current()
        make: dict[str, Callable[[], SelectStrategy]] = {
            "vanilla": Vanilla,
            "join_first": JoinFirst,
            "select_first": SelectFirst,
            "groups": ByGroups,
            "hotspot": self._hotspot,
        }
        self.sides = (SideStats(0, alpha), SideStats(1, alpha))
        self.routing: Routing[SelectStrategy] = Routing(
            Model("select_join", known), make, 2, "groups"
        )

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        self.routing.add(slots, lows, highs)
        for side in self.sides:
            side.add(lows, highs)

    def remove(self, slots: Int64s) -> None:
        ranges = self.routing.queries.of(slots)
        self.routing.remove(slots)
        for side in self.sides:
            side.remove(*ranges)

    def process(self, events: Arrivals, stored: SortedRuns, *, side: Literal[0, 1]) -> Hits:
        def features() -> tuple[dict[str, float], Floats]:
            return self.features(events, stored, side)

        def process(way: SelectStrategy, places: Int64s) -> Hits:
            whole = places.size == events.codes.size
            part = events if whole else Arrivals(*(c[places] if c.size else c for c in events))
            return way.process(part, stored, side=side)

        return self.routing.answer(events.codes.size, features, process)

    def features(
        self, events: Arrivals, stored: SortedRuns, side: Literal[0, 1]
    ) -> tuple[dict[str, float], Floats]:
        """What the costs of a batch depend on: stats of the whole, traits of each event."""
        own, other = self.sides[side], self.sides[1 - side]
        own.refine(self.routing.queries, events.values)
        hotspot = self.routing.built.get("hotspot")
        hot = hotspot.side(side) if isinstance(hotspot, Hotspot) else None
        if not own.groups.is_known:
            self._learn(own, hot)
        own.scatter(hot.tracker if hot else None, self.routing.queries)
        constants = self.routing.model.constants
        if own.decide(constants["hotspot"], constants["select_first"]):
            self.routing.drop("hotspot")
            own.groups.forget()
        own.meet(other.stabbed, stored)
        traits = own.traits(events.codes, events.values, rows_of(stored, events.codes))
        return own.stats(len(stored)), traits

    def check(self) -> None:
        self.routing.check()

    def memory_bytes(self) -> int:
        return self.routing.memory_bytes()

    def describe(self) -> dict[str, object]:
        warning = {"warning": self._warning} if self._warning else {}
        return self.routing.describe() | warning

    def _learn(self, own: SideStats, hot: HotSide | None) -> None:
        """Take the sizes of the groups from the ways that keep them."""
        groups, sizes = self.routing.built.get("groups"), own.groups.sizes
        large, small = hot.tracker.group_sizes() if hot else (None, sizes)
        if isinstance(groups, ByGroups):
            sizes = groups.group_sizes(own.side)
        elif large is not None:
            sizes = np.concatenate([large, small])
        own.groups.learn(sizes, large, hot.tracker.n_scattered if hot else 0)

    def _hotspot(self) -> SelectStrategy:
        # The sides share it; the one that events met has decided, the other one has said 1.
        n = len(self.routing.queries)
        return Hotspot(alpha=max(side.groups.hot_share(n) for side in self.sides))
