"""Filters on one attribute: the ranges in interval trees, stabbed by a sorted batch."""

from __future__ import annotations

from standfast.arrays import Hits, Int64s
from standfast.indexes.interval_index import IntervalIndex
from standfast.model.query import Filter
from standfast.operators.base import FilterStrategy, Spec


class IntervalTree(FilterStrategy):
    """Keep the ranges of the only attribute in an interval index."""

    spec = Spec(
        question=Filter,
        paper="base case; interval tree",
        time="O(log^2 n) an event as spans, O(log^2 n + k) as ids",
        space="O(n)",
        max_attributes=1,
    )

    def __init__(self, n_attributes: int) -> None:
        super().__init__(n_attributes)
        self._ranges = IntervalIndex()

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        self._ranges.add(slots, lows[0], highs[0])

    def remove(self, slots: Int64s) -> None:
        self._ranges.remove(slots)

    def process(self, values: Int64s) -> Hits:
        return self._ranges.stab(values[0])

    def check(self) -> None:
        self._ranges.check()

    def memory_bytes(self) -> int:
        return self._ranges.memory_bytes()

    def describe(self) -> dict[str, object]:
        return {"interval trees": self._ranges.n_trees()}
