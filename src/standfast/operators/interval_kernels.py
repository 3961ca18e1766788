"""Kernels over lanes: running totals, base intervals, and windows covered by them.

The tree of a lane with a ring of c places has 2c places from `2 * start` on, like a heap:

    2s + c .. 2s + 2c - 1       the rows themselves, position p at 2s + c + p % c
    2s + c/2 .. 2s + c - 1      pairs of rows, and so on up to
    2s + 2, 2s + 3              halves of the ring

The base interval j of level l, positions `j * 2^l` to `(j + 1) * 2^l - 1`, stands at
`2s + c / 2^l + j % (c / 2^l)`. No window is as long as the ring, so levels end at its halves.
"""

from __future__ import annotations

from standfast._numba import inlined, kernel
from standfast.arrays import Int64s
from standfast.indexes.lane_kernels import LARGE, Bools, Geometry
from standfast.operators.aggregates import SUM_FLOAT, Fields
from standfast.operators.synopsis_kernels import copy, lift_one, merge, take_away


@kernel
def run_on(
    kind: int, ints: Int64s, floats: Fields, g: Geometry, lanes: Int64s, firsts: Int64s,
    raw: Int64s, values: Fields, valid: Bools,
) -> None:  # fmt: skip
    """Totals of the positions from `firsts` on; they start anew where a ring does."""
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
                _run_sums(ints, floats, at, past, first & mask == 0, values, valid)
                first = end
            continue
        for p in range(firsts[i], g.tails[lanes[i]]):
            at = start + (p & mask)
            lift_one(kind, ints, floats, at, raw[at], values[at], valid[at])
            if p & mask != 0:
                merge(kind, ints, floats, at, ints, floats, at - 1)


@inlined
def _run_sums(
    ints: Int64s, floats: Fields, at: int, past: int, is_start: bool, values: Fields, valid: Bools
) -> None:
    """The totals of sums from one place to another; the running ones stay in registers."""
    n, total, rest = 0, 0.0, 0.0
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
        if first & ~mask != last & ~mask:
            copy(found, i, ints, start + mask)  # the total of a whole round
        merge(kind, found, found_floats, i, ints, floats, start + (last & mask))
        if first & mask != 0:
            take_away(kind, found, found_floats, i, ints, floats, start + (first & mask) - 1)


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
            end = (tail - 1 >> level) + 1 if unfinished else tail >> level
            for j in range(first >> level, end):
                at = base + width + (j & (width - 1))
                copy(ints, at, ints, below + (2 * j & mask))
                if (2 * j + 1) << (level - 1) < tail:
                    merge(kind, ints, floats, at, ints, floats, below + (2 * j + 1 & mask))
            width >>= 1
            level += 1


@inlined
def next_level(p: int, stop: int, half: int) -> int:
    """The level of the widest base interval from p on that ends by `stop` and fits the ring."""
    level = 0
    while p & ((2 << level) - 1) == 0 and p + (2 << level) <= stop and (2 << level) <= half:
        level += 1
    return level


@kernel
def fold_windows(
    kind: int, ints: Int64s, floats: Fields, g: Geometry, lanes: Int64s, firsts: Int64s,
    lasts: Int64s, unfinished: bool, found: Int64s, found_floats: Fields,
) -> None:  # fmt: skip
    """Merge the base intervals that make up each window, from left to right."""
    for i in range(lanes.size):
        lane = lanes[i]
        base, capacity = 2 * g.starts[lane], g.masks[lane] + 1
        p, stop = firsts[i], lasts[i] + 1
        if unfinished and stop == g.tails[lane]:
            stop = p + 2 * capacity  # the last intervals hold nothing after the last row
        while p <= lasts[i]:
            level = next_level(p, stop, capacity >> 1)
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
        capacity, p, n = g.masks[lanes[i]] + 1, firsts[i], 0
        while p <= lasts[i]:
            p += 1 << next_level(p, lasts[i] + 1, capacity >> 1)
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
        while p <= lasts[i]:
            level = next_level(p, lasts[i] + 1, capacity >> 1)
            width = capacity >> level
            nodes[k] = base + width + ((p >> level) & (width - 1))
            p += 1 << level
            k += 1
