"""Select-joins on hotspots: groups where ranges crowd, selecting first for the scattered rest."""

from __future__ import annotations

from typing import Literal

import numpy as np

from standfast.arrays import Hits, Int64s, Together
from standfast.indexes.hotspot_tracker import HotspotTracker
from standfast.indexes.rectangle_index import RectangleIndex
from standfast.indexes.sorted_runs import SortedRuns
from standfast.model.query import SelectJoin
from standfast.operators.base import Arrivals, SelectStrategy, Spec
from standfast.operators.equality import BoxTable
from standfast.operators.select_join.groups import probe
from standfast.operators.select_join.select_first import SelectFirst

# A group that holds this share of all ranges is a hotspot: at most 2 / ALPHA of them.
ALPHA = 0.001

NOWHERE, HOT, SCATTERED = 0, 1, 2
NOBODY = np.empty(0, np.int64)


class Hotspot(SelectStrategy):
    """Search the rows once per join key and hotspot, and once per scattered query selected."""

    spec = Spec(
        question=SelectJoin,
        paper="SJ-SSI on hotspots, SJ-SelectFirst on the rest [hotspot] 3.2.3",
        time="O(log m / alpha) a join key, O(log n / alpha + n' log m') an event, n' scattered",
        space="O(n log n)",
    )

    def __init__(self, *, alpha: float | tuple[float, float] = ALPHA, epsilon: float = 1.0) -> None:
        """`alpha` is the share of the queries that makes a hotspot, for events of either side."""
        self._alphas = alpha if isinstance(alpha, tuple) else (alpha, alpha)
        self._epsilon = epsilon
        self._boxes = BoxTable(2)
        # By side, made when its first event comes, and dropped when as many changes came since
        # its last one as there are queries.
        self._sides: list[HotSide | None] = [None, None]
        self._changes = [0, 0]

    def __len__(self) -> int:
        return len(self._boxes)

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        self._boxes.add(slots, lows, highs)
        for side in self._sides:
            if side is not None:
                side.add(slots)
        self._count(slots.size)

    def remove(self, slots: Int64s) -> None:
        self._boxes.remove(slots)
        for side in self._sides:
            if side is not None:
                side.remove(slots)
        self._count(slots.size)

    def process(self, events: Arrivals, stored: SortedRuns, *, side: Literal[0, 1]) -> Hits:
        self._changes[side] = 0
        return self.side(side).process(events, stored)

    def side(self, side: Literal[0, 1]) -> HotSide:
        """What events on `side` meet; made if it is not there yet."""
        made = self._sides[side]
        if made is None:
            made = HotSide(self._boxes, side, HotspotTracker(self._alphas[side], self._epsilon))
            self._sides[side] = made
            made.add(self._boxes.living())
        return made

    def check(self) -> None:
        self._boxes.check()
        for side in self._sides:
            if side is not None:
                side.check()

    def memory_bytes(self) -> int:
        made = [side for side in self._sides if side is not None]
        return self._boxes.memory_bytes() + sum(side.memory_bytes() for side in made)

    def describe(self) -> dict[str, object]:
        made = [side for side in self._sides if side is not None]
        trackers = [side.tracker for side in made]
        return {
            "hotspots": [tracker.n_hot for tracker in trackers],
            "scattered queries": [tracker.n_scattered for tracker in trackers],
            "moves per update": [t.moves_total / max(1, t.updates_total) for t in trackers],
        }

    def _count(self, n_changes: int) -> None:
        for side in (0, 1):
            self._changes[side] += n_changes
            if self._changes[side] > len(self._boxes):
                self._sides[side] = None


class HotSide:
    """Hot and scattered queries as events of one side meet them: by their ranges on the other.

    A query can change sides of the border many times between two batches of events. Both indexes
    are told when events come, and then only where it stands.
    """

    def __init__(self, boxes: BoxTable, side: Literal[0, 1], tracker: HotspotTracker) -> None:
        self.tracker = tracker
        self.hot = RectangleIndex()
        self.scattered = SelectFirst()
        self._boxes = boxes
        self._side = side
        self._state = np.zeros(0, np.int8)  # by slot: where it stands
        self._known = np.zeros(0, np.int8)  # by slot: where the indexes have it
        self._touched: list[Int64s] = []

    def add(self, slots: Int64s) -> None:
        """Follow the boxes, which have these slots already."""
        n_more = self._boxes.n_slots - self._state.size
        if n_more > 0:
            nowhere = np.zeros(n_more, np.int8)
            self._state = np.concatenate([self._state, nowhere])
            self._known = np.concatenate([self._known, nowhere])
        lows, highs = self._ranges(slots)
        entered, left = self.tracker.add(slots, lows[1], highs[1])
        # Who is new and does not enter the scattered set goes straight to a hotspot.
        self._put(slots, HOT)
        self._put(left, HOT)
        self._put(entered, SCATTERED)

    def remove(self, slots: Int64s) -> None:
        """Follow the boxes, which have forgotten these slots already."""
        entered, left = self.tracker.remove(slots)
        self._put(left, HOT)
        self._put(entered, SCATTERED)
        self._put(slots, NOWHERE)

    def process(self, events: Arrivals, stored: SortedRuns) -> Hits:
        """What events of this side hit."""
        self._settle()
        hot = probe(self.hot, events, stored)
        if not len(self.scattered):
            return hot
        return Together((hot, self.scattered.process(events, stored, side=self._side)))

    def check(self) -> None:
        """Assert that hot and scattered queries are where the tracker says."""
        self.tracker.check()
        scattered = np.flatnonzero(self._state == SCATTERED)
        assert np.array_equal(scattered, self.tracker.scattered_slots()), "the scattered differ"
        n_hot = self.tracker.n_intervals - self.tracker.n_scattered
        assert np.count_nonzero(self._state == HOT) == n_hot, "the hot differ"
        assert len(self.hot) == np.count_nonzero(self._known == HOT), "hot ones are miscounted"
        assert len(self.scattered) == np.count_nonzero(self._known == SCATTERED), "or scattered"
        touched = np.concatenate([NOBODY, *self._touched])
        changed = np.flatnonzero(self._state != self._known)
        assert np.isin(changed, touched).all(), "a change was forgotten"
        self.hot.check()
        self.scattered.check()

    def memory_bytes(self) -> int:
        """Bytes of all arrays held."""
        own = self._state.nbytes + self._known.nbytes + sum(s.nbytes for s in self._touched)
        parts = (self.tracker, self.hot, self.scattered)
        return own + sum(part.memory_bytes() for part in parts)

    def _ranges(self, slots: Int64s) -> tuple[Int64s, Int64s]:
        """The lows and the highs of slots, own range first."""
        order, bounds = [self._side, 1 - self._side], self._boxes.bounds[slots]
        return bounds[:, 0::2].T[order], bounds[:, 1::2].T[order]

    def _put(self, slots: Int64s, state: int) -> None:
        self._state[slots] = state
        self._touched.append(slots)

    def _settle(self) -> None:
        """Tell the indexes who stands somewhere else now."""
        if not self._touched:
            return
        slots = np.unique(np.concatenate(self._touched))
        self._touched.clear()
        before, now = self._known[slots], self._state[slots]
        self.hot.remove(slots[(before == HOT) & (now != HOT)])
        self.scattered.remove(slots[(before == SCATTERED) & (now != SCATTERED)])
        hot = slots[(before != HOT) & (now == HOT)]
        self.hot.add(hot, *self._ranges(hot))
        scattered = slots[(before != SCATTERED) & (now == SCATTERED)]
        bounds = self._boxes.bounds[scattered]
        self.scattered.add(scattered, bounds[:, 0::2].T, bounds[:, 1::2].T)
        self._known[slots] = now
