"""Interval index: which closed intervals hold a value, for batches of values, while they change.

    values, sorted once  ->  tree of 1,000,000      short slices -> Matches, in the values' order
                         ->  tree of    40,000      long slices  -> Spans, one per tree
                         ->  tree of     1,000

Invariant  that of the forest and of each tree.
Cost       a batch of b values O(b log b + b log^2 n) plus the slots in slices shorter than LONG;
           add and remove O(log^2 n) amortised, worked in when the next batch is probed.
Source     interval trees under the logarithmic method (decision 005).
"""

from __future__ import annotations

import numpy as np

from standfast._numba import kernel
from standfast.arrays import Hits, Int32s, Int64s, Matches, Together
from standfast.indexes.forest import Forest
from standfast.indexes.interval_tree import IntervalTree, Rows

BUCKET = 32
RATIO = 4.0
SMALL = 512


class IntervalIndex:
    """Closed int64 intervals by slot; tests make the capacities tiny to force every merge."""

    def __init__(self, *, bucket: int = BUCKET, ratio: float = RATIO, small: int = SMALL) -> None:
        def build(slots: Int64s, lows: Int64s, highs: Int64s) -> IntervalTree:
            return IntervalTree(slots, lows, highs, bucket=bucket)

        self._forest = Forest(build, ratio=ratio, small=small)

    @property
    def n_intervals(self) -> int:
        return self._forest.n_live

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        """Take in intervals `lows[i]` to `highs[i]`, both included, none empty."""
        self._forest.add(slots, lows, highs)

    def remove(self, slots: Int64s) -> None:
        """Forget intervals; each was added and not yet removed."""
        self._forest.remove(slots)

    def stab(self, values: Int64s) -> Hits:
        """For each value, in any order, the slots of the intervals that hold it."""
        trees = self._forest.settled()
        by_value = np.argsort(values)
        ascending = values[by_value]
        rows = [tree.probe(ascending) for tree in trees]
        parts: list[Hits] = [_matches(by_value, rows)]
        for tree, row in zip(trees, rows, strict=True):
            if row.long_rows.size:
                events = by_value[row.long_rows]
                parts.append(
                    tree.order.slices(events, row.long_starts, row.long_stops, values.size)
                )
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


def _matches(by_value: Int64s, rows: list[Rows]) -> Matches:
    """The short slices of all trees, put back into the order in which the values came."""
    offsets = np.zeros(by_value.size + 1, np.int64)
    for row in rows:
        offsets[by_value + 1] += row.counts
    np.cumsum(offsets, out=offsets)
    slots = np.empty(offsets[-1], np.int32)
    following = offsets[:-1].copy()
    for row in rows:
        _scatter(by_value, row.counts, row.slots, following, slots)
    return Matches(offsets, slots)


@kernel
def _scatter(
    by_value: Int64s, counts: Int64s, rows: Int32s, following: Int64s, slots: Int32s
) -> None:
    """Append each row, which come one after the other in `rows`, to what its value has so far."""
    begin = 0
    for k in range(by_value.size):
        at = following[by_value[k]]
        for i in range(counts[k]):
            slots[at + i] = rows[begin + i]
        begin += counts[k]
        following[by_value[k]] += counts[k]
