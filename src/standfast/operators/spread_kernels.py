"""Variances and deviations from the powers of windows, and from their rows where powers fail.

    powers   n, sum of values, sum of squares  ->  squares less the square of the sum over n
    rows     v                                 ->  powers of v - first, which is exact

Both sums are pairs of floats (`synopsis_kernels`), good to about 100 bits. Where values are far
from zero and close to each other, the difference has too few of them left: such windows are
doubted, and read again around their first value. No value is farther from the mean than that leaves
digits: the squares around one value of n are at most n + 1 times those around the mean. Where many
are in doubt, running totals around the newest value answer most of them first.
"""

from __future__ import annotations

import math

import numpy as np

from standfast._numba import in_place, kernel
from standfast.arrays import Int64s
from standfast.indexes.lane_kernels import LARGE, Bools, Geometry
from standfast.operators.aggregates import Fields
from standfast.operators.synopsis_kernels import added, multiplied

Powers = tuple[int, float, float, float, float]

# Squares around the mean are doubted below a share of the squares that they are taken from: n
# roundings of the rest of n roundings are at most an n^2 2^-106th of these, and so a 2^-30th of
# what is not doubted. From 65,536 rows on the share stays as it is: roundings go both ways.
DOUBT, MOST_DOUBT = 2.0**-76, 2.0**-44
# Whole numbers leave no rest, and there are the roundings of the difference alone.
DOUBT_EXACT = 2.0**-70
# Products of smaller floats than this are not exact, and sums of them are read again, scaled.
SMALL = 2.0**-800
SCALE = 2.0**800


@kernel
def spreads(
    ints: Int64s, floats: Fields, limits: Fields, is_sample: bool, is_root: bool,
    values: Fields, known: Bools, doubtful: Bools,
) -> int:  # fmt: skip
    """Answers of powers, and which of them are in doubt; how many are.

    `limits` has what totals leave in doubt that were subtracted; it is empty where none were.
    """
    n_doubtful = 0
    for i in range(values.size):
        powers = (ints[i, 0], floats[i, 1], floats[i, 2], floats[i, 3], floats[i, 4])
        n, squares, limit = powers[0], powers[3], limits[i] if limits.size else 0.0
        known[i] = n > is_sample
        moment = _moment(powers)
        values[i] = _answer(moment, n, is_sample, is_root)
        is_exact = powers[2] == 0.0 and powers[4] == 0.0 and limit == 0.0
        limit = n * max(limit, (DOUBT_EXACT if is_exact else share_in_doubt(n)) * squares)
        is_zero = is_exact and n * squares == powers[1] * powers[1] and moment == 0.0
        doubtful[i] = n > 1 and not is_zero and (moment < limit or squares < SMALL)
        n_doubtful += doubtful[i]
    return n_doubtful


@in_place
def share_in_doubt(n: int) -> float:
    """The share of the sum of n squares below which squares around their mean are doubted."""
    return min(DOUBT * n * n, MOST_DOUBT)


@in_place
def _moment(powers: Powers) -> float:
    """The squares of n values around their mean, times n."""
    n, total, rest, squares, more = powers
    if n < 2:
        return 0.0
    product, left_out = multiplied(float(n), squares)
    square, low = multiplied(total, total)
    difference, lost = added(product, -square)
    return difference + (lost + (left_out - low) + (n * more - (2.0 * total + rest) * rest))


@in_place
def _answer(moment: float, n: int, is_sample: bool, is_root: bool) -> float:
    variance = max(moment, 0.0) / (float(max(n, 1)) * max(n - is_sample, 1))
    return math.sqrt(variance) if is_root else variance


@kernel
def read_shifted(
    g: Geometry, lane: int, firsts: Int64s, lasts: Int64s, is_float: bool, raw: Int64s,
    column: Fields, valid: Bools, is_sample: bool, is_root: bool, chosen: Int64s, doubtful: Bools,
    values: Fields,
) -> int:  # fmt: skip
    """Answer doubtful windows of one lane from totals around its newest value; how many.

    Those that are too narrow for it, and those of one value, stay in doubt.
    """
    start, mask, head, tail = g.starts[lane], g.masks[lane], g.heads[lane], g.tails[lane]
    counts, totals = np.zeros(tail - head + 1, np.int64), np.zeros((tail - head + 1, 4))
    newest = tail - 1
    while not valid[start + (newest & mask)]:
        newest -= 1
    powers = (0, 0.0, 0.0, 0.0, 0.0)
    for p in range(head, tail):
        at, k = start + (p & mask), p - head + 1
        if valid[at]:
            away = _away(at, start + (newest & mask), is_float, raw, column, 1.0)
            powers = _with(powers, away)
        counts[k], totals[k, 0], totals[k, 1], totals[k, 2], totals[k, 3] = powers
    limit, n_answered = share_in_doubt(tail - head) * powers[3], 0
    for i in chosen:
        a, b = firsts[i] - head, lasts[i] + 1 - head
        n = counts[b] - counts[a]
        total, low = added(totals[b, 0], -totals[a, 0])
        rest = totals[b, 1] - totals[a, 1] + low
        squares, low = added(totals[b, 2], -totals[a, 2])
        moment = _moment((n, total, rest, squares, totals[b, 3] - totals[a, 3] + low))
        if moment > n * limit and squares >= SMALL:
            values[i] = _answer(moment, n, is_sample, is_root)
            doubtful[i] = False
            n_answered += 1
    return n_answered


@kernel
def read_around(
    g: Geometry, lanes: Int64s, firsts: Int64s, lasts: Int64s, is_float: bool, raw: Int64s,
    column: Fields, valid: Bools, is_sample: bool, is_root: bool, doubtful: Bools, values: Fields,
) -> int:  # fmt: skip
    """Answer the doubtful windows from their rows; how many had to be added up.

    The others are of one value. A run of it that was met is kept in mind, so that many windows of
    a stream that stands still cost one walk.
    """
    n_added, run_lane, run_first, run_last, run_raw = 0, -1, 0, -1, 0
    for i in range(lanes.size):
        if not doubtful[i]:
            continue
        lane, first, last = lanes[i], firsts[i], lasts[i]
        start, mask = g.starts[lane], g.masks[lane]
        while not valid[start + (first & mask)]:
            first += 1
        one, p = raw[start + (first & mask)], first
        is_known = run_lane == lane and run_raw == one
        while p <= last:
            if is_known and run_first <= p <= run_last:
                p = run_last
            elif valid[start + (p & mask)] and raw[start + (p & mask)] != one:
                break
            p += 1
        values[i] = 0.0
        if p > last:
            if is_known and first <= run_last + 1 and last >= run_first - 1:
                run_first, run_last = min(first, run_first), max(last, run_last)
            else:
                run_lane, run_first, run_last, run_raw = lane, first, last, one
            continue
        n_added += 1
        window = (start, mask, first, last)
        powers = _powers_around(window, is_float, raw, column, valid, 1.0)
        if powers[3] >= SMALL:
            values[i] = _answer(_moment(powers), powers[0], is_sample, is_root)
            continue
        powers = _powers_around(window, is_float, raw, column, valid, SCALE)
        answer = _answer(_moment(powers), powers[0], is_sample, is_root) / SCALE
        values[i] = answer if is_root else answer / SCALE
    return n_added


@in_place
def _powers_around(
    window: tuple[int, int, int, int], is_float: bool, raw: Int64s, column: Fields, valid: Bools,
    scale: float,
) -> Powers:  # fmt: skip
    """The powers of a window's values less the first of them."""
    start, mask, first, last = window
    middle = start + (first & mask)
    powers = (0, 0.0, 0.0, 0.0, 0.0)
    for p in range(first, last + 1):
        at = start + (p & mask)
        if valid[at]:
            powers = _with(powers, _away(at, middle, is_float, raw, column, scale))
    return powers


@in_place
def _away(
    at: int, middle: int, is_float: bool, raw: Int64s, column: Fields, scale: float
) -> tuple[float, float]:
    """A value less another one, exactly: as a sum of two; large floats count as 0."""
    if is_float:
        value = column[at] if abs(column[at]) < LARGE else 0.0
        other = column[middle] if abs(column[middle]) < LARGE else 0.0
        return added(scale * value, -scale * other)
    # Halves of whole numbers differ by no more than int64 holds, the numbers may.
    high = (raw[at] >> 32) - (raw[middle] >> 32)
    low = (raw[at] & 0xFFFFFFFF) - (raw[middle] & 0xFFFFFFFF)
    return added(float(high) * 4294967296.0, float(low))


@in_place
def _with(powers: Powers, value: tuple[float, float]) -> Powers:
    """Powers with one value more."""
    (n, total, rest, squares, more), (one, end) = powers, value
    total, lost = added(total, one)
    square, left_out = multiplied(one, one)
    squares, low = added(squares, square)
    return (
        n + 1,
        total,
        rest + (end + lost),
        squares,
        more + (left_out + (2.0 * one + end) * end + low),
    )
