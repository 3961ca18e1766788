"""Lanes: the recent rows of a stream by key, each key's rows in order of time in a ring of its own.

    lane 0   start 0,  4 places      | 8 | 5 | 6 | 7 |      positions 5 .. 8, head 5, tail 9
    lane 1   start 4,  8 places      | 0 | 1 | 2 |   |   |   |   |   |      head 0, tail 3

Position p of a lane stands at place `start + p % capacity`; positions count up and the oldest rows
go from the head. Rows of one time stand in order of their values, those without a value first, so
the order of arrival leaves no trace. A late row is put where it belongs: the rows after it move
up. Structures that aggregate the rows keep arrays by place beside these; `Change` tells them from
which position on a lane is different.

Invariant  a capacity is a power of two above the number of rows; rows of a lane ascend by (time,
           has a value, value); every lane but those that stand empty has a code of its own.
Cost       append O(1) amortised a row in order; late rows O(d + log n) once for all of a batch, d
           rows being after the first of them, and as much again in every structure beside;
           positions of a window O(1) by rows, O(log n) by time; 17 bytes a place, at most four
           places a row that some window reaches, once rows came for an eighth of all.
Paper      [shared-windows] section 5: circular arrays; times, keys and late rows are ours.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from standfast.arrays import Int64s, with_room
from standfast.indexes.lane_changes import Change
from standfast.indexes.lane_kernels import (
    FARTHEST,
    FEWEST,
    LARGE,
    Bools,
    Geometry,
    Rows,
    Values,
    among_last,
    capacities,
    find_firsts,
    first_since,
    follows,
    is_sorted,
    merge,
    places_of,
    positions,
    positions_of,
    runs_of,
    trim,
    write,
)

Unit = Literal["rows", "range"]

# Rows that came since all lanes were last looked at, as a share of all, before the next look.
LOOK_AGAIN = 8
NEVER = -(1 << 61)


class Kept(NamedTuple):
    """All rows by lane and time, for snapshots and for starting over."""

    codes: Int64s
    times: Int64s
    values: Values
    valid: Bools


class Lanes:
    """Rows by key in order of time, no further back than `reach`."""

    def __init__(
        self, unit: Unit, *, is_float: bool, is_keyed: bool = False, reach: int = FARTHEST
    ) -> None:
        """`reach` is the greatest age that any window holds, in microseconds or rows; -1 if none.

        Without keys there is one lane, number 0, from the start.
        """
        self.unit = unit
        self.is_keyed = is_keyed
        self.dtype = np.float64 if is_float else np.int64
        self.reach = reach
        self.now = NEVER
        self.n_taken = 0  # rows that came so far
        self.generation = 0  # counts how often all lanes moved
        self._start(0, 0)
        if not is_keyed:
            self._add_lanes(np.zeros(1, np.int64))

    def _start(self, n_lanes: int, size: int) -> None:
        self.n_lanes = n_lanes
        self._table = np.zeros((4, n_lanes), np.int64)
        self.geometry = Geometry(*self._table)  # the same memory, row by row
        self.codes = np.zeros(n_lanes, np.int64)
        self.large = np.full(n_lanes, -1, np.int64)  # no large value stands behind this position
        self.size = size  # of the places in use or left behind
        self._times = np.empty(size, np.int64)
        self._values = np.empty(size, self.dtype)
        self._valid = np.empty(size, np.bool_)
        self._sorted_codes = np.empty(0, np.int64)
        self._sorted_lanes = np.empty(0, np.int64)
        self._unseen = 0

    def __len__(self) -> int:
        return int((self._table[3, : self.n_lanes] - self._table[2, : self.n_lanes]).sum())

    @property
    def times(self) -> Int64s:
        """Time of the row at each place."""
        return self._times[: self.size]

    @property
    def values(self) -> Values:
        """Value of the row at each place; 0 where it has none."""
        return self._values[: self.size]

    @property
    def valid(self) -> Bools:
        """Whether the row at each place has a value."""
        return self._valid[: self.size]

    def advance(self, now: int) -> None:
        """The latest time is at least this one."""
        self.now = max(self.now, now)

    def lanes_of(self, codes: Int64s) -> Int64s:
        """The lane of each code, or -1."""
        if not self._sorted_codes.size:
            return np.full(codes.size, -1, np.int64)
        at = np.minimum(np.searchsorted(self._sorted_codes, codes), self._sorted_codes.size - 1)
        lanes: Int64s = np.where(self._sorted_codes[at] == codes, self._sorted_lanes[at], -1)
        return lanes

    def append(self, codes: Int64s, times: Int64s, values: Values, valid: Bools) -> Change:
        """Take in rows in any order; `codes` are their keys, ignored where there are none."""
        if times.size:
            self.n_taken += times.size
            self.advance(int(times.max()))
        if self.unit == "range" and times.size and times.min() < self.now - self.reach:
            inside = times >= self.now - self.reach
            times, values, valid = times[inside], values[inside], valid[inside]
            codes = codes[inside] if self.is_keyed else codes
        if not times.size or self.reach < 0:
            return Change(np.empty(0, np.int64), np.empty(0, np.int64))
        self._unseen += times.size
        if not self.is_keyed and follows(self.geometry, self.times, times):
            touched, firsts = np.zeros(1, np.int64), self._table[3, :1].copy()
            n = times.size if self.unit == "range" else min(times.size, self.reach + 1)
            rows = times[-n:], np.asarray(values, self.dtype)[-n:], valid[-n:]
            return self._put(touched, np.array([n]), firsts, rows)
        lanes = self._lanes_for(codes) if self.is_keyed else np.zeros(times.size, np.int64)
        found = self._reachable(self._in_order(lanes, times, values, valid))
        touched, counts = runs_of(found[0])
        firsts = np.empty(touched.size, np.int64)
        if find_firsts(self.geometry, *self._columns(), touched, counts, *found[1:], firsts):
            found = self._with_later(touched, firsts, found)
            touched, counts = runs_of(found[0])
        return self._put(touched, counts, firsts, found[1:])

    def all_changed(self) -> Change:
        """Every lane from its first row on."""
        return Change(np.arange(self.n_lanes), self.geometry.heads.copy())

    def held(self, change: Change) -> Change:
        """The part of a change that is about rows still held."""
        return Change(change.lanes, np.maximum(change.firsts, self.geometry.heads[change.lanes]))

    def positions(self, lanes: Int64s, lows: Int64s, highs: Int64s) -> tuple[Int64s, Int64s]:
        """First and last position of the rows of `lanes[i]` with an age in `lows[i] .. highs[i]`.

        The last is before the first where there is no such row.
        """
        firsts, lasts = np.empty((2, lanes.size), np.int64)
        by_rows = self.unit == "rows"
        positions(self.geometry, self.times, self.now, by_rows, lanes, lows, highs, firsts, lasts)
        return firsts, lasts

    def first_since(self, lanes: Int64s, times: Int64s) -> Int64s:
        """The first position in each lane whose row has this time or a later one."""
        firsts = np.empty(lanes.size, np.int64)
        first_since(self.geometry, self.times, lanes, times, firsts)
        return firsts

    def set_reach(self, reach: int) -> bool:
        """The greatest age that any window holds from now on; whether all lanes moved.

        Rows that no window reached before go first, so that what a new window sees does not
        depend on when they were last looked at.
        """
        if reach == self.reach:
            return False
        self.trim()
        is_less = reach < self.reach
        self.reach = reach
        if is_less:
            self.trim()
            return self._tidy()
        return False

    def trim(self) -> None:
        """Let every row go that no window reaches any more."""
        g = self.geometry
        lanes, none = np.arange(self.n_lanes), np.zeros(self.n_lanes, np.int64)
        trim(g, self.times, self.now, self.unit == "rows", self.reach, lanes, none)
        self._unseen = 0

    @property
    def is_due(self) -> bool:
        """Whether enough rows came to pay for a look."""
        return LOOK_AGAIN * self._unseen >= self.size

    def look(self) -> bool:
        """Trim and give memory back when it is due; whether all moved."""
        if not self.is_due:
            return False
        self.trim()
        return self._tidy()

    def kept(self) -> Kept:
        """All rows that windows reach, by lane and in order."""
        self.trim()
        return self._rows(self.geometry.heads)

    def memory_bytes(self) -> int:
        rows = self._times.nbytes + self._values.nbytes + self._valid.nbytes
        return rows + self._table.nbytes + self.codes.nbytes + self._sorted_codes.nbytes * 2

    def check(self) -> None:
        g = self.geometry
        assert np.all(g.tails - g.heads <= g.masks), "a ring has no free place"
        assert np.all((g.masks & (g.masks + 1)) == 0), "a capacity is no power of two"
        order = np.argsort(g.starts)
        ends = g.starts[order] + g.masks[order] + 1
        assert np.all(ends[:-1] <= g.starts[order][1:]), "two lanes overlap"
        assert not ends.size or ends[-1] <= self.size, "a lane stands beyond the end"
        rows = self._rows(g.heads)
        lanes = np.repeat(np.arange(self.n_lanes), g.tails - g.heads)
        sorts = np.lexsort((rows.values, rows.valid, rows.times, lanes))
        assert np.all(np.diff(sorts) == 1), "rows of a lane are out of order"
        assert not rows.times.size or rows.times.max() <= self.now, "a row is later than now"
        codes = self._sorted_codes
        assert np.all(codes[:-1] < codes[1:]), "two lanes have one code"
        if self.dtype == np.float64:
            n_behind = (np.abs(rows.values) >= LARGE) & (positions_of(g) > self.large[lanes])
            assert not n_behind.any(), "a large value stands behind the last one"

    def _columns(self) -> tuple[Int64s, Values, Bools]:
        return self.times, self.values, self.valid

    def _put(
        self, touched: Int64s, counts: Int64s, firsts: Int64s, rows: tuple[Int64s, Values, Bools]
    ) -> Change:
        """Put rows behind the tails; `firsts` is where each lane begins to be different."""
        generation = self.generation
        moved = self._make_room(touched, counts)
        write(self.geometry, *self._columns(), self.large, touched, counts, *rows)
        self._table[3, touched] += counts
        if self.generation != generation:
            return self.all_changed()
        return Change(touched, np.where(moved, 0, firsts))

    def _reachable(self, rows: Rows) -> Rows:
        """Those of new rows that some window reaches once all are there."""
        if self.unit == "range" or rows[0].size <= self.reach + 1:
            return rows
        inside = among_last(self.reach + 1, runs_of(rows[0])[1])
        return rows[0][inside], rows[1][inside], rows[2][inside], rows[3][inside]

    def _lanes_for(self, codes: Int64s) -> Int64s:
        """The lane of each code; codes that are new get one."""
        lanes = self.lanes_of(codes)
        new = np.unique(codes[lanes < 0])
        if new.size:
            self._add_lanes(new)
            lanes = self.lanes_of(codes)
        return lanes

    def _add_lanes(self, codes: Int64s) -> None:
        first, n = self.n_lanes, codes.size
        self._table = with_room(self._table, first + n)
        self.codes = with_room(self.codes, first + n)
        self.large = with_room(self.large, first + n)
        self._table[2:, first : first + n] = 0
        self._table[0, first : first + n] = self.size + FEWEST * np.arange(n)
        self._table[1, first : first + n] = FEWEST - 1
        self.codes[first : first + n] = codes
        self.large[first : first + n] = -1
        self.n_lanes += n
        self.geometry = Geometry(*self._table[:, : self.n_lanes])
        self._resize(self.size + FEWEST * n)
        order = np.argsort(self.codes[: self.n_lanes], kind="stable")
        self._sorted_codes, self._sorted_lanes = self.codes[order], order

    def _resize(self, size: int) -> None:
        self._times = with_room(self._times, size)
        self._values = with_room(self._values, size)
        self._valid = with_room(self._valid, size)
        self.size = size

    def _in_order(self, lanes: Int64s, times: Int64s, values: Values, valid: Bools) -> Rows:
        """Rows by lane, time, and value."""
        values = np.asarray(values, self.dtype)
        if is_sorted(lanes, times, values, valid):
            return lanes, times, values, valid
        order = np.lexsort((values, valid, times, lanes))
        return lanes[order], times[order], values[order], valid[order]

    def _with_later(self, touched: Int64s, firsts: Int64s, rows: Rows) -> Rows:
        """The new rows and those of their lanes that belong after them, taken out."""
        g = self.geometry
        heads = g.tails.copy()
        heads[touched] = firsts
        places = places_of(g._replace(heads=heads), touched)
        lanes = np.repeat(touched, g.tails[touched] - firsts)
        later = (lanes, self.times[places], self.values[places], self.valid[places])
        self._table[3, touched] = firsts
        # Which of the rows before are large is not looked for: at worst too many windows are
        # added up row by row.
        self.large[touched] = np.minimum(self.large[touched], firsts - 1)
        n = lanes.size + rows[0].size
        merged = (*np.empty((2, n), np.int64), np.empty(n, self.dtype), np.empty(n, np.bool_))
        merge(rows, later, merged)
        return merged

    def _make_room(self, touched: Int64s, counts: Int64s) -> Bools:
        """Places for rows to come; which lanes moved, with positions from 0 on."""
        g = self.geometry
        moved = np.zeros(touched.size, np.bool_)
        full = g.tails[touched] - g.heads[touched] + counts > g.masks[touched]
        if not full.any():
            return moved
        by_rows = self.unit == "rows"
        trim(g, self.times, self.now, by_rows, self.reach, touched[full], counts[full])
        moved = g.tails[touched] - g.heads[touched] + counts > g.masks[touched]
        lanes = touched[moved]
        if not lanes.size:
            return moved
        sizes = capacities(g.tails[lanes] - g.heads[lanes] + counts[moved])
        left_behind = self.size - int((g.masks + 1).sum())
        if 2 * (left_behind + int((g.masks[lanes] + 1).sum())) > self.size + int(sizes.sum()):
            extra = np.zeros(self.n_lanes, np.int64)
            extra[touched] = counts
            self._rebuild(extra)
            return moved
        old, rows = self.geometry, self._rows_of(lanes)
        n = old.tails[lanes] - old.heads[lanes]
        self.large[lanes] = np.maximum(self.large[lanes] - old.heads[lanes], -1)
        first = self.size
        self._resize(first + int(sizes.sum()))
        self._table[0, lanes] = first + np.cumsum(sizes) - sizes
        self._table[1, lanes] = sizes - 1
        self._table[2, lanes], self._table[3, lanes] = 0, 0
        write(self.geometry, *self._columns(), self.large, lanes, n, *rows)
        self._table[3, lanes] = n
        return moved

    def _tidy(self) -> bool:
        """Give memory back when most of it is not needed; whether all lanes moved."""
        g = self.geometry
        n = g.tails - g.heads
        if self.size <= 4 * int(capacities(n[n > 0]).sum()) + FEWEST:
            return False
        self._rebuild(np.zeros(self.n_lanes, np.int64))
        return True

    def _rebuild(self, extra: Int64s) -> None:
        """Put the lanes side by side, each with room for `extra` rows.

        Lanes that stand empty go, unless rows are about to come.
        """
        n = self.geometry.tails - self.geometry.heads
        lanes = np.arange(n.size)
        if self.is_keyed and not extra.any():
            lanes = np.flatnonzero(n)
        rows, n, codes = self._rows_of(lanes), n[lanes], self.codes[lanes]
        large = np.maximum(self.large[lanes] - self.geometry.heads[lanes], -1)
        sizes = capacities(n + extra[lanes])
        unseen = self._unseen
        self._start(lanes.size, int(sizes.sum()))
        self._unseen = unseen
        self._table[0] = np.cumsum(sizes) - sizes
        self._table[1] = sizes - 1
        self.codes[:], self.large[:] = codes, large
        order = np.argsort(codes, kind="stable")
        self._sorted_codes, self._sorted_lanes = codes[order], order
        write(self.geometry, *self._columns(), self.large, np.arange(lanes.size), n, *rows)
        self._table[3] = n
        self.generation += 1

    def _rows(self, heads: Int64s) -> Kept:
        """The rows of all lanes from these positions on."""
        g = self.geometry
        places = places_of(g._replace(heads=heads), np.arange(self.n_lanes))
        codes = np.repeat(self.codes[: self.n_lanes], g.tails - heads)
        return Kept(codes, self.times[places], self.values[places], self.valid[places])

    def _rows_of(self, lanes: Int64s) -> tuple[Int64s, Values, Bools]:
        places = places_of(self.geometry, lanes)
        return self.times[places], self.values[places], self.valid[places]
