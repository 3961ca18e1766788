"""superintervals: a static index of intervals in C++ with a batch search that returns lists.

Its coordinates are 32-bit integers, both ends included; it takes no removal, and an addition means
building again. One search returns places in its own order, which `ids` translates back, the other
the objects that were stored.
"""

from __future__ import annotations

import numpy as np
from superintervals import IntervalMap

from benchmarks.peers import Int64s


class SuperintervalsBatch:
    """All intervals that hold each value."""

    def __init__(self, lows: Int64s, highs: Int64s) -> None:
        # The map orders by start, then by end descending; given in that order, places are ours.
        self.order = np.lexsort((-highs, lows))
        self.map = IntervalMap.from_arrays(
            lows[self.order].astype(np.int32), highs[self.order].astype(np.int32)
        )

    def affected(self, values: Int64s) -> list[list[int]]:
        probes = values.astype(np.int32)
        found: list[list[int]] = self.map.search_idxs_batch(probes, probes)
        return found

    def ids(self, output: list[list[int]], event: int) -> Int64s:
        return np.sort(self.order[np.asarray(output[event], np.int64)])


class SuperintervalsValues(SuperintervalsBatch):
    """The same by its other search, which returns the objects stored with the intervals."""

    def __init__(self, lows: Int64s, highs: Int64s) -> None:
        self.map = IntervalMap.from_arrays(
            lows.astype(np.int32), highs.astype(np.int32), list(range(lows.size))
        )

    def affected(self, values: Int64s) -> list[list[int]]:
        probes = values.astype(np.int32)
        found: list[list[int]] = self.map.search_values_batch(probes, probes)
        return found

    def ids(self, output: list[list[int]], event: int) -> Int64s:
        return np.sort(np.asarray(output[event], np.int64))
