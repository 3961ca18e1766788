"""Reach: which members of a group, and of a node in it, the rows of a code hit.

    low order of a group   . . . . . . . . . . . . . . . . . .      . hit, x missed
    low < L                . . . . . . . .
    high >= H                              . . . x . . x . . .
    prefix that is hit     . . . . . . . . . . .                    up to the first that is missed

Where rows are dense hardly any range lies between two of them: then all members are hit, and the
prefix of each node is its whole list.

Cost       the prefix of a group and code in O(STRIDE + size / STRIDE).
"""

from __future__ import annotations

import numpy as np

from standfast._numba import in_parts, inlined, kernel
from standfast.arrays import Int32s
from standfast.indexes.rectangle_layout import STRIDE, Rectangles
from standfast.indexes.rectangle_visits import Limits


def widened(tree: Rectangles, limits: Limits) -> Limits:
    """The same limits with the lows as far as all members are hit."""
    lows = np.empty_like(limits.lows)

    def widen(first: int, last: int) -> None:
        _widen(tree, limits, first, last, lows)

    in_parts(widen, lows.shape[0], cost=STRIDE * lows.size)
    return Limits(lows, limits.highs)


@kernel
def _widen(tree: Rectangles, limits: Limits, first: int, last: int, lows: Int32s) -> None:
    for g in range(first, last):
        base, end = tree.offsets[g], tree.offsets[g + 1]
        for c in range(lows.shape[1]):
            place, high = base + limits.lows[g, c], limits.highs[g, c]
            lows[g, c] = _first_missed(tree, place, end, high) - base


@inlined
def _first_missed(tree: Rectangles, place: int, end: int, high: int) -> int:
    """The first place from `place` on whose high rank is below the limit, or the end."""
    while place < end and place % STRIDE:
        if tree.low_to_high[place] < high:
            return place
        place += 1
    while place + STRIDE <= end and tree.least_highs[place // STRIDE] >= high:
        place += STRIDE
    while place < end and tree.low_to_high[place] >= high:
        place += 1
    return place


@inlined
def first_from(ranks: Int32s, begin: int, end: int, limit: int) -> int:
    """First place of `begin` to `end` whose rank is not below the limit, without branches."""
    left = end - begin
    while left > 0:
        half = (left + 1) >> 1
        begin += half * (ranks[begin + half - 1] < limit)
        left -= half
    return begin


@inlined
def rest_of(tree: Rectangles, begin: int, end: int, place: int, high: int) -> tuple[bool, int, int]:
    """Where to look for the hits of a node beyond its prefix: in the high list?, from, to."""
    if end - place <= tree.long:
        return False, place, end
    suffix = first_from(tree.node_highs, begin, end, high)
    if end - suffix < end - place:
        return True, suffix, end
    return False, place, end


@inlined
def rank_if_hit(tree: Rectangles, base: int, by_high: bool, place: int, low: int, high: int) -> int:
    """The low rank of a member of `rest_of` if it is hit, else -1."""
    if by_high:
        rank = tree.high_to_low[base + tree.node_highs[place]]
        return rank if rank >= low else -1
    rank = tree.node_lows[place]
    return rank if tree.low_to_high[base + rank] >= high else -1
