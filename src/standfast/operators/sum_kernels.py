"""Sums of floats from running totals, straight from windows to answers.

    window   -> two places -> count, sum and rest of each -> their difference -> answer

One pass: no synopsis of a window is ever written down. Nothing is decided on the way that differs
from window to window, so that many totals are fetched at a time. Places are unsigned: no index is
asked whether it counts from the end.

Of a total the sum and the rest are exact together, up to the roundings of the rest. Where larger
values stood before a window, those may be as large as its own sum: such windows are looked for
among the answers, and added up row by row. Whole numbers leave no rest, most others a small one.
"""

from __future__ import annotations

import numpy as np

from standfast._numba import in_place, inlined, kernel
from standfast.arrays import Int64s
from standfast.indexes.lane_kernels import Bools, Geometry
from standfast.operators.aggregates import Fields
from standfast.operators.synopsis_kernels import added

Total = tuple[int, float, float]
Ring = tuple[int, int, int, int]  # start, mask, head, and the newest position

# Sums are doubted below so many times the rest of a total: a million roundings of the rest are at
# most a 2^33rd of it, and so at most a 2^46th of a sum that is not.
DOUBT = 2.0**13


@kernel
def running_by_age(
    ints: Int64s, floats: Fields, g: Geometry, slots: Int64s, lows: Int64s, highs: Int64s,
    is_mean: bool, values: Fields, known: Bools,
) -> None:  # fmt: skip
    """Sums of the rows of age `lows[slots[i]] .. highs[slots[i]]` in the only lane."""
    ring = (g.starts[0], g.masks[0], g.heads[0], g.tails[0] - 1)
    turns, is_full = _kind_of(ints, ring)
    windows = (slots, lows, highs, is_mean, values, known)
    if turns and is_full:
        _read(ints, floats, ring, True, True, *windows)
    elif turns:
        _read(ints, floats, ring, True, False, *windows)
    elif is_full:
        _read(ints, floats, ring, False, True, *windows)
    else:
        _read(ints, floats, ring, False, False, *windows)


@inlined
def _kind_of(ints: Int64s, ring: Ring) -> tuple[bool, bool]:
    """Whether a window can cross the start of the ring, and whether every row has a value."""
    start, mask, head, newest = ring
    turns = (head ^ newest) & ~mask != 0
    n = ints[start + (newest & mask), 0]
    if turns:
        n += ints[start + mask, 0]
    if head & mask != 0:
        n -= ints[start + ((head - 1) & mask), 0]
    return turns, n == newest - head + 1


@inlined
def _read(
    ints: Int64s, floats: Fields, ring: Ring, turns: bool, is_full: bool, slots: Int64s,
    lows: Int64s, highs: Int64s, is_mean: bool, values: Fields, known: Bools,
) -> None:  # fmt: skip
    start, mask, head, newest = ring
    whole = total_at(ints, floats, start + mask)
    for i in range(slots.size):
        slot = np.uint64(slots[i])
        first, last = max(head, newest - highs[slot]), newest - lows[slot]
        kind = (turns, is_full, is_mean)
        known[i], values[i] = _answer(ints, floats, start, mask, whole, first, last, kind)


@kernel
def running_by_position(
    ints: Int64s, floats: Fields, g: Geometry, lanes: Int64s, firsts: Int64s, lasts: Int64s,
    is_mean: bool, values: Fields, known: Bools,
) -> None:  # fmt: skip
    """Sums of the rows at positions `firsts[i] .. lasts[i]` of `lanes[i]`."""
    for i in range(lanes.size):
        lane, first, last = lanes[i], firsts[i], lasts[i]
        start, mask = g.starts[lane], g.masks[lane]
        whole = total_at(ints, floats, start + mask)
        kind = (True, False, is_mean)
        known[i], values[i] = _answer(ints, floats, start, mask, whole, first, last, kind)


@kernel
def are_clear(values: Fields, rests: Fields) -> bool:
    """Whether all answers of the only lane are far above what its totals left out, or it none."""
    limit = DOUBT * max(rests[0, 0], rests[0, 1])
    n_below = 0
    for i in range(values.size):
        n_below += abs(values[i]) < limit
    return n_below == 0


@kernel
def reread(
    g: Geometry, lanes: Int64s, firsts: Int64s, lasts: Int64s, rests: Fields, is_mean: bool,
    column: Fields, valid: Bools, values: Fields, known: Bools,
) -> int:  # fmt: skip
    """Add the doubtful windows up row by row; how many there were.

    `column` has the values of the rows, `rests` the largest rests of each lane.
    """
    n_doubtful = 0
    for i in range(lanes.size):
        lane = lanes[i]
        if not known[i] or not abs(values[i]) < DOUBT * max(rests[lane, 0], rests[lane, 1]):
            continue
        n_doubtful += 1
        n, total, rest = 0, 0.0, 0.0
        for p in range(firsts[i], lasts[i] + 1):
            place = g.starts[lane] + (p & g.masks[lane])
            if valid[place]:
                total, low = added(total, column[place])
                n, rest = n + 1, rest + low
        values[i] = (total + rest) / n if is_mean else total + rest
    return n_doubtful


@in_place
def total_at(ints: Int64s, floats: Fields, place: int) -> Total:
    at = np.uint64(place)
    return ints[at, 0], floats[at, 1], floats[at, 2]


@in_place
def _answer(
    ints: Int64s, floats: Fields, start: int, mask: int, whole: Total, first: int, last: int,
    kind: tuple[bool, bool, bool],
) -> tuple[bool, float]:  # fmt: skip
    """Whether a window has a value, and the sum or the mean.

    `whole` is the total of a round; `kind` tells whether windows may cross the start of one,
    whether every row has a value, and whether the mean is wanted.
    """
    turns, is_full, is_mean = kind
    n, total, rest = total_at(ints, floats, start + (last & mask))
    if turns:
        crosses = (first ^ last) & ~mask != 0
        total, low = added(whole[1] if crosses else 0.0, total)
        rest = (whole[2] if crosses else 0.0) + (rest + low)
        n += whole[0] if crosses else 0
    n_less, less, rest_less = total_at(ints, floats, start + ((first - 1) & mask))
    if first & mask == 0:
        n_less, less, rest_less = 0, 0.0, 0.0
    total, low = added(total, -less)
    n = last - first + 1 if is_full else n - n_less
    has = (first <= last) & (n > 0)
    answer = total + (rest + (low - rest_less))
    if is_mean:
        answer /= max(n, 1)
    return has, answer if has else 0.0
