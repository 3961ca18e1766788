"""Landmark intervals: a window is the end of one stretch, at most one whole, and a beginning.

    landmarks       |               |               |               |      every 2^c rows or us
    forward         > > > > > > > > > > > > > > > > > > > > > > > > >      from a landmark on
    back            < < < < < < < < < < < < < < < <                        up to the next one
    window                    `--- back --|---- whole ----|- forward '

Windows are parted into classes: class c has the widths from 2^c up to 2^(c + 1), and landmarks
every 2^c rows, or microseconds. A window of the class is no narrower than a stretch and less than
two of them wide, so it meets at most three. Each class keeps rings that reach back as far as its
own windows, so suffix windows of all classes together take no more than twice the widest.

Invariant  forward and back synopses are those of the rows of their stretch; back ones exist for
           every stretch that is finished.
Cost       update O(1) amortised a class, lookup O(1), O(log n) more for the positions of time
           windows; two synopses and 8 bytes a place; space O(N_max) a class, O(N_max) in all if
           every window is a suffix.
Paper      [shared-windows] section 3.1.2, figure 5, with c = 2; a third piece instead of longer
           intervals halves the space. Classes by time, and stretches without rows, are ours.
"""

from __future__ import annotations

import numpy as np

from standfast.arrays import Int64s, with_room
from standfast.indexes.lane_changes import Change
from standfast.indexes.lane_kernels import FARTHEST, capacities
from standfast.indexes.lanes import Lanes
from standfast.model.query import WindowAggregate
from standfast.operators import landmark_kernels as kernels
from standfast.operators.aggregates import Aggregate
from standfast.operators.base import ROUNDED, AggregateStrategy, Found, Spec
from standfast.operators.landmark_kernels import Rings
from standfast.operators.lowering import lower
from standfast.operators.plain import plain_answers
from standfast.operators.synopses import Synopses


class LandmarkIntervals(AggregateStrategy):
    """Keep aggregates from landmarks forward and back, for each class of widths."""

    spec = Spec(
        question=WindowAggregate, paper="L-INT [shared-windows] 3.1.2",
        time="O(g) update, O(1) lookup, g classes of widths",
        space="O(g N_max), O(N_max) for suffix windows", needs="mergeable",
        promise=ROUNDED,
    )  # fmt: skip

    def __init__(self, aggregate: Aggregate, lanes: Lanes) -> None:
        super().__init__(aggregate, lanes)
        self._classes: dict[int, WidthClass] = {}
        self._class_of = np.empty(0, np.int64)

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        super().add(slots, lows, highs)
        levels = levels_of(lows[0], highs[0])
        self._class_of = with_room(self._class_of, self.living.size)
        self._class_of[slots] = levels
        for level in np.unique(levels).tolist():
            mine = levels == level
            if level not in self._classes:
                self._classes[level] = WidthClass(self.aggregate, self.lanes, level)
            self._classes[level].enter(int(np.count_nonzero(mine)), int(highs[0, mine].max()))

    def remove(self, slots: Int64s) -> None:
        super().remove(slots)
        levels, counts = np.unique(self._class_of[slots], return_counts=True)
        for level, n in zip(levels.tolist(), counts.tolist(), strict=True):
            self._classes[level].n_queries -= n
            if not self._classes[level].n_queries:
                del self._classes[level]

    def take_in(self, change: Change) -> None:
        for widths in self._classes.values():
            widths.take_in(change)

    def read(self, slots: Int64s, lanes: Int64s, firsts: Int64s, lasts: Int64s) -> Found:
        levels = self._class_of[slots]
        synopses = np.zeros((slots.size, self.aggregate.width), np.int64)
        plain = np.zeros(slots.size, np.bool_)
        if not slots.size:
            return lower(self.aggregate, synopses, self.lanes, (lanes, firsts, lasts))
        by_level = np.argsort(levels.astype(np.int8), kind="stable")
        known, starts = np.unique(levels[by_level], return_index=True)
        for level, mine in zip(known.tolist(), np.split(by_level, starts[1:]), strict=True):
            windows = (lanes[mine], firsts[mine], lasts[mine])
            synopses[mine], plain[mine] = self._classes[level].read(windows)
        found = lower(self.aggregate, synopses, self.lanes, (lanes, firsts, lasts))
        if plain.any():
            # Windows cut short by rows that went before the query came: few, and soon gone.
            windows = (lanes[plain], firsts[plain], lasts[plain])
            exact = plain_answers(self.aggregate, self.lanes, windows, np.zeros(windows[0].size))
            found.values[plain], found.known[plain] = exact[:2]
            if found.over is not None:
                found.over[plain] = exact[2]
        return found

    def check(self) -> None:
        for widths in self._classes.values():
            widths.check()

    def memory_bytes(self) -> int:
        return sum(widths.memory_bytes() for widths in self._classes.values())

    def describe(self) -> dict[str, object]:
        return {"classes of widths": len(self._classes)}


class WidthClass:
    """The landmark intervals of windows whose widths are alike."""

    def __init__(self, aggregate: Aggregate, lanes: Lanes, level: int) -> None:
        self.lanes = lanes
        self.level = level
        self.n_queries = 0
        self.reach = -1
        self._sums = Synopses(aggregate)
        self._start()

    def _start(self) -> None:
        self._generation = self.lanes.generation
        self._n_lanes = 0
        self._size = 0  # places in use or left behind
        self._table = np.zeros((4, 0), np.int64)
        self._begins = np.empty(0, np.int64)
        self._now = self.lanes.now

    @property
    def _rings(self) -> Rings:
        starts, masks, froms, dones = self._table[:, : self._n_lanes]
        return Rings(starts, masks, froms, dones)

    def enter(self, n: int, reach: int) -> None:
        """Queries come that reach so far back."""
        self.n_queries += n
        if min(reach, FARTHEST) > self.reach:
            self.reach = min(reach, FARTHEST)
            self._start()
            self.take_in(self.lanes.all_changed())

    def take_in(self, change: Change) -> None:
        """Rows of lanes changed as told."""
        if self._generation != self.lanes.generation:
            self._start()
            change = self.lanes.all_changed()
        lanes, firsts = self._make_room(change)
        if not lanes.size:
            return
        g, rings, rows = self.lanes.geometry, self._rings, self.lanes
        kernels.mark_begins(
            rings, self._begins, g, rows.times, lanes, firsts, self.level, rows.unit == "rows"
        )
        began = self._begins[rings.starts[lanes] + (firsts & rings.masks[lanes])]
        rings.dones[lanes] = np.minimum(rings.dones[lanes], began)
        self._sums.landmarks_forward(rows, rings, self._begins, (lanes, firsts))
        self._finish(lanes)

    def _make_room(self, change: Change) -> tuple[Int64s, Int64s]:
        """Rings for lanes that are new or too short; the lanes that have rows, and from where on.

        A ring that is not as it should be is filled again with all that the windows reach.
        """
        g, n = self.lanes.geometry, self.lanes.n_lanes
        self._table = with_room(self._table, n)
        self._table[:, self._n_lanes : n] = 0
        self._table[1, self._n_lanes : n] = -1
        self._n_lanes = n
        lanes, firsts = change
        oldest = self._oldest(lanes)
        has = oldest < g.tails[lanes]
        lanes, firsts, oldest = lanes[has], np.maximum(firsts, oldest)[has], oldest[has]
        starts, masks, froms, dones = self._table
        needed = g.tails[lanes] - oldest
        short = needed + 1 > masks[lanes]
        # Positions before the ring, or before the rows that it began with: fill it again.
        anew = short | (firsts <= froms[lanes]) | (change.firsts[has] < oldest)
        if short.any():
            sizes = capacities(needed[short] + 1)
            starts[lanes[short]] = self._size + np.cumsum(sizes) - sizes
            masks[lanes[short]] = sizes - 1
            self._size += int(sizes.sum())
            self._begins = with_room(self._begins, self._size)
            self._sums.resize(2 * self._size)
        froms[lanes[anew]] = dones[lanes[anew]] = oldest[anew]
        return lanes, np.where(anew, oldest, firsts)

    def _oldest(self, lanes: Int64s) -> Int64s:
        """The first position that a window of this class reaches."""
        if self.lanes.unit == "rows":
            g = self.lanes.geometry
            oldest: Int64s = np.maximum(g.heads[lanes], g.tails[lanes] - 1 - self.reach)
            return oldest
        return self.lanes.first_since(lanes, np.full(lanes.size, self.lanes.now - self.reach))

    def _finish(self, lanes: Int64s) -> None:
        """Sum back the stretches of these lanes that are finished."""
        g, rings, rows = self.lanes.geometry, self._rings, self.lanes
        oldest = self._oldest(lanes)
        # A ring is up to date where its windows reach some row, and nowhere else.
        lanes, oldest = lanes[oldest < g.tails[lanes]], oldest[oldest < g.tails[lanes]]
        rings.dones[lanes] = np.maximum(rings.dones[lanes], oldest)
        lasts = g.tails[lanes] - 1
        ends = self._begins[rings.starts[lanes] + (lasts & rings.masks[lanes])]
        if rows.unit == "range":
            times = rows.times[g.starts[lanes] + (lasts & g.masks[lanes])]
            is_over = ((times >> self.level) + 1) << self.level <= rows.now
            ends = np.where(is_over, lasts + 1, ends)
        self._sums.landmarks_back(rows, rings, self._begins, (lanes, ends))
        rings.dones[lanes] = np.maximum(rings.dones[lanes], ends)

    def read(self, windows: tuple[Int64s, Int64s, Int64s]) -> tuple[Int64s, np.ndarray]:
        """The synopses of windows, and which have to be read row by row instead."""
        if self._now != self.lanes.now and self.lanes.unit == "range":
            g = self.lanes.geometry
            self._finish(np.flatnonzero(g.tails[: self._n_lanes] > g.heads[: self._n_lanes]))
        self._now = self.lanes.now
        return self._sums.landmark_windows(self._rings, self._begins, windows)

    def check(self) -> None:
        fresh = WidthClass(self._sums.aggregate, self.lanes, self.level)
        fresh.enter(1, self.reach)
        g = self.lanes.geometry
        for lane in range(self.lanes.n_lanes):
            firsts = np.arange(self._oldest(np.array([lane]))[0], g.tails[lane])
            width = 1 << min(self.level, 40)
            lasts = np.minimum(firsts + width, g.tails[lane] - 1)
            if self.lanes.unit == "range":
                times = self.lanes.times[g.starts[lane] + (firsts & g.masks[lane])]
                lasts = self.lanes.first_since(firsts * 0 + lane, times + width) - 1
            windows = (np.full(firsts.size, lane), firsts, lasts)
            (mine, plain), (other, also) = self.read(windows), fresh.read(windows)
            both = ~plain & ~also
            assert np.array_equal(mine[both, 0], other[both, 0]), "landmark intervals miscount"

    def memory_bytes(self) -> int:
        return self._sums.memory_bytes() + self._begins.nbytes + self._table.nbytes


def levels_of(lows: Int64s, highs: Int64s) -> Int64s:
    """The class of each window: the whole logarithm of how many rows or microseconds it spans."""
    widths = np.minimum(highs, FARTHEST) - lows + 1
    levels = np.frexp(widths.astype(np.float64))[1].astype(np.int64) - 1
    # Rounding up to the next power of two would put a window into a class too wide for it.
    return levels - (1 << levels > widths)
