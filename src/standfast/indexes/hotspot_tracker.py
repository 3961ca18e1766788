"""Hotspot tracker: big stabbing groups apart, the scattered rest in a stabbing partition.

            arrival meets a hot window?
             yes |            | no
                 v            v
           +-----------+   +-----------+     promoted: a scattered group of at least alpha n
           | hot       |<--| scattered |     demoted: a hot group below (alpha / 2) n
           | groups    |-->| partition |     n intervals in all
           +-----------+   +-----------+

A hot group was at least alpha n strong when it was promoted and stays until it has lost half of
that share, so a group that flaps around the border does not move back and forth: before it can
move again, updates in proportion to its size have paid for the move.

A call applies its whole batch first and the rules afterwards, until none applies: demote every
hot group that is too small, then promote every scattered group that is large enough (taking them
out can make the partition rebuild itself into other large groups, so look again). The credit
argument of the paper counts updates between a promotion and a demotion, wherever calls are cut.

Invariant  I1 every scattered group is smaller than alpha n, every hot group has at least
           (alpha / 2) n, so there are at most 2 / alpha of them; I2 hot and scattered groups are
           at most (1 + epsilon) tau + 2 / alpha; I3 promotions and demotions have moved at most
           5 intervals per update so far. Each hot window is nonempty and inside its group.
Cost       arrival O(log(1 / alpha) + log tau), or O(1 / alpha) if it cuts a hot window; departure
           O(1); a move of a group one pass over the slots; rebuilds as in the partition.
Paper      [hotspot] section 2.2, Theorem 1.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from standfast._numba import kernel
from standfast.arrays import Int32s, Int64s
from standfast.group_spans import Groups
from standfast.indexes.stabbing_groups import (
    GroupOrders,
    Intervals,
    check_groups,
    n_bytes,
    stretched,
)
from standfast.indexes.stabbing_partition import StabbingPartition

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
NOBODY = np.empty(0, np.int64)


class Moves(NamedTuple):
    """What a call changed about the scattered set: who is in it now, who is not any more."""

    entered: Int64s
    left: Int64s


class ScatteredPartition(Protocol):
    """What the tracker asks of a stabbing partition."""

    reconstructions: int

    @property
    def n_groups(self) -> int: ...
    @property
    def n_intervals(self) -> int: ...
    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None: ...
    def remove(self, slots: Int64s) -> None: ...
    def group_sizes(self) -> tuple[Int32s, Int64s]: ...
    def members(self, groups: Int32s) -> tuple[Int64s, Int32s]: ...
    def check(self) -> None: ...
    def memory_bytes(self) -> int: ...


class HotWindows(NamedTuple):
    """Windows of the hot groups by ascending low; they may overlap.

    `reach[i]` is the place of the largest high among the places 0 to i.
    """

    lows: Int64s
    highs: Int64s
    groups: Int32s
    reach: Int64s

    @staticmethod
    def of(lows: Int64s, highs: Int64s, groups: Int32s) -> HotWindows:
        """These windows, sorted."""
        order = np.argsort(lows, kind="stable")
        windows = HotWindows(
            lows[order], highs[order], groups[order], np.empty(lows.size, np.int64)
        )
        _reach_from(windows, 0)
        return windows


class HotspotTracker:
    """Tells the hotspots from the scattered rest as intervals come and go."""

    def __init__(
        self, alpha: float, epsilon: float = 1.0, scattered: ScatteredPartition | None = None
    ) -> None:
        assert 0 < alpha <= 1, f"alpha must lie in (0, 1], got {alpha}"
        self.alpha = alpha
        self.moves_total = 0  # intervals moved by promotions and demotions, as I3 counts them
        self.updates_total = 0
        self._scattered = scattered or StabbingPartition(epsilon)
        self._intervals = Intervals.none()  # bounds of all, group_of of the hot
        self._orders = GroupOrders()
        self._n_hot_intervals = 0
        self._sizes = np.empty(0, np.int64)  # by hot group
        self._windows = HotWindows.of(NOBODY, NOBODY, NOBODY.astype(np.int32))
        self._largest = 0  # no scattered group is larger, unless the partition was rebuilt
        self._rebuilt = 0

    @property
    def n_hot(self) -> int:
        """How many hot groups there are."""
        return self._windows.groups.size

    @property
    def n_scattered(self) -> int:
        """How many intervals are scattered."""
        return self._scattered.n_intervals

    @property
    def n_intervals(self) -> int:
        return self._n_hot_intervals + self._scattered.n_intervals

    @property
    def n_groups(self) -> int:
        """Hot and scattered groups together."""
        return self.n_hot + self._scattered.n_groups

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> Moves:
        """Take in the closed intervals `lows[i]` to `highs[i]`, known as `slots[i]`."""
        self._intervals = self._intervals.with_room_for(slots)
        self._intervals.lows[slots], self._intervals.highs[slots] = lows, highs
        self.updates_total += slots.size
        joined = np.full(slots.size, -1, np.int32)
        if self.n_hot:
            _join_hot(self._windows, self._sizes, lows, highs, joined)
        self._intervals.group_of[slots] = joined
        hot = slots[joined >= 0]
        self._orders.add(hot)
        self._n_hot_intervals += hot.size
        missed = slots[joined < 0]
        self._scatter(missed)
        return self._settle(missed, NOBODY)

    def remove(self, slots: Int64s) -> Moves:
        """Forget these slots; each was added and not yet removed."""
        self.updates_total += slots.size
        groups = self._intervals.group_of[slots]
        hot, scattered = slots[groups >= 0], slots[groups < 0]
        self._orders.remove(hot, groups[groups >= 0])
        _leave_hot(hot, self._intervals.group_of, self._sizes)
        self._n_hot_intervals -= hot.size
        self._scattered.remove(scattered)
        return self._settle(NOBODY, scattered)

    def hot_groups(self) -> Groups:
        """The hot groups by ascending point with both orders of each; published."""
        order = np.argsort(self._windows.highs, kind="stable")
        numbers, points = self._windows.groups[order], self._windows.highs[order]
        was_fresh = self._orders.is_fresh()
        groups = self._orders.refresh(self._intervals, numbers, points, self._sizes[numbers])
        if not was_fresh:  # departures may have left the windows smaller than need be
            lows, highs = groups.lows[groups.offsets[1:] - 1], groups.highs[groups.offsets[:-1]]
            self._windows = HotWindows.of(lows, highs, numbers)
        return groups

    def group_sizes(self) -> tuple[Int64s, Int64s]:
        """The sizes of the hot groups, and those of the scattered ones."""
        return self._sizes[self._windows.groups], self._scattered.group_sizes()[1]

    def scattered_slots(self) -> Int64s:
        """The slots of the scattered set, ascending."""
        groups, _ = self._scattered.group_sizes()
        return self._scattered.members(groups)[0]

    def check(self) -> None:
        """Assert the invariants."""
        windows, live = self._windows, self._intervals.live()
        owners = self._intervals.group_of[live]
        n, hot_sizes = self.n_intervals, self._sizes[self._windows.groups]
        scattered_sizes = self._scattered.group_sizes()[1]
        assert live.size == self._n_hot_intervals, "hot intervals are counted"
        assert np.array_equal(np.bincount(owners, minlength=self._sizes.size), self._sizes), (
            "sizes count the members"
        )
        assert int(hot_sizes.sum()) == live.size, "every hot group has a window"
        assert (scattered_sizes < self.alpha * n).all(), "I1: a hotspot is among the scattered"
        assert (hot_sizes >= self.alpha / 2 * n).all(), "I1: a hot group is too small"
        assert self.n_hot <= 2 / self.alpha, "I1: too many hot groups"
        assert self.moves_total <= 5 * self.updates_total, "I3: too many moves"
        assert (windows.lows <= windows.highs).all(), "no window is empty"
        assert (windows.lows[:-1] <= windows.lows[1:]).all(), "windows ascend by low"
        assert np.array_equal(windows.highs[windows.reach], np.maximum.accumulate(windows.highs)), (
            "reach leads to the largest high"
        )
        place = np.full(self._sizes.size, -1)
        place[windows.groups] = np.arange(self.n_hot)
        assert (self._intervals.lows[live] <= windows.lows[place[owners]]).all(), "windows inside"
        assert (self._intervals.highs[live] >= windows.highs[place[owners]]).all(), "windows inside"
        assert not np.isin(self.scattered_slots(), live).any(), "nobody is hot and scattered"
        self._scattered.check()
        self._orders.check()
        check_groups(self.hot_groups(), self._intervals)

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        parts = self._orders.memory_bytes() + self._scattered.memory_bytes()
        return parts + n_bytes(*self._intervals, *self._windows, self._sizes)

    def _settle(self, entered: Int64s, left: Int64s) -> Moves:
        """Apply the rules until none applies; net changes of the scattered set."""
        demoted = self._demote()
        if demoted.size:
            self._scatter(demoted)
        promoted = [NOBODY]
        while (chosen := self._large_groups()).size:
            promoted.append(self._promote(chosen))
        inside = np.concatenate([entered, demoted])
        outside = np.concatenate(promoted)
        self.moves_total += demoted.size + outside.size
        if outside.size == 0:
            return Moves(inside, left)
        is_new = np.zeros(self._intervals.group_of.size, np.bool_)
        is_new[inside] = True
        return Moves(
            inside[self._intervals.group_of[inside] < 0],
            np.concatenate([left, outside[~is_new[outside]]]),
        )

    def _scatter(self, slots: Int64s) -> None:
        self._scattered.add(slots, self._intervals.lows[slots], self._intervals.highs[slots])
        self._largest += slots.size

    def _demote(self) -> Int64s:
        """Give up hot groups below half the share; their slots, which are nowhere then."""
        small = self._sizes[self._windows.groups] < self.alpha / 2 * self.n_intervals
        small |= self._sizes[self._windows.groups] == 0
        if not small.any():
            return NOBODY
        cold = np.zeros(self._sizes.size + 1, np.bool_)  # the last entry is for group -1
        cold[self._windows.groups[small]] = True
        slots = np.flatnonzero(cold[self._intervals.group_of])
        self._orders.remove(slots, self._intervals.group_of[slots])
        _leave_hot(slots, self._intervals.group_of, self._sizes)
        self._n_hot_intervals -= slots.size
        lows, highs, groups, _ = self._windows
        self._windows = HotWindows.of(lows[~small], highs[~small], groups[~small])
        return slots

    def _large_groups(self) -> Int32s:
        """The scattered groups that are hotspots."""
        least = self.alpha * self.n_intervals
        if self._rebuilt == self._scattered.reconstructions and self._largest < least:
            return np.empty(0, np.int32)
        groups, sizes = self._scattered.group_sizes()
        self._largest = int(sizes.max(initial=0))
        self._rebuilt = self._scattered.reconstructions
        return groups[sizes >= least]

    def _promote(self, chosen: Int32s) -> Int64s:
        """Make hot groups of these scattered ones; their slots."""
        slots, owners = self._scattered.members(chosen)
        self._scattered.remove(slots)
        numbers = self._free_numbers(chosen.size)
        number_of = np.zeros(int(chosen.max()) + 1, np.int32)
        number_of[chosen] = numbers
        self._intervals.group_of[slots] = number_of[owners]
        self._sizes += np.bincount(number_of[owners], minlength=self._sizes.size)
        self._n_hot_intervals += slots.size
        self._orders.add(slots)
        lows, highs = np.full(self._sizes.size, LEAST), np.full(self._sizes.size, MOST)
        _intersect(slots, self._intervals, lows, highs)
        self._windows = HotWindows.of(
            np.concatenate([self._windows.lows, lows[numbers]]),
            np.concatenate([self._windows.highs, highs[numbers]]),
            np.concatenate([self._windows.groups, numbers]),
        )
        return slots

    def _free_numbers(self, n: int) -> Int32s:
        """The n smallest numbers that no hot group has."""
        self._sizes = stretched(self._sizes, self.n_hot + n, 0)
        is_used = np.zeros(self._sizes.size, np.bool_)
        is_used[self._windows.groups] = True
        return np.flatnonzero(~is_used)[:n].astype(np.int32)


@kernel
def _reach_from(windows: HotWindows, first: int) -> None:
    """Bring `reach` up to date from place `first` on."""
    for i in range(first, windows.highs.size):
        windows.reach[i] = i
        if i and windows.highs[windows.reach[i - 1]] >= windows.highs[i]:
            windows.reach[i] = windows.reach[i - 1]


@kernel
def _join_hot(
    windows: HotWindows, sizes: Int64s, lows: Int64s, highs: Int64s, joined: Int32s
) -> None:
    """Put each interval into a hot group whose window it meets, if there is one."""
    for i in range(lows.size):
        last = np.searchsorted(windows.lows, highs[i], side="right") - 1
        if last < 0 or windows.highs[windows.reach[last]] < lows[i]:
            continue
        place = windows.reach[last]
        group = windows.groups[place]
        joined[i] = group
        sizes[group] += 1
        if windows.lows[place] >= lows[i] and windows.highs[place] <= highs[i]:
            continue
        low, high = max(windows.lows[place], lows[i]), min(windows.highs[place], highs[i])
        first = place
        while place + 1 < windows.lows.size and windows.lows[place + 1] < low:
            windows.lows[place] = windows.lows[place + 1]
            windows.highs[place] = windows.highs[place + 1]
            windows.groups[place] = windows.groups[place + 1]
            place += 1
        windows.lows[place], windows.highs[place], windows.groups[place] = low, high, group
        _reach_from(windows, first)


@kernel
def _leave_hot(slots: Int64s, group_of: Int32s, sizes: Int64s) -> None:
    """Take each slot out of its hot group."""
    for slot in slots:
        assert group_of[slot] >= 0, "a slot was removed twice"
        sizes[group_of[slot]] -= 1
        group_of[slot] = -1


@kernel
def _intersect(slots: Int64s, intervals: Intervals, lows: Int64s, highs: Int64s) -> None:
    """Cut each group's window, `lows` to `highs`, down to what its slots share."""
    for slot in slots:
        group = intervals.group_of[slot]
        lows[group] = max(lows[group], intervals.lows[slot])
        highs[group] = min(highs[group], intervals.highs[slot])
