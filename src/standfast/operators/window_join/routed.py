"""Window joins by the way that is cheapest for each event."""

from __future__ import annotations

from functools import partial
from typing import Literal

from standfast.arrays import Hits, Int64s
from standfast.indexes.hotspot_tracker import HotspotTracker
from standfast.indexes.sorted_runs import SortedRuns
from standfast.model.query import WindowJoin
from standfast.operators.base import Arrivals, Spec, WindowStrategy
from standfast.operators.costs import Constants
from standfast.operators.equality_routing import EqualityRouting, Ways
from standfast.operators.window_join.groups import ByGroups, GroupsOfSide
from standfast.operators.window_join.hotspot import Hotspot
from standfast.operators.window_join.join_first import JoinFirst
from standfast.operators.window_join.select_first import SelectFirst


class Routed(WindowStrategy):
    """Estimate what each of the other ways costs for each event, and go the cheapest."""

    spec = Spec(
        question=WindowJoin,
        paper="[hotspot] 4.2",
        time="about that of the best other way, event by event",
        space="O(n + m) for each way in use",
    )

    def __init__(
        self, *, is_float: bool, constants: Constants | None = None, alpha: float | None = None
    ) -> None:
        """`alpha` is the share that makes a hotspot; the costs decide it if it is not given."""
        super().__init__(is_float=is_float)
        ways: Ways[WindowStrategy] = Ways(
            {
                "join_first": partial(JoinFirst, is_float=is_float),
                "select_first": partial(SelectFirst, is_float=is_float),
                "groups": partial(ByGroups, is_float=is_float),
            },
            lambda shares: Hotspot(is_float=is_float, alpha=shares),
            _tracker,
            _climbed,
        )
        self.inner = EqualityRouting(
            "window_join", ways, constants=constants, alpha=alpha, is_float=is_float
        )

    def measure_by(self, is_float: tuple[bool, bool]) -> None:
        self.inner.measure_by(is_float)

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        self.inner.add(slots, lows, highs)

    def remove(self, slots: Int64s) -> None:
        self.inner.remove(slots)

    def process(self, events: Arrivals, stored: SortedRuns, *, side: Literal[0, 1]) -> Hits:
        return self.inner.process(events, stored, side)

    def check(self) -> None:
        self.inner.check()

    def memory_bytes(self) -> int:
        return self.inner.memory_bytes()

    def describe(self) -> dict[str, object]:
        return self.inner.describe()


def _tracker(hotspot: Hotspot, side: Literal[0, 1]) -> HotspotTracker:
    return hotspot.sides.of(side).tracker


def _climbed(way: ByGroups | Hotspot, side: Literal[0, 1]) -> GroupsOfSide | None:
    if isinstance(way, ByGroups):
        return way.sides.seen(side)
    part = way.sides.seen(side)
    return None if part is None else part.hot
