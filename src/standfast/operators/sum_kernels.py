"""Sums of floats from running totals, straight from windows to answers.

    window   -> two places -> count, sum and rest of each -> their difference -> answer

One pass: no synopsis of a window is ever written down. Windows of one lane that stand side by side
are read together, so that what is known of the lane stays in registers; and nothing is decided on
the way that differs from window to window, so that many totals are fetched at a time.
"""

from __future__ import annotations

import numpy as np

from standfast._numba import inlined, kernel
from standfast.arrays import Int64s
from standfast.indexes.lane_kernels import Bools, Geometry
from standfast.operators.aggregates import Fields
from standfast.operators.synopsis_kernels import added

FIELDS = 3  # count, sum, rest


@kernel
def running_by_age(
    ints: Int64s, floats: Fields, g: Geometry, lanes: Int64s, slots: Int64s, lows: Int64s,
    highs: Int64s, is_mean: bool, values: Fields, known: Bools,
) -> None:  # fmt: skip
    """Sums of the rows of age `lows[slots[i]] .. highs[slots[i]]`; the fields lie flat."""
    at = 0
    while at < lanes.size:
        end = same_until(lanes, at)
        part = (slots[at:end], lows, highs, is_mean, values[at:end], known[at:end])
        lane = lanes[at]
        ring = (g.starts[lane], g.masks[lane], g.heads[lane], g.tails[lane] - 1)
        turns, is_full = _kind_of(ints, ring)
        if turns and is_full:
            _read(ints, floats, ring, True, True, True, *part)
        elif turns:
            _read(ints, floats, ring, True, True, False, *part)
        elif is_full:
            _read(ints, floats, ring, True, False, True, *part)
        else:
            _read(ints, floats, ring, True, False, False, *part)
        at = end


@kernel
def running_by_position(
    ints: Int64s, floats: Fields, g: Geometry, lanes: Int64s, firsts: Int64s, lasts: Int64s,
    is_mean: bool, values: Fields, known: Bools,
) -> None:  # fmt: skip
    """Sums of the rows at positions `firsts[i] .. lasts[i]`; the fields lie flat."""
    at = 0
    while at < lanes.size:
        end = same_until(lanes, at)
        part = (
            firsts[at:end], firsts[at:end], lasts[at:end], is_mean, values[at:end], known[at:end],
        )  # fmt: skip
        lane = lanes[at]
        ring = (g.starts[lane], g.masks[lane], g.heads[lane], g.tails[lane] - 1)
        _read(ints, floats, ring, False, True, False, *part)
        at = end


@inlined
def same_until(lanes: Int64s, at: int) -> int:
    """The end of the run of windows that are of the same lane as this one."""
    end = at + 1
    while end < lanes.size and lanes[end] == lanes[at]:
        end += 1
    return end


@inlined
def _kind_of(ints: Int64s, ring: tuple[int, int, int, int]) -> tuple[bool, bool]:
    """Whether a window can cross the start of the ring, and whether every row has a value."""
    start, mask, head, newest = ring
    turns = (head ^ newest) & ~mask != 0
    n = ints[FIELDS * (start + (newest & mask))]
    if turns:
        n += ints[FIELDS * (start + mask)]
    if head & mask != 0:
        n -= ints[FIELDS * (start + ((head - 1) & mask))]
    return turns, n == newest - head + 1


@inlined
def _read(
    ints: Int64s, floats: Fields, ring: tuple[int, int, int, int], by_age: bool, turns: bool,
    is_full: bool, slots: Int64s, lows: Int64s, highs: Int64s, is_mean: bool, values: Fields,
    known: Bools,
) -> None:  # fmt: skip
    """The windows of one lane; `turns` where one may cross the start of the ring.

    Places are unsigned: no index is asked whether it counts from the end.
    """
    start, mask, head, newest = ring
    whole = FIELDS * (start + mask)
    n_round, round_total, round_rest = ints[whole], floats[whole + 1], floats[whole + 2]
    for i in range(values.size):
        if by_age:
            slot = np.uint64(slots[i])
            first, last = max(head, newest - highs[slot]), newest - lows[slot]
        else:
            first, last = lows[i], highs[i]
        at = FIELDS * (start + (last & mask))
        n, total, rest = ints[np.uint64(at)], floats[np.uint64(at + 1)], floats[np.uint64(at + 2)]
        if turns:
            crosses = (first ^ last) & ~mask != 0
            total, low = added(round_total if crosses else 0.0, total)
            rest = (round_rest if crosses else 0.0) + (rest + low)
            n += n_round if crosses else 0
        at = FIELDS * (start + ((first - 1) & mask))
        n_less, less = ints[np.uint64(at)], floats[np.uint64(at + 1)]
        rest_less = floats[np.uint64(at + 2)]
        if first & mask == 0:
            n_less, less, rest_less = 0, 0.0, 0.0
        total, low = added(total, -less)
        answer = total + (rest + (low - rest_less))
        n = last - first + 1 if is_full else n - n_less
        has = (first <= last) & (n > 0)
        if is_mean:
            answer /= max(n, 1)
        values[i] = answer if has else 0.0
        known[i] = has
