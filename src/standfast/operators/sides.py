"""Structures per side of an equality join: made when events come, told apart by hotspots.

An event that arrives on one side meets the queries by their range on its own side and, in groups,
by their range on the other. So each side needs structures of its own, and a side where nothing
arrives needs none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Literal, Protocol, TypeVar

import numpy as np

from standfast.arrays import Int64s
from standfast.indexes.hotspot_tracker import HotspotTracker
from standfast.operators.equality import BoxTable

NOBODY = np.empty(0, np.int64)
NOWHERE, HOT, SCATTERED = 0, 1, 2


class Part(Protocol):
    """What holds queries for one side; attributes are in the order of the strategy."""

    def __len__(self) -> int: ...
    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None: ...
    def remove(self, slots: Int64s) -> None: ...
    def check(self) -> None: ...
    def memory_bytes(self) -> int: ...


P = TypeVar("P", bound=Part)
H = TypeVar("H", bound=Part)
S = TypeVar("S", bound=Part)


class Sides(Generic[P]):
    """A part per side, made when its first event comes.

    One that no event asks for while as many changes came as there are queries is dropped, so that
    changes never pile up for a side without events.
    """

    def __init__(self, boxes: BoxTable, make: Callable[[Literal[0, 1]], P]) -> None:
        self.boxes = boxes
        self._make = make
        self._parts: list[P | None] = [None, None]
        self._changes = [0, 0]  # since the last event of the side

    @property
    def made(self) -> list[P]:
        """The parts that there are."""
        return [part for part in self._parts if part is not None]

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        """Take in queries."""
        self.boxes.add(slots, lows, highs)
        for part in self.made:
            part.add(slots, lows, highs)
        self._count(slots.size)

    def remove(self, slots: Int64s) -> None:
        """Forget queries."""
        self.boxes.remove(slots)
        for part in self.made:
            part.remove(slots)
        self._count(slots.size)

    def of(self, side: Literal[0, 1]) -> P:
        """The part for an event of this side."""
        part = self._parts[side]
        if part is None:
            part = self._parts[side] = self._make(side)
            slots = self.boxes.living()
            part.add(slots, *bounds_of(self.boxes, slots))
        self._changes[side] = 0
        return part

    def seen(self, side: Literal[0, 1]) -> P | None:
        """The part for events of this side if there is one: it is not made, nor kept for it."""
        return self._parts[side]

    def check(self) -> None:
        """Assert that no part missed a change."""
        self.boxes.check()
        for part in self.made:
            part.check()
            assert len(part) == len(self.boxes), "a part missed a change"

    def memory_bytes(self) -> int:
        """Bytes of all arrays held."""
        return self.boxes.memory_bytes() + sum(part.memory_bytes() for part in self.made)

    def _count(self, n_changes: int) -> None:
        for side in (0, 1):
            self._changes[side] += n_changes
            if self._changes[side] > len(self.boxes):
                self._parts[side] = None


class HotAndScattered(Generic[H, S]):
    """Queries by where their range on one attribute lies: in a hotspot, or among the scattered.

    A query can move back and forth many times between two batches of events. Both parts are told
    by `settle`, when events come, and then only where it stands.
    """

    def __init__(
        self, boxes: BoxTable, attribute: int, tracker: HotspotTracker, hot: H, scattered: S
    ) -> None:
        self.tracker = tracker
        self.hot = hot
        self.scattered = scattered
        self._boxes = boxes
        self._attribute = attribute
        self._state = np.zeros(0, np.int8)  # by slot: where it stands
        self._known = np.zeros(0, np.int8)  # by slot: where the parts have it
        self._touched: list[Int64s] = []

    def __len__(self) -> int:
        return self.tracker.n_intervals

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        """Take in queries, which the boxes have already."""
        n_more = self._boxes.n_slots - self._state.size
        if n_more > 0:
            nowhere = np.zeros(n_more, np.int8)
            self._state = np.concatenate([self._state, nowhere])
            self._known = np.concatenate([self._known, nowhere])
        entered, left = self.tracker.add(slots, lows[self._attribute], highs[self._attribute])
        # Who is new and does not enter the scattered set goes straight to a hotspot.
        self._put(slots, HOT)
        self._put(left, HOT)
        self._put(entered, SCATTERED)

    def remove(self, slots: Int64s) -> None:
        """Forget queries."""
        entered, left = self.tracker.remove(slots)
        self._put(left, HOT)
        self._put(entered, SCATTERED)
        self._put(slots, NOWHERE)

    def settle(self) -> None:
        """Tell the parts who stands somewhere else now."""
        if not self._touched:
            return
        slots = np.unique(np.concatenate(self._touched))
        self._touched.clear()
        before, now = self._known[slots], self._state[slots]
        for part, state in ((self.hot, HOT), (self.scattered, SCATTERED)):
            part.remove(slots[(before == state) & (now != state)])
            entering = slots[(before != state) & (now == state)]
            part.add(entering, *bounds_of(self._boxes, entering))
        self._known[slots] = now

    def check(self) -> None:
        """Assert that hot and scattered queries are where the tracker says."""
        self.tracker.check()
        scattered = np.flatnonzero(self._state == SCATTERED)
        assert np.array_equal(scattered, self.tracker.scattered_slots()), "the scattered differ"
        n_hot = self.tracker.n_intervals - self.tracker.n_scattered
        assert np.count_nonzero(self._state == HOT) == n_hot, "the hot differ"
        for part, state in ((self.hot, HOT), (self.scattered, SCATTERED)):
            assert len(part) == np.count_nonzero(self._known == state), "a part is miscounted"
            part.check()
        touched = np.concatenate([NOBODY, *self._touched])
        changed = np.flatnonzero(self._state != self._known)
        assert np.isin(changed, touched).all(), "a change was forgotten"

    def memory_bytes(self) -> int:
        """Bytes of all arrays held."""
        own = self._state.nbytes + self._known.nbytes + sum(part.nbytes for part in self._touched)
        parts = (self.tracker, self.hot, self.scattered)
        return own + sum(part.memory_bytes() for part in parts)

    def _put(self, slots: Int64s, state: int) -> None:
        self._state[slots] = state
        self._touched.append(slots)


def bounds_of(boxes: BoxTable, slots: Int64s) -> tuple[Int64s, Int64s]:
    """The lows and the highs of slots, an attribute to each row."""
    bounds = boxes.bounds[slots]
    return bounds[:, 0::2].T, bounds[:, 1::2].T
