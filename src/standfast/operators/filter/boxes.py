"""Filters on any number of attributes: the ranges of a query are one box in a box tree."""

from __future__ import annotations

from standfast.arrays import Hits, Int64s
from standfast.indexes.box_index import BoxIndex
from standfast.model.query import Filter
from standfast.operators.base import FilterStrategy, Spec


class Boxes(FilterStrategy):
    """Keep each query as a box, split by whatever attribute parts the boxes best."""

    spec = Spec(
        question=Filter,
        paper="bounding interval hierarchy with greedy splits",
        time="O(log^2 n + k) an event when boxes are small or nested, see decision 006",
        space="O(n)",
    )

    def __init__(self, n_attributes: int) -> None:
        super().__init__(n_attributes)
        self._boxes = BoxIndex()

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        self._boxes.add(slots, lows, highs)

    def remove(self, slots: Int64s) -> None:
        self._boxes.remove(slots)

    def process(self, values: Int64s) -> Hits:
        return self._boxes.stab(values)

    def check(self) -> None:
        self._boxes.check()

    def memory_bytes(self) -> int:
        return self._boxes.memory_bytes()

    def describe(self) -> dict[str, object]:
        return {"box trees": self._boxes.n_trees()}
