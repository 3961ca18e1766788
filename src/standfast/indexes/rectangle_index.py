"""Rectangle index: rectangle trees that together change, for one of the two sides of a join.

Changes wait until an event asks, so the side of a join that never has events costs no building;
but when more changes wait than there are rectangles, they are worked in.

Invariant  that of the forest and of each tree; less than 2 n + SMALL changes wait.
Cost       add and remove O(log n) rebuilds amortised, worked in when somebody asks.
Source     rectangle trees under the logarithmic method (decision 008).
"""

from __future__ import annotations

import numpy as np

from standfast.arrays import Int64s
from standfast.indexes.forest import Forest
from standfast.indexes.rectangle_tree import BLOCK, FANOUT_BITS, LONG, RectangleTree

RATIO = 2.0
SMALL = 512


class RectangleIndex:
    """Rectangles by slot; tests make the capacities tiny to force every merge."""

    def __init__(
        self,
        *,
        block: int = BLOCK,
        fanout_bits: int = FANOUT_BITS,
        long: int = LONG,
        ratio: float = RATIO,
        small: int = SMALL,
    ) -> None:
        def build(slots: Int64s, lows: Int64s, highs: Int64s) -> RectangleTree:
            return RectangleTree(
                slots, lows, highs, block=block, fanout_bits=fanout_bits, long=long
            )

        self._forest = Forest(build, ratio=ratio, small=small)
        self._small = small
        self._n_waiting = 0

    def __len__(self) -> int:
        return self._forest.n_live

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        """Take in rectangles: attribute 0 is the own range, attribute 1 the other, none empty."""
        self._forest.add(slots, lows, highs)
        self._wait(slots.size)

    def remove(self, slots: Int64s) -> None:
        """Forget rectangles; each was added and not yet removed."""
        self._forest.remove(slots)
        self._wait(slots.size)

    def trees(self) -> list[RectangleTree]:
        """The trees, with everything that waited worked in."""
        self._n_waiting = 0
        return self._forest.settled()

    def group_sizes(self) -> Int64s:
        """The size of every stabbing group of every tree, those who left and still lie included."""
        return np.concatenate([np.empty(0, np.int64), *(t.group_sizes() for t in self.trees())])

    def check(self) -> None:
        """Assert the invariants."""
        assert self._n_waiting <= 2 * len(self) + self._small, "too many changes wait"
        self._forest.check()

    def memory_bytes(self) -> int:
        """Bytes of all arrays held."""
        return self._forest.memory_bytes()

    def _wait(self, n_changes: int) -> None:
        self._n_waiting += n_changes
        if self._n_waiting > 2 * len(self) + self._small:
            self.trees()
