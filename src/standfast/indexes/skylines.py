"""Skylines: the few rows of a code that can be the nearest in time of any range around a point.

    time                        p1              p2          a range that holds p1 and begins or
     ^            . o        o   |           o   |          ends at c: its newest row is the last
     |  o        .   .      . .  |          . .  |  o       one met on the way from p1 to c that
     |   .   o  .     .    .   . |   o     .   o |          is newer than all before
     |    . . o        o  .     o|  .  o  .      |
     +--------------------------------------------> key     drawn: who is met from the points

Between two stabbing points only those rows count that are newer than every row between them and
the point on either side: few, when times do not follow keys. They are held by ascending key. Each
links to the next newer one on its right and on its left, so that the stairs that lead away from
any point, across the other points too, are one walk along links. Nothing is held per point.

The newest row is the nearest one in time while no row is newer than the event. For an event in the
midst of the rows, *near* is the negative distance instead of the time; the rest is the same.

Windows do not matter here: rows beyond the largest window come first on a walk and are skipped, so
that neither time that goes on nor a window that grows makes a skyline stale.

Invariant  keys of an entry ascend strictly; every entry is a row that lives, and none between it
           and the next point on one of its sides is as near; links lead to the next nearer entry.
Cost       m rows and s points: made in O(m + s); at most one entry per row, 24 bytes each.
Paper      [hotspot] section 3.3.2; links instead of a search tree per point (decision 009).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from standfast._numba import inlined, kernel
from standfast.arrays import Int32s, Int64s, with_room
from standfast.indexes.keys import difference
from standfast.indexes.sorted_runs import Run, SortedRuns, blocks

Bools = npt.NDArray[np.bool_]

_NOTHING = np.empty(0, np.int64)


class Rows(NamedTuple):
    """Living rows of some codes: those of code i are `offsets[i]:offsets[i + 1]`, by key."""

    offsets: Int64s
    keys: Int64s
    times: Int64s


class Skylines(NamedTuple):
    """Skylines side by side.

    `right` and `left` lead to the next nearer entry, counted from the skyline's first; -1 at ends.
    """

    keys: Int64s
    near: Int64s
    right: Int32s
    left: Int32s

    @staticmethod
    def sized(size: int) -> Skylines:
        """Room for this many entries."""
        return Skylines(
            np.empty(size, np.int64), np.empty(size, np.int64),
            np.empty(size, np.int32), np.empty(size, np.int32),
        )  # fmt: skip

    def at(self, places: Int64s | slice) -> Skylines:
        """The entries at these places."""
        return Skylines(self.keys[places], self.near[places], self.right[places], self.left[places])

    def with_more(self, used: int, more: Skylines) -> Skylines:
        """The first `used` entries with more behind them, in place if there is room."""
        size = used + more.keys.size
        keys, near = with_room(self.keys, size), with_room(self.near, size)
        right, left = with_room(self.right, size), with_room(self.left, size)
        keys[used:size], near[used:size] = more.keys, more.near
        right[used:size], left[used:size] = more.right, more.left
        return Skylines(keys, near, right, left)


class Extents(NamedTuple):
    """Which entries are a code's or an event's skyline, and how many rows it stands for."""

    starts: Int64s
    stops: Int64s
    newest: Int64s  # time of the newest row
    n_rows: Int64s

    @staticmethod
    def sized(size: int) -> Extents:
        """Room for this many skylines."""
        return Extents(*(np.empty(size, np.int64) for _ in range(4)))


def rows_of(stored: SortedRuns, codes: Int64s) -> Rows:
    """The living rows of these codes, which ascend strictly."""
    rows = Rows(np.zeros(codes.size + 1, np.int64), _NOTHING, _NOTHING)
    for run in stored.runs:
        starts, stops = np.empty(codes.size, np.int64), np.empty(codes.size, np.int64)
        blocks(run.codes, codes, starts, stops)
        size = rows.keys.size + int((stops - starts).sum())
        more = Rows(
            np.zeros(codes.size + 1, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
        )
        _merge(rows, run, starts, stops, more)
        n = int(more.offsets[-1])
        rows = more if n == size else Rows(more.offsets, more.keys[:n], more.times[:n])
    return rows


def past_skylines(rows: Rows, points: Int64s) -> tuple[Skylines, Extents]:
    """For each code the skyline that is right for events not older than any of its rows.

    `points` ascend; equal ones are allowed.
    """
    owners = np.arange(rows.offsets.size - 1)
    return _made(rows, owners, np.zeros(owners.size, np.int64), points, True, False)


def skylines_around(
    rows: Rows, owners: Int64s, times: Int64s, points: Int64s, *, is_float: bool
) -> tuple[Skylines, Extents]:
    """For each event the skyline of the rows of code `owners[e]` as seen from `times[e]`."""
    return _made(rows, owners, times, points, False, is_float)


def _made(
    rows: Rows, owners: Int64s, times: Int64s, points: Int64s, is_past: bool, is_float: bool
) -> tuple[Skylines, Extents]:
    sizes = np.diff(rows.offsets)
    most = int(sizes[owners].sum())
    skylines, extents = Skylines.sized(most), Extents.sized(owners.size)
    largest = int(sizes.max(initial=0))
    used = _make(
        rows, owners, times, points, is_past, is_float,
        np.empty(largest, np.int64), np.empty(largest, np.int64), np.empty(largest, np.bool_),
        skylines, extents,
    )  # fmt: skip
    return skylines.at(slice(used)), extents


class SkylineCache:
    """Skylines per code, kept from batch to batch until a row of the code comes or goes.

    Skylines serve any subset of the points they were made for. When a new point comes, all of
    them are stale, and each is made anew when its code is asked for.
    """

    def __init__(self) -> None:
        self.n_made = 0
        self._stored: SortedRuns | None = None
        self._version = 0
        self._forget(_NOTHING)

    def __len__(self) -> int:
        """How many codes have a skyline."""
        return len(self._place_of)

    @property
    def n_entries(self) -> int:
        """Entries on the skylines of all codes."""
        return self._n_living

    def find(self, codes: Int64s, stored: SortedRuns, points: Int64s) -> Int64s:
        """For each code (ascending strictly) its place in the extents; 0 if it has no rows."""
        self._drop_stale(stored, points)
        places = np.array([self._place_of.get(code, -1) for code in codes.tolist()], np.int64)
        missing = np.flatnonzero(places < 0)
        if missing.size:
            places[missing] = self._make(codes[missing], stored)
        return places

    def check(self) -> None:
        """Assert the invariant, as far as it can be seen without the rows."""
        living = np.array([0, *self._place_of.values()], np.int64)
        starts, stops, newest, n_rows = (part[living] for part in self.extents)
        assert int((stops - starts).sum()) == self._n_living, "entries are miscounted"
        assert self._n_living <= self._n_used <= 2 * self._n_living + SLACK, "too much is stale"
        assert (stops - starts <= n_rows).all(), "more entries than rows"
        for start, stop, last in zip(starts, stops, newest, strict=True):
            check_skyline(self.skylines.at(slice(start, stop)))
            assert start == stop or self.skylines.near[start:stop].max() == last, "newest is not"

    def memory_bytes(self) -> int:
        """Bytes of all arrays and about those of the table of codes."""
        arrays = (*self.skylines, *self.extents, self._points)
        return sum(array.nbytes for array in arrays) + 100 * len(self._place_of)

    def _forget(self, points: Int64s) -> None:
        self.skylines = Skylines.sized(0)
        self.extents = Extents(*(np.zeros(1, np.int64) for _ in range(4)))
        self._points = points
        self._place_of: dict[int, int] = {}
        self._n_extents = 1  # the first is that of codes without rows
        self._n_used = self._n_living = 0  # entries with and without those of stale skylines

    def _drop_stale(self, stored: SortedRuns, points: Int64s) -> None:
        changed = stored.changes.since(self._version)
        is_same = stored is self._stored and 2 * points.size + SLACK >= self._points.size
        self._stored, self._version = stored, stored.changes.version
        if changed is None or not is_same or not np.isin(points, self._points).all():
            self._forget(points)
            return
        for code in changed.tolist():
            place = self._place_of.pop(code, -1)
            if place >= 0:
                self._n_living -= int(self.extents.stops[place] - self.extents.starts[place])
        if self._n_used > 2 * self._n_living + SLACK:
            self._compact()

    def _make(self, codes: Int64s, stored: SortedRuns) -> Int64s:
        """Make the skylines of these codes; their places in the extents."""
        made, extents = past_skylines(rows_of(stored, codes), self._points)
        some = extents.n_rows > 0
        places = np.where(some, self._n_extents + np.cumsum(some) - 1, 0)
        self._place_of.update(zip(codes[some].tolist(), places[some].tolist(), strict=True))
        moved = (extents.starts + self._n_used, extents.stops + self._n_used, *extents[2:])
        last = self._n_extents + int(np.count_nonzero(some))
        self.extents = Extents(*(with_room(part, last) for part in self.extents))
        for part, new in zip(self.extents, moved, strict=True):
            part[self._n_extents : last] = new[some]
        self.skylines = self.skylines.with_more(self._n_used, made)
        self.n_made += last - self._n_extents
        self._n_extents = last
        self._n_used += made.keys.size
        self._n_living += made.keys.size
        return places

    def _compact(self) -> None:
        """Leave out what is stale."""
        living = np.array([0, *self._place_of.values()], np.int64)
        starts, stops, newest, n_rows = (part[living] for part in self.extents)
        ends = np.cumsum(stops - starts)
        begins = ends - (stops - starts)
        kept = np.repeat(starts - begins, stops - starts) + np.arange(ends[-1])
        self.skylines = self.skylines.at(kept)
        self.extents = Extents(begins, ends, newest, n_rows)
        self._place_of = dict(zip(self._place_of, range(1, living.size), strict=True))
        self._n_extents, self._n_used = living.size, kept.size


# Entries of stale skylines, and points that nobody needs, that are never worth a rebuild.
SLACK = 1024


def check_skyline(skyline: Skylines) -> None:
    """Assert what holds of one skyline."""
    keys, near, right, left = skyline
    assert (keys[1:] > keys[:-1]).all(), "keys must ascend"
    for i in range(keys.size):
        after = [j for j in range(i + 1, keys.size) if near[j] > near[i]]
        before = [j for j in range(i) if near[j] > near[i]]
        assert right[i] == min(after, default=-1), "a link to the right leads astray"
        assert left[i] == max(before, default=-1), "a link to the left leads astray"


@kernel
def _merge(rows: Rows, run: Run, starts: Int64s, stops: Int64s, more: Rows) -> None:
    """The rows of each code, merged with the living ones of its block in the run."""
    at = 0
    for c in range(starts.size):
        i, end = rows.offsets[c], rows.offsets[c + 1]
        for j in range(starts[c], stops[c]):
            if not run.alive[j]:
                continue
            while i < end and rows.keys[i] <= run.keys[j]:
                more.keys[at], more.times[at] = rows.keys[i], rows.times[i]
                i, at = i + 1, at + 1
            more.keys[at], more.times[at] = run.keys[j], run.extras[0, j]
            at += 1
        while i < end:
            more.keys[at], more.times[at] = rows.keys[i], rows.times[i]
            i, at = i + 1, at + 1
        more.offsets[c + 1] = at


@kernel
def _make(
    rows: Rows, owners: Int64s, times: Int64s, points: Int64s, is_past: bool, is_float: bool,
    keys: Int64s, near: Int64s, is_kept: Bools, skylines: Skylines, extents: Extents,
) -> int:  # fmt: skip
    """Make one skyline per owner; how many entries they have. `keys` to `is_kept` are for notes."""
    used = 0
    for e in range(owners.size):
        begin, end = rows.offsets[owners[e]], rows.offsets[owners[e] + 1]
        n = 0
        for i in range(begin, end):
            nearness = rows.times[i]
            if not is_past:
                nearness = -abs(difference(nearness, times[e], is_float))
            if n and keys[n - 1] == rows.keys[i]:
                near[n - 1] = max(near[n - 1], nearness)
            else:
                keys[n], near[n] = rows.keys[i], nearness
                n += 1
        _mark_kept(keys, near, n, points, is_kept)
        start = used
        for i in range(n):
            if is_kept[i]:
                skylines.keys[used], skylines.near[used] = keys[i], near[i]
                used += 1
        _link(skylines, start, used)
        extents.starts[e], extents.stops[e], extents.n_rows[e] = start, used, end - begin
        extents.newest[e] = rows.times[begin:end].max() if begin < end else 0
    return used


@kernel
def _mark_kept(keys: Int64s, near: Int64s, n: int, points: Int64s, is_kept: Bools) -> None:
    """Mark the rows that are nearer than all rows between them and the next point on a side."""
    s, best, is_first = 0, 0, True
    for i in range(n):
        while s < points.size and points[s] <= keys[i]:
            s += 1
            is_first = True
        is_kept[i] = s > 0 and (is_first or near[i] > best)
        if is_kept[i]:
            best, is_first = near[i], False
    s, best, is_first = points.size, 0, True
    for i in range(n - 1, -1, -1):
        while s > 0 and points[s - 1] >= keys[i]:
            s -= 1
            is_first = True
        if s < points.size and (is_first or near[i] > best):
            is_kept[i] = True
            best, is_first = near[i], False


@inlined
def _link(skylines: Skylines, start: int, stop: int) -> None:
    """Link each entry to the next nearer one on either side."""
    near, right, left = skylines.near, skylines.right, skylines.left
    n = stop - start
    for i in range(n - 1, -1, -1):
        j = i + 1 if i + 1 < n else -1
        while j >= 0 and near[start + j] <= near[start + i]:
            j = right[start + j]
        right[start + i] = j
    for i in range(n):
        j = i - 1
        while j >= 0 and near[start + j] <= near[start + i]:
            j = left[start + j]
        left[start + i] = j
