"""Collective index: which keys have a count, or a sum of values from 0 on, in a range, by windows.

Seen from its last row, a key reaches the count v at the time of the row that is v from the end:
the count of a window is at least v iff that row lies in the window. One search structure for each
v would change with every row, so distances from the end are cut into levels, p of each size:

    p = 2       1 | 1 | 2   | 2   | 4       | 4       | 8 ...         sizes, from the end backwards
    distance    1   2   3 4   5 6   7 .. 10   11 .. 14

A level holds, for each key, the time of one row at a distance that belongs to the level: that whose
position is a multiple of the level's size. So a level of size 2^s changes with every 2^s-th row.

    count >= v   keys that are in the window on the last level whose distances are all <= v
    count <= v   keys that are not, on the first level whose distances are all > v
    and at least one row: the key's latest row is in the window, a level of its own

Both may be asked at once. What comes out holds every right key, and only keys whose count is at
least the least distance of the level (below the largest), which is more than (1 - e) v with
e = 2 / (p + 2), or 3 / 4 for p = 1. A second level, on the other side of v, says of most of them
that they are right for sure; the rows of the key decide the rest.

A sum of whole numbers is a count in which a row stands for as many as its value says; updating
takes the levels up to the highest binary digit that the total changed, found at once. Sums of
float64 are counted in units, a power of two well below the thresholds, with two units to spare for
rounding. Keys with values below 0, or so large that totals or units fail, are *odd*: on no level,
and looked at in every search.

Invariant  for a key that is not odd, a level of size 2^s that is the j-th of its size holds the
           time of the row at position 2^s (Q - p - j), Q = floor((total + p) / 2^s), or LEAST if
           that row is gone; odd keys hold LEAST everywhere.
Cost       update of a key by a in all O(p log a log keys), and O(p) steps amortised for counts;
           search as in `level_times` for the keys that come out; space O(keys) a level in use.
Paper      [shared-windows] 4.1 and 4.2, CI-COUNT and CI-SUM.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from standfast._numba import in_place, inlined, kernel
from standfast.arrays import Int64s
from standfast.indexes.key_rows import Bools, KeyRows, Rows, rounding_margin
from standfast.indexes.keys import FAR, LEAST
from standfast.indexes.level_times import NO_LEVEL, Levels, LevelTimes, clear, put

Bounds = npt.NDArray[Any]  # int64, or float64 for sums of those

# Larger means fewer keys that come out in vain, and more levels; measured in decision 015.
PER_SIZE = 32
LATEST = -2  # the level of the latest rows
NEVER = -3
SPARE = 2  # units that rounding may cost
MOST_UNITS = 2.0**51
SMALLEST = 2.0**-1000
# The least threshold that the unit is made for is at least this part of the largest.
NARROW = 2.0**-16


class Geometry(NamedTuple):
    """How levels in use are numbered: level i has size 2^sizes[i] and is the steps[i]-th of it."""

    sizes: Int64s  # ascending, -1 for the level of the latest rows
    steps: Int64s
    places: Int64s  # the row of `LevelTimes` that holds it
    per_size: int
    unit: float


class Served(NamedTuple):
    """Rows of `LevelTimes` for each range; NO_LEVEL where nothing need be asked, NEVER where no
    level can tell.

    A key that is late on `late` and early on `early` may be in the range; if it is late on
    `surely_late` too, and early on `surely_early`, it is.
    """

    late: Int64s
    early: Int64s
    surely_late: Int64s
    surely_early: Int64s


class CollectiveIndex:
    """Levels over the rows of keys; `counts` tells whether rows or their values are counted."""

    def __init__(self, rows: KeyRows, *, counts: bool, per_size: int = PER_SIZE) -> None:
        self.rows = rows
        self.counts = counts
        self.per_size = per_size
        self.is_float = rows.kind is np.float64 and not counts
        self.times = LevelTimes()
        self._unit = 1.0
        self._marks = np.zeros(0, np.int64)  # total + p when the levels were last set
        self._is_odd = np.zeros(0, np.bool_)
        n_sizes = (2**63 // per_size).bit_length() - 1  # as far as int64 goes
        sizes = np.repeat(np.arange(n_sizes), per_size)
        steps = np.tile(np.arange(per_size), n_sizes)
        self._nearest = (per_size * ((1 << sizes) - 1) + (steps << sizes)) + 1  # of each level
        self._farthest = self._nearest + (1 << sizes) - 1
        self._places: dict[int, int] = {}  # of the levels in use, in `times`
        self._geometry = self._laid_out()

    def serve(self, lows: Bounds, highs: Bounds) -> Served:
        """Have the levels that these ranges ask for; where they stand in `times`."""
        unit = self._unit_for(lows, highs) if self.is_float else 1.0
        if unit != self._unit:
            self._use(set())
            self._unit = unit
        levels = self.levels_for(lows, highs)
        self._use({LATEST, *np.unique(np.concatenate(levels)).tolist()} - {NO_LEVEL, NEVER})
        places = np.full(self._nearest.size + 3, NEVER)
        for level, place in {**self._places, NO_LEVEL: NO_LEVEL}.items():
            places[level] = place  # those below 0 stand at the end
        return Served(*(places[level] for level in levels))

    def levels_for(self, lows: Bounds, highs: Bounds) -> Served:
        """The levels to ask for each range, before it is known where they stand."""
        if self.is_float:
            with np.errstate(over="ignore"):
                lows_in_units, highs_in_units = lows / self._unit, highs / self._unit
            below, over = np.floor(lows_in_units) - SPARE, np.ceil(lows_in_units) + SPARE
            within, beyond = np.floor(highs_in_units) - SPARE, np.ceil(highs_in_units) + SPARE
        else:
            below = over = lows
            beyond, within = highs, np.minimum(highs, FAR - 1) + 1
        late = np.searchsorted(self._farthest, below, side="right") - 1
        surely_late = np.searchsorted(self._nearest, over, side="left")
        early = np.searchsorted(self._nearest, beyond, side="right")
        surely_early = np.searchsorted(self._farthest, within, side="right") - 1
        endless = highs >= (np.inf if self.is_float else FAR)
        n = self._nearest.size
        return Served(
            np.where(late < 0, LATEST, late),
            np.where(early < n, early, NO_LEVEL),
            np.where(
                lows <= (1 if self.counts else 0), LATEST,
                np.where(surely_late < n, surely_late, NEVER),
            ),
            np.where(endless, NO_LEVEL, np.where(surely_early < 0, NEVER, surely_early)),
        )  # fmt: skip

    def reach(self, level: int) -> tuple[float, float]:
        """The sums that the distances of a level stand for: from the nearest to the farthest."""
        if level == LATEST:
            return 0.0, 0.0
        spare = SPARE if self.is_float else 0
        nearest, farthest = self._nearest[level] - spare, self._farthest[level] + spare
        return float(nearest * self._unit), float(farthest * self._unit)

    def refresh(self, keys: Int64s, *, anew: Int64s) -> None:
        """Rows of `keys` came; of `anew` rows went, came late, or are counted from another start.

        Neither names a key twice; a key may be in both.
        """
        self._make_room()
        _refresh(
            self.rows.rows, self.times.levels, self._geometry, keys, anew, self._marks,
            self._is_odd, self.counts, not self.is_float,
        )  # fmt: skip

    def odd(self) -> Int64s:
        """The keys that every search must look at."""
        return np.flatnonzero(self._is_odd)

    def memory_bytes(self) -> int:
        return self.times.memory_bytes() + self._marks.nbytes + self._is_odd.nbytes

    def check(self) -> None:
        self.times.check()
        rows, p = self.rows.rows, self.per_size
        for k in range(rows.begins.size):
            first, end = rows.firsts[k], rows.ends[k]
            for level, place in self._places.items():
                held, time = self.times.levels.times[place, k], LEAST
                if not self._is_odd[k] and first < end:
                    time = int(rows.times[end - 1])
                    if level != LATEST:
                        s, j = divmod(level, p)
                        position = ((int(self._marks[k]) >> s) - p - j) << s
                        time = self._time_of(k, position - 1)
                assert held == time, f"key {k}: level {level} holds a wrong time"

    def _time_of(self, k: int, whole: int) -> int:
        """The time of the last row of k with at most so many units before it."""
        rows, first, end = self.rows.rows, self.rows.rows.firsts[k], self.rows.rows.ends[k]
        if self.counts:
            before = rows.counted[k] - np.arange(end - first, 0, -1)
        else:
            before = rows.before[first:end]
            before = before / self._unit if self.is_float else before
        fits = np.flatnonzero(before <= whole)
        return int(rows.times[first + fits[-1]]) if fits.size else LEAST

    def _unit_for(self, lows: Bounds, highs: Bounds) -> float:
        """A power of two well below the thresholds; the one in use if it will do."""
        bounds = np.concatenate([lows, highs])
        bounds = bounds[(bounds > 0) & np.isfinite(bounds)]
        if not bounds.size:
            return self._unit
        least = bounds[bounds >= NARROW * bounds.max()].min()
        power = np.floor(np.log2(max(least / self.per_size, SMALLEST))) - 4
        wanted = float(2.0**power)
        return self._unit if wanted / 64 <= self._unit <= wanted else wanted

    def _use(self, levels: set[int]) -> None:
        """Keep these levels and no others; those that are new are made from the rows."""
        new, old = sorted(levels - self._places.keys()), self._places.keys() - levels
        for level in old:
            clear(self.times.levels, self._places.pop(level))
        if not new:
            self._geometry = self._laid_out()
            return
        self.times.make_room(len(levels), self._marks.size)
        taken = set(self._places.values())
        free = [place for place in range(len(levels)) if place not in taken]
        for level, place in zip(new, free, strict=False):
            self._places[level] = place
        self._geometry = self._laid_out()
        self._make_room()
        living = np.flatnonzero(self.rows.rows.ends > self.rows.rows.firsts)
        self.refresh(living[:0], anew=living)

    def _laid_out(self) -> Geometry:
        levels = np.array(sorted(self._places), np.int64)
        return Geometry(
            np.where(levels == LATEST, -1, levels // self.per_size), levels % self.per_size,
            np.array([self._places[level] for level in levels.tolist()], np.int64),
            self.per_size, self._unit,
        )  # fmt: skip

    def _make_room(self) -> None:
        more = self.rows.rows.begins.size - self._marks.size
        if more > 0:
            self._marks = np.concatenate([self._marks, np.zeros(more, np.int64)])
            self._is_odd = np.concatenate([self._is_odd, np.zeros(more, np.bool_)])
        self.times.make_room(len(self._places), self._marks.size)


@kernel
def _refresh(
    rows: Rows, levels: Levels, geometry: Geometry, keys: Int64s, anew: Int64s, marks: Int64s,
    is_odd: Bools, counts: bool, whole: bool,
) -> None:  # fmt: skip
    """Set the times of keys on the levels that their new totals concern, of `anew` on all.

    Those come first: for who is in both there is nothing left to do then.
    """
    for i in range(anew.size + keys.size):
        force = i < anew.size
        k = anew[i] if force else keys[i - anew.size]
        total = rows.counted[k] if counts else _units(rows, k, geometry.unit, whole)
        has_rows = rows.firsts[k] < rows.ends[k]
        if total < 0 or not has_rows:
            for g in range(geometry.sizes.size):
                put(levels, geometry.places[g], k, LEAST)
            is_odd[k], marks[k] = has_rows, -1  # which differs from every mark on all levels
            continue
        mark = total + geometry.per_size
        every = force or is_odd[k]
        changed = marks[k] ^ mark
        is_odd[k], marks[k] = False, mark
        at = rows.ends[k] - 1  # levels go backwards: where one ends the next is looked for
        for g in range(geometry.sizes.size):
            size = geometry.sizes[g]
            if size < 0:
                put(levels, geometry.places[g], k, rows.times[rows.ends[k] - 1])
                continue
            if not every and changed >> size == 0:
                break
            position = ((mark >> size) - geometry.per_size - geometry.steps[g]) << size
            if counts:
                at = rows.ends[k] - (total - position + 1)
                at = at if at >= rows.firsts[k] and position > 0 else -1
            elif whole:
                at = _last_with(rows.before, rows.firsts[k], at, position - 1)
            else:
                at = _last_with(rows.before, rows.firsts[k], at, geometry.unit * (position - 1))
            put(levels, geometry.places[g], k, rows.times[at] if at >= 0 else LEAST)


@inlined
def _units(rows: Rows, k: int, unit: float, whole: bool) -> int:
    """How many whole units the values of a key add up to; -1 if it is odd."""
    if rows.negatives[k] or not rows.masses[k] < rows.limit:
        return -1
    if whole:
        return int(rows.totals[k])
    if 2 * rounding_margin(rows, k) > unit or rows.totals[k] > unit * MOST_UNITS:
        return -1
    return int(rows.totals[k] / unit)


@in_place
def _last_with(before: npt.NDArray[Any], first: int, last: int, most: Any) -> int:
    """The last of these rows with at most this much before it, galloping back from `last`.

    -1 if there is none, or no row.
    """
    if last < first:
        return -1
    low, high, step = last, last + 1, 1
    while low > first and before[low] > most:
        high = low
        low = max(low - step, first)
        step <<= 1
    if before[low] > most:
        return -1
    while low + 1 < high:
        middle = (low + high) >> 1
        if before[middle] <= most:
            low = middle
        else:
            high = middle
    return int(low)
