"""Skyline tree: boxes whose first side holds a value, tested against the stairs of their group.

    first side    interval tree; a value reads prefixes of its orders     candidates
    second side   range that holds the point of its stabbing group   \\   beside each other in
    third side    window                                             /    the tree's orders

    stairs of a group for one event           distance in time
      those of a skyline (see `skylines`)       |-----.            a box whose second side reaches
      that start at the group's point,          |     `---.        right to c is affected iff its
      as keys and distances                     |     |   `----.   window is not below the stair
                                               p+-----+---+----+-> key

A candidate is tested by one search among the few stairs to the right of its group's point and one
among those to the left, without branches: stairs are padded to the same power of two.

Invariant  that of the interval tree; columns repeat each box at both its places.
Cost       an event O(log n + n' log s) for n' candidates and s stairs of a group; stairs are made
           when the first candidate of their group comes: O(s) each; 68 bytes a box beside the tree.
Paper      [hotspot] section 3.3.2, each box tested once instead of each skyline point probed
           (decision 009).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from standfast._numba import in_parts, inlined, kernel
from standfast.arrays import Bools, Int32s, Int64s
from standfast.indexes.interval_tree import IntervalTree
from standfast.indexes.keys import FAR, LEAST, difference
from standfast.indexes.skylines import Skylines
from standfast.indexes.sorted_runs import first_above

BUCKET = 32
WIDTH = 8  # of stairs at first: at least 8


class Columns(NamedTuple):
    """What is tested of a candidate, by its place in the tree's orders."""

    slots: Int32s  # -1 where a box was removed
    groups: Int32s
    lows: Int64s  # ~low of the second side, so that both ends are compared alike
    highs: Int64s
    windows: Int64s


class Candidates(NamedTuple):
    """Boxes whose first side holds a value: `places[i]`, and slices of places; rows by value."""

    offsets: Int64s
    places: Int32s
    slice_offsets: Int64s
    starts: Int32s
    stops: Int32s


class Reach(NamedTuple):
    """The largest of each column by group: how far stairs can matter."""

    lows: Int64s
    highs: Int64s
    windows: Int64s


class Views(NamedTuple):
    """How each event sees the rows of its code: a skyline of the past, or one around it."""

    is_past: np.ndarray
    starts: Int64s
    stops: Int64s
    times: Int64s
    past: Skylines
    around: Skylines


class Stairs(NamedTuple):
    """Padded stairs: those of group g begin at `g * width`; `needs` is the distance less one."""

    width: int
    stamps: Int64s  # the row whose stairs these are, by group
    right_keys: Int64s
    right_needs: Int64s
    left_keys: Int64s  # ~key
    left_needs: Int64s


class SkylineTree:
    """Boxes of three sides, built at once; entries can be buried. The third side begins at 0."""

    def __init__(self, slots: Int64s, lows: Int64s, highs: Int64s, *, bucket: int = BUCKET) -> None:
        if np.any(slots[1:] < slots[:-1]):
            by_slot = np.argsort(slots)
            slots, lows, highs = slots[by_slot], lows[:, by_slot], highs[:, by_slot]
        n = slots.size
        self.slots = slots.astype(np.int32)
        self._tree = IntervalTree(np.arange(n), lows[0], highs[0], bucket=bucket)
        entries = self._tree.order.slots
        self._places = np.empty((2, n), np.int32)
        self._places[0, entries[:n]] = np.arange(n)
        self._places[1, entries[n:]] = np.arange(n, 2 * n)
        self._columns = Columns(
            self.slots[entries], np.full(2 * n, -1, np.int32),
            ~lows[1, entries], highs[1, entries], highs[2, entries],
        )  # fmt: skip
        self._reach = Reach(*(np.empty(0, np.int64) for _ in range(3)))
        self.partition_version = -1  # for whoever sets the groups

    @property
    def n_live(self) -> int:
        return self._tree.n_live

    @property
    def largest_window(self) -> int:
        """No window of a box is larger."""
        return int(self._reach.windows.max(initial=0))

    def set_groups(self, groups: Int32s) -> None:
        """Tell the stabbing group of every entry, by ascending slot.

        Buried ones get group 0: their slot may be in a group again, through an entry of another
        tree, and that group may end without this tree being told.
        """
        groups = np.where(self.are_live(np.arange(self.slots.size)), groups, 0)
        self._columns.groups[self._places] = groups
        n_groups = int(groups.max()) + 1
        self._reach = Reach(*(np.full(n_groups, LEAST) for _ in range(3)))
        _stretch(self._columns, self.slots.size, self._reach)

    def are_live(self, entries: Int64s) -> Bools:
        """Which entries are not buried."""
        return self._tree.are_live(entries)

    def bury(self, entries: Int64s) -> None:
        """Take entries out of later answers."""
        self._tree.bury(entries)
        self._columns.slots[self._places[:, entries]] = -1
        self._columns.groups[self._places[:, entries]] = 0  # theirs may end

    def live(self) -> tuple[Int64s, Int64s, Int64s]:
        """Slots, lows and highs of the entries that are not buried."""
        entries, own_lows, own_highs = self._tree.live()
        places, columns = self._places[0, entries], self._columns
        lows = np.stack([own_lows, ~columns.lows[places], np.zeros(entries.size, np.int64)])
        highs = np.stack([own_highs, columns.highs[places], columns.windows[places]])
        return self.slots[entries].astype(np.int64), lows, highs

    def candidates(self, ascending: Int64s) -> Candidates:
        """The boxes whose first side holds each value."""
        rows = self._tree.probe(ascending)
        offsets = np.zeros(ascending.size + 1, np.int64)
        np.cumsum(rows.counts, out=offsets[1:])
        slice_offsets = np.searchsorted(rows.long_rows, np.arange(ascending.size + 1))
        places = self._places[0, rows.slots]
        return Candidates(offsets, places, slice_offsets, rows.long_starts, rows.long_stops)

    def test(
        self, found: Candidates, by_value: Int64s, views: Views, points: Int64s,
        ends: Int64s, out: Int32s, *, is_float: bool,
    ) -> None:  # fmt: skip
        """Append the affected candidates of event e to `out[ends[e]:]`, which moves `ends[e]`.

        Row r of the candidates is event `by_value[r]`; `points` are those of the groups.
        """

        def test(first: int, last: int) -> None:
            _test(
                self._columns, self._reach, found, by_value, views, points, is_float,
                first, last, ends, out,
            )  # fmt: skip

        in_parts(test, by_value.size, cost=10 * int(candidate_counts(found).sum()))

    def check(self) -> None:
        """Assert the invariant."""
        self._tree.check()
        columns = self._columns
        for low, high in zip(*self._places, strict=True):
            for column in columns:
                assert column[low] == column[high], "a box differs at its two places"
        buried = np.flatnonzero(columns.slots[self._places[0]] < 0)
        assert buried.size == self.slots.size - self.n_live, "burials are miscounted"
        assert not columns.groups[self._places[0, buried]].any(), "a buried box is in a group"

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        columns = sum(column.nbytes for column in self._columns)
        return columns + self._places.nbytes + self.slots.nbytes + self._tree.memory_bytes()


def candidate_counts(found: Candidates) -> Int64s:
    """How many candidates each row has at most."""
    ends = np.zeros(found.starts.size + 1, np.int64)
    np.cumsum(found.stops - found.starts, out=ends[1:])
    return np.diff(found.offsets) + np.diff(ends[found.slice_offsets])


@kernel
def _stretch(columns: Columns, n: int, reach: Reach) -> None:
    """Take every box, which has its first place among the first n, into the reach of its group."""
    for place in range(n):
        group = columns.groups[place]
        reach.lows[group] = max(reach.lows[group], columns.lows[place])
        reach.highs[group] = max(reach.highs[group], columns.highs[place])
        reach.windows[group] = max(reach.windows[group], columns.windows[place])


@kernel
def _stairs(width: int, n_groups: int) -> Stairs:
    size = width * n_groups
    return Stairs(
        width, np.full(n_groups, -1),
        np.empty(size, np.int64), np.empty(size, np.int64),
        np.empty(size, np.int64), np.empty(size, np.int64),
    )  # fmt: skip


@inlined
def _of_width(stairs: Stairs, width: int) -> Stairs:
    """The same room for stairs of another width; there must be enough of it."""
    return Stairs(
        width, stairs.stamps,
        stairs.right_keys, stairs.right_needs, stairs.left_keys, stairs.left_needs,
    )  # fmt: skip


@kernel
def _wider(stairs: Stairs) -> Stairs:
    """Room for stairs of twice the width; what was climbed is lost."""
    width, n_groups = 2 * stairs.width, stairs.stamps.size
    if stairs.right_keys.size < width * n_groups:
        return _stairs(width, n_groups)
    stairs.stamps[:] = -1
    return _of_width(stairs, width)


@kernel
def _test(
    columns: Columns, reach: Reach, found: Candidates, by_value: Int64s, views: Views,
    points: Int64s, is_float: bool, first: int, last: int, ends: Int64s, out: Int32s,
) -> None:  # fmt: skip
    """Test the candidates of rows `first` to `last`."""
    n_groups = reach.highs.size
    stairs = _stairs(WIDTH, points.size)
    by_point, met = np.empty(0, np.int32), np.empty(n_groups, np.int32)
    for row in range(first, last):
        event = by_value[row]
        places = found.places[found.offsets[row] : found.offsets[row + 1]]
        begin, stop = found.slice_offsets[row], found.slice_offsets[row + 1]
        n_met = places.size + (found.stops[begin:stop] - found.starts[begin:stop]).sum()
        if n_met > n_groups:  # then about every group is met
            if by_point.size == 0:
                by_point = np.argsort(points[:n_groups]).astype(np.int32)
            groups = by_point
        else:
            _list_groups(
                columns.groups, places, found.starts[begin:stop], found.stops[begin:stop], met
            )
            groups = met[:n_met]
        # Most events do with narrow stairs, which are quicker to search.
        stairs = _of_width(stairs, WIDTH)
        stairs = _ready(stairs, groups, row, event, views, points, reach, is_float)
        end = _search(columns, stairs, places, 0, places.size, ends[event], out)
        for i in range(begin, stop):
            end = _search(columns, stairs, places[:0], found.starts[i], found.stops[i], end, out)
        ends[event] = end


@kernel
def _list_groups(
    groups: Int32s, places: Int32s, starts: Int32s, stops: Int32s, met: Int32s
) -> None:
    """Write down the group of each candidate."""
    at = 0
    for place in places:
        met[at] = groups[place]
        at += 1
    for i in range(starts.size):
        for place in range(starts[i], stops[i]):
            met[at] = groups[place]
            at += 1


@kernel
def _ready(
    stairs: Stairs, groups: Int32s, row: int, event: int,
    views: Views, points: Int64s, reach: Reach, is_float: bool,
) -> Stairs:  # fmt: skip
    """Stairs that this event has climbed for these groups."""
    keys = views.past.keys if views.is_past[event] else views.around.keys
    begin, end = views.starts[event], views.stops[event]
    i, place = 0, begin
    while i < groups.size:
        group = groups[i]
        if stairs.stamps[group] == row:
            i += 1
            continue
        if place > begin and keys[place - 1] >= points[group]:
            place = begin
        place = _first_from(keys, points[group], place, end)
        if _climb(stairs, group, views, event, place, points[group], reach, is_float):
            stairs.stamps[group] = row
        else:
            stairs, i = _wider(stairs), 0
    return stairs


@inlined
def _first_from(keys: Int64s, point: int, start: int, stop: int) -> int:
    """The first place from `start` with a key of at least `point`, or `stop`, by galloping."""
    return start if point == LEAST else first_above(keys, point - 1, start, stop)


@kernel
def _search(
    columns: Columns, stairs: Stairs, places: Int32s, start: int, stop: int, end: int, out: Int32s
) -> int:
    """Append the candidates from `start` to `stop`, or at `places` if any, that are affected.

    That is, whose window reaches a stair within their range; the new end. The last three steps of
    the search are written out, without a loop: then the processor need not guess.
    """
    right_keys, left_keys = stairs.right_keys, stairs.left_keys
    # Unsigned, because a signed index is first looked at whether it counts from the end.
    width, half = np.uint64(stairs.width), np.uint64(stairs.width >> 1)
    one, two, four = np.uint64(1), np.uint64(2), np.uint64(4)
    for i in range(start, stop):
        place = places[i] if places.size else i
        high, low = columns.highs[place], columns.lows[place]
        right = np.uint64(columns.groups[place]) * width
        left = right
        step = half
        while step > four:
            right += step * np.uint64(right_keys[right + step] <= high)
            left += step * np.uint64(left_keys[left + step] <= low)
            step >>= one
        right += four * np.uint64(right_keys[right + four] <= high)
        left += four * np.uint64(left_keys[left + four] <= low)
        right += two * np.uint64(right_keys[right + two] <= high)
        left += two * np.uint64(left_keys[left + two] <= low)
        right += np.uint64(right_keys[right + one] <= high)
        left += np.uint64(left_keys[left + one] <= low)
        window, slot = columns.windows[place], columns.slots[place]
        is_near = (stairs.right_needs[right] < window) | (stairs.left_needs[left] < window)
        out[end] = slot
        end += is_near & (slot >= 0)
    return end


@inlined
def _climb(
    stairs: Stairs, group: int, views: Views, event: int, place: int, point: int,
    reach: Reach, is_float: bool,
) -> bool:  # fmt: skip
    """Write the stairs of a group as this event sees them; whether the width is enough.

    `place` is that of the first entry that is not left of the group's point.
    """
    is_past, time = views.is_past[event], views.times[event]
    begin, end = views.starts[event], views.stops[event]
    line = views.past if is_past else views.around
    for side in range(2):
        keys, needs, links = stairs.right_keys, stairs.right_needs, line.right
        limit = reach.highs[group]
        i = place - begin if place < end else -1
        if side:
            keys, needs, links = stairs.left_keys, stairs.left_needs, line.left
            limit = reach.lows[group]
            i = place - begin - (place == end or line.keys[place] != point)
        base = group * stairs.width
        at, stop = base + 1, base + stairs.width
        keys[base], needs[base] = LEAST, FAR
        while i >= 0:
            near, key = line.near[begin + i], line.keys[begin + i]
            if side:
                key = ~key
            if key > limit:
                break
            distance = abs(difference(near, time, is_float)) if is_past else -near
            if distance <= reach.windows[group]:
                if at == stop:
                    return False
                keys[at], needs[at] = key, distance - 1
                at += 1
            i = links[begin + i]
        keys[at:stop] = FAR
        needs[at:stop] = needs[at - 1]
    return True
