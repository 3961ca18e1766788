"""Filters the plain way: every query is compared with every event. The specification."""

from __future__ import annotations

import numpy as np

from standfast.arrays import Int64s, Matches
from standfast.model.query import Filter
from standfast.operators.base import FilterStrategy, Spec


class Naive(FilterStrategy):
    """Compare every query with every event."""

    spec = Spec(question=Filter, paper="base case", time="O(n) an event", space="O(n)")

    def __init__(self, n_attributes: int) -> None:
        super().__init__(n_attributes)
        self._slots = np.empty(0, np.int64)
        self._lows = np.empty((n_attributes, 0), np.int64)
        self._highs = np.empty((n_attributes, 0), np.int64)

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        self._slots = np.concatenate([self._slots, slots])
        self._lows = np.concatenate([self._lows, lows], axis=1)
        self._highs = np.concatenate([self._highs, highs], axis=1)

    def remove(self, slots: Int64s) -> None:
        kept = ~np.isin(self._slots, slots)
        self._slots = self._slots[kept]
        self._lows, self._highs = self._lows[:, kept], self._highs[:, kept]

    def process(self, values: Int64s) -> Matches:
        offsets, hit = np.zeros(values.shape[1] + 1, np.int64), [np.empty(0, np.int32)]
        for e in range(values.shape[1]):
            value = values[:, e, None]
            holds = ((self._lows <= value) & (value <= self._highs)).all(axis=0)
            hit.append(self._slots[holds].astype(np.int32))
            offsets[e + 1] = offsets[e] + hit[-1].size
        return Matches(offsets, np.concatenate(hit))

    def check(self) -> None:
        assert np.unique(self._slots).size == self._slots.size, "a slot lives twice"
        assert np.all(self._lows <= self._highs), "a range is empty"

    def memory_bytes(self) -> int:
        return self._slots.nbytes + self._lows.nbytes + self._highs.nbytes
