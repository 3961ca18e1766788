"""NumPy: binary searches of all bands, moved by the event, in the sorted rows.

`TwoSearches` is what one writes first, and the yardstick of the band join's bars. `OneSearch` is
the best we found: bands sorted by their low end beforehand, which is kind to the cache, and one
search, because a band is affected when the first row at or above its low end is not beyond it.
"""

from __future__ import annotations

import numpy as np

from benchmarks.peers import Int64s

BEYOND = np.iinfo(np.int64).max


class TwoSearches:
    """Two searches per band; they also give the slice of rows that join."""

    def __init__(self, lows: Int64s, highs: Int64s, stored: Int64s) -> None:
        self.lows, self.highs, self.stored = lows, highs, np.sort(stored)

    def affected(self, events: Int64s) -> list[Int64s]:
        found = []
        for event in events:
            start = np.searchsorted(self.stored, self.lows + event, "left")
            stop = np.searchsorted(self.stored, self.highs + event, "right")
            found.append(np.flatnonzero(stop > start))
        return found

    def ids(self, output: list[Int64s], event: int) -> Int64s:
        return output[event]


class OneSearch:
    """One search per band, in the order of the low ends."""

    def __init__(self, lows: Int64s, highs: Int64s, stored: Int64s) -> None:
        self.order = np.argsort(lows)
        self.lows, self.highs = lows[self.order], highs[self.order]
        self.stored = np.append(np.sort(stored), BEYOND)

    def affected(self, events: Int64s) -> list[Int64s]:
        found = []
        for event in events:
            start = np.searchsorted(self.stored, self.lows + event, "left")
            found.append(self.order[self.stored[start] <= self.highs + event])
        return found

    def ids(self, output: list[Int64s], event: int) -> Int64s:
        return output[event]
