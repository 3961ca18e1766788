"""Kernels over lanes: running totals, base intervals, and windows covered by them.

The tree of a lane with a ring of c places has 2c places from `2 * start` on, like a heap:

    2s + c .. 2s + 2c - 1       the rows themselves, position p at 2s + c + p % c
    2s + c/2 .. 2s + c - 1      pairs of rows, and so on up to
    2s + 2, 2s + 3              halves of the ring

The base interval j of level l, positions `j * 2^l` to `(j + 1) * 2^l - 1`, stands at
`2s + c / 2^l + j % (c / 2^l)`. No window is as long as the ring, so levels end at its halves.
"""

from __future__ import annotations

import numpy as np

from standfast._numba import in_place, kernel
from standfast.arrays import Int64s
from standfast.indexes.lane_kernels import LARGE, Bools, Geometry
from standfast.operators.aggregates import (
    LEAST_FLOAT,
    LEAST_INT,
    MOST_FLOAT,
    SUM_FLOAT,
    Fields,
)
from standfast.operators.spread_kernels import share_in_doubt
from standfast.operators.synopsis_kernels import added, copy, lift_one, merge, take_away


@kernel
def run_on(
    kind: int, ints: Int64s, floats: Fields, g: Geometry, lanes: Int64s, firsts: Int64s,
    raw: Int64s, values: Fields, valid: Bools, rests: Fields,
) -> None:  # fmt: skip
    """Totals of the positions from `firsts` on; they start anew where a ring does.

    `rests` has for each lane the largest rest of a sum in this round of the ring and the last.
    """
    for i in range(lanes.size):
        start, mask = g.starts[lanes[i]], g.masks[lanes[i]]
        if firsts[i] == g.heads[lanes[i]] and firsts[i] & mask != 0:
            # Nothing before is held any more, and no total of it needs to be.
            ints[start + (firsts[i] & mask) - 1] = 0
        if kind == SUM_FLOAT:
            first, stop = firsts[i], g.tails[lanes[i]]
            while first < stop:  # once round the ring at most
                end = min(stop, (first | mask) + 1)
                at, past = start + (first & mask), start + (first & mask) + end - first
                if first & mask == 0:
                    rests[lanes[i], 1], rests[lanes[i], 0] = rests[lanes[i], 0], 0.0
                most = _run_sums(ints, floats, at, past, first & mask == 0, values, valid)
                rests[lanes[i], 0] = max(rests[lanes[i], 0], most)
                first = end
            continue
        for p in range(firsts[i], g.tails[lanes[i]]):
            at = start + (p & mask)
            lift_one(kind, ints, floats, at, raw[at], values[at], valid[at])
            if p & mask != 0:
                merge(kind, ints, floats, at, ints, floats, at - 1)


@in_place
def _run_sums(
    ints: Int64s, floats: Fields, at: int, past: int, is_start: bool, values: Fields, valid: Bools
) -> float:
    """The totals of sums from one place to another, and the largest rest; kept in registers."""
    n, total, rest, most = 0, 0.0, 0.0, 0.0
    if not is_start:
        n, total, rest = ints[at - 1, 0], floats[at - 1, 1], floats[at - 1, 2]
    for place in range(at, past):
        value = values[place]
        if not (valid[place] and abs(value) < LARGE):
            value = 0.0
        n += valid[place]
        more = total + value
        back = more - total
        rest += (total - (more - back)) + (value - back)
        total = more
        ints[place, 0] = n
        floats[place, 1] = total
        floats[place, 2] = rest
        most = max(most, abs(rest))
    return most


@kernel
def running_windows(
    kind: int, ints: Int64s, floats: Fields, g: Geometry, lanes: Int64s, firsts: Int64s,
    lasts: Int64s, found: Int64s, found_floats: Fields,
) -> None:  # fmt: skip
    """Each window as the difference of two totals, across at most one start."""
    for i in range(lanes.size):
        first, last = firsts[i], lasts[i]
        if first > last:
            continue
        start, mask = g.starts[lanes[i]], g.masks[lanes[i]]
        if kind == SUM_FLOAT:
            n, total, rest = _difference(ints, floats, start, mask, first, last)
            found[i, 0], found_floats[i, 1], found_floats[i, 2] = n, total, rest
            continue
        if first & ~mask != last & ~mask:
            copy(found, i, ints, start + mask)  # the total of a whole round
        merge(kind, found, found_floats, i, ints, floats, start + (last & mask))
        if first & mask != 0:
            take_away(kind, found, found_floats, i, ints, floats, start + (first & mask) - 1)


@kernel
def find_limits(
    floats: Fields, g: Geometry, lanes: Int64s, firsts: Int64s, lasts: Int64s, limits: Fields
) -> None:
    """What the totals that make up each window leave in doubt; 0 where they left nothing out."""
    for i in range(lanes.size):
        start, mask, last = g.starts[lanes[i]], g.masks[lanes[i]], lasts[i]
        at, turn = start + (last & mask), start + mask
        most, is_exact = floats[at, 3], floats[at, 2] == 0.0 and floats[at, 4] == 0.0
        if firsts[i] & ~mask != last & ~mask:
            most = max(most, floats[turn, 3])
            is_exact = is_exact and floats[turn, 2] == 0.0 and floats[turn, 4] == 0.0
        is_exact = is_exact or firsts[i] > last
        limits[i] = 0.0 if is_exact else share_in_doubt(mask + 1) * most


@in_place
def _difference(
    ints: Int64s, floats: Fields, start: int, mask: int, first: int, last: int
) -> tuple[int, float, float]:
    """How many values a window has, and their sum and rest: what is merged, without memory."""
    at = start + (last & mask)
    n, total, rest = ints[at, 0], floats[at, 1], floats[at, 2]
    if first & ~mask != last & ~mask:
        at = start + mask
        total, low = added(floats[at, 1], total)
        n, rest = n + ints[at, 0], floats[at, 2] + (rest + low)
    if first & mask != 0:
        at = start + (first & mask) - 1
        total, low = added(total, -floats[at, 1])
        n, rest = n - ints[at, 0], rest + (low - floats[at, 2])
    return n, total, rest


@kernel
def grow(
    kind: int, ints: Int64s, floats: Fields, g: Geometry, lanes: Int64s, firsts: Int64s,
    raw: Int64s, values: Fields, valid: Bools, unfinished: bool,
) -> None:  # fmt: skip
    """Base intervals of the positions from `firsts` on: the finished ones, or all of them."""
    for i in range(lanes.size):
        start, capacity = g.starts[lanes[i]], g.masks[lanes[i]] + 1
        base, first, tail = 2 * start, firsts[i], g.tails[lanes[i]]
        for p in range(first, tail):
            row = start + (p & (capacity - 1))
            at = base + capacity + (p & (capacity - 1))
            lift_one(kind, ints, floats, at, raw[row], values[row], valid[row])
        width, level = capacity >> 1, 1
        while width >= 2:
            below, mask = base + 2 * width, 2 * width - 1
            begin, end = first >> level, (tail - 1 >> level) + 1 if unfinished else tail >> level
            if LEAST_INT <= kind <= MOST_FLOAT:
                _pair_extremes(kind, ints, floats, base, width, begin, tail >> level)
                begin = max(begin, tail >> level)
            elif kind == SUM_FLOAT:
                _pair_sums(ints, floats, base, width, begin, tail >> level)
                begin = max(begin, tail >> level)
            for j in range(begin, end):
                at = base + width + (j & (width - 1))
                copy(ints, at, ints, below + (2 * j & mask))
                if (2 * j + 1) << (level - 1) < tail:
                    merge(kind, ints, floats, at, ints, floats, below + (2 * j + 1 & mask))
            width >>= 1
            level += 1


@in_place
def _pair_extremes(
    kind: int, ints: Int64s, floats: Fields, base: int, width: int, first: int, end: int
) -> None:
    """The least or greatest value of finished intervals: what `merge` does, with less to decide."""
    is_float = kind in (LEAST_FLOAT, MOST_FLOAT)
    wants_less = kind in (LEAST_INT, LEAST_FLOAT)
    for j in range(first, end):
        left = base + 2 * width + (2 * j & (2 * width - 1))
        n, n_more = ints[left, 0], ints[left + 1, 0]
        is_less = ints[left + 1, 1] < ints[left, 1]
        if is_float:
            is_less = floats[left + 1, 1] < floats[left, 1]
        takes_right = n == 0 or (n_more > 0 and is_less == wants_less)
        at = base + width + (j & (width - 1))
        ints[at, 0] = n + n_more
        ints[at, 1] = ints[left + takes_right, 1]


@in_place
def _pair_sums(ints: Int64s, floats: Fields, base: int, width: int, first: int, end: int) -> None:
    """The sums of finished intervals: what `merge` does, with nothing to decide."""
    for j in range(first, end):
        left = base + 2 * width + (2 * j & (2 * width - 1))
        at = base + width + (j & (width - 1))
        total, rest = added(floats[left, 1], floats[left + 1, 1])
        ints[at, 0] = ints[left, 0] + ints[left + 1, 0]
        floats[at, 1] = total
        floats[at, 2] = floats[left, 2] + (floats[left + 1, 2] + rest)


@in_place
def base_extreme(
    kind: int, ints: Int64s, floats: Fields, base: int, width: int, first: int, stop: int
) -> tuple[int, np.uint64]:
    """How many values a window has, and a place that holds the least or greatest of them.

    Both ends of the window rise through the levels together, and a level costs the same whether
    an end takes an interval there or not: which is as good as random, so nobody could foretell.
    """
    is_float = kind in (LEAST_FLOAT, MOST_FLOAT)
    wants_less = kind in (LEAST_INT, LEAST_FLOAT)
    n, best = 0, np.uint64(base + width + (first & (width - 1)))
    while first < stop:
        for side in range(2):
            takes = (first if side == 0 else stop) & 1
            at = np.uint64(base + width + ((first if side == 0 else stop - 1) & (width - 1)))
            is_less = ints[at, 1] < ints[best, 1]
            if is_float:
                is_less = floats[at, 1] < floats[best, 1]
            has = takes * ints[at, 0]
            better = (has > 0) & ((n == 0) | (is_less == wants_less))
            best = at if better else best
            n += has
        first, stop, width = (first + 1) >> 1, stop >> 1, width >> 1
    return n, best


@in_place
def base_sum(
    ints: Int64s, floats: Fields, base: int, width: int, first: int, stop: int
) -> tuple[int, float, float]:
    """How many values a window has, and their sum and rest: by levels, each end for itself."""
    n, left, left_rest, right, right_rest = 0, 0.0, 0.0, 0.0, 0.0
    while first < stop:
        at = np.uint64(base + width + (first & (width - 1)))
        takes = first & 1
        n += takes * ints[at, 0]
        left, low = added(left, floats[at, 1] if takes else 0.0)
        left_rest += (floats[at, 2] if takes else 0.0) + low
        at = np.uint64(base + width + ((stop - 1) & (width - 1)))
        takes = stop & 1
        n += takes * ints[at, 0]
        right, low = added(floats[at, 1] if takes else 0.0, right)
        right_rest += (floats[at, 2] if takes else 0.0) + low
        first, stop, width = (first + 1) >> 1, stop >> 1, width >> 1
    total, low = added(left, right)
    return n, total, left_rest + (right_rest + low)


@kernel
def sums_by_age(
    ints: Int64s, floats: Fields, g: Geometry, slots: Int64s, lows: Int64s, highs: Int64s,
    is_mean: bool, values: Fields, known: Bools,
) -> None:  # fmt: skip
    """Sums of the rows of age `lows[slots[i]] .. highs[slots[i]]` in the only lane, to answers."""
    base, width, head, tail = 2 * g.starts[0], g.masks[0] + 1, g.heads[0], g.tails[0]
    for i in range(slots.size):
        first, stop = max(head, tail - 1 - highs[slots[i]]), tail - lows[slots[i]]
        n, total, rest = base_sum(ints, floats, base, width, first, stop)
        values[i] = (total + rest) / max(n, 1) if is_mean else total + rest
        known[i] = n > 0


@in_place
def next_piece(p: int, level: int, up: bool, stop: int, half: int) -> tuple[int, bool]:
    """The level of the next base interval from p on, before `stop`, and whether levels still rise.

    Levels rise while p is aligned to wider and wider intervals that end in time, and then fall:
    called with what the call before gave back, it looks at every level twice at most.
    """
    while up:
        wide = 1 << level
        if wide > half or p + wide > stop:
            up = False
        elif p & wide != 0:
            return level, True
        else:
            level += 1
    level -= level > 0
    while (1 << level) > half or p + (1 << level) > stop:
        level -= 1
    return level, False


@kernel
def fold_windows(
    kind: int, ints: Int64s, floats: Fields, g: Geometry, lanes: Int64s, firsts: Int64s,
    lasts: Int64s, unfinished: bool, found: Int64s, found_floats: Fields,
) -> None:  # fmt: skip
    """Merge the base intervals that make up each window, from left to right."""
    for i in range(lanes.size):
        lane = lanes[i]
        ring = (g.starts[lane], g.masks[lane], g.tails[lane])
        window = (firsts[i], lasts[i])
        fold_window(kind, ints, floats, ring, window, unfinished, found, found_floats, i)


@in_place
def fold_window(
    kind: int, ints: Int64s, floats: Fields, ring: tuple[int, int, int], window: tuple[int, int],
    unfinished: bool, found: Int64s, found_floats: Fields, i: int,
) -> None:  # fmt: skip
    """Merge the base intervals that make up one window; `ring` has start, mask and tail."""
    base, capacity = 2 * ring[0], ring[1] + 1
    p, stop = window[0], window[1] + 1
    if LEAST_INT <= kind <= MOST_FLOAT:
        n, best = base_extreme(kind, ints, floats, base, capacity, p, stop)
        found[i, 0], found[i, 1] = n, ints[best, 1]
        return
    if kind == SUM_FLOAT and not unfinished:
        n, total, rest = base_sum(ints, floats, base, capacity, p, stop)
        found[i, 0], found_floats[i, 1], found_floats[i, 2] = n, total, rest
        return
    if unfinished and stop == ring[2]:
        stop = p + 2 * capacity  # the last intervals hold nothing after the last row
    level, up = 0, True
    while p <= window[1]:
        level, up = next_piece(p, level, up, stop, capacity >> 1)
        width = capacity >> level
        at = base + width + ((p >> level) & (width - 1))
        merge(kind, found, found_floats, i, ints, floats, at)
        p += 1 << level


@kernel
def fold_rows(
    kind: int, ints: Int64s, floats: Fields, g: Geometry, lanes: Int64s, firsts: Int64s,
    lasts: Int64s, found: Int64s, found_floats: Fields,
) -> None:  # fmt: skip
    """Merge the rows of each window one by one."""
    for i in range(lanes.size):
        start, mask = g.starts[lanes[i]], g.masks[lanes[i]]
        for p in range(firsts[i], lasts[i] + 1):
            merge(kind, found, found_floats, i, ints, floats, start + (p & mask))


@kernel
def count_cover(g: Geometry, lanes: Int64s, firsts: Int64s, lasts: Int64s, counts: Int64s) -> None:
    """How many base intervals make up each window."""
    for i in range(lanes.size):
        capacity, p, n, level, up = g.masks[lanes[i]] + 1, firsts[i], 0, 0, True
        while p <= lasts[i]:
            level, up = next_piece(p, level, up, lasts[i] + 1, capacity >> 1)
            p += 1 << level
            n += 1
        counts[i] = n


@kernel
def fill_cover(
    g: Geometry, lanes: Int64s, firsts: Int64s, lasts: Int64s, offsets: Int64s, nodes: Int64s,
) -> None:  # fmt: skip
    """The places of the base intervals that make up each window."""
    for i in range(lanes.size):
        lane, k = lanes[i], offsets[i]
        base, capacity, p = 2 * g.starts[lane], g.masks[lane] + 1, firsts[i]
        level, up = 0, True
        while p <= lasts[i]:
            level, up = next_piece(p, level, up, lasts[i] + 1, capacity >> 1)
            width = capacity >> level
            nodes[k] = base + width + ((p >> level) & (width - 1))
            p += 1 << level
            k += 1
