"""The specification of band joins: every event against every stored row against every band."""

from __future__ import annotations

import numpy as np

from standfast.arrays import Hits, Int64s, Matches
from standfast.indexes.keys import differences
from standfast.indexes.sorted_runs import SortedRuns
from standfast.model.query import BandJoin
from standfast.operators.base import BandStrategy, Spec


class Naive(BandStrategy):
    """Test every pair of event and stored row against every band."""

    spec = Spec(question=BandJoin, paper="the definition", time="O(n m) an event", space="O(n)")

    def __init__(self, *, is_float: bool) -> None:
        super().__init__(is_float=is_float)
        self.bands: dict[int, tuple[int, int]] = {}

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        for slot, low, high in zip(
            slots.tolist(), lows[0].tolist(), highs[0].tolist(), strict=True
        ):
            self.bands[slot] = (low, high)

    def remove(self, slots: Int64s) -> None:
        for slot in slots.tolist():
            del self.bands[slot]

    def process(self, values: Int64s, stored: SortedRuns, *, minuend: bool) -> Hits:
        rows, hit, offsets = stored.keys(), list[int](), [0]
        found = np.empty(rows.size, np.int64)
        for value in values:
            differences(rows, np.full(rows.size, value), self.is_float, found)
            gaps = -found if minuend else found
            hit += [s for s, (low, high) in self.bands.items() if _any_within(gaps, low, high)]
            offsets.append(len(hit))
        return Matches(np.array(offsets, np.int64), np.array(hit, np.int32))

    def check(self) -> None:
        assert all(low <= high for low, high in self.bands.values()), "an empty band was added"

    def memory_bytes(self) -> int:
        return 200 * len(self.bands)


def _any_within(gaps: Int64s, low: int, high: int) -> bool:
    return bool(np.any((gaps >= low) & (gaps <= high)))
