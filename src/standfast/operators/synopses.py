"""Synopses by place: what ways that merge have in common, whatever the aggregate.

    lift     rows            ->  a synopsis of one row each
    combine  two places      ->  a third
    scan     places in order ->  each merged with the one before
    fold     places a window ->  the synopsis of each window
    lower    synopses        ->  answers

The fields of a synopsis stand side by side: one array of int64, seen as float64 where they are
floats. Built-in aggregates are kernels that branch on the kind once a synopsis; users' aggregates
are called with whole arrays.

Cost       8 bytes a field: COUNT 1 field, SUM and AVG 3, VARIANCE 5, MIN and MAX 2, FIRST and
           LAST 3, users' one more than theirs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from standfast.arrays import Int64s
from standfast.indexes.lane_changes import Change
from standfast.indexes.lane_kernels import Bools, Values
from standfast.indexes.lanes import Lanes
from standfast.operators import interval_kernels, landmark_kernels, sum_kernels
from standfast.operators import synopsis_kernels as kernels
from standfast.operators.aggregates import (
    POWERS_FLOAT,
    POWERS_INT,
    SUM_FLOAT,
    Aggregate,
    Fields,
)
from standfast.operators.base import Found
from standfast.operators.landmark_kernels import Rings


class Synopses:
    """An array of synopses that grows by places."""

    def __init__(self, aggregate: Aggregate, size: int = 0) -> None:
        self.aggregate = aggregate
        self._ints = np.zeros((size, aggregate.width), np.int64)
        self._rests = np.zeros((0, 2))  # of running sums, by lane

    @property
    def ints(self) -> Int64s:
        return self._ints

    @property
    def floats(self) -> Fields:
        """The same memory as floats."""
        return self._ints.view(np.float64)

    def resize(self, size: int) -> None:
        """Have so many places at least; what stands there stays."""
        if size > len(self._ints):
            wide = np.zeros((max(size, len(self._ints) * 3 // 2), self._ints.shape[1]), np.int64)
            wide[: len(self._ints)] = self._ints
            self._ints = wide

    def memory_bytes(self) -> int:
        return int(self._ints.nbytes)

    def run_on(self, lanes: Lanes, change: Change) -> None:
        """Totals by place of the rows that changed; they start anew where a ring does."""
        if self.aggregate.user is None:
            if len(self._rests) < lanes.n_lanes:
                more = np.zeros((2 * lanes.n_lanes - len(self._rests), 2))
                self._rests = np.concatenate([self._rests, more])
            interval_kernels.run_on(
                self.aggregate.kind, self._ints, self.floats, lanes.geometry, *change,
                lanes.values.view(np.int64), lanes.values.view(np.float64), lanes.valid,
                self._rests,
            )  # fmt: skip
            return
        g = lanes.geometry
        for lane, first in zip(*change, strict=True):
            positions = np.arange(first, g.tails[lane])
            if not positions.size:
                continue  # all rows of the lane went before they were asked for
            places = g.starts[lane] + (positions & g.masks[lane])
            self.lift(places, places, lanes.values, lanes.valid)
            starts = positions & g.masks[lane] == 0
            if first & g.masks[lane]:
                if first == g.heads[lane]:
                    self._ints[places[0] - 1] = 0
                places = np.concatenate([[places[0] - 1], places])
                starts = np.concatenate([[True], starts])
            self.scan(places, starts)

    def grow(self, lanes: Lanes, change: Change, *, unfinished: bool) -> None:
        """Base intervals of the rows that changed: the finished ones, or all (see the kernels)."""
        if self.aggregate.user is None:
            interval_kernels.grow(
                self.aggregate.kind, self._ints, self.floats, lanes.geometry, *change,
                lanes.values.view(np.int64), lanes.values.view(np.float64), lanes.valid, unfinished,
            )  # fmt: skip
            return
        g = lanes.geometry
        for lane, first in zip(*change, strict=True):
            mask, tail, base = g.masks[lane], g.tails[lane], 2 * g.starts[lane]
            if first >= tail:
                continue
            positions = np.arange(first, tail) & mask
            rows = g.starts[lane] + positions
            self.lift(base + mask + 1 + positions, rows, lanes.values, lanes.valid)
            width, level = (mask + 1) >> 1, 1
            while width >= 2:
                end = ((tail - 1) >> level) + 1 if unfinished else tail >> level
                nodes = np.arange(first >> level, end)
                out, left = base + width + (nodes & (width - 1)), 2 * nodes & (2 * width - 1)
                left = left + base + 2 * width
                # The right half of an interval that is not finished may not have begun.
                begun = (2 * nodes + 1) << (level - 1) < tail
                self._ints[out] = self._ints[left]
                self.combine(out[begun], left[begun], left[begun] + 1)
                width, level = width >> 1, level + 1

    def windows(
        self, lanes: Lanes, which: tuple[Int64s, Int64s, Int64s], *, unfinished: bool
    ) -> Int64s:
        """The synopsis of each window, given by lanes, first and last positions."""
        if self.aggregate.user is None:
            found = np.zeros((which[0].size, self.aggregate.width), np.int64)
            interval_kernels.fold_windows(
                self.aggregate.kind, self._ints, self.floats, lanes.geometry, *which, unfinished,
                found, found.view(np.float64),
            )  # fmt: skip
            return found
        return self.fold(*cover(lanes, which))

    def rows_folded(self, lanes: Lanes, which: tuple[Int64s, Int64s, Int64s]) -> Int64s:
        """The synopsis of each window, merged row by row; every row has one at its place."""
        g = lanes.geometry
        found = np.zeros((which[0].size, self.aggregate.width), np.int64)
        if self.aggregate.user is None:
            interval_kernels.fold_rows(
                self.aggregate.kind, self._ints, self.floats, g, *which,
                found, found.view(np.float64),
            )  # fmt: skip
            return found
        for i, (lane, first, last) in enumerate(zip(*which, strict=True)):
            places = g.starts[lane] + (np.arange(first, last + 1) & g.masks[lane])
            found[i] = self.fold(np.array([0, places.size]), places)[0]
        return found

    def landmarks_forward(
        self, lanes: Lanes, rings: Rings, begins: Int64s, which: tuple[Int64s, Int64s]
    ) -> None:
        """Synopses from the landmark before it up to each position from `which[1]` on."""
        g = lanes.geometry
        if self.aggregate.user is None:
            landmark_kernels.sum_forward(
                self.aggregate.kind, self._ints, self.floats, rings, begins, g, *which,
                lanes.values.view(np.int64), lanes.values.view(np.float64), lanes.valid,
            )  # fmt: skip
            return
        for lane, first in zip(*which, strict=True):
            positions = np.arange(first, g.tails[lane])
            places = rings.starts[lane] + (positions & rings.masks[lane])
            rows = g.starts[lane] + (positions & g.masks[lane])
            self.lift(2 * places, rows, lanes.values, lanes.valid)
            starts = begins[places] == positions
            if not starts[0]:
                before = rings.starts[lane] + ((first - 1) & rings.masks[lane])
                places = np.concatenate([[before], places])
                starts = np.concatenate([[True], starts])
            self.scan(2 * places, starts)

    def landmarks_back(
        self, lanes: Lanes, rings: Rings, begins: Int64s, which: tuple[Int64s, Int64s]
    ) -> None:
        """Synopses from each position up to the landmark after it, before `which[1]`."""
        g = lanes.geometry
        if self.aggregate.user is None:
            landmark_kernels.sum_backward(
                self.aggregate.kind, self._ints, self.floats, rings, begins, g, *which,
                lanes.values.view(np.int64), lanes.values.view(np.float64), lanes.valid,
            )  # fmt: skip
            return
        for lane, end in zip(*which, strict=True):
            positions = np.arange(rings.dones[lane], end)[::-1]
            if not positions.size:
                continue
            places = rings.starts[lane] + (positions & rings.masks[lane])
            rows = g.starts[lane] + (positions & g.masks[lane])
            self.lift(2 * places + 1, rows, lanes.values, lanes.valid)
            starts = np.append(True, np.diff(begins[places]) != 0)
            self.scan(2 * places + 1, starts, backward=True)

    def landmark_windows(
        self, rings: Rings, begins: Int64s, which: tuple[Int64s, Int64s, Int64s]
    ) -> tuple[Int64s, Bools]:
        """The synopses of windows, and which have to be read row by row instead."""
        n = which[0].size
        plain = np.empty(n, np.bool_)
        if self.aggregate.user is None:
            found = np.zeros((n, self.aggregate.width), np.int64)
            landmark_kernels.fold_pieces(
                self.aggregate.kind, self._ints, self.floats, rings, begins, *which, plain,
                found, found.view(np.float64),
            )  # fmt: skip
            return found, plain
        pieces = np.empty((n, 3), np.int64)
        landmark_kernels.list_pieces(rings, begins, *which, pieces, plain)
        offsets = np.concatenate([[0], np.cumsum(np.count_nonzero(pieces >= 0, axis=1))])
        return self.fold(offsets, pieces[pieces >= 0]), plain

    def lift(self, places: Int64s, rows: Int64s, values: Values, valid: Bools) -> None:
        """Make the synopsis of row `rows[i]` alone at `places[i]`."""
        user = self.aggregate.user
        if user is None:
            raw = values.view(np.int64)
            kernels.lift(
                self.aggregate.kind, self._ints, self.floats, places, rows,
                raw, raw.view(np.float64), valid,
            )  # fmt: skip
            return
        self._ints[places, 0] = valid[rows]
        self.floats[places, 1:] = user.lift(values[rows].astype(np.float64))

    def combine(self, out: Int64s, left: Int64s, right: Int64s) -> None:
        """Merge the synopses of two places each; none is used that this makes."""
        if self.aggregate.user is None:
            kernels.combine(self.aggregate.kind, self._ints, self.floats, out, left, right)
        else:
            self._ints[out] = self._merged(self._ints[left], self._ints[right])

    def scan(self, places: Int64s, starts: Bools, *, backward: bool = False) -> None:
        """Merge each place with the one before it in this order, except where a run starts.

        Backward runs come in descending order, so the place before is of later rows.
        """
        if self.aggregate.user is None:
            kernels.scan(self.aggregate.kind, self._ints, self.floats, places, starts, backward)
            return
        # Doubling: log n merges of whole arrays instead of n small ones.
        n = places.size
        run = np.maximum.accumulate(np.where(starts, np.arange(n), 0))
        merged, step = self._ints[places], 1
        while step < n:
            inside = np.flatnonzero(np.arange(n) - step >= run)
            if not inside.size:
                break
            before, here = merged[inside - step], merged[inside]
            merged[inside] = self._merged(here, before) if backward else self._merged(before, here)
            step *= 2
        self._ints[places] = merged

    def fold(self, offsets: Int64s, places: Int64s) -> Int64s:
        """The synopsis of each window: its places, from earlier rows to later, merged."""
        n = offsets.size - 1
        found = np.zeros((n, self.aggregate.width), np.int64)
        if self.aggregate.user is None:
            kernels.fold(
                self.aggregate.kind, self._ints, self.floats, offsets, places,
                found, found.view(np.float64),
            )  # fmt: skip
            return found
        counts = np.diff(offsets)
        for k in range(int(counts.max()) if n else 0):
            has = np.flatnonzero(counts > k)
            found[has] = self._merged(found[has], self._ints[places[offsets[has] + k]])
        return found

    def differences(self, lanes: Lanes, which: tuple[Int64s, Int64s, Int64s]) -> Int64s:
        """The synopsis of each window as the difference of two totals that `run_on` made."""
        found = np.zeros((which[0].size, self.aggregate.width), np.int64)
        user, g = self.aggregate.user, lanes.geometry
        if user is None:
            interval_kernels.running_windows(
                self.aggregate.kind, self._ints, self.floats, g, *which,
                found, found.view(np.float64),
            )  # fmt: skip
            return found
        assert user.inverse is not None, "a way that subtracts was let through"
        has = np.flatnonzero(which[1] <= which[2])
        lane, first, last = (column[has] for column in which)
        starts, masks = g.starts[lane], g.masks[lane]
        found[has] = self._ints[starts + (last & masks)]
        turns = first & ~masks != last & ~masks
        # The last place of a ring has the total of a whole round.
        whole = self._ints[(starts + masks)[turns]]
        found[has[turns]] = self._merged(whole, found[has[turns]])
        part = self._ints[starts + ((first - 1) & masks)]
        taken = (first & masks != 0) & (part[:, 0] > 0)
        has, part = has[taken], part[taken]
        left = found[has]
        found[has, 0] -= part[:, 0]
        found.view(np.float64)[has, 1:] = user.inverse(
            left.view(np.float64)[:, 1:], part.view(np.float64)[:, 1:]
        )
        return found

    def limits(self, lanes: Lanes, which: tuple[Int64s, Int64s, Int64s]) -> Fields:
        """What the differences of powers are held against (`spread_kernels`)."""
        limits = np.empty(which[0].size if self.aggregate.kind in (POWERS_INT, POWERS_FLOAT) else 0)
        if limits.size:
            interval_kernels.find_limits(self.floats, lanes.geometry, *which, limits)
        return limits

    def sums_by_age(
        self, kernel: Callable[..., None], lanes: Lanes, which: tuple[Int64s, Int64s, Int64s]
    ) -> Found:
        """Sums of floats in the only lane: slots, and by slot the least and greatest age."""
        values, known = np.empty(which[0].size), np.empty(which[0].size, np.bool_)
        is_mean = self.aggregate.name == "AVG"
        kernel(self._ints, self.floats, lanes.geometry, *which, is_mean, values, known)
        if len(self._rests) and not sum_kernels.are_clear(values, self._rests):
            slots, lows, highs = which
            only = np.zeros(slots.size, np.int64)
            windows = (only, *lanes.positions(only, lows[slots], highs[slots]))
            self.reread(lanes, windows, Found(values, known))
        return Found(values, known)

    def sums_by_position(self, lanes: Lanes, which: tuple[Int64s, Int64s, Int64s]) -> Found:
        """Sums of floats over windows that are given by lanes, first and last positions."""
        values, known = np.empty(which[0].size), np.empty(which[0].size, np.bool_)
        sum_kernels.running_by_position(
            self._ints, self.floats, lanes.geometry, *which,
            self.aggregate.name == "AVG", values, known,
        )  # fmt: skip
        self.reread(lanes, which, Found(values, known))
        return Found(values, known)

    def reread(self, lanes: Lanes, which: tuple[Int64s, Int64s, Int64s], found: Found) -> int:
        """Take sums that totals leave in doubt from the rows; how many there were."""
        return sum_kernels.reread(
            lanes.geometry, *which, self._rests, self.aggregate.name == "AVG",
            lanes.values, lanes.valid, found.values, found.known,
        )  # fmt: skip

    def _merged(self, left: Int64s, right: Int64s) -> Int64s:
        """Synopses of the user's merged; one without values leaves the other as it is."""
        user = self.aggregate.user
        assert user is not None, "kernels merge the others"
        both = (left[:, 0] > 0) & (right[:, 0] > 0)
        merged = np.where((left[:, 0] > 0)[:, None], left, right)
        if both.any():
            one, other = left[both].view(np.float64)[:, 1:], right[both].view(np.float64)[:, 1:]
            merged.view(np.float64)[both, 1:] = user.combine(one, other)
        merged[:, 0] = left[:, 0] + right[:, 0]
        return merged


def reads_ages(aggregate: Aggregate, lanes: Lanes) -> bool:
    """Whether kernels lead from ages to answers in one pass: the sums that most windows ask for.

    There is nothing to search for, no lane to choose, and no large value to look out for.
    """
    is_plain = lanes.n_lanes == 1 and lanes.unit == "rows" and lanes.large[0] < 0
    return bool(aggregate.kind == SUM_FLOAT and is_plain)


def cover(lanes: Lanes, which: tuple[Int64s, Int64s, Int64s]) -> tuple[Int64s, Int64s]:
    """Offsets and places of the base intervals that make up each window, from left to right."""
    counts = np.empty(which[0].size, np.int64)
    interval_kernels.count_cover(lanes.geometry, *which, counts)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    nodes = np.empty(int(offsets[-1]), np.int64)
    interval_kernels.fill_cover(lanes.geometry, *which, offsets, nodes)
    return offsets, nodes
