"""Edges of windows in time, in order: which windows a row crossed since somebody looked.

    ages       0 ......3....5.........9..........14.....>      edge L: from here on a row is in the
    edges              L1   L2        H1         H2            window, edge H: it is out of it again
    a row        a ----------> b                               was a old, is b: it came into 1 and 2

Time goes on for all rows alike, so a row of time t crosses the edges in (then - t, now - t]. Those
stretches of the rows of a lane ascend with age and are put together where they meet; each is a
slice of the edges in order. A row that is new was of no age, and crosses all edges up to where it
is. Rows that went from the head of a lane left windows that reach further back than its oldest row.

Invariant  both edges of a slot are in one run, each under twice the slot and 0 or 1.
Cost       add O(log n) amortised; a look O(rows + stretches log n + windows that were crossed).
"""

from __future__ import annotations

import numpy as np

from standfast._numba import kernel
from standfast.arrays import Int64s, with_room
from standfast.indexes.lane_kernels import FARTHEST, Bools, Geometry
from standfast.indexes.lanes import Lanes
from standfast.indexes.sorted_runs import SortedRuns


class EdgeCrossings:
    """The two edges of each slot's window, sorted by age."""

    def __init__(self) -> None:
        self._edges = SortedRuns()
        self._seen = np.zeros(0, np.int64)  # by slot: the turn in which it was last found
        self._turn = 0

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        """Windows by the closed ranges of age of their rows; slots ascend."""
        ends = np.stack([np.minimum(lows, FARTHEST), np.minimum(highs, FARTHEST) + 1], axis=1)
        holds = lows <= highs
        ids = 2 * slots[:, None] + np.arange(2)
        self._edges.insert(ends[holds].ravel(), ids[holds].ravel())
        old, size = self._seen.size, int(slots.max(initial=-1)) + 1
        self._seen = with_room(self._seen, size)
        self._seen[old:] = 0

    def crossed(
        self, lanes: Lanes, which: Int64s, then: int, since: Int64s, shrank: Bools
    ) -> tuple[Int64s, Int64s]:
        """Slots and lanes of windows in lanes `which` that may hold other rows than at `then`.

        Rows of a lane from position `since[lane]` on may be new; `shrank[lane]` tells whether rows
        went from its head. A window is named once in each lane.
        """
        g = lanes.geometry
        room = int((g.tails[which] - g.heads[which] + 1).sum())
        owners, lows, highs = np.empty((3, room), np.int64)
        n = _stretches(
            g, lanes.times, which, lanes.now, then, since, shrank, owners, lows, highs
        )  # fmt: skip
        owners, lows, highs = owners[:n], lows[:n], highs[:n]
        slots, found = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for run in self._edges.runs:
            firsts = np.searchsorted(run.keys, lows, side="right")
            stops = np.searchsorted(run.keys, highs, side="right")
            out = np.empty((2, int((stops - firsts).sum())), np.int64)
            n = _slots(run.ids, owners, firsts, stops, self._seen, self._turn, out)
            self._turn += which.size
            slots.append(out[0, :n])
            found.append(which[out[1, :n]])
        return np.concatenate(slots), np.concatenate(found)

    def memory_bytes(self) -> int:
        return self._edges.memory_bytes() + self._seen.nbytes

    def check(self) -> None:
        self._edges.check()
        for run in self._edges.runs:
            slots, n_edges = np.unique(run.ids >> 1, return_counts=True)
            assert np.all(n_edges == 2), "an edge stands in another run than its like"
            assert np.all(slots < self._seen.size), "a slot has no turn"


@kernel
def _stretches(
    g: Geometry, times: Int64s, which: Int64s, now: int, then: int, since: Int64s, shrank: Bools,
    owners: Int64s, lows: Int64s, highs: Int64s,
) -> int:  # fmt: skip
    """The ages in (low, high] that rows of a lane went through, put together; how many."""
    n = 0
    for i in range(which.size):
        lane, first = which[i], n
        start, mask, head, tail = g.starts[lane], g.masks[lane], g.heads[lane], g.tails[lane]
        for p in range(tail - 1, head - 2, -1):
            # From the latest row back both ends ascend; rows that went come last.
            low, high = -1, FARTHEST + 1
            if p >= head:
                time = times[start + (p & mask)]
                high = now - time
                if p < since[lane]:
                    low = max(then - time, -1)
            elif not shrank[lane]:
                continue
            elif head < tail:
                low = max(then - times[start + (head & mask)], -1)
            if n > first and low <= highs[n - 1]:
                highs[n - 1] = high
            elif low < high:
                owners[n], lows[n], highs[n] = i, low, high
                n += 1
    return n


@kernel
def _slots(
    ids: Int64s, owners: Int64s, firsts: Int64s, stops: Int64s, seen: Int64s, turn: int, out: Int64s
) -> int:
    """The slots in slices of the edges, each once for every owner, with the owner; how many."""
    n = 0
    for i in range(owners.size):
        stamp = turn + owners[i] + 1
        for e in range(firsts[i], stops[i]):
            slot = ids[e] >> 1
            if seen[slot] != stamp:
                seen[slot] = stamp
                out[0, n], out[1, n] = slot, owners[i]
                n += 1
    return n
