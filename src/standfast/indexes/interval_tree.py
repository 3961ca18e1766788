"""Interval tree: every interval lives at the highest boundary it holds; a probe reads prefixes.

    boundary   1    2    3    4    5    6    7         keys, about every 32nd endpoint
    level      0    1    0    2    0    1    0         trailing zeros of the boundary's number
               .    [----.----.---------]    .         lives at 4: low order and high order there
               . [--]    .    .  []     .    .         lives at 2; in the bucket after 4: a leaf
                           ^ value in bucket 3: left of 4, so the lows of 4 up to the value;
                             right of 2 and 3, so the highs of 2 and of 3 down to the value

A boundary is a stabbing group: left of it an interval holds a value iff its low <= value, right of
it iff its high >= value. So one prefix of one order per level answers, and a mask per bucket names
the levels that reach into it, which skips the others: an interval that is far away costs nothing,
and one that covers everything costs one level.

Highs are kept as ~high, which turns their order round without overflow, so that both orders ascend
and both questions read `key <= needle`, with the needle `value` or `~value`.

Invariant  boundaries ascend strictly; within a boundary's cell both kinds of keys ascend and every
           interval holds the boundary; a leaf's intervals hold no boundary, so there are fewer
           than half a bucket; `levels[c]` has bit l iff the cell of level l reaches bucket c.
Cost       probe O(log n + k) for k answers, in O(log n) slices; build O(n log n);
           36 bytes an interval and 20 a bucket.
Source     Edelsbrunner's interval tree, as an implicit tree over numbered boundaries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from standfast._numba import kernel
from standfast.arrays import Bools, Int32s, Int64s
from standfast.indexes.growing import longer
from standfast.indexes.slot_order import SlotOrder

LONG = 64  # a slice of at least this many intervals stays a slice (decision 005)
MOST_BUCKET = 8 * LONG
MOST_ROOM = 1 << 24  # slots to allocate on the word of the last batch
MOST_SHORT = 40 * LONG  # a value writes out fewer: a leaf and a short slice of each of 31 levels


class Cells(NamedTuple):
    """The tree in arrays. Cell 2b belongs to boundary b (from 1), cell 2c + 1 to the leaf of
    bucket c, which lies between boundaries c and c + 1; cell i is `offsets[i]:offsets[i + 1]`.
    """

    boundaries: Int64s  # boundary b is boundaries[b - 1]
    levels: Int32s
    offsets: Int32s
    keys: Int64s  # the lows of all cells, then ~high of all cells, in a leaf beside their lows


class Rows(NamedTuple):
    """What ascending values hit: short slices written out, long ones as they are."""

    counts: Int64s  # of short slices, per value
    slots: Int32s  # the short slices of all values, one after the other
    long_rows: Int32s  # which value
    long_starts: Int32s  # order[start:stop]
    long_stops: Int32s


class IntervalTree:
    """Closed intervals, built at once; entries can be buried."""

    def __init__(self, slots: Int64s, lows: Int64s, highs: Int64s, *, bucket: int) -> None:
        assert 2 <= bucket <= MOST_BUCKET, f"a bucket of {bucket} endpoints"
        if np.any(slots[1:] < slots[:-1]):
            by_slot = np.argsort(slots)
            slots, lows, highs = slots[by_slot], lows[by_slot], highs[by_slot]
        self.slots = slots.astype(np.int32)
        self.n_live = slots.size
        self.cells, order, self._low_places, self._high_places = _build(
            self.slots, lows, highs, bucket
        )
        self.order = SlotOrder(order)  # the slots of the keys
        self._hits_per_value = 16.0

    def probe(self, ascending: Int64s) -> Rows:
        """What the values hit."""
        room = min(int(ascending.size * self._hits_per_value * 1.2), MOST_ROOM)
        rows = Rows(*_probe(self.cells, self.order.slots, ascending, room))
        self._hits_per_value = rows.slots.size / max(1, ascending.size)
        return rows

    def are_live(self, entries: Int64s) -> Bools:
        """Which entries are not buried."""
        live: Bools = self.order.slots[self._low_places[entries]] >= 0
        return live

    def bury(self, entries: Int64s) -> None:
        """Take entries out of later answers."""
        self.order.bury(np.concatenate([self._low_places[entries], self._high_places[entries]]))
        self.n_live -= entries.size

    def live(self) -> tuple[Int64s, Int64s, Int64s]:
        """Slots, lows and highs of the entries that are not buried."""
        kept = self.order.slots[self._low_places] >= 0
        lows = self.cells.keys[self._low_places[kept]]
        highs = ~self.cells.keys[self._high_places[kept]]
        return self.slots[kept].astype(np.int64), lows, highs

    def check(self) -> None:
        """Assert the invariant."""
        boundaries, _, offsets, keys = self.cells
        order, n = self.order.slots, self.slots.size
        assert np.all(boundaries[1:] > boundaries[:-1]), "boundaries must ascend"
        assert offsets[0] == 0, "cells must cover all places"
        assert offsets[-1] == n, "cells must cover all places"
        places = np.concatenate([self._low_places, self._high_places])
        assert np.array_equal(np.sort(places), np.arange(2 * n)), "places must be distinct"
        kept = order[self._low_places] >= 0
        assert np.count_nonzero(kept) == self.n_live, "burials are miscounted"
        for places in (self._low_places, self._high_places):
            assert np.array_equal(order[places], np.where(kept, self.slots, -1)), "wrong place"
        for boundary in range(1, boundaries.size + 1):
            self._check_boundary(boundary)
        for bucket in range(boundaries.size + 1):
            begin, end = offsets[2 * bucket + 1 : 2 * bucket + 3]
            low, high = keys[begin:end], ~keys[n + begin : n + end]
            for side in (low, high):
                assert np.all(np.searchsorted(boundaries, side, "right") == bucket), "wrong leaf"
                assert np.all(np.searchsorted(boundaries, side) == bucket), "leaf with a boundary"

    def _check_boundary(self, boundary: int) -> None:
        boundaries, levels, offsets, keys = self.cells
        n, key = self.slots.size, boundaries[boundary - 1]
        begin, end = offsets[2 * boundary : 2 * boundary + 2]
        low, high = keys[begin:end], ~keys[n + begin : n + end]
        assert np.all(low[1:] >= low[:-1]), "lows of a boundary must ascend"
        assert np.all(high[1:] <= high[:-1]), "highs of a boundary must descend"
        assert np.all(low <= key), "an interval must hold its boundary"
        assert np.all(high >= key), "an interval must hold its boundary"
        level = _lowest_bit(boundary)
        buckets = np.arange(levels.size)
        buckets = buckets[(levels >> level) % 2 == 1]
        buckets = buckets[((buckets >> level) | 1) << level == boundary]
        first, last = np.searchsorted(boundaries, [low.min(initial=key), high.max(initial=key)])
        first += low.size > 0 and boundaries[first] == low[0]
        last += last < boundaries.size and boundaries[last] == high.max(initial=key)
        expected = np.arange(first, last + 1) if low.size else np.empty(0, np.int64)
        assert np.array_equal(buckets, expected), "levels must name the buckets in reach"

    def memory_bytes(self) -> int:
        places = self._low_places.nbytes + self._high_places.nbytes
        cells = sum(array.nbytes for array in self.cells)
        return cells + places + self.slots.nbytes + self.order.memory_bytes()


def _build(
    slots: Int32s, lows: Int64s, highs: Int64s, bucket: int
) -> tuple[Cells, Int32s, Int32s, Int32s]:
    """The tree, the slots of its keys, and where the low and the high of each entry stand."""
    n = slots.size
    by_low = np.argsort(lows).astype(np.int32)
    by_high = np.argsort(highs).astype(np.int32)
    sorted_lows, sorted_highs = lows[by_low], highs[by_high]
    boundaries = _boundaries(sorted_lows, sorted_highs, bucket)
    owners, offsets = _assign(by_low, sorted_lows, by_high, sorted_highs, boundaries)
    levels = np.zeros(boundaries.size + 1, np.int32)
    cells = Cells(boundaries, levels, offsets, np.empty(2 * n, np.int64))
    low_places = np.empty(n, np.int32)
    _place_lows(cells, owners, by_low, sorted_lows, low_places)
    high_places = low_places + np.int32(n)
    _place_highs(cells, owners, by_high, sorted_highs, high_places)
    order = np.empty(2 * n, np.int32)
    order[low_places] = slots
    order[high_places] = slots
    return cells, order, low_places, high_places


@kernel
def _lowest_bit(number: int) -> int:
    """The place of the lowest bit that is set."""
    return _highest_bit(number & -number)


@kernel
def _highest_bit(number: int) -> int:
    """The place of the highest bit that is set, of a positive number below 2^32."""
    place = 0
    for half in (16, 8, 4, 2, 1):
        if number >> half:
            number >>= half
            place += half
    return place


@kernel
def _boundaries(lows: Int64s, highs: Int64s, bucket: int) -> Int64s:
    """Every `bucket`-th endpoint of both sorted arrays, each key once."""
    n = lows.size
    boundaries = np.empty(2 * n // bucket + 1, np.int64)
    used, i, j = 0, 0, 0
    for rank in range(2 * n):
        if j == n or (i < n and lows[i] <= highs[j]):
            key = lows[i]
            i += 1
        else:
            key = highs[j]
            j += 1
        if rank % bucket == 0 and (used == 0 or boundaries[used - 1] != key):
            boundaries[used] = key
            used += 1
    return boundaries[:used].copy()


@kernel
def _assign(
    by_low: Int32s, lows: Int64s, by_high: Int32s, highs: Int64s, boundaries: Int64s
) -> tuple[Int32s, Int32s]:
    """The cell of each interval, and the offsets of the cells."""
    n, m = lows.size, boundaries.size
    owners = np.empty(n, np.int32)
    offsets = np.zeros(2 * m + 3, np.int32)
    first = 0
    for k in range(n):
        while first < m and boundaries[first] < lows[k]:
            first += 1
        owners[by_low[k]] = first
    last = 0
    for k in range(n):
        while last < m and boundaries[last] <= highs[k]:
            last += 1
        first = owners[by_high[k]]
        cell = 2 * last + 1
        if first != last:  # holds the boundaries first + 1 to last
            level = _highest_bit(first ^ last)
            cell = 2 * (last >> level << level)
        owners[by_high[k]] = cell
        offsets[cell + 1] += 1
    for cell in range(2 * m + 2):
        offsets[cell + 1] += offsets[cell]
    return owners, offsets


@kernel
def _place_lows(cells: Cells, owners: Int32s, by_low: Int32s, lows: Int64s, places: Int32s) -> None:
    """Deal the lows, ascending, to their cells; mark how far left each boundary reaches."""
    following = cells.offsets.copy()
    bucket, m = 0, cells.boundaries.size
    for k in range(lows.size):
        while bucket < m and cells.boundaries[bucket] <= lows[k]:
            bucket += 1
        entry = by_low[k]
        cell = owners[entry]
        place = following[cell]
        following[cell] += 1
        cells.keys[place] = lows[k]
        places[entry] = place
        if cell % 2 == 0 and place == cells.offsets[cell]:
            level = _lowest_bit(cell // 2)
            for reached in range(bucket, cell // 2):
                cells.levels[reached] |= 1 << level


@kernel
def _place_highs(
    cells: Cells, owners: Int32s, by_high: Int32s, highs: Int64s, places: Int32s
) -> None:
    """Deal the highs, descending, to their cells, in a leaf beside their lows; mark the right.

    `places` comes in with the places beside the lows.
    """
    n = highs.size
    following = cells.offsets.copy()
    bucket = cells.boundaries.size
    for k in range(n - 1, -1, -1):
        while bucket > 0 and cells.boundaries[bucket - 1] > highs[k]:
            bucket -= 1
        entry = by_high[k]
        cell = owners[entry]
        if cell % 2 == 0:
            place = following[cell]
            following[cell] += 1
            places[entry] = n + place
            if place == cells.offsets[cell]:
                level = _lowest_bit(cell // 2)
                for reached in range(cell // 2, bucket + 1):
                    cells.levels[reached] |= 1 << level
        cells.keys[places[entry]] = ~highs[k]


@kernel
def _probe(
    cells: Cells, order: Int32s, values: Int64s, room: int
) -> tuple[Int64s, Int32s, Int32s, Int32s, Int32s]:
    """The fields of `Rows` for ascending values; `room` is a guess of how many slots there are."""
    n, bucket = order.size // 2, 0
    counts = np.empty(values.size, np.int64)
    slots, used = np.empty(room + MOST_SHORT, np.int32), 0
    rows, n_long = np.empty(64, np.int32), 0
    starts, stops = np.empty(64, np.int32), np.empty(64, np.int32)
    for e in range(values.size):
        value = values[e]
        bucket = _first_above(cells.boundaries, bucket, cells.boundaries.size, value)
        if used + MOST_SHORT > slots.size:
            slots = longer(slots, MOST_SHORT)
        if n_long + 32 > rows.size:
            rows, starts, stops = longer(rows, 32), longer(starts, 32), longer(stops, 32)
        before = used
        for i in range(cells.offsets[2 * bucket + 1], cells.offsets[2 * bucket + 2]):
            if cells.keys[i] <= value and cells.keys[n + i] <= ~value:
                slots[used] = order[i]
                used += order[i] >= 0
        reaching = cells.levels[bucket]
        while reaching:
            level = _lowest_bit(reaching)
            reaching &= reaching - 1
            boundary = ((bucket >> level) | 1) << level
            base, needle = (0, value) if bucket < boundary else (n, ~value)
            begin = base + cells.offsets[2 * boundary]
            end = base + cells.offsets[2 * boundary + 1]
            i, short = begin, used
            while i < min(end, begin + LONG) and cells.keys[i] <= needle:
                slots[used] = order[i]
                used += order[i] >= 0
                i += 1
            if i == begin + LONG:
                used = short
                rows[n_long], starts[n_long] = e, begin
                stops[n_long] = _first_above(cells.keys, i, end, needle)
                n_long += 1
        counts[e] = used - before
    return counts, slots[:used], rows[:n_long], starts[:n_long], stops[:n_long]


@kernel
def _first_above(ascending: Int64s, begin: int, end: int, value: int) -> int:
    """The first place from `begin` whose key exceeds the value, or `end`, by galloping."""
    step = 1
    while begin + step <= end and ascending[begin + step - 1] <= value:
        begin += step
        step *= 2
    end = min(end, begin + step - 1)
    while begin < end:
        middle = (begin + end) // 2
        if ascending[middle] <= value:
            begin = middle + 1
        else:
            end = middle
    return begin
