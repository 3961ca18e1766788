"""Kernels of landmark intervals: aggregates from each landmark forward and from each one back.

A class keeps a ring of its own for every lane: position p at `starts + p % capacity`, where the
synopsis from its landmark up to p stands at twice that place, the one from p up to the next
landmark right behind it, and `begins` has the position of the first row of the stretch.
"""

from __future__ import annotations

from typing import NamedTuple

from standfast._numba import in_place, kernel
from standfast.arrays import Int64s
from standfast.indexes.lane_kernels import Bools, Geometry
from standfast.operators.aggregates import FIRST, LAST, Fields
from standfast.operators.synopsis_kernels import copy, lift_one, merge


class Rings(NamedTuple):
    """The rings of one class, by lane; from `froms` on, positions were computed."""

    starts: Int64s
    masks: Int64s
    froms: Int64s
    dones: Int64s  # before this position all stretches were summed backward too


@in_place
def stretch_of(p: int, time: int, level: int, by_rows: bool) -> int:
    """The number of the stretch between landmarks that a row belongs to."""
    return p >> level if by_rows else time >> level


@kernel
def mark_begins(
    rings: Rings, begins: Int64s, g: Geometry, times: Int64s, lanes: Int64s, firsts: Int64s,
    level: int, by_rows: bool,
) -> None:  # fmt: skip
    """Where the stretch of each position begins, from `firsts` on."""
    for i in range(lanes.size):
        lane = lanes[i]
        start, mask, row, turn = (
            rings.starts[lane],
            rings.masks[lane],
            g.starts[lane],
            g.masks[lane],
        )
        for p in range(firsts[i], g.tails[lane]):
            begins[start + (p & mask)] = p
            if p > rings.froms[lane]:
                before = stretch_of(p - 1, times[row + (p - 1 & turn)], level, by_rows)
                if before == stretch_of(p, times[row + (p & turn)], level, by_rows):
                    begins[start + (p & mask)] = begins[start + (p - 1 & mask)]


@kernel
def sum_forward(
    kind: int, ints: Int64s, floats: Fields, rings: Rings, begins: Int64s, g: Geometry,
    lanes: Int64s, firsts: Int64s, raw: Int64s, values: Fields, valid: Bools,
) -> None:  # fmt: skip
    for i in range(lanes.size):
        lane = lanes[i]
        start, mask = rings.starts[lane], rings.masks[lane]
        for p in range(firsts[i], g.tails[lane]):
            at, row = start + (p & mask), g.starts[lane] + (p & g.masks[lane])
            lift_one(kind, ints, floats, 2 * at, raw[row], values[row], valid[row])
            if begins[at] != p:
                before = start + (p - 1 & mask)
                merge_before(kind, ints, floats, 2 * at, 2 * before)


@in_place
def merge_before(kind: int, ints: Int64s, floats: Fields, at: int, before: int) -> None:
    """Merge the synopsis of earlier rows into the one of one row; the last row stays the last."""
    if kind == FIRST:
        copy(ints, at, ints, before)
    elif kind != LAST:
        merge(kind, ints, floats, at, ints, floats, before)


@kernel
def sum_backward(
    kind: int, ints: Int64s, floats: Fields, rings: Rings, begins: Int64s, g: Geometry,
    lanes: Int64s, ends: Int64s, raw: Int64s, values: Fields, valid: Bools,
) -> None:  # fmt: skip
    """Synopses back from the landmarks up to `ends`, where the unfinished stretch begins."""
    for i in range(lanes.size):
        lane = lanes[i]
        start, mask = rings.starts[lane], rings.masks[lane]
        for back in range(rings.dones[lane] + 1, ends[i] + 1):
            p = ends[i] - (back - rings.dones[lane])
            at, row = start + (p & mask), g.starts[lane] + (p & g.masks[lane])
            lift_one(kind, ints, floats, 2 * at + 1, raw[row], values[row], valid[row])
            after = start + (p + 1 & mask)
            if p + 1 < ends[i] and begins[after] == begins[at]:
                merge(kind, ints, floats, 2 * at + 1, ints, floats, 2 * after + 1)


@in_place
def pieces_of(
    rings: Rings, begins: Int64s, lane: int, first: int, last: int
) -> tuple[int, int, int, bool]:
    """Up to three places whose merge is a window, -1 for none; or that it has no such places."""
    start, mask = rings.starts[lane], rings.masks[lane]
    end = start + (last & mask)
    begin = begins[end]
    if begin == first:
        return -1, -1, 2 * end, False
    if begin < first:
        # One stretch that the window does not hold from its first row on.
        done = rings.dones[lane]
        is_whole = last + 1 == done or (
            last + 1 < done and begins[start + (last + 1 & mask)] == last + 1
        )
        return (2 * (start + (first & mask)) + 1 if is_whole else -1), -1, -1, not is_whole
    middle = start + (begin - 1 & mask)
    if begins[middle] <= first:
        return 2 * (start + (first & mask)) + 1, -1, 2 * end, False
    is_far = begins[start + (begins[middle] - 1 & mask)] > first
    return 2 * (start + (first & mask)) + 1, 2 * middle, 2 * end, is_far


@kernel
def list_pieces(
    rings: Rings, begins: Int64s, lanes: Int64s, firsts: Int64s, lasts: Int64s, pieces: Int64s,
    plain: Bools,
) -> None:  # fmt: skip
    """The pieces of each window; `plain` where it has to be read row by row."""
    for i in range(lanes.size):
        pieces[i] = -1
        plain[i] = False
        if firsts[i] <= lasts[i]:
            one, two, three, is_plain = pieces_of(rings, begins, lanes[i], firsts[i], lasts[i])
            pieces[i, 0], pieces[i, 1], pieces[i, 2], plain[i] = one, two, three, is_plain


@kernel
def fold_pieces(
    kind: int, ints: Int64s, floats: Fields, rings: Rings, begins: Int64s, lanes: Int64s,
    firsts: Int64s, lasts: Int64s, plain: Bools, found: Int64s, found_floats: Fields,
) -> None:  # fmt: skip
    """Merge the pieces of each window; `plain` where it has to be read row by row."""
    for i in range(lanes.size):
        plain[i] = False
        if firsts[i] > lasts[i]:
            continue
        one, two, three, plain[i] = pieces_of(rings, begins, lanes[i], firsts[i], lasts[i])
        if one >= 0:
            copy(found, i, ints, one)
        if two >= 0:
            merge(kind, found, found_floats, i, ints, floats, two)
        if three >= 0:
            merge(kind, found, found_floats, i, ints, floats, three)
