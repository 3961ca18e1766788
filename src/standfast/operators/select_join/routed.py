"""Select-joins by the way that is cheapest for each event."""

from __future__ import annotations

from typing import Literal

from standfast.arrays import Hits, Int64s
from standfast.indexes.hotspot_tracker import HotspotTracker
from standfast.indexes.sorted_runs import SortedRuns
from standfast.model.query import SelectJoin
from standfast.operators.base import Arrivals, SelectStrategy, Spec
from standfast.operators.costs import Constants
from standfast.operators.equality_routing import EqualityRouting, Ways
from standfast.operators.select_join.groups import ByGroups
from standfast.operators.select_join.hotspot import Hotspot
from standfast.operators.select_join.join_first import JoinFirst
from standfast.operators.select_join.select_first import SelectFirst
from standfast.operators.select_join.vanilla import Vanilla


class Routed(SelectStrategy):
    """Estimate what each of the other ways costs for each event, and go the cheapest."""

    spec = Spec(
        question=SelectJoin,
        paper="SJ-Dynamic [hotspot] 4.1",
        time="about that of the best other way, event by event",
        space="O(n log n) for each way in use",
    )

    def __init__(self, *, constants: Constants | None = None, alpha: float | None = None) -> None:
        """`alpha` is the share that makes a hotspot; the costs decide it if it is not given."""
        ways: Ways[SelectStrategy] = Ways(
            {
                "vanilla": Vanilla,
                "join_first": JoinFirst,
                "select_first": SelectFirst,
                "groups": ByGroups,
            },
            lambda shares: Hotspot(alpha=shares),
            _tracker,
        )
        self.inner = EqualityRouting("select_join", ways, constants=constants, alpha=alpha)

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
    return hotspot.side(side).tracker
