"""Stabbing partition: few groups of intervals, each group with a point that all of it holds.

    [----------]                        [---]
        [----------]                 [---------]
       [-----]            [---]          [--------]
           ^                ^             ^              windows: #### below, pairwise disjoint,
        [##]              [###]          [##]            sorted, found by binary search

Each group has a *window*: a part of its common intersection. An interval that arrives joins a
group whose window it meets, which cuts the window down to what they share; one that meets no
window lies in a gap between two of them and opens a group there. Either way the windows stay
disjoint and sorted. A departure leaves the window alone: the common intersection only grows.

A rebuild (the greedy scan) also elects in each group a *witness*: an interval that ends before
the witness of the next group begins. The one with the smallest high always qualifies, because the
next group begins right of it. Witnesses are pairwise disjoint, no point stabs two of them, and as
long as w of them live no partition has fewer than w groups. The partition is rebuilt when it has
more than (1 + epsilon) w groups. Arrivals and the departure of others leave w alone, so only lost
witnesses count. The paper counts every departure of an interval that was there at the last
rebuild: m >= tau0 - w of them, so our trigger fires only when the paper's has fired as well, and
far less often (decision 004). Which of those that qualify becomes the witness is decided by a
hash, so that departures by low, by high or by age do not find the witnesses first.

Invariant  every live slot is in one group; each window is nonempty and inside all intervals of
           its group; windows are sorted and disjoint; n_groups <= (1 + epsilon) tau.
Cost       an arrival O(log tau), a departure O(1), and one pass over the windows per call that
           opens groups; a rebuild O(n log n) after at least epsilon tau0 / (1 + epsilon) updates.
Paper      [hotspot] Lemma 1 and appendix A.1 with both improvements; arrays instead of trees.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from standfast._numba import kernel
from standfast.arrays import Int32s, Int64s
from standfast.group_spans import Groups
from standfast.indexes.split_join_tree import priorities
from standfast.indexes.stabbing_groups import (
    Flags,
    GroupOrders,
    Intervals,
    check_groups,
    n_bytes,
    stretched,
)


class Windows(NamedTuple):
    """Disjoint parts of the groups' common intersections, ascending; `groups` owns them."""

    lows: Int64s
    highs: Int64s
    groups: Int32s


def canonical(lows: Int64s, highs: Int64s) -> tuple[Int32s, Int64s]:
    """The smallest stabbing partition: the group of each interval, the point of each group.

    Groups are numbered from left to right; the point is the smallest high of its group.
    """
    order = np.argsort(lows, kind="stable")
    found = _greedy(lows[order], highs[order])
    group_of = np.empty(lows.size, np.int32)
    group_of[order] = found.group_of
    return group_of, found.window_highs


class StabbingPartition:
    """A stabbing partition of at most (1 + epsilon) times the smallest possible size.

    With an infinite epsilon it is never rebuilt, except by a large batch.
    """

    def __init__(self, epsilon: float = 1.0) -> None:
        assert epsilon > 0, f"epsilon must be positive, got {epsilon}"
        self.epsilon = epsilon
        self.reconstructions = 0
        self._intervals = Intervals.none()
        self._orders = GroupOrders()
        self._is_witness: Flags = np.empty(0, np.uint8)
        self._witnesses = np.empty(0, np.int64)  # those of the last rebuild, living or not
        self._n_witnesses = 0
        self._n_intervals = 0
        self._n_groups = 0
        self._sizes = np.empty(0, np.int64)  # by group
        self._free = np.empty(0, np.int32)  # group numbers that may be used again
        self._windows = Windows(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32))

    @property
    def n_groups(self) -> int:
        return self._n_groups

    @property
    def n_intervals(self) -> int:
        return self._n_intervals

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        """Take in the closed intervals `lows[i]` to `highs[i]`, known as `slots[i]` from now on."""
        if slots.size == 0:
            return
        self._intervals = self._intervals.with_room_for(slots)
        self._is_witness = stretched(self._is_witness, self._intervals.lows.size, 0)
        self._intervals.lows[slots], self._intervals.highs[slots] = lows, highs
        self._orders.add(slots)
        self._n_intervals += slots.size
        if self._n_intervals == slots.size or pays_for_rebuild(slots, self._intervals):
            assert (self._intervals.group_of[slots] < 0).all(), "a slot was added twice"
            self._intervals.group_of[slots] = 0
            self._reconstruct(slots if self._n_intervals == slots.size else self._intervals.live())
            return
        n_missed, n_revived = _join(
            self._windows, self._sizes, slots, lows, highs, self._intervals.group_of
        )
        self._n_groups += n_revived
        if n_missed:
            missed = self._intervals.group_of[slots] < 0
            self._open(slots[missed], lows[missed], highs[missed])
        if n_missed or n_revived:
            self._reconstruct_if_due()

    def remove(self, slots: Int64s) -> None:
        """Forget these slots; each was added and not yet removed."""
        if slots.size == 0:
            return
        assert int(slots.max()) < self._intervals.group_of.size, "a slot was never added"
        groups = self._intervals.group_of[slots]
        n_emptied, n_lost = _leave(slots, self._intervals.group_of, self._sizes, self._is_witness)
        self._orders.remove(slots, groups)
        self._n_intervals -= slots.size
        self._n_groups -= n_emptied
        self._n_witnesses -= n_lost
        if n_lost:
            self._reconstruct_if_due()

    def groups(self) -> Groups:
        """The groups by ascending point with both orders of each; published, never changed."""
        if not self._orders.is_fresh():
            self._sweep()
        numbers, points = self._windows.groups, self._windows.highs.copy()
        return self._orders.refresh(self._intervals, numbers, points, self._sizes[numbers])

    def group_sizes(self) -> tuple[Int32s, Int64s]:
        """The number and the size of every group, by ascending point."""
        self._sweep()
        return self._windows.groups.copy(), self._sizes[self._windows.groups]

    def group_points(self) -> Int64s:
        """The point of every group, as `group_sizes` lists them: ascending."""
        self._sweep()
        return self._windows.highs.copy()

    def group_of(self, slots: Int64s) -> Int32s:
        """The number of each slot's group."""
        return self._intervals.group_of[slots]

    def members(self, groups: Int32s) -> tuple[Int64s, Int32s]:
        """The slots of these groups, ascending, and which group each is in."""
        wanted = np.zeros(self._sizes.size + 1, np.bool_)  # the last entry is for group -1
        wanted[groups] = True
        slots = np.flatnonzero(wanted[self._intervals.group_of])
        return slots, self._intervals.group_of[slots]

    def check(self) -> None:
        """Assert the invariants."""
        windows, intervals = self._windows, self._intervals
        live = intervals.live()
        owners = intervals.group_of[live]
        assert live.size == self._n_intervals, "every slot is counted"
        assert np.array_equal(np.bincount(owners, minlength=self._sizes.size), self._sizes), (
            "sizes count the members"
        )
        assert np.count_nonzero(self._sizes) == self._n_groups, "groups are counted"
        assert np.unique(windows.groups).size == windows.groups.size, "one window per group"
        assert not np.isin(self._free, windows.groups).any(), "a free number owns no window"
        assert (windows.lows <= windows.highs).all(), "no window is empty"
        assert (windows.highs[:-1] < windows.lows[1:]).all(), "windows ascend and are disjoint"
        place = np.full(self._sizes.size, -1)
        place[windows.groups] = np.arange(windows.groups.size)
        assert (place[owners] >= 0).all(), "every group with members has a window"
        assert (intervals.lows[live] <= windows.lows[place[owners]]).all(), "windows are inside"
        assert (intervals.highs[live] >= windows.highs[place[owners]]).all(), "windows are inside"
        witnesses = live[self._is_witness[live] > 0]
        witnesses = witnesses[np.argsort(intervals.lows[witnesses])]
        assert witnesses.size == self._n_witnesses, "witnesses are counted"
        assert (intervals.highs[witnesses[:-1]] < intervals.lows[witnesses[1:]]).all(), (
            "witnesses are disjoint"
        )
        assert not self._is_due(), "not too many groups"
        self._orders.check()
        check_groups(self.groups(), intervals)

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        parts = self._orders.memory_bytes() + n_bytes(*self._intervals, *self._windows)
        return parts + n_bytes(self._is_witness, self._witnesses, self._sizes, self._free)

    def _open(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        """Open groups for intervals that meet no window: they lie in the gaps."""
        if self._windows.groups.size > 2 * self._n_groups + 64:
            self._sweep()
        order = np.argsort(lows, kind="stable")
        found = _greedy(lows[order], highs[order])
        n_new = found.window_lows.size
        numbers = self._numbers(n_new)
        self._sizes[numbers] = np.bincount(found.group_of, minlength=n_new)
        self._intervals.group_of[slots[order]] = numbers[found.group_of]
        at = np.searchsorted(self._windows.lows, found.window_lows)
        self._windows = Windows(
            np.insert(self._windows.lows, at, found.window_lows),
            np.insert(self._windows.highs, at, found.window_highs),
            np.insert(self._windows.groups, at, numbers),
        )
        self._n_groups += n_new

    def _numbers(self, n: int) -> Int32s:
        """Numbers for n new groups: those of groups that ended, then new ones."""
        if self._free.size < n:
            first = self._sizes.size
            fresh = np.arange(first, first + max(first, n), dtype=np.int32)
            self._sizes = np.concatenate([self._sizes, np.zeros(fresh.size, np.int64)])
            self._free = np.concatenate([self._free, fresh])
        used, self._free = self._free[:n], self._free[n:]
        return used

    def _sweep(self) -> None:
        """Drop the windows of groups that lost their last interval."""
        if self._windows.groups.size == self._n_groups:
            return
        kept = self._sizes[self._windows.groups] > 0
        self._free = np.concatenate([self._free, self._windows.groups[~kept]])
        self._windows = Windows(
            self._windows.lows[kept], self._windows.highs[kept], self._windows.groups[kept]
        )

    def _is_due(self) -> bool:
        return self._n_groups > (1 + self.epsilon) * self._n_witnesses

    def _reconstruct_if_due(self) -> None:
        if self._is_due():
            self._reconstruct(self._intervals.live())

    def _reconstruct(self, slots: Int64s) -> None:
        """Make the smallest partition of `slots`, which are all that are there."""
        slots = slots[np.argsort(self._intervals.lows[slots], kind="stable")]
        found = _greedy(self._intervals.lows[slots], self._intervals.highs[slots])
        self._n_groups = self._n_witnesses = found.window_lows.size
        self._intervals.group_of[slots] = found.group_of
        self._sizes = np.bincount(found.group_of, minlength=self._n_groups)
        self._free = np.empty(0, np.int32)
        self._windows = Windows(
            found.window_lows, found.window_highs, np.arange(self._n_groups, dtype=np.int32)
        )
        self._is_witness[self._witnesses] = 0
        self._witnesses = slots[_elect(found, self._intervals, slots, priorities(slots))]
        self._is_witness[self._witnesses] = 1
        self._orders.forget()
        self.reconstructions += 1


def pays_for_rebuild(slots: Int64s, intervals: Intervals) -> bool:
    """Whether a batch is so large that looking at every slot once more costs it little."""
    return 2 * slots.size >= intervals.group_of.size


class Greedy(NamedTuple):
    """What the greedy scan found, groups from left to right."""

    group_of: Int32s
    window_lows: Int64s
    window_highs: Int64s


def _greedy(lows: Int64s, highs: Int64s) -> Greedy:
    """The canonical partition of intervals with ascending lows."""
    group_of, windows = np.empty(lows.size, np.int32), np.empty((2, lows.size), np.int64)
    size = _scan(lows, highs, group_of, windows[0], windows[1])
    return Greedy(group_of, windows[0, :size].copy(), windows[1, :size].copy())


@kernel
def _scan(
    lows: Int64s, highs: Int64s, group_of: Int32s, window_lows: Int64s, window_highs: Int64s
) -> int:
    """Fill in the groups from left to right; the number of groups."""
    group = -1
    for i in range(lows.size):
        if group < 0 or lows[i] > window_highs[group]:
            group += 1
            window_highs[group] = highs[i]
        window_lows[group] = lows[i]
        window_highs[group] = min(window_highs[group], highs[i])
        group_of[i] = group
    return group + 1


@kernel
def _elect(found: Greedy, intervals: Intervals, slots: Int64s, priority: Int32s) -> Int64s:
    """For each group, from right to left, whose high is below the next one's low."""
    n_groups, n = found.window_lows.size, slots.size
    witnesses = np.full(n_groups, -1)
    for i in range(n - 1, -1, -1):
        group = found.group_of[i]
        if group + 1 < n_groups:
            after = slots[witnesses[group + 1]]
            if intervals.highs[slots[i]] >= intervals.lows[after]:
                continue
        if witnesses[group] < 0 or priority[i] > priority[witnesses[group]]:
            witnesses[group] = i
    return witnesses


@kernel
def _join(
    windows: Windows, sizes: Int64s, slots: Int64s, lows: Int64s, highs: Int64s, group_of: Int32s
) -> tuple[int, int]:
    """Put each interval into a group whose window it meets; how many met none, groups revived."""
    n_missed, n_revived, n_windows = 0, 0, windows.lows.size
    for i in range(slots.size):
        low, high = lows[i], highs[i]
        assert group_of[slots[i]] < 0, "a slot was added twice"
        place = np.searchsorted(windows.highs, low)
        if place == n_windows or windows.lows[place] > high:
            n_missed += 1
            continue
        # If the first window would be cut but the next one lies inside, nothing needs cutting.
        if windows.lows[place] < low and place + 1 < n_windows and windows.highs[place + 1] <= high:
            place += 1
        windows.lows[place] = max(windows.lows[place], low)
        windows.highs[place] = min(windows.highs[place], high)
        group = windows.groups[place]
        n_revived += sizes[group] == 0
        sizes[group] += 1
        group_of[slots[i]] = group
    return n_missed, n_revived


@kernel
def _leave(slots: Int64s, group_of: Int32s, sizes: Int64s, is_witness: Flags) -> tuple[int, int]:
    """Take each slot out of its group; how many groups are empty now, how many witnesses left."""
    n_emptied, n_lost = 0, 0
    for i in range(slots.size):
        slot = slots[i]
        group = group_of[slot]
        assert group >= 0, "a slot was removed twice or never added"
        group_of[slot] = -1
        sizes[group] -= 1
        n_emptied += sizes[group] == 0
        if is_witness[slot]:
            is_witness[slot] = 0
            n_lost += 1
    return n_emptied, n_lost
