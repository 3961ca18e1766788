"""Sorted base intervals: quantiles and distinct values of any window.

    level 2   | 1  3  4  5 | 2  6  8  9 |      every interval holds its rows in order of value
    level 1   | 3  4 | 1  5 | 8  9 | 2  6 |
    level 0   | 4 | 3 | 5 | 1 | 9 | 8 | 6 | 2 |

A quantile is found in the few intervals that make up the window: the middle of the longest list
is counted in all of them by binary search, and each list keeps the part that may hold the answer.
Distinct values are rows whose value did not come before in the window: the lists are of the
position where a row's value came last, and those before the window's first are counted.

Invariant  the list of every finished interval is the merge of its two halves.
Cost       update O(log N_max) amortised, and as much for each row after one that comes late;
           quantile O(log^3 W) expected, distinct O(log^2 W); 8 bytes a row and level, so
           O(N_max log N_max).
Paper      [shared-windows] section 3.3; distinct values are ours.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from standfast._numba import kernel
from standfast.arrays import Int64s
from standfast.indexes.lane_changes import Change
from standfast.indexes.lane_kernels import Bools, Geometry
from standfast.indexes.lanes import Lanes
from standfast.model.numbers import FAR, float_keys, floats_of
from standfast.model.query import WindowAggregate
from standfast.operators.aggregates import Aggregate, aggregate_of
from standfast.operators.base import AggregateStrategy, Found, Spec
from standfast.operators.interval_kernels import next_piece
from standfast.operators.window_aggregate.checking import check_same
from standfast.operators.window_aggregate.running_intervals import RunningIntervals

MOST_PIECES = 128  # a window is made up of fewer base intervals


class BaseIntervalQuantiles(AggregateStrategy):
    """Keep the rows of every base interval sorted."""

    spec = Spec(
        question=WindowAggregate, paper="B-INT-QNT [shared-windows] 3.3",
        time="O(log N_max) update, O(log^3 W) lookup", space="O(N_max log N_max)",
        needs="holistic",
    )  # fmt: skip

    def __init__(self, aggregate: Aggregate, lanes: Lanes) -> None:
        super().__init__(aggregate, lanes)
        self._lists = np.empty((0, 0), np.int64)
        self._counts = RunningIntervals(aggregate_of("COUNT", is_float=False), lanes)
        self._last_seen: list[dict[float, int]] = []  # by lane: value to its last position
        self._tails: list[int] = []  # up to where that is known
        self._generation = lanes.generation

    def take_in(self, change: Change) -> None:
        self._counts.take_in(change)
        if self._generation != self.lanes.generation:
            self._generation = self.lanes.generation
            self._last_seen, self._tails = [], []
            change = self.lanes.all_changed()
        g, change = self.lanes.geometry, self.lanes.held(change)
        self._resize(int(g.masks.max(initial=0)) + 1)
        for lane, first in zip(change.lanes.tolist(), change.firsts.tolist(), strict=True):
            places = g.starts[lane] + (np.arange(first, g.tails[lane]) & g.masks[lane])
            self._lists[0, places] = self._keys(lane, first, places)
        merge_levels(g, self._lists, change.lanes, change.firsts)

    def _resize(self, capacity: int) -> None:
        n_levels, size = max(capacity.bit_length() - 1, 1), self.lanes.size
        have = self._lists.shape
        if n_levels > have[0] or size > have[1]:
            wide = np.zeros((max(n_levels, have[0]), max(size, have[1] * 3 // 2)), np.int64)
            wide[: have[0], : have[1]] = self._lists
            self._lists = wide

    def _keys(self, lane: int, first: int, places: Int64s) -> Int64s:
        """What the lists are sorted by; rows without a value come after all others."""
        values, valid = self.lanes.values[places], self.lanes.valid[places]
        if not self.aggregate.takes_share:
            values = self._came_before(lane, first, values.tolist(), valid.tolist())
        elif self.aggregate.is_float:
            values = float_keys(values)
        keys: Int64s = np.where(valid, values, FAR)
        return keys

    def _came_before(self, lane: int, first: int, values: list[float], valid: list[bool]) -> Int64s:
        """The position where the value of each row came last before it, or -1."""
        while len(self._last_seen) <= lane:
            self._last_seen.append({})
            self._tails.append(0)
        g, seen = self.lanes.geometry, self._last_seen[lane]
        head, tail = int(g.heads[lane]), int(g.tails[lane])
        if first == head:  # nothing stands before; a lane that moved counts positions anew
            seen = {}
        elif len(seen) > 2 * (tail - head) + 64:
            seen = self._seen_before(lane, first)
        else:
            self._take_back(lane, first, values)
        self._last_seen[lane] = seen
        before = np.empty(len(values), np.int64)
        for i, (value, ok) in enumerate(zip(values, valid, strict=True)):
            before[i] = seen.get(value, -1)
            if ok:
                seen[value] = first + i
        self._tails[lane] = tail
        return before

    def _seen_before(self, lane: int, first: int) -> dict[float, int]:
        """The last position of each value before `first`, from the rows."""
        g, head = self.lanes.geometry, int(self.lanes.geometry.heads[lane])
        places = g.starts[lane] + (np.arange(head, first) & g.masks[lane])
        held = zip(self.lanes.values[places].tolist(), range(head, first), strict=True)
        kept = self.lanes.valid[places].tolist()
        return {v: p for (v, p), ok in zip(held, kept, strict=True) if ok}

    def _take_back(self, lane: int, first: int, values: list[float]) -> None:
        """Set the last positions of values back to before `first`; late rows came there.

        The rows that stood from there on are among `values`, and the lists still say of each
        where its value came before.
        """
        g, seen, tail = self.lanes.geometry, self._last_seen[lane], self._tails[lane]
        assert first <= tail, "rows were left out"
        if first == tail:
            return
        places = g.starts[lane] + (np.arange(first, tail) & g.masks[lane])
        before = self._lists[0, places].tolist()
        for value in values:
            last = seen.get(value, -1)
            while last >= first:
                last = before[last - first]
            if last >= 0:
                seen[value] = last
            else:
                seen.pop(value, None)

    def read(self, slots: Int64s, lanes: Int64s, firsts: Int64s, lasts: Int64s) -> Found:
        g, found = self.lanes.geometry, np.zeros(slots.size, np.int64)
        if not self.aggregate.takes_share:
            count_below(g, self._lists, lanes, firsts, lasts, found)
            return Found(found, np.ones(slots.size, np.bool_))
        n = self._counts.read(slots, lanes, firsts, lasts).values
        ranks = ranks_of(floats_of(self.lows[1, slots]), n)
        select(g, self._lists, lanes, firsts, lasts, ranks - 1, n > 0, found)
        return Found(floats_of(found) if self.aggregate.is_float else found, n > 0)

    def check(self) -> None:
        fresh = BaseIntervalQuantiles(self.aggregate, self.lanes)
        fresh.lows, fresh.highs = self.lows, self.highs
        fresh.take_in(self.lanes.all_changed())
        if self.living.any():
            check_same(self, fresh)

    def memory_bytes(self) -> int:
        return int(self._lists.nbytes) + self._counts.memory_bytes()


def ranks_of(shares: npt.NDArray[np.float64], n: Int64s) -> Int64s:
    """The least rank r, from 1 on, with r / n at or above the share, in float64.

    The product of share and n may be rounded across a whole number, so it is a guess that is one
    off at most: 0.07 of 100 comes to more than 7.
    """
    n = np.maximum(n, 1)
    ranks = np.clip(np.ceil(shares * n), 1, n).astype(np.int64)
    ranks -= (ranks - 1) / n >= shares
    ranks += ranks / n < shares
    return ranks


@kernel
def merge_levels(g: Geometry, lists: Int64s, lanes: Int64s, firsts: Int64s) -> None:
    """Merge the halves of the intervals that rows from `firsts` on finished."""
    for i in range(lanes.size):
        lane = lanes[i]
        start, mask, tail = g.starts[lane], g.masks[lane], g.tails[lane]
        level = 1
        while (1 << level) <= (mask + 1) >> 1:
            half = 1 << (level - 1)
            for j in range(firsts[i] >> level, tail >> level):
                at = start + ((j << level) & mask)
                left, right = at, at + half
                for k in range(at, at + 2 * half):
                    takes_left = right == at + 2 * half or (
                        left < at + half and lists[level - 1, left] <= lists[level - 1, right]
                    )
                    if takes_left:
                        lists[level, k] = lists[level - 1, left]
                        left += 1
                    else:
                        lists[level, k] = lists[level - 1, right]
                        right += 1
            level += 1


@kernel
def lower_bound(row: Int64s, low: int, high: int, key: int) -> int:
    """The first place from `low` on whose entry is not below the key."""
    while low < high:
        middle = (low + high) >> 1
        if row[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def count_below(
    g: Geometry, lists: Int64s, lanes: Int64s, firsts: Int64s, lasts: Int64s, found: Int64s
) -> None:
    """How many rows of each window have a key below its first position."""
    for i in range(lanes.size):
        start, mask, p = g.starts[lanes[i]], g.masks[lanes[i]], firsts[i]
        level, up = 0, True
        while p <= lasts[i]:
            level, up = next_piece(p, level, up, lasts[i] + 1, (mask + 1) >> 1)
            at = start + (p & mask)
            found[i] += lower_bound(lists[level], at, at + (1 << level), firsts[i]) - at
            p += 1 << level


@kernel
def select(
    g: Geometry, lists: Int64s, lanes: Int64s, firsts: Int64s, lasts: Int64s, ranks: Int64s,
    wanted: Bools, found: Int64s,
) -> None:  # fmt: skip
    """The key of this rank, from 0 on, among the rows of each window."""
    levels, lows, highs, cuts = np.empty((4, MOST_PIECES), np.int64)
    for i in range(lanes.size):
        if not wanted[i]:
            continue
        start, mask, p = g.starts[lanes[i]], g.masks[lanes[i]], firsts[i]
        n_pieces, level, up = 0, 0, True
        while p <= lasts[i]:
            level, up = next_piece(p, level, up, lasts[i] + 1, (mask + 1) >> 1)
            levels[n_pieces] = level
            lows[n_pieces] = start + (p & mask)
            highs[n_pieces] = lows[n_pieces] + (1 << level)
            p += 1 << level
            n_pieces += 1
        rank = ranks[i]
        while True:
            longest = 0
            for k in range(1, n_pieces):
                if highs[k] - lows[k] > highs[longest] - lows[longest]:
                    longest = k
            pivot = lists[levels[longest], (lows[longest] + highs[longest]) >> 1]
            below = 0
            for k in range(n_pieces):
                cuts[k] = lower_bound(lists[levels[k]], lows[k], highs[k], pivot)
                below += cuts[k] - lows[k]
            if rank < below:
                for k in range(n_pieces):
                    highs[k] = cuts[k]
                continue
            for k in range(n_pieces):
                last = lower_bound(lists[levels[k]], cuts[k], highs[k], pivot + 1)
                if pivot == FAR:
                    last = highs[k]
                below += last - cuts[k]
                cuts[k] = last
            if rank < below:
                found[i] = pivot
                break
            # Everything up to the pivot is below the rank: it is counted once and left behind.
            for k in range(n_pieces):
                rank -= cuts[k] - lows[k]
                lows[k] = cuts[k]
