"""Kernels of landmark intervals: aggregates from each landmark forward and from each one back.

A class keeps a ring of its own for every lane: position p at `starts + p % capacity`, where the
synopsis from its landmark up to p stands at twice that place, the one from p up to the next
landmark right behind it, and `begins` has the position of the first row of the stretch.
"""

from __future__ import annotations

from typing import NamedTuple

from standfast._numba import inlined, kernel
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


@inlined
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


@inlined
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


@kernel
def pieces_of(
    rings: Rings, begins: Int64s, lanes: Int64s, firsts: Int64s, lasts: Int64s, pieces: Int64s,
    plain: Bools,
) -> None:  # fmt: skip
    """Up to three places whose merge is each window; `plain` where there are none such."""
    for i in range(lanes.size):
        lane, first, last = lanes[i], firsts[i], lasts[i]
        start, mask = rings.starts[lane], rings.masks[lane]
        pieces[i] = -1
        plain[i] = False
        if first > last:
            continue
        end = start + (last & mask)
        begin = begins[end]
        if begin <= first:
            if begin == first:
                pieces[i, 2] = 2 * end
            else:
                # One stretch that the window does not hold from its first row on.
                is_whole = last + 1 == rings.dones[lane] or (
                    last + 1 < rings.dones[lane] and begins[start + (last + 1 & mask)] == last + 1
                )
                plain[i] = not is_whole
                pieces[i, 0] = 2 * (start + (first & mask)) + 1 if is_whole else -1
            continue
        pieces[i, 2] = 2 * end
        middle = start + (begin - 1 & mask)
        if begins[middle] > first:
            pieces[i, 1] = 2 * middle
            begin = begins[middle]
            plain[i] = begins[start + (begin - 1 & mask)] > first
        pieces[i, 0] = 2 * (start + (first & mask)) + 1
