"""How many ranges an event stabs, estimated at once: the numbers behind the router's choices.

    bucket        0      1      2      3          a range raises the buckets that it covers by 1
               |------|------|------|------|      and the two at its ends by the covered part;
    range           [-----------------]           beyond the buckets only unlimited ranges count
    raised by    0.4    1      1     0.6

`EqualWidth` is kept up while ranges come and go. Buckets are equally wide in the values themselves,
not in their keys, because the keys of half of all float64 values lie between -1 and 1. Ends close
to the ends of the number line count as unlimited and leave the buckets alone. Other ends are always
inside: the buckets double their width, two become one, until they are.

`StabbedCounts` is what the router asks: equally wide buckets, and a nearly optimal histogram as
long as that was measured to be better and no more ranges have changed since than there are. Those
that came and went are counted in equally wide buckets of their own. A rebuild is due when one range
in ten has changed; where equally wide buckets are good enough it only finds that out.

Invariant  `heights[b + 1]` is the mean of the exact count over bucket b; `heights[0]` and
           `heights[-1]` are the counts left and right of all limited ends, without those
           ranges that are unlimited at both ends on one side, which are `far`.
Cost       add, remove O(n + buckets); estimate O(1) a value from equally wide buckets.
Paper      [hotspot] section 4.1, and HIST-EQW of appendix B.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from standfast._numba import inlined, kernel
from standfast.arrays import Int64s
from standfast.indexes.histogram_choice import near_optimal
from standfast.indexes.histogram_steps import Floats, Step, blended, sampled
from standfast.indexes.keys import FAR, float_of, key_of

UNLIMITED = 9_000_000_000_000_000_000  # an int64 that nearly overflows, a float64 of some 10^294
HALF_KEY = 1 << 32
NARROWEST = 1e-290  # of a bucket, so that its reciprocal is a number
STALE, OTHERS = 0.1, 1.0  # shares of ranges changed: a rebuild is due; all are others, about
# Of the mean squared relative error of equally wide buckets: below a tenth nothing is to be gained,
# since estimates of costs are a fifth off.
GOOD = 0.01
# Ranges that cost an event next to nothing, and the part of what events hold on average.
FEW, SMALL_PART = 10.0, 0.05
# What a rebuild looks at, and chooses from (decision 010).
MOST_RANGES, MOST_EVENTS, PER_BUCKET = 20_000, 1_000, 2


class Grid(NamedTuple):
    """Where the buckets lie. The place of a whole number is its distance from the anchor."""

    is_float: bool
    anchor_high: int  # anchor = anchor_high * 2^32 + anchor_low
    anchor_low: int
    low: float
    per_unit: float  # buckets per unit


class EqualWidth:
    """Equally wide buckets over the number of ranges that hold a value."""

    def __init__(self, n_buckets: int = 100, *, is_float: bool = False) -> None:
        # One bucket alone cannot double to the left: it stands where it begins, whatever its width.
        assert n_buckets > 1, f"a histogram of {n_buckets} buckets"
        self.n_buckets = n_buckets
        self.n_ranges = 0
        self._unit = 0.0 if is_float else 1.0  # a closed range of whole numbers is 1 longer
        self._is_float = is_float
        self.clear()

    def clear(self) -> None:
        """Forget all ranges and where the buckets were."""
        self.n_ranges = 0
        self._heights = np.zeros(self.n_buckets + 2)
        self._far = np.zeros(2)
        self._has_domain = False
        self._anchor, self._low, self._width = 0, 0.0, 1.0

    def add(self, lows: Int64s, highs: Int64s) -> None:
        """Count these closed ranges."""
        self._change(lows, highs, 1.0)
        self.n_ranges += lows.size

    def remove(self, lows: Int64s, highs: Int64s) -> None:
        """Count these ranges no more; each was added."""
        assert lows.size <= self.n_ranges, "more ranges removed than added"
        self._change(lows, highs, -1.0)
        self.n_ranges -= lows.size
        if self.n_ranges == 0:
            self.clear()

    def estimate(self, values: Int64s) -> Floats:
        """About how many ranges hold each value."""
        found = np.empty(values.size)
        _look_up(self._grid(), np.maximum(self._heights, 0.0), values, found)
        if self._far.any():
            found[values <= -UNLIMITED] += self._far[0]
            found[values >= UNLIMITED] += self._far[1]
        return found

    def step(self) -> Step:
        """The same estimates as a step function over keys, without what is far."""
        edges = [self._key(self._low + i * self._width) for i in range(self.n_buckets + 1)]
        starts = np.array([-FAR - 1, *edges])
        is_last = np.append(starts[1:] > starts[:-1], True)
        return Step(starts[is_last], np.maximum(self._heights, 0.0)[is_last])

    def check(self) -> None:
        """Assert what can be told without the ranges."""
        slack = 1e-6 * (1 + self.n_ranges)
        assert np.isfinite(self._heights).all(), "heights must be numbers"
        assert np.all(self._heights >= -slack), "a height is negative"
        assert np.all(self._heights <= self.n_ranges + slack), "a height exceeds all ranges"
        assert self._width >= NARROWEST, "buckets must have a width"
        assert self.n_ranges or not self._heights.any(), "heights without ranges"

    def _change(self, lows: Int64s, highs: Int64s, amount: float) -> None:
        if lows.size == 0:
            return
        least, most = _extent(highs, *_extent(lows, UNLIMITED, -UNLIMITED))
        if least <= most:
            self._reach(int(least), int(most))
        grid, changes = self._grid(), np.zeros(self.n_buckets + 2)
        _raise(lows, grid, 0.0, amount, changes)
        _raise(highs, grid, self._unit, -amount, changes)
        self._heights[1:-1] += np.cumsum(changes[:-2])
        # Who is out there altogether, as [inf, inf], reaches over no bucket, now or later.
        far = np.count_nonzero(highs <= -UNLIMITED), np.count_nonzero(lows >= UNLIMITED)
        self._far += amount * np.array(far)
        self._heights[0] += amount * (np.count_nonzero(lows <= -UNLIMITED) - far[0])
        self._heights[-1] += amount * (np.count_nonzero(highs >= UNLIMITED) - far[1])

    def _grid(self) -> Grid:
        high, low = divmod(self._anchor, HALF_KEY)
        return Grid(self._is_float, high, low, self._low, 1.0 / self._width)

    def _place(self, key: int) -> float:
        return float_of(key) if self._is_float else float(key - self._anchor)

    def _key(self, place: float) -> int:
        key = int(key_of(place)) if self._is_float else math.ceil(place) + self._anchor
        return min(max(key, -FAR), FAR)

    def _reach(self, least: int, most: int) -> None:
        """Make the buckets cover these keys."""
        n = self.n_buckets
        if not self._has_domain:
            self._has_domain, self._anchor = True, least
            self._low = self._place(least)
            span = self._place(most) - self._low + self._unit
            self._width = max(span / n, abs(self._low) * 2**-40, NARROWEST)
            return
        low, high = self._place(least), self._place(most) + self._unit
        top = self._low + n * self._width
        if low >= self._low and high <= top * (1 + math.copysign(1e-12, top)):
            return
        halvings, shift, width = 0, n, self._width
        while shift == n or self._low + (n - shift) * width < max(top, high):
            halvings, width = halvings + 1, 2 * width
            to_left = self._low - low
            shift = max(0, math.ceil(to_left / width)) if to_left < n * width else n
        self._rebin(halvings, shift)
        self._low, self._width = self._low - shift * width, width

    def _rebin(self, halvings: int, shift: int) -> None:
        """2^halvings buckets become one, which moves right by `shift` of the new ones."""
        n, inside = self.n_buckets, self._heights[1:-1]
        to = shift + (np.arange(n) >> min(halvings, 62))
        part = 2.0**-halvings
        fresh = part * np.bincount(to, inside, n)
        uncovered = 1.0 - part * np.bincount(to, minlength=n)
        outside = np.where(np.arange(n) < shift, self._heights[0], self._heights[-1])
        self._heights[1:-1] = fresh + uncovered * outside


class StabbedCounts:
    """How many ranges hold a value, by the better of two histograms."""

    def __init__(self, n_buckets: int = 100, *, is_float: bool = False) -> None:
        self.n_buckets = n_buckets
        self._all = EqualWidth(n_buckets, is_float=is_float)
        self._since = EqualWidth(n_buckets, is_float=is_float)  # what was added since the rebuild
        self._gone = EqualWidth(n_buckets, is_float=is_float)  # and what was removed
        self._fine: Step | None = None
        self._n_changes = 0
        self.n_ranges = 0
        # Changes wait until somebody asks: many small ones cost hardly more than one.
        self._adding, self._removing = list[tuple[Int64s, Int64s]](), list[tuple[Int64s, Int64s]]()
        self._n_waiting = 0

    @property
    def is_due(self) -> bool:
        """Whether so much has changed that a rebuild may bring something."""
        return self._n_changes > STALE * self.n_ranges

    @property
    def is_fine(self) -> bool:
        """Whether the nearly optimal histogram answers."""
        return self._fine is not None and self._n_changes <= OTHERS * self.n_ranges

    def add(self, lows: Int64s, highs: Int64s) -> None:
        """Count these closed ranges."""
        self._adding.append((lows.copy(), highs.copy()))
        self._note(lows.size, lows.size)

    def remove(self, lows: Int64s, highs: Int64s) -> None:
        """Count these ranges no more; each was added."""
        self._removing.append((lows.copy(), highs.copy()))
        self._note(lows.size, -lows.size)

    def estimate(self, values: Int64s) -> Floats:
        """About how many ranges hold each value."""
        self._settle()
        if self._fine is None or not self.is_fine:
            return self._all.estimate(values)
        found = self._fine.estimate(values)
        if self._since.n_ranges:
            found += self._since.estimate(values)
        if self._gone.n_ranges:
            found = np.maximum(found - self._gone.estimate(values), 0.0)
        return found

    def rebuild(self, lows: Int64s, highs: Int64s, events: Int64s) -> bool:
        """Measure both kinds on events; whether the nearly optimal one is better.

        `lows` and `highs` are all ranges that are counted, `events` values to expect. Half of the
        events make the histogram, the others judge it.
        """
        assert lows.size == self.n_ranges, f"{lows.size} ranges given, {self.n_ranges} counted"
        self._settle()
        self._n_changes, self._fine = 0, None
        self._since.clear()
        self._gone.clear()
        if lows.size == 0 or events.size < 2:
            return False
        rng = np.random.default_rng(lows.size)
        events = rng.permutation(events)[:MOST_EVENTS]
        shown, judging = events[::2], np.sort(events[1::2])
        truth = _stabbed(judging, lows, highs)
        misses = _misses(self._all.estimate(judging), truth)
        if misses < GOOD:
            return False
        scale = max(1.0, lows.size / MOST_RANGES)
        if scale > 1.0:
            some = rng.integers(0, lows.size, MOST_RANGES)
            lows, highs = lows[some], highs[some]
        # Places without an event in the sample count as well, as far as ranges end there.
        density = blended(sampled(shown), sampled(np.concatenate([lows, highs])))
        found = near_optimal(lows, highs, self.n_buckets, density, per_bucket=PER_BUCKET)
        fine = Step(found.starts, scale * found.values)
        if _misses(fine.estimate(judging), truth) < misses:
            self._fine = fine
        return self._fine is not None

    def _note(self, n_changes: int, more: int) -> None:
        self._n_changes += n_changes
        self._n_waiting += n_changes
        self.n_ranges += more
        if self._n_waiting > self.n_ranges:
            self._settle()

    def _settle(self) -> None:
        """Work in what waits."""
        for waiting, change, changed in (
            (self._adding, self._all.add, self._since),
            (self._removing, self._all.remove, self._gone),
        ):
            if waiting:
                lows, highs = map(np.concatenate, zip(*waiting, strict=True))
                change(lows, highs)
                if self.is_fine:
                    changed.add(lows, highs)
                waiting.clear()
        self._n_waiting = 0

    def check(self) -> None:
        """Assert the invariants of the parts."""
        self._settle()
        assert self.n_ranges == self._all.n_ranges, "ranges are miscounted"
        for part in (self._all, self._since, self._gone):
            part.check()
        if self._fine is not None:
            self._fine.check()


def _stabbed(ascending: Int64s, lows: Int64s, highs: Int64s) -> Floats:
    """Exactly how many ranges hold each value."""
    changes = np.zeros(ascending.size + 1)
    _count_ends(ascending, lows, highs, changes)
    return np.cumsum(changes[:-1])


def _misses(estimates: Floats, truth: Floats) -> float:
    """The mean squared relative error; a few ranges more or less are no matter."""
    few = max(FEW, SMALL_PART * float(np.mean(truth)))
    return float(np.mean(((estimates - truth) / np.maximum(truth, few)) ** 2))


@inlined
def _position(key: int, grid: Grid) -> float:
    """Where a key lies, counted in buckets; no step can overflow."""
    key = min(max(key, -UNLIMITED), UNLIMITED)
    if grid.is_float:
        return (float_of(key) - grid.low) * grid.per_unit
    halves = float((key >> 32) - grid.anchor_high) * 4294967296.0
    return (halves + float((key & 0xFFFFFFFF) - grid.anchor_low) - grid.low) * grid.per_unit


@kernel
def _raise(keys: Int64s, grid: Grid, unit: float, amount: float, changes: Floats) -> None:
    """Let the count step up by `amount` from each key on; `changes` are to be summed up."""
    n = changes.size - 2
    extra = unit * grid.per_unit
    for i in range(keys.size):
        position = min(max(_position(keys[i], grid) + extra, 0.0), float(n))
        bucket = int(position)
        part = position - bucket
        changes[bucket] += amount * (1.0 - part)
        changes[bucket + 1] += amount * part


@kernel
def _look_up(grid: Grid, heights: Floats, values: Int64s, found: Floats) -> None:
    """The height of the bucket of each value."""
    last = float(heights.size - 1)
    for e in range(values.size):
        found[e] = heights[int(min(max(_position(values[e], grid) + 1.0, 0.0), last))]


@kernel
def _extent(keys: Int64s, least: int, most: int) -> tuple[int, int]:
    """The outermost of `least`, `most` and the limited keys."""
    for i in range(keys.size):
        if -UNLIMITED < keys[i] < UNLIMITED:
            least, most = min(least, keys[i]), max(most, keys[i])
    return least, most


@kernel
def _count_ends(ascending: Int64s, lows: Int64s, highs: Int64s, changes: Floats) -> None:
    """Add 1 where a range begins to hold the values and take 1 where it ends."""
    for i in range(lows.size):
        changes[np.searchsorted(ascending, lows[i])] += 1.0
        changes[np.searchsorted(ascending, highs[i], side="right")] -= 1.0
