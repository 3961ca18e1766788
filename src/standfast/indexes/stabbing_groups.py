"""The orders of stabbing groups, side by side in flat arrays, brought up to date when asked.

    place          0            1      2                 groups by ascending point
    lows      | 1  4  5  7 |  9 12 | 15 15 16 |          ascending within each place
    highs     | 8  9 11 20 | 12 30 | 17 18 40 |          ascending within each place
    offsets   0            4       6          9

A change is first noted (`add`, `remove`); `refresh` merges all noted changes in one pass: groups
that nobody touched are copied as they are, the others are merged with their few newcomers, and
nothing that was sorted is sorted again. Every refresh writes new arrays, so whoever holds the
`Groups` of an earlier one keeps them unchanged.

Invariant  after refresh every live slot stands exactly once in each order, at the place of its
           group; lows and highs ascend within a place; high_ranks lead to the low order.
Cost       refresh O(n + c log c) after c changes, with a copy's constant for untouched groups;
           rebuild O(n log n); 28 bytes per interval.
Paper      [hotspot] section 2.1: the sorted lists of a stabbing set index (decision 004).
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from standfast._numba import kernel
from standfast.arrays import Int32s, Int64s
from standfast.group_spans import Groups

Flags = npt.NDArray[np.uint8]
Kept = TypeVar("Kept", bound=np.generic)

NO_GROUPS = Groups(
    np.empty(0, np.int64), np.zeros(1, np.int64),
    np.empty(0, np.int64), np.empty(0, np.int32),
    np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32),
)  # fmt: skip


class Intervals(NamedTuple):
    """What is known of each slot: its bounds and the number of its group, -1 for none."""

    lows: Int64s
    highs: Int64s
    group_of: Int32s

    @staticmethod
    def none() -> Intervals:
        """Room for nobody."""
        return Intervals(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32))

    def with_room_for(self, slots: Int64s) -> Intervals:
        """The same intervals in arrays that reach all of `slots`."""
        need = int(slots.max()) + 1 if slots.size else 0
        return Intervals(
            stretched(self.lows, need, 0),
            stretched(self.highs, need, 0),
            stretched(self.group_of, need, -1),
        )

    def live(self) -> Int64s:
        """The slots that are in a group, ascending."""
        return np.flatnonzero(self.group_of >= 0)


class GroupOrders:
    """Keeps the published orders and what has changed since they were published."""

    def __init__(self) -> None:
        self._groups = NO_GROUPS
        self._numbers = np.empty(0, np.int32)  # the group at each place of _groups
        self._added: list[Int64s] = []
        self._removed: list[Int64s] = []
        self._left: list[Int32s] = []  # groups that lost somebody
        self._is_removed: Flags = np.empty(0, np.uint8)
        self._n_noted = 0
        self._rebuild = True  # nothing is noted until somebody looks for the first time

    def add(self, slots: Int64s) -> None:
        """Note that these slots joined a group."""
        if self._rebuild:
            return
        self._added.append(slots)
        known = slots[slots < self._is_removed.size]
        # Gone and back before anybody looked: rare, so the orders are simply made anew.
        if self._is_removed[known].any():
            self.forget()
        else:
            self._limit(slots.size)

    def remove(self, slots: Int64s, groups: Int32s) -> None:
        """Note that these slots left the groups with these numbers."""
        if self._rebuild:
            return
        need = int(slots.max()) + 1 if slots.size else 0
        self._is_removed = stretched(self._is_removed, need, 0)
        self._is_removed[slots] = 1
        self._removed.append(slots)
        self._left.append(groups)
        self._limit(slots.size)

    def forget(self) -> None:
        """Note that all groups changed."""
        self._rebuild = True
        self._drop_notes()

    def is_fresh(self) -> bool:
        """Whether nothing has changed since the last refresh."""
        return not (self._n_noted or self._rebuild)

    def refresh(
        self, intervals: Intervals, numbers: Int32s, points: Int64s, sizes: Int64s
    ) -> Groups:
        """Orders of all groups; `numbers` are the nonempty groups by ascending point."""
        if self._rebuild:
            groups = build(intervals, numbers, points, sizes)
        elif self._n_noted:
            groups = self._merged(intervals, numbers, points, sizes)
        else:
            return self._groups
        self._drop_notes()
        self._groups, self._numbers, self._rebuild = groups, numbers.copy(), False
        return groups

    def check(self) -> None:
        """Assert that the orders are in order and the notes agree with each other."""
        _check_orders(self._groups)
        removed = np.concatenate([np.empty(0, np.int64), *self._removed])
        assert np.array_equal(np.flatnonzero(self._is_removed), np.sort(removed)), "one flag each"
        n_added, n_left = (sum(part.size for part in notes) for notes in (self._added, self._left))
        assert n_left == removed.size, "whoever left has left a group"
        assert self._n_noted == n_added + n_left, "notes are counted"
        assert not (self._rebuild and self._n_noted), "nothing is noted before a rebuild"

    def memory_bytes(self) -> int:
        """Bytes of the published orders and of the notes."""
        notes = n_bytes(*self._added, *self._removed, *self._left)
        return notes + n_bytes(*self._groups, self._is_removed, self._numbers)

    def _limit(self, n_changes: int) -> None:
        """Make anew what has changed more often than it has entries; notes stay bounded."""
        self._n_noted += n_changes
        if self._n_noted > self._groups.low_slots.size + 1024:
            self.forget()

    def _drop_notes(self) -> None:
        for slots in self._removed:
            self._is_removed[slots] = 0
        self._added, self._removed, self._left, self._n_noted = [], [], [], 0

    def _merged(
        self, intervals: Intervals, numbers: Int32s, points: Int64s, sizes: Int64s
    ) -> Groups:
        added = np.concatenate([np.empty(0, np.int64), *self._added])
        added = added[intervals.group_of[added] >= 0]
        most = max(int(a.max(initial=-1)) for a in (numbers, self._numbers, *self._left)) + 1
        place_of, old_place_of = np.full(most, -1), np.full(most, -1)
        place_of[numbers] = np.arange(numbers.size)
        old_place_of[self._numbers] = np.arange(self._numbers.size)
        touched = np.zeros(most, np.bool_)
        for groups in self._left:
            touched[groups] = True
        added_places = place_of[intervals.group_of[added]]
        newcomers = _newcomers(added, added_places, intervals, numbers.size)
        touched = touched[numbers] | (np.diff(newcomers.offsets) > 0)
        return _merge(
            self._groups, old_place_of[numbers], touched,
            stretched(self._is_removed, int(self._groups.low_slots.max(initial=-1)) + 1, 0),
            newcomers, points, sizes,
        )  # fmt: skip


class Newcomers(NamedTuple):
    """Intervals that join existing orders: by place and low; `by_high` leads to place and high."""

    offsets: Int64s
    slots: Int32s
    lows: Int64s
    highs: Int64s
    by_high: Int64s


def build(intervals: Intervals, numbers: Int32s, points: Int64s, sizes: Int64s) -> Groups:
    """The orders of all live slots, made from nothing: two sorts and one deal by group."""
    slots = intervals.live()
    lows, highs = intervals.lows[slots], intervals.highs[slots]
    place_of = np.full(int(numbers.max(initial=-1)) + 1, -1)
    place_of[numbers] = np.arange(numbers.size)
    places = place_of[intervals.group_of[slots]]
    offsets = np.zeros(numbers.size + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    by_low = _dealt(np.argsort(lows, kind="stable"), places, offsets)
    by_high = _dealt(np.argsort(highs, kind="stable"), places, offsets)
    at_low = np.empty(slots.size, np.int64)
    at_low[by_low] = np.arange(slots.size)
    ranks = at_low[by_high] - np.repeat(offsets[:-1], np.diff(offsets))
    return Groups(
        points, offsets,
        lows[by_low], slots[by_low].astype(np.int32),
        highs[by_high], slots[by_high].astype(np.int32), ranks.astype(np.int32),
    )  # fmt: skip


def check_groups(groups: Groups, intervals: Intervals) -> None:
    """Assert that these are the orders of exactly the live slots."""
    _check_orders(groups)
    live, place = intervals.live(), _places(groups)
    assert np.array_equal(np.sort(groups.low_slots), live), "the low order has every slot once"
    assert np.array_equal(np.sort(groups.high_slots), live), "the high order has every slot once"
    assert np.array_equal(groups.lows, intervals.lows[groups.low_slots]), "lows are the slots' own"
    assert np.array_equal(groups.highs, intervals.highs[groups.high_slots]), "highs are too"
    number, same = intervals.group_of[groups.low_slots], place[1:] == place[:-1]
    assert (number[1:] == number[:-1])[same].all(), "a place holds one group"
    assert (number[1:] != number[:-1])[~same].all(), "a group has one place"


def _check_orders(groups: Groups) -> None:
    """Assert what holds of published orders whatever came later."""
    place = _places(groups)
    same = place[1:] == place[:-1]
    assert groups.offsets[0] == 0, "places start at 0"
    assert groups.offsets[-1] == groups.low_slots.size, "places end at n"
    assert (np.diff(groups.offsets) > 0).all(), "no group is empty"
    assert (groups.points[1:] >= groups.points[:-1]).all(), "points ascend"
    assert (groups.lows[1:] >= groups.lows[:-1])[same].all(), "lows ascend within a group"
    assert (groups.highs[1:] >= groups.highs[:-1])[same].all(), "highs ascend within a group"
    assert (groups.lows <= groups.points[place]).all(), "no interval begins right of its point"
    assert (groups.highs >= groups.points[place]).all(), "no interval ends left of its point"
    owners = groups.low_slots[groups.offsets[place] + groups.high_ranks]
    assert np.array_equal(owners, groups.high_slots), "high_ranks lead to the same slot"


def _places(groups: Groups) -> Int64s:
    return np.repeat(np.arange(groups.n_groups), np.diff(groups.offsets))


def stretched(array: npt.NDArray[Kept], need: int, fill: int) -> npt.NDArray[Kept]:
    """The array itself if it has `need` entries, else a longer copy (at least doubled)."""
    if array.size >= need:
        return array
    longer = np.full(max(need, 2 * array.size, 16), fill, array.dtype)
    longer[: array.size] = array
    return longer


def n_bytes(*arrays: npt.NDArray[Any]) -> int:
    """Bytes of all these arrays."""
    return sum(array.nbytes for array in arrays)


def _newcomers(slots: Int64s, places: Int64s, intervals: Intervals, n_groups: int) -> Newcomers:
    offsets = np.zeros(n_groups + 1, np.int64)
    np.cumsum(np.bincount(places, minlength=n_groups), out=offsets[1:])
    by_low = _dealt(np.argsort(intervals.lows[slots]), places, offsets)
    slots, places = slots[by_low], places[by_low]
    highs = intervals.highs[slots]
    by_high = _dealt(np.argsort(highs), places, offsets)
    return Newcomers(offsets, slots.astype(np.int32), intervals.lows[slots], highs, by_high)


def _dealt(order: Int64s, places: Int64s, offsets: Int64s) -> Int64s:
    """`order` regrouped by place, keeping its sequence within each place."""
    dealt = np.empty(order.size, np.int64)
    _deal(order, places, offsets[:-1].copy(), dealt)
    return dealt


def _merge(
    old: Groups, old_place: Int64s, touched: npt.NDArray[np.bool_], is_removed: Flags,
    newcomers: Newcomers, points: Int64s, sizes: Int64s,
) -> Groups:  # fmt: skip
    """The old orders without the removed, with the newcomers, in the new places."""
    offsets = np.zeros(points.size + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    n = int(offsets[-1])
    new = Groups(
        points, offsets, np.empty(n, np.int64), np.empty(n, np.int32),
        np.empty(n, np.int64), np.empty(n, np.int32), np.empty(n, np.int32),
    )  # fmt: skip
    ranks = np.empty(int(np.diff(old.offsets).max(initial=0)), np.int32)
    new_ranks = np.empty(newcomers.slots.size, np.int32)
    _merge_groups(old, old_place, touched, is_removed, newcomers, ranks, new_ranks, new)
    return new


@kernel
def _deal(order: Int64s, places: Int64s, at: Int64s, dealt: Int64s) -> None:
    for i in order:
        place = places[i]
        dealt[at[place]] = i
        at[place] += 1


@kernel
def _merge_groups(
    old: Groups, old_place: Int64s, touched: npt.NDArray[np.bool_], is_removed: Flags,
    newcomers: Newcomers, ranks: Int32s, new_ranks: Int32s, new: Groups,
) -> None:  # fmt: skip
    """Merge the touched groups; copy runs of untouched ones that keep their sequence."""
    place, n_places = 0, old_place.size
    while place < n_places:
        before, at = old_place[place], new.offsets[place]
        begin, end = 0, 0
        if before >= 0:
            begin, end = old.offsets[before], old.offsets[before + 1]
        if touched[place]:
            first, last = newcomers.offsets[place], newcomers.offsets[place + 1]
            _merge_lows(
                old, begin, end, is_removed, newcomers, first, last, ranks, new_ranks, new, at
            )
            _merge_highs(old, begin, end, newcomers, first, last, ranks, new_ranks, new, at)
            place += 1
            continue
        run = place + 1
        while run < n_places and not touched[run] and old_place[run] == before + run - place:
            run += 1
        for i in range(begin, old.offsets[before + run - place]):
            new.lows[at], new.low_slots[at] = old.lows[i], old.low_slots[i]
            new.highs[at], new.high_slots[at] = old.highs[i], old.high_slots[i]
            new.high_ranks[at] = old.high_ranks[i]
            at += 1
        place = run


@kernel
def _merge_lows(
    old: Groups, begin: int, end: int, is_removed: Flags, newcomers: Newcomers,
    first: int, last: int, ranks: Int32s, new_ranks: Int32s, new: Groups, start: int,
) -> None:  # fmt: skip
    """Merge one group's low order; `ranks` tells each old rank its new one, -1 if removed."""
    at = start
    for i in range(begin, end):
        if is_removed[old.low_slots[i]]:
            ranks[i - begin] = -1
            continue
        low = old.lows[i]
        while first < last and newcomers.lows[first] < low:
            new.lows[at], new.low_slots[at] = newcomers.lows[first], newcomers.slots[first]
            new_ranks[first] = at - start
            at += 1
            first += 1
        new.lows[at], new.low_slots[at] = low, old.low_slots[i]
        ranks[i - begin] = at - start
        at += 1
    for k in range(first, last):
        new.lows[at], new.low_slots[at] = newcomers.lows[k], newcomers.slots[k]
        new_ranks[k] = at - start
        at += 1


@kernel
def _merge_highs(
    old: Groups, begin: int, end: int, newcomers: Newcomers,
    first: int, last: int, ranks: Int32s, new_ranks: Int32s, new: Groups, at: int,
) -> None:  # fmt: skip
    """Merge one group's high order, with the ranks that `_merge_lows` left."""
    for i in range(begin, end):
        rank = ranks[old.high_ranks[i]]
        if rank < 0:
            continue
        high = old.highs[i]
        while first < last and newcomers.highs[newcomers.by_high[first]] < high:
            k = newcomers.by_high[first]
            new.highs[at], new.high_slots[at] = newcomers.highs[k], newcomers.slots[k]
            new.high_ranks[at] = new_ranks[k]
            at += 1
            first += 1
        new.highs[at], new.high_slots[at], new.high_ranks[at] = high, old.high_slots[i], rank
        at += 1
    for j in range(first, last):
        k = newcomers.by_high[j]
        new.highs[at], new.high_slots[at] = newcomers.highs[k], newcomers.slots[k]
        new.high_ranks[at] = new_ranks[k]
        at += 1
