"""The kernels of `indexes.lanes`: rows in rings, found by time and put behind each other."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from standfast._numba import kernel
from standfast.arrays import Int64s

Bools = npt.NDArray[np.bool_]
Values = npt.NDArray[Any]  # int64 or float64
Rows = tuple[Int64s, Int64s, Values, Bools]  # lanes, times, values, and whether there is a value

# The fewest places of a lane.
FEWEST = 4
# Floats from here on, infinities too, are told apart: sums of them may leave the range of floats.
LARGE = 2.0**480
# So many rows of a lane are copied column by column: below it, that costs more than it saves.
MANY = 64
# No window reaches further back; ages and times stay far from the end of int64.
FARTHEST = 1 << 61


class Geometry(NamedTuple):
    """Where each lane stands: published to kernels, by lane."""

    starts: Int64s
    masks: Int64s  # capacity - 1
    heads: Int64s
    tails: Int64s


def capacities(n: Int64s) -> Int64s:
    """Places for so many rows and a quarter as many again: powers of two."""
    wanted = np.maximum(n + (n >> 2) + 1, FEWEST)
    sizes: Int64s = 1 << np.ceil(np.log2(wanted)).astype(np.int64)
    return sizes


def runs_of(lanes: Int64s) -> tuple[Int64s, Int64s]:
    """Each lane once and how many rows it has, of lanes that ascend."""
    if lanes[0] == lanes[-1]:
        return lanes[:1], np.array([lanes.size])
    edges = np.flatnonzero(np.diff(lanes)) + 1
    firsts = np.concatenate([[0], edges])
    return lanes[firsts], np.diff(np.concatenate([firsts, [lanes.size]]))


def positions_of(g: Geometry) -> Int64s:
    """The position of every row, lane by lane."""
    n = g.tails - g.heads
    return np.repeat(g.tails - np.cumsum(n), n) + np.arange(int(n.sum()))


def places_of(g: Geometry, lanes: Int64s) -> Int64s:
    """Where the rows of lanes stand, lane by lane."""
    places = np.empty(int((g.tails[lanes] - g.heads[lanes]).sum()), np.int64)
    fill_places(g, lanes, places)
    return places


def among_last(n: int, counts: Int64s) -> Bools:
    """Which rows are among the last n of their lane; rows stand lane by lane, `counts` in each."""
    after = np.repeat(np.cumsum(counts), counts) - np.arange(int(counts.sum()))
    return after <= n


@kernel
def fill_places(g: Geometry, lanes: Int64s, places: Int64s) -> None:
    at = 0
    for lane in lanes:
        for p in range(g.heads[lane], g.tails[lane]):
            places[at] = g.starts[lane] + (p & g.masks[lane])
            at += 1


@kernel
def follows(g: Geometry, times: Int64s, new_times: Int64s) -> bool:
    """Whether each row is later than the one before it, and all later than those of lane 0."""
    n_wrong = 0
    for i in range(1, new_times.size):
        n_wrong += new_times[i] <= new_times[i - 1]
    if g.heads[0] < g.tails[0]:
        n_wrong += new_times[0] <= times[g.starts[0] + ((g.tails[0] - 1) & g.masks[0])]
    return n_wrong == 0


@kernel
def is_sorted(lanes: Int64s, times: Int64s, values: Values, valid: Bools) -> bool:
    for i in range(1, lanes.size):
        if lanes[i] != lanes[i - 1]:
            if lanes[i] < lanes[i - 1]:
                return False
        elif times[i] != times[i - 1]:
            if times[i] < times[i - 1]:
                return False
        elif valid[i] != valid[i - 1]:
            if valid[i] < valid[i - 1]:
                return False
        elif values[i] < values[i - 1]:
            return False
    return True


@kernel
def find_firsts(
    g: Geometry, times: Int64s, values: Values, valid: Bools, touched: Int64s, counts: Int64s,
    new_times: Int64s, new_values: Values, new_valid: Bools, firsts: Int64s,
) -> bool:  # fmt: skip
    """Where the first new row of each lane belongs; whether any belongs before a stored one."""
    is_late, at = False, 0
    for i in range(touched.size):
        lane = touched[i]
        t, v, ok = new_times[at], new_values[at], new_valid[at]
        low, high = g.heads[lane], g.tails[lane]
        last = g.starts[lane] + ((high - 1) & g.masks[lane])
        if low == high or times[last] < t:
            low = high
        while low < high:
            middle = (low + high) >> 1
            p = g.starts[lane] + (middle & g.masks[lane])
            is_before = times[p] < t
            if times[p] == t:
                is_before = valid[p] < ok or (valid[p] == ok and values[p] <= v)
            if is_before:
                low = middle + 1
            else:
                high = middle
        firsts[i] = low
        is_late = is_late or low < g.tails[lane]
        at += counts[i]
    return is_late


@kernel
def merge(new: Rows, old: Rows, merged: Rows) -> None:
    """Rows of two series as one: each is by lane, time, and value, and so is what comes out."""
    lanes, times, values, valid = new
    old_lanes, old_times, old_values, old_valid = old
    to_lanes, to_times, to_values, to_valid = merged
    i, j = 0, 0
    for at in range(to_lanes.size):
        takes_old = i == lanes.size
        if j < old_lanes.size and not takes_old:
            takes_old = old_lanes[j] < lanes[i]
            if old_lanes[j] == lanes[i]:
                takes_old = old_times[j] < times[i]
                if old_times[j] == times[i]:
                    takes_old = old_valid[j] < valid[i]
                    if old_valid[j] == valid[i]:
                        takes_old = old_values[j] < values[i]
        if takes_old:
            to_lanes[at], to_times[at] = old_lanes[j], old_times[j]
            to_values[at], to_valid[at] = old_values[j], old_valid[j]
            j += 1
        else:
            to_lanes[at], to_times[at] = lanes[i], times[i]
            to_values[at], to_valid[at] = values[i], valid[i]
            i += 1


@kernel
def write(
    g: Geometry, times: Int64s, values: Values, valid: Bools, large: Int64s, touched: Int64s,
    counts: Int64s, new_times: Int64s, new_values: Values, new_valid: Bools,
) -> None:  # fmt: skip
    """Put rows behind the tails of their lanes: many at once column after column."""
    at = 0
    for i in range(touched.size):
        lane = touched[i]
        start, mask, first = g.starts[lane], g.masks[lane], g.tails[lane]
        stop = first + counts[i]
        while first < stop:
            end = min(stop, (first | mask) + 1)
            place, n, n_plain = start + (first & mask), end - first, 0
            if n < MANY:
                for k in range(n):
                    times[place + k] = new_times[at + k]
                    values[place + k] = new_values[at + k]
                    valid[place + k] = new_valid[at + k]
                    n_plain += abs(new_values[at + k]) < LARGE
            else:
                times[place : place + n] = new_times[at : at + n]
                values[place : place + n] = new_values[at : at + n]
                valid[place : place + n] = new_valid[at : at + n]
                for k in range(at, at + n):
                    n_plain += abs(new_values[k]) < LARGE
            if n_plain < n:
                for k in range(n):
                    if not abs(new_values[at + k]) < LARGE:
                        large[lane] = first + k
            at += n
            first = end


@kernel
def trim(
    g: Geometry, times: Int64s, now: int, by_rows: bool, reach: int, lanes: Int64s, counts: Int64s
) -> None:
    """Move heads to the first row that some window can hold once `counts` more rows are there."""
    for i in range(lanes.size):
        lane = lanes[i]
        low, high = g.heads[lane], g.tails[lane]
        if by_rows:
            low = min(high, max(low, high + counts[i] - 1 - reach))
        else:
            while low < high:
                middle = (low + high) >> 1
                if times[g.starts[lane] + (middle & g.masks[lane])] < now - reach:
                    low = middle + 1
                else:
                    high = middle
        g.heads[lane] = low


@kernel
def positions(
    g: Geometry, times: Int64s, now: int, by_rows: bool, lanes: Int64s,
    lows: Int64s, highs: Int64s, firsts: Int64s, lasts: Int64s,
) -> None:  # fmt: skip
    for i in range(lanes.size):
        lane = lanes[i]
        head, tail = g.heads[lane], g.tails[lane]
        far, near = min(highs[i], FARTHEST), min(lows[i], FARTHEST)
        if by_rows:
            firsts[i] = max(head, tail - 1 - far)
            lasts[i] = tail - 1 - near
        else:
            firsts[i] = search(g, times, lane, head, now - far)
            lasts[i] = search(g, times, lane, firsts[i], now - near + 1) - 1
        if firsts[i] > lasts[i]:
            lasts[i] = firsts[i] - 1


@kernel
def first_since(g: Geometry, times: Int64s, lanes: Int64s, wanted: Int64s, firsts: Int64s) -> None:
    for i in range(lanes.size):
        firsts[i] = search(g, times, lanes[i], g.heads[lanes[i]], wanted[i])


@kernel
def search(g: Geometry, times: Int64s, lane: int, low: int, time: int) -> int:
    """The first position from `low` on whose row has this time or a later one.

    Looked for around where it would be if rows came evenly: where they do, that is nearly right,
    and where they do not, steps that double lead to what is left to halve.
    """
    high: int = g.tails[lane]
    start, mask = g.starts[lane], g.masks[lane]
    if low >= high or times[start + (low & mask)] >= time:
        return low
    oldest, latest = times[start + (low & mask)], times[start + (high - 1 & mask)]
    if latest < time:
        return high
    share = (time - oldest) / (latest - oldest)
    at = low + int(share * (high - 1 - low))
    step = 1
    if times[start + (at & mask)] < time:
        low = at + 1
        while low + step < high and times[start + (low + step & mask)] < time:
            low += step + 1
            step *= 2
        high = min(high, low + step)
    else:
        high = at
        while high - step > low and times[start + (high - step & mask)] >= time:
            high -= step
            step *= 2
        low = max(low, high - step)
    while low < high:
        middle = (low + high) >> 1
        if times[start + (middle & mask)] < time:
            low = middle + 1
        else:
            high = middle
    return low
