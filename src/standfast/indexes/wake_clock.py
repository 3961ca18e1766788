"""A wake clock: who is far from a bound sleeps until what it watches can have come so far.

    clock     ----------------o---------------------------->    goes on by what any of the watched
                              |                                 numbers can have changed at most
    bucket 3  8 <= slack < 16 | (slot 4, wakes at 9.5) ...      is looked at when the clock is where
    bucket 5  32 <= slack     | (slot 1, wakes at 40) ...       it was when the first came, and 8

Whoever goes to sleep says how far it is from its bound: its slack. It wakes no sooner than the
clock has gone on by as much. A bucket holds slots of about the same slack; when it is due, those
that have to wake do and the others go to the buckets of what is left of their slack.

Soundness  numbers x of slots, and steps c such that |x(after) - x(before)| <= c for each: then
           |x(now) - x(asleep)| <= sum of c, so a number that was off its bound by more than that
           still is. Floats: the clock is rounded up at each step and the time to wake down, so
           that a slot wakes too soon rather than too late; when the clock has gone so far that a
           slack vanishes beside it, the slot wakes at the next look. A slack of infinity sleeps
           until all are woken.
Invariant  no slot of a bucket is to wake before the bucket is due; no slot sleeps twice.
Cost       sleep O(1), wake O(log (slack / the steps)) a slot, each O(1) in whole arrays; a look at
           the clock O(buckets), which are at most as many as there are powers of two.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from standfast._numba import kernel
from standfast.arrays import Int64s
from standfast.indexes.lane_kernels import Bools, Geometry, Values

Floats = npt.NDArray[np.float64]

# Sums of n numbers are off by no more than n times this share of the sum of their sizes; four
# times what each addition can be off by, since each number is added and taken away again.
ROUNDING = 2.0**-50


class WakeClock:
    """Slots that sleep until the clock has gone on by their slack."""

    def __init__(self) -> None:
        self.clock = 0.0
        self._n = 0
        # By the power of two below their slack: when it is due, slots, when they wake.
        self._buckets: dict[int, tuple[float, list[tuple[Int64s, Floats]]]] = {}

    def __len__(self) -> int:
        return self._n

    def advance(self, step: float) -> None:
        """What is watched changed by no more than this, which is finite."""
        self.clock = float(np.nextafter(self.clock + step, np.inf))

    def sleep(self, slots: Int64s, slacks: Floats) -> None:
        """Let slots sleep that are off their bounds by their slack, which is above 0."""
        if not self._n:
            self.clock, self._buckets = 0.0, {}  # nobody minds, and small slacks count again
        self._put(slots, np.nextafter(self.clock + slacks, -np.inf))
        self._n += slots.size

    def woken(self) -> Int64s:
        """The slots whose slack is used up; they do not sleep any more."""
        due = [power for power, (at, _) in self._buckets.items() if at <= self.clock]
        chunks = [chunk for power in due for chunk in self._buckets.pop(power)[1]]
        if not chunks:
            return np.empty(0, np.int64)
        slots, wakes = (np.concatenate(column) for column in zip(*chunks, strict=True))
        is_up = wakes <= self.clock
        self._put(slots[~is_up], wakes[~is_up])
        self._n -= int(np.count_nonzero(is_up))
        return slots[is_up]

    def wake_all(self) -> Int64s:
        """All slots, none of which sleeps any more; the clock starts anew."""
        chunks = [slots for _, sleepers in self._buckets.values() for slots, _ in sleepers]
        self.clock, self._n, self._buckets = 0.0, 0, {}
        return np.concatenate([np.empty(0, np.int64), *chunks])

    def _put(self, slots: Int64s, wakes: Floats) -> None:
        """Sort slots into buckets by what is left until they wake."""
        powers = np.frexp(np.maximum(wakes - self.clock, 0.0))[1] - 1
        for power in np.unique(powers).tolist():
            which = powers == power
            due = np.nextafter(self.clock + np.ldexp(1.0, power), -np.inf)
            due, sleepers = self._buckets.get(power, (float(min(due, wakes[which].min())), []))
            sleepers.append((slots[which], wakes[which]))
            self._buckets[power] = (min(due, float(wakes[which].min())), sleepers)

    def memory_bytes(self) -> int:
        chunks = (chunk for _, sleepers in self._buckets.values() for chunk in sleepers)
        return sum(slots.nbytes + wakes.nbytes for slots, wakes in chunks)

    def check(self) -> None:
        slots = [chunk[0] for _, sleepers in self._buckets.values() for chunk in sleepers]
        together = np.concatenate([np.empty(0, np.int64), *slots])
        assert together.size == self._n, "sleepers are miscounted"
        assert np.unique(together).size == self._n, "a slot sleeps twice"
        for due, sleepers in self._buckets.values():
            for _, wakes in sleepers:
                assert np.all(wakes >= due), "a slot wakes before its bucket is looked at"


@kernel
def most_moved(
    g: Geometry, lane: int, times: Int64s, values: Values, counts_rows: bool,
    by_rows: bool, span: int, since: int, then: int,
) -> float:  # fmt: skip
    """How much the sum over any window of a lane can have changed at most.

    Ages grew by `span` rows or microseconds; rows from position `since` on may be new, and those of
    them that are not later than `then` may be in the middle of a window. What goes out of a window
    or comes into it at one end are some of the rows of one stretch of `span`: their sum is no more
    than that of the positive ones of the stretch, and no less than that of the negative ones.
    Rows that are new in the middle count by themselves.
    """
    start, mask, head, tail = g.starts[lane], g.masks[lane], g.heads[lane], g.tails[lane]
    left, up, down, most_up, most_down, late, size = head, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for p in range(head, tail):
        place = start + (p & mask)
        value = 1.0 if counts_rows else float(values[place])
        up, down, size = up + max(value, 0.0), down - min(value, 0.0), size + abs(value)
        while left <= p and (
            left <= p - span if by_rows else times[start + (left & mask)] <= times[place] - span
        ):
            old = 1.0 if counts_rows else float(values[start + (left & mask)])
            up, down = up - max(old, 0.0), down + min(old, 0.0)
            left += 1
        most_up, most_down = max(most_up, up), max(most_down, down)
        if p >= since and times[place] <= then:
            late += abs(value)
    return float(most_up + most_down + late + ROUNDING * (tail - head) * size)


@kernel
def extremes(
    g: Geometry, lanes: Int64s, values: Values, valid: Bools, leasts: Values, mosts: Values
) -> None:
    """The least and the greatest value that each lane holds; the least is greater if none."""
    for i in range(lanes.size):
        lane = lanes[i]
        for p in range(g.heads[lane], g.tails[lane]):
            place = g.starts[lane] + (p & g.masks[lane])
            if valid[place]:
                leasts[i] = min(leasts[i], values[place])
                mosts[i] = max(mosts[i], values[place])
