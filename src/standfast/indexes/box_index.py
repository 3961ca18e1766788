"""Box index: which closed boxes hold a point, for batches of points, while the boxes change.

Invariant  that of the forest and of each tree.
Cost       a batch is probed in chunks that stay in the cache, through each of O(log n) trees;
           add and remove O(log n) rebuilds amortised, worked in when the next batch is probed.
Source     box trees under the logarithmic method (decision 006).
"""

from __future__ import annotations

import numpy as np

from standfast._numba import kernel
from standfast.arrays import Int32s, Int64s, Matches
from standfast.indexes.box_tree import BoxTree
from standfast.indexes.forest import Forest

LEAF = 16
RATIO = 2.0
SMALL = 256
CHUNK = 4096


class BoxIndex:
    """Closed int64 boxes by slot; tests make the capacities tiny to force every merge."""

    def __init__(
        self, *, leaf: int = LEAF, ratio: float = RATIO, small: int = SMALL, chunk: int = CHUNK
    ) -> None:
        def build(slots: Int64s, lows: Int64s, highs: Int64s) -> BoxTree:
            return BoxTree(slots, lows, highs, leaf=leaf)

        self._chunk = chunk
        self._forest = Forest(build, ratio=ratio, small=small)

    @property
    def n_boxes(self) -> int:
        return self._forest.n_live

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        """Take in boxes: `lows[a, i]` to `highs[a, i]` on attribute a, both included, not empty."""
        self._forest.add(slots, lows, highs)

    def remove(self, slots: Int64s) -> None:
        """Forget boxes; each was added and not yet removed."""
        self._forest.remove(slots)

    def stab(self, values: Int64s) -> Matches:
        """For each point `values[:, e]` the slots of the boxes that hold it."""
        trees, n_events = self._forest.settled(), values.shape[1]
        if not trees or not n_events:
            return Matches.none(n_events)
        counts, slots = [], []
        for begin in range(0, n_events, self._chunk):
            chunk = np.ascontiguousarray(values[:, begin : begin + self._chunk])
            pairs = [tree.probe(chunk) for tree in trees]
            events = np.concatenate([part[0] for part in pairs])
            counts.append(np.bincount(events, minlength=chunk.shape[1]))
            slots.append(_by_event(events, np.concatenate([part[1] for part in pairs]), counts[-1]))
        offsets = np.zeros(n_events + 1, np.int64)
        np.cumsum(np.concatenate(counts), out=offsets[1:])
        return Matches(offsets, np.concatenate(slots))

    def n_trees(self) -> int:
        """How many trees a probe visits."""
        return len(self._forest.settled())

    def check(self) -> None:
        """Assert the invariants."""
        self._forest.check()

    def memory_bytes(self) -> int:
        """Bytes of all arrays held."""
        return self._forest.memory_bytes()


@kernel
def _by_event(events: Int32s, slots: Int32s, counts: Int64s) -> Int32s:
    """The slots of event 0, then those of event 1, and so on."""
    following = np.cumsum(counts) - counts
    ordered = np.empty(slots.size, np.int32)
    for i in range(slots.size):
        ordered[following[events[i]]] = slots[i]
        following[events[i]] += 1
    return ordered
