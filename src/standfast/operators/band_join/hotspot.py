"""Band joins on hotspots: groups where bands crowd, query by query for the scattered rest."""

from __future__ import annotations

import numpy as np

from standfast.arrays import Hits, Int64s, Together, with_room
from standfast.indexes.hotspot_tracker import HotspotTracker, Moves
from standfast.indexes.sorted_runs import SortedRuns
from standfast.model.query import BandJoin
from standfast.operators.band_join.groups import Posted, posted, probe_groups
from standfast.operators.band_join.per_query import PerQuery
from standfast.operators.base import BandStrategy, Spec

# A group that holds this share of all bands is a hotspot: at most 2 / ALPHA of them.
ALPHA = 0.001


class Hotspot(BandStrategy):
    """Probe the rows once per hotspot, and once per scattered band."""

    spec = Spec(
        question=BandJoin,
        paper="BJ-SSI on hotspots [hotspot] 3.1.3",
        time="O((1/alpha + scattered) log m) an event",
        space="O(n)",
    )

    def __init__(self, *, is_float: bool, alpha: float = ALPHA, epsilon: float = 1.0) -> None:
        super().__init__(is_float=is_float)
        self.tracker = HotspotTracker(alpha, epsilon)
        self.scattered = PerQuery(is_float=is_float)
        self._posted: Posted | None = None
        self._lows = np.empty(0, np.int64)  # by slot, as are the highs
        self._highs = np.empty(0, np.int64)

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        n_slots = int(slots.max(initial=-1)) + 1
        self._lows, self._highs = with_room(self._lows, n_slots), with_room(self._highs, n_slots)
        self._lows[slots], self._highs[slots] = lows[0], highs[0]
        self._follow(self.tracker.add(slots, lows[0], highs[0]))

    def remove(self, slots: Int64s) -> None:
        self._follow(self.tracker.remove(slots))

    def process(self, values: Int64s, stored: SortedRuns, *, minuend: bool) -> Hits:
        self._posted = posted(self.tracker.hot_groups(), self._posted)
        hot = probe_groups(self._posted, values, stored, is_float=self.is_float, minuend=minuend)
        if not len(self.scattered):
            return hot
        return Together((hot, self.scattered.process(values, stored, minuend=minuend)))

    def check(self) -> None:
        self.tracker.check()
        self.scattered.check()
        assert len(self.scattered) == self.tracker.n_scattered, "the scattered rest differs"

    def memory_bytes(self) -> int:
        own = self._lows.nbytes + self._highs.nbytes
        return self.tracker.memory_bytes() + self.scattered.memory_bytes() + own

    def describe(self) -> dict[str, object]:
        return {
            "hotspots": self.tracker.n_hot,
            "scattered queries": self.tracker.n_scattered,
            "moves per update": self.tracker.moves_total / max(1, self.tracker.updates_total),
        }

    def _follow(self, moves: Moves) -> None:
        """Keep the scattered strategy equal to the tracker's scattered set."""
        if moves.left.size:
            self.scattered.remove(moves.left)
        if moves.entered.size:
            slots = moves.entered
            self.scattered.add(slots, self._lows[slots][None], self._highs[slots][None])
