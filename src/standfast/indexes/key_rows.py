"""Key rows: the rows of each key in order of their time, with running totals.

    key 0   | 3 5 5 9 . . |        a block of the pool for each key, with room behind
    key 1   | . . 4 8 |            rows that are too old leave at the front
    pool    3 5 5 9 . . . . 4 8 ...

    before  0 2 7 8                what the values of the earlier rows of the key add up to, so a
    total   13                     window that starts at row i sums to total - before[i]

A row that comes late is put in its place. The rows behind the first such row of a key move and
their totals are taken again, once for all late rows of a batch; those before it stay.

Invariant  the blocks of keys do not overlap; times ascend within a key; `before` is the running
           total of the values, from any number on, `totals` its end, `counted` the number of rows
           that ever came, and `masses` at least the sum of what `before` was made of, without sign.
Cost       a row O(1) amortised, and once for all late rows of a key and batch as much as there are
           later rows of it; letting rows go O(keys + rows of those that lost some), done when as
           many rows came as are kept.
Paper      [shared-windows] 3.2, running intervals, for windows in time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from standfast._numba import inlined, kernel
from standfast.arrays import Int64s
from standfast.indexes.exact_sums import float_sum, whole_sum
from standfast.indexes.key_blocks import check_blocks, moves, packed

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

# Totals of whole numbers are kept while no sum can pass this; then they are taken from the rows.
WIDE = 2.0**62
NONE_LATE = np.iinfo(np.int64).max


class Rows(NamedTuple):
    """What kernels see: columns of the pool, and arrays by key number."""

    times: Int64s
    values: npt.NDArray[Any]  # int64 or float64; empty when only times are kept
    before: npt.NDArray[Any]
    begins: Int64s  # where the block of a key is
    rooms: Int64s
    firsts: Int64s  # its living rows are firsts[k] to ends[k]
    ends: Int64s
    totals: npt.NDArray[Any]
    counted: Int64s
    masses: Floats
    negatives: Int64s  # how many living values are below 0
    limit: float  # totals of a key are kept while its mass is below this


BY_KEY = Rows._fields[3:-1]
NOTHING = np.empty(0, np.int64)


class Came(NamedTuple):
    """What a batch changed: each key that it has rows of, once, in no order; and which of these
    have totals that start anew, or rows in another order.
    """

    touched: Int64s
    anew: Int64s


class KeyRows:
    """Rows by key number. `kind` is the type of their values, None to keep times only."""

    def __init__(self, kind: type[np.int64] | type[np.float64] | None) -> None:
        self.kind = kind
        self.n_rows = 0
        self._used = 0
        self._counts = np.zeros(0, np.int64)  # by key, all 0 between calls
        self._lates = np.zeros(0, np.int64)  # by key, all NONE_LATE between calls
        self.rows = _empty(0, 0, kind)

    def insert(self, numbers: Int64s, times: Int64s, values: npt.NDArray[Any]) -> Came:
        """Take in rows whose times ascend. Keys are numbered from 0; room for them is made here.

        Nothing is done for each key that has no rows here, and nothing is sorted but the keys of
        late rows.
        """
        if not numbers.size:
            return Came(NOTHING, NOTHING)
        self._make_room(int(numbers.max()) + 1)
        touched, counts = _distinct(numbers, self._counts)
        anew = self._make_blocks(touched, counts)
        late = np.empty(numbers.size, np.int64)
        late = late[: _append(self.rows, numbers, times, values, late)]
        if late.size:
            np.add.at(self._counts, numbers[late], 1)
            _put_back(self.rows, numbers, times, values, late, self._counts, self._lates)
            _total_again(self.rows, touched, self._lates)
            anew = np.union1d(anew, numbers[late])
        self.n_rows += numbers.size
        return Came(touched, anew)

    def expire(self, oldest: int) -> Int64s:
        """Let rows before `oldest` go; the keys that lost rows, whose totals start anew."""
        lost = np.empty(self.rows.begins.size, np.int64)
        n, n_gone = _expire(self.rows, oldest, lost)
        self.n_rows -= n_gone
        return lost[:n].copy()

    def without_rows(self, numbers: Int64s) -> Int64s:
        """Those of these keys that have no rows."""
        numbers = numbers[numbers < self.rows.begins.size]
        without: Int64s = numbers[self.rows.firsts[numbers] == self.rows.ends[numbers]]
        return without

    def forget(self, numbers: Int64s) -> None:
        """Forget what is known of keys without rows, because their numbers go to others."""
        rows = self.rows
        assert np.all(rows.firsts[numbers] == rows.ends[numbers]), "a forgotten key has rows"
        for array in (rows.totals, rows.counted, rows.masses, rows.negatives):
            array[numbers] = 0

    def memory_bytes(self) -> int:
        own = self._counts.nbytes + self._lates.nbytes
        return sum(array.nbytes for array in self.rows[:-1]) + own

    def check(self) -> None:
        rows = self.rows
        check_blocks(rows)
        assert not self._counts.any(), "rows of a batch are still counted"
        assert np.all(self._lates == NONE_LATE), "late rows of a batch are still known"
        assert self.n_rows == int(np.sum(rows.ends - rows.firsts)), "rows are miscounted"
        for k in range(rows.begins.size):
            block = slice(rows.firsts[k], rows.ends[k])
            times = rows.times[block]
            assert np.all(times[:-1] <= times[1:]), f"key {k}: times do not ascend"
            assert rows.counted[k] >= times.size, f"key {k}: more rows than ever came"
            if self.kind is None or not times.size:
                continue
            values = rows.values[block]
            assert rows.negatives[k] == np.count_nonzero(values < 0), f"key {k}: signs miscounted"
            mass = float(np.sum(np.abs(values.astype(np.float64))))
            assert not rows.masses[k] < mass * (1 - 1e-9), f"key {k}: the mass is too small"
            if rows.masses[k] < rows.limit:
                sums = np.append(rows.before[block], rows.totals[k])
                steps = np.diff(sums)
                near = 1e-12 * rows.masses[k] if self.kind is np.float64 else 0
                assert np.all(np.abs(steps - values) <= near), f"key {k}: totals are wrong"

    def _make_room(self, n_keys: int) -> None:
        have = self.rows.begins.size
        if n_keys <= have:
            return
        more = _empty(0, max(n_keys, 2 * have) - have, self.kind)
        longer: dict[str, Any] = {
            name: np.concatenate([getattr(self.rows, name), getattr(more, name)]) for name in BY_KEY
        }
        self.rows = self.rows._replace(**longer)
        self._counts = np.zeros(self.rows.begins.size, np.int64)
        self._lates = np.full(self.rows.begins.size, NONE_LATE)

    def _make_blocks(self, touched: Int64s, counts: Int64s) -> Int64s:
        """Blocks with room for so many more rows; which of these keys were moved for that."""
        rows = self.rows
        move = moves(rows, touched, counts, self._used)
        moved = move.keys
        if move.used > rows.times.size:
            move, moved = packed(rows, touched, counts), touched
            pool = _empty(2 * move.used, 0, self.kind)
            self.rows = rows._replace(times=pool.times, values=pool.values, before=pool.before)
        self._used = move.used
        if move.keys.size:
            rows.rooms[move.keys] = move.rooms
            _move(rows, self.rows, move.keys, move.begins)
        return moved


def _empty(n_rows: int, n_keys: int, kind: Any) -> Rows:
    column = np.zeros(n_rows if kind else 0, kind or np.int64)
    by_key: dict[str, Any] = {name: np.zeros(n_keys, np.int64) for name in BY_KEY}
    by_key |= {"totals": np.zeros(n_keys, kind or np.int64), "masses": np.zeros(n_keys)}
    limit = np.inf if kind is np.float64 else WIDE
    times = np.zeros(n_rows, np.int64)
    return Rows(times=times, values=column, before=column.copy(), **by_key, limit=limit)


@kernel
def _move(old: Rows, new: Rows, keys: Int64s, begins: Int64s) -> None:
    """Copy the living rows of keys to the start of their new blocks; totals start from 0."""
    for i in range(keys.size):
        k, at = keys[i], begins[i]
        first, end = old.firsts[k], old.ends[k]
        for j in range(end - first):
            new.times[at + j] = old.times[first + j]
            if new.values.size:
                new.values[at + j] = old.values[first + j]
        new.begins[k], new.firsts[k], new.ends[k] = at, at, at + end - first
        _total(new, k)


@inlined
def _total(rows: Rows, k: int) -> None:
    """Take the running totals of a key again, from 0 on."""
    if rows.values.size == 0:
        return
    rows.totals[k], rows.masses[k] = 0, 0.0
    for i in range(rows.firsts[k], rows.ends[k]):
        rows.before[i] = rows.totals[k]
        _add(rows, k, rows.values[i])


@inlined
def _add(rows: Rows, k: int, value: Any) -> None:
    rows.masses[k] = (rows.masses[k] + abs(float(value))) * (1 + 1e-15)
    if rows.masses[k] < rows.limit:
        rows.totals[k] += value


@kernel
def _distinct(numbers: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    """Each number once, as they come, and how often it comes; `counts` are zeros."""
    touched, n = np.empty(numbers.size, np.int64), 0
    for i in range(numbers.size):
        k = numbers[i]
        touched[n] = k
        n += counts[k] == 0
        counts[k] += 1
    n_rows = np.empty(n, np.int64)
    for i in range(n):
        k = touched[i]
        n_rows[i], counts[k] = counts[k], 0
    return touched[:n], n_rows


@kernel
def _append(
    rows: Rows, numbers: Int64s, times: Int64s, values: npt.NDArray[Any], late: Int64s
) -> int:
    """Put rows behind those of their keys, and write the places of the late ones; how many."""
    n_late = 0
    for i in range(numbers.size):
        k = numbers[i]
        at = rows.ends[k]
        if at > rows.firsts[k] and rows.times[at - 1] > times[i]:
            late[n_late] = i
            n_late += 1
            continue
        rows.times[at] = times[i]
        rows.ends[k] += 1
        rows.counted[k] += 1
        if rows.values.size:
            rows.values[at] = values[i]
            rows.negatives[k] += values[i] < 0
            rows.before[at] = rows.totals[k]
            _add(rows, k, values[i])
    return n_late


@kernel
def _put_back(
    rows: Rows, numbers: Int64s, times: Int64s, values: npt.NDArray[Any], late: Int64s,
    gaps: Int64s, lates: Int64s,
) -> None:  # fmt: skip
    """Put late rows in their place, the latest first, so that each row behind them moves once.

    `gaps` has how many are left of each key, none in the end: so far do its rows move. `lates`
    becomes the first place of each key where one was put; before it totals are right.
    """
    for j in range(late.size - 1, -1, -1):
        i = late[j]
        k = numbers[i]
        gap, at = gaps[k], rows.ends[k]
        if lates[k] < NONE_LATE:
            at = lates[k] - gap  # what stands behind has moved already
        while at > rows.firsts[k] and rows.times[at - 1] > times[i]:
            at -= 1
            rows.times[at + gap] = rows.times[at]
            if rows.values.size:
                rows.values[at + gap] = rows.values[at]
        lates[k], gaps[k] = at + gap - 1, gap - 1
        rows.times[lates[k]] = times[i]
        rows.ends[k] += 1
        rows.counted[k] += 1
        if rows.values.size:
            rows.values[lates[k]] = values[i]
            rows.negatives[k] += values[i] < 0
            _add(rows, k, values[i])


@kernel
def _total_again(rows: Rows, keys: Int64s, lates: Int64s) -> None:
    """Take the totals of keys again from their first late row on, which is forgotten.

    Their masses are right.
    """
    for k in keys:
        if rows.values.size and lates[k] < NONE_LATE and rows.masses[k] < rows.limit:
            total = rows.before[lates[k]]
            for i in range(lates[k], rows.ends[k]):
                rows.before[i] = total
                total += rows.values[i]
            rows.totals[k] = total
        lates[k] = NONE_LATE


@kernel
def _expire(rows: Rows, oldest: int, lost: Int64s) -> tuple[int, int]:
    """Move the first row of each key up; which keys lost rows, and how many rows went."""
    n, n_gone = 0, 0
    for k in range(rows.begins.size):
        first, end = rows.firsts[k], rows.ends[k]
        while first < end and rows.times[first] < oldest:
            if rows.values.size:
                rows.negatives[k] -= rows.values[first] < 0
            first += 1
        if first > rows.firsts[k]:
            lost[n] = k
            n += 1
            n_gone += first - rows.firsts[k]
            rows.firsts[k] = first
            _total(rows, k)
    return n, n_gone


@inlined
def window_start(rows: Rows, k: int, start: int) -> int:
    """The first row of key k at or after the time `start`; its end if there is none."""
    low, high = rows.firsts[k], rows.ends[k]
    while low < high:
        middle = (low + high) >> 1
        if rows.times[middle] < start:
            low = middle + 1
        else:
            high = middle
    return int(low)


@inlined
def count_within(times: Int64s, first: int, end: int, start: int, low: Any, high: Any) -> bool:
    """Whether the rows from `first` to before `end` hold `low` to `high`, at least one, at or after
    `start`.

    No search: the row that is `low` from the end must lie in the window, the one that is
    `high + 1` from the end must not.
    """
    n, least = end - first, max(int(low), 1)
    if high < least or n < least or times[end - least] < start:
        return False
    return bool(n <= high or times[end - int(high) - 1] < start)


@inlined
def rounding_margin(rows: Rows, k: int) -> float:
    """How far `totals - before` of a key with float64 values can be from the exact sum."""
    return float(2.0**-52 * (rows.ends[k] - rows.begins[k] + 2) * rows.masses[k])


@inlined
def sum_within(rows: Rows, k: int, start: int, low: Any, high: Any, whole: bool) -> bool:
    """Whether key k has rows at or after `start` whose exact sum, rounded once, is in the range.

    The running totals decide unless rounding leaves a doubt; then the rows are added exactly.
    """
    at, end = window_start(rows, k, start), rows.ends[k]
    if at == end:
        return False
    about = rows.totals[k] - rows.before[at]
    if whole:
        if rows.masses[k] >= rows.limit:
            about = whole_sum(rows.values, at, end)
        return bool(low <= about <= high)
    if rows.masses[k] < rows.limit:
        margin = rounding_margin(rows, k)
        if low <= about - margin and about + margin <= high:
            return True
        if about + margin < low or high < about - margin:
            return False
    return bool(low <= float_sum(rows.values, at, end) <= high)
