"""Bounds in order: who may be within its bound when all numbers lie between two.

    numbers lie in       5 ................... 12
    bounds by low    1   3     6       11 |  14   20           a bound that begins behind 12 or
    bounds by high   2   4 |   9       11        15   oo       ends before 5 holds none of them

Highs are turned over, so that of both orders a beginning is asked for.

Invariant  both orders hold the same slots.
Cost       add O(log n) amortised; a question O(log n + those that pass the end that fewer pass).
"""

from __future__ import annotations

import numpy as np

from standfast.arrays import Int64s
from standfast.indexes.sorted_runs import SortedRuns


class BoundOrder:
    """The bounds of slots, sorted by either end."""

    def __init__(self) -> None:
        self._lows, self._highs = SortedRuns(), SortedRuns()

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        """Closed ranges that hold something; slots ascend."""
        self._lows.insert(lows, slots)
        self._highs.insert(~highs, slots)

    def reached(self, leasts: Int64s, mosts: Int64s) -> tuple[Int64s, Int64s]:
        """Slots whose bound may hold a number of `leasts[i] .. mosts[i]`, and i with each.

        Only one end of the bound is looked at, whichever rules out more.
        """
        by_low = [np.searchsorted(run.keys, mosts, side="right") for run in self._lows.runs]
        by_high = [np.searchsorted(run.keys, ~leasts, side="right") for run in self._highs.runs]
        n_low, n_high = (sum(int(c.sum()) for c in counts) for counts in (by_low, by_high))
        runs, counts = (self._lows.runs, by_low) if n_low <= n_high else (self._highs.runs, by_high)
        slots, which = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for run, n in zip(runs, counts, strict=True):
            places = np.arange(int(n.sum())) - np.repeat(np.cumsum(n) - n, n)
            slots.append(run.ids[places])
            which.append(np.repeat(np.arange(n.size), n))
        return np.concatenate(slots), np.concatenate(which)

    def memory_bytes(self) -> int:
        return self._lows.memory_bytes() + self._highs.memory_bytes()

    def check(self) -> None:
        self._lows.check()
        self._highs.check()
        ids = (np.sort(np.concatenate([run.ids for run in of.runs])) for of in self._orders())
        assert len({each.tobytes() for each in ids}) <= 1, "a bound is in one order only"

    def _orders(self) -> list[SortedRuns]:
        return [of for of in (self._lows, self._highs) if of.runs]
