"""Box index: which closed boxes hold a point, for batches of points, while the boxes change.

    values, in chunks  ->  box trees       single slots -> Matches, whole nodes -> Spans

Invariant  that of the forest and of each tree.
Cost       a batch is probed in chunks that stay in the cache, through each of O(log n) trees;
           add and remove O(log n) rebuilds amortised, worked in when the next batch is probed.
Source     box trees under the logarithmic method (decision 006).
"""

from __future__ import annotations

import numpy as np

from standfast._numba import kernel
from standfast.arrays import Hits, Int32s, Int64s, Matches, Together
from standfast.indexes.box_tree import LONG, BoxTree, Pairs
from standfast.indexes.forest import Forest

LEAF = 16
RATIO = 2.0
SMALL = 256
CHUNK = 4096


class BoxIndex:
    """Closed int64 boxes by slot; tests make the capacities tiny to force every merge."""

    def __init__(
        self,
        *,
        leaf: int = LEAF,
        long: int = LONG,
        ratio: float = RATIO,
        small: int = SMALL,
        chunk: int = CHUNK,
    ) -> None:
        def build(slots: Int64s, lows: Int64s, highs: Int64s) -> BoxTree:
            return BoxTree(slots, lows, highs, leaf=leaf, long=long)

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

    def stab(self, values: Int64s) -> Hits:
        """For each point `values[:, e]` the slots of the boxes that hold it."""
        trees, n_events = self._forest.settled(), values.shape[1]
        if not trees or not n_events:
            return Matches.none(n_events)
        begins = range(0, n_events, self._chunk)
        chunks = [np.ascontiguousarray(values[:, b : b + self._chunk]) for b in begins]
        found = [[tree.probe(chunk) for tree in trees] for chunk in chunks]
        parts: list[Hits] = [_matches(chunks, found)]
        for i, tree in enumerate(trees):
            events = np.concatenate(
                [b + pairs[i].long_events for b, pairs in zip(begins, found, strict=True)]
            )
            if events.size:
                nodes = np.concatenate([pairs[i].long_nodes for pairs in found])
                starts, stops = tree.nodes.places[nodes].T
                parts.append(tree.order.slices(events, starts, stops, n_events))
        return parts[0] if len(parts) == 1 else Together(tuple(parts))

    def n_trees(self) -> int:
        """How many trees a probe visits."""
        return len(self._forest.settled())

    def check(self) -> None:
        """Assert the invariants."""
        self._forest.check()

    def memory_bytes(self) -> int:
        """Bytes of all arrays held."""
        return self._forest.memory_bytes()


def _matches(chunks: list[Int64s], found: list[list[Pairs]]) -> Matches:
    """The single slots of all chunks and trees, event by event."""
    counts, slots = [np.zeros(1, np.int64)], []
    for chunk, pairs in zip(chunks, found, strict=True):
        events = np.concatenate([part.events for part in pairs])
        counts.append(np.bincount(events, minlength=chunk.shape[1]))
        slots.append(_by_event(events, np.concatenate([part.slots for part in pairs]), counts[-1]))
    return Matches(np.cumsum(np.concatenate(counts)), np.concatenate(slots))


@kernel
def _by_event(events: Int32s, slots: Int32s, counts: Int64s) -> Int32s:
    """The slots of event 0, then those of event 1, and so on."""
    following = np.cumsum(counts) - counts
    ordered = np.empty(slots.size, np.int32)
    for i in range(slots.size):
        ordered[following[events[i]]] = slots[i]
        following[events[i]] += 1
    return ordered
