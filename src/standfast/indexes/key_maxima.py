"""Key maxima: the rows of each key that are the largest of some window up to now.

    value
      9 |  o                 a row counts until a later row of its key is at least as large,
      7 |      o             so times ascend and values descend; the maximum of a window is its
      4 |            o       first row
        +---------------- time

Invariant  times of a key ascend strictly, values descend strictly, and every other row of the key
           that came has a row here that is not earlier and not smaller, unless that was let go.
Cost       a row O(1) amortised, found by search when it is late; a maximum O(log rows of a key).
Paper      [shared-windows] asks for MAX and MIN by key; the minimum is the maximum of `~value`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from standfast._numba import inlined, kernel
from standfast.arrays import Int64s
from standfast.indexes.key_blocks import check_blocks, moves, packed


class Peaks(NamedTuple):
    """What kernels see: columns of the pool, and arrays by key number."""

    times: Int64s
    values: Int64s
    begins: Int64s
    rooms: Int64s
    firsts: Int64s
    ends: Int64s


class KeyMaxima:
    """The rows that matter for maxima, by key number."""

    def __init__(self) -> None:
        self.peaks = Peaks(*(np.zeros(0, np.int64) for _ in range(6)))
        self._used = 0
        self._counts = np.zeros(0, np.int64)  # by key, all 0 between calls
        self._most = np.empty(0, np.int64)  # by key, of no meaning between calls

    @property
    def n_rows(self) -> int:
        return int(np.sum(self.peaks.ends - self.peaks.firsts))

    def make_room(self, numbers: Int64s) -> None:
        """Have room for these rows, given by the number of their key."""
        if not numbers.size:
            return
        self._know(numbers)
        touched, counts = _lacking(self.peaks, numbers, self._counts)
        if not touched.size:
            return
        peaks, move = self.peaks, moves(self.peaks, touched, counts, self._used)
        if move.used > peaks.times.size:
            move = packed(peaks, *np.unique(numbers, return_counts=True))
            pool = np.zeros((2, 2 * move.used), np.int64)
            self.peaks = Peaks(pool[0], pool[1], *peaks[2:])
        self._used = move.used
        peaks.rooms[move.keys] = move.rooms
        _move(peaks, self.peaks, move.keys, move.begins)

    def unbeaten(self, numbers: Int64s, values: Int64s) -> Int64s:
        """The places of rows that no later one of the same key and batch equals or beats."""
        self._know(numbers)
        return _unbeaten(numbers, values, self._counts, self._most)

    def _know(self, numbers: Int64s) -> None:
        """Have arrays that are long enough for these keys."""
        have, wanted = self.peaks.begins.size, int(numbers.max(initial=-1)) + 1
        if wanted > have:
            more = np.zeros(max(wanted, 2 * have) - have, np.int64)
            self.peaks = Peaks(
                *self.peaks[:2], *(np.concatenate([array, more]) for array in self.peaks[2:])
            )
            self._counts = np.zeros(self.peaks.begins.size, np.int64)
            self._most = self._counts.copy()

    def insert(self, numbers: Int64s, times: Int64s, values: Int64s) -> None:
        """Take in rows; fastest when their times ascend."""
        self.make_room(numbers)
        _insert(self.peaks, numbers, times, values)

    def expire(self, oldest: int) -> None:
        """Let rows before `oldest` go."""
        _expire(self.peaks, oldest)

    def without_rows(self, numbers: Int64s) -> Int64s:
        """Those of these keys that have no rows."""
        numbers = numbers[numbers < self.peaks.begins.size]
        without: Int64s = numbers[self.peaks.firsts[numbers] == self.peaks.ends[numbers]]
        return without

    def memory_bytes(self) -> int:
        return sum(array.nbytes for array in (*self.peaks, self._counts, self._most))

    def check(self) -> None:
        check_blocks(self.peaks)
        for k in range(self.peaks.begins.size):
            block = slice(self.peaks.firsts[k], self.peaks.ends[k])
            times, values = self.peaks.times[block], self.peaks.values[block]
            assert np.all(times[:-1] < times[1:]), f"key {k}: times do not ascend"
            assert np.all(values[:-1] > values[1:]), f"key {k}: values do not descend"


@kernel
def _move(old: Peaks, new: Peaks, keys: Int64s, begins: Int64s) -> None:
    """Copy the rows of keys to the start of their new blocks."""
    for i in range(keys.size):
        k, at = keys[i], begins[i]
        first, n = old.firsts[k], old.ends[k] - old.firsts[k]
        for j in range(n):
            new.times[at + j] = old.times[first + j]
            new.values[at + j] = old.values[first + j]
        new.begins[k], new.firsts[k], new.ends[k] = at, at, at + n


@kernel
def _lacking(peaks: Peaks, numbers: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    """The keys that have no room for their rows, and how many these are; `counts` are zeros."""
    keys, n = np.empty(numbers.size, np.int64), 0
    for i in range(numbers.size):
        k = numbers[i]
        counts[k] += 1
        if peaks.ends[k] + counts[k] == peaks.begins[k] + peaks.rooms[k] + 1:
            keys[n] = k
            n += 1
    lacking = keys[:n].copy()
    n_rows = counts[lacking]
    for i in range(numbers.size):
        counts[numbers[i]] = 0
    return lacking, n_rows


@kernel
def _unbeaten(numbers: Int64s, values: Int64s, counts: Int64s, most: Int64s) -> Int64s:
    """See `KeyMaxima.unbeaten`; `counts` are zeros."""
    kept, n = np.empty(numbers.size, np.int64), numbers.size
    for i in range(numbers.size - 1, -1, -1):
        k = numbers[i]
        if counts[k] == 0 or values[i] > most[k]:
            counts[k], most[k] = 1, values[i]
            n -= 1
            kept[n] = i
    for i in range(numbers.size):
        counts[numbers[i]] = 0
    return kept[n:].copy()


@kernel
def _insert(peaks: Peaks, numbers: Int64s, times: Int64s, values: Int64s) -> None:
    for i in range(numbers.size):
        low, high = displaced(peaks, numbers[i], times[i], values[i])
        if low >= 0:
            replace(peaks, numbers[i], low, high, times[i], values[i])


@kernel
def _expire(peaks: Peaks, oldest: int) -> None:
    for k in range(peaks.begins.size):
        peaks.firsts[k] = first_from(peaks, k, oldest)


@inlined
def first_from(peaks: Peaks, k: int, start: int) -> int:
    """The first row of key k at or after the time `start`, its end if there is none."""
    low, high = peaks.firsts[k], peaks.ends[k]
    while low < high:
        middle = (low + high) >> 1
        if peaks.times[middle] < start:
            low = middle + 1
        else:
            high = middle
    return int(low)


@inlined
def displaced(peaks: Peaks, k: int, time: int, value: int) -> tuple[int, int]:
    """The rows of key k, from the first to before the second, that a new row makes needless.

    It goes in their place; (-1, -1) if the new row is needless itself.
    """
    first, end = peaks.firsts[k], peaks.ends[k]
    is_late = end > first and peaks.times[end - 1] >= time
    at = first_from(peaks, k, time) if is_late else end
    high = at
    if at < end:
        if peaks.values[at] >= value:
            return -1, -1
        high += peaks.times[at] == time
    low = at
    while low > first and peaks.values[low - 1] <= value:
        low -= 1
    return low, high


@inlined
def replace(peaks: Peaks, k: int, low: int, high: int, time: int, value: int) -> None:
    """Put one row in the place of those from `low` to before `high`."""
    end = peaks.ends[k]
    if low == high:
        for i in range(end, high, -1):
            peaks.times[i], peaks.values[i] = peaks.times[i - 1], peaks.values[i - 1]
    elif high > low + 1:
        for i in range(high, end):
            at = i - (high - low - 1)
            peaks.times[at], peaks.values[at] = peaks.times[i], peaks.values[i]
    peaks.times[low], peaks.values[low] = time, value
    peaks.ends[k] = end + 1 - (high - low)
