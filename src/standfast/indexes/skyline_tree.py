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

from standfast._numba import in_parts, kernel
from standfast.arrays import Int32s, Int64s
from standfast.indexes.interval_tree import IntervalTree
from standfast.indexes.keys import FAR, LEAST, difference
from standfast.indexes.skylines import Skylines

BUCKET = 32
WIDTH = 8


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
        self.largest = int(highs[2].max())
        self._tree = IntervalTree(np.arange(n), lows[0], highs[0], bucket=bucket)
        entries = self._tree.order.slots
        self._places = np.empty((2, n), np.int32)
        self._places[0, entries[:n]] = np.arange(n)
        self._places[1, entries[n:]] = np.arange(n, 2 * n)
        self._columns = Columns(
            self.slots[entries], np.full(2 * n, -1, np.int32),
            ~lows[1, entries], highs[1, entries], highs[2, entries],
        )  # fmt: skip
        self.partition_version = -1  # for whoever sets the groups

    @property
    def n_live(self) -> int:
        return self._tree.n_live

    def set_groups(self, groups: Int32s) -> None:
        """Tell the stabbing group of every entry, by ascending slot."""
        self._columns.groups[self._places] = groups

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
                self._columns, found, by_value, views, points, self.largest, is_float,
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
def _stairs(width: int, n_groups: int) -> Stairs:
    size = width * n_groups
    return Stairs(
        width, np.full(n_groups, -1),
        np.empty(size, np.int64), np.empty(size, np.int64),
        np.empty(size, np.int64), np.empty(size, np.int64),
    )  # fmt: skip


@kernel
def _test(
    columns: Columns, found: Candidates, by_value: Int64s, views: Views, points: Int64s,
    largest: int, is_float: bool, first: int, last: int, ends: Int64s, out: Int32s,
) -> None:  # fmt: skip
    stairs = _stairs(WIDTH, points.size)
    for row in range(first, last):
        event = by_value[row]
        if views.starts[event] == views.stops[event]:
            continue
        n_short = found.offsets[row + 1] - found.offsets[row]
        for part in range(-1, found.slice_offsets[row + 1] - found.slice_offsets[row]):
            if part < 0:
                places = found.places[found.offsets[row] : found.offsets[row + 1]]
                start, stop = 0, n_short
            else:
                places = found.places[:0]
                slice_ = found.slice_offsets[row] + part
                start, stop = found.starts[slice_], found.stops[slice_]
            for i in range(start, stop):
                group = columns.groups[places[i] if places.size else i]
                while stairs.stamps[group] != row:
                    if _climb(stairs, group, row, views, event, points[group], largest, is_float):
                        stairs.stamps[group] = row
                    else:
                        stairs = _stairs(2 * stairs.width, points.size)
            ends[event] = _search(columns, stairs, places, start, stop, ends[event], out)


@kernel
def _search(
    columns: Columns, stairs: Stairs, places: Int32s, start: int, stop: int, end: int, out: Int32s
) -> int:
    """Append the candidates that are affected; the new end."""
    half = stairs.width >> 1
    for i in range(start, stop):
        place = places[i] if places.size else i
        right = left = columns.groups[place] * stairs.width
        high, low = columns.highs[place], columns.lows[place]
        step = half
        while step:
            right += step if stairs.right_keys[right + step] <= high else 0
            left += step if stairs.left_keys[left + step] <= low else 0
            step >>= 1
        need = min(stairs.right_needs[right], stairs.left_needs[left])
        slot = columns.slots[place]
        out[end] = slot
        end += (need < columns.windows[place]) & (slot >= 0)
    return end


@kernel
def _climb(
    stairs: Stairs, group: int, row: int, views: Views, event: int, point: int,
    largest: int, is_float: bool,
) -> bool:  # fmt: skip
    """Write the stairs of a group as this event sees them; whether the width is enough."""
    is_past, time = views.is_past[event], views.times[event]
    begin, end = views.starts[event], views.stops[event]
    line = views.past if is_past else views.around
    low, high = begin, end
    while low < high:
        middle = (low + high) >> 1
        if line.keys[middle] < point:
            low = middle + 1
        else:
            high = middle
    for side in range(2):
        keys, needs, links = stairs.right_keys, stairs.right_needs, line.right
        i = low - begin if low < end else -1
        if side:
            keys, needs, links = stairs.left_keys, stairs.left_needs, line.left
            i = low - begin - (low == end or line.keys[low] != point)
        base = group * stairs.width
        at, stop = base + 1, base + stairs.width
        keys[base], needs[base] = LEAST, FAR
        while i >= 0:
            near, key = line.near[begin + i], line.keys[begin + i]
            distance = abs(difference(near, time, is_float)) if is_past else -near
            if distance <= largest:
                if at == stop:
                    return False
                keys[at], needs[at] = ~key if side else key, distance - 1
                at += 1
            i = links[begin + i]
        keys[at:stop] = FAR
        needs[at:stop] = needs[at - 1]
    return True
