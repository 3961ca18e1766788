"""Visits: which events of a batch fall into which block of each group of a rectangle tree.

    callers, by own value    v0 v1 v2 v3 v4 v5 v6 v7
    blocks of group 0        |----2---|-3-|----7----|      three visits
    blocks of group 1           |-------0------|           two callers lie outside its own ranges

Invariant  within a group visits ascend by block and by first caller; callers of a visit lie in its
           block, callers of none lie below the group's first boundary.
Cost       O(min(blocks, callers) log) a group: callers gallop to the next boundary, boundaries to
           the next caller. Where callers are many, signposts among them take a boundary to its
           caller, however many there are to skip.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from standfast._numba import in_parts, inlined, kernel
from standfast.arrays import Int32s, Int64s
from standfast.indexes.keys import LEAST
from standfast.indexes.rectangle_layout import Rectangles
from standfast.indexes.signposts import Signposts, count_at_most, signposts
from standfast.indexes.sorted_runs import first_above

# Galloping to a block costs as much as following signposts to this many.
GALLOP = 8
# Visits that are worth putting up signposts for, and at most so many callers for each.
ENOUGH, CROWD = 1000, 2


class Callers(NamedTuple):
    """Events by ascending own value; `events` are their places in the batch, `codes` the number
    of each one's code among those of the batch."""

    events: Int32s
    values: Int64s
    codes: Int32s


class Limits(NamedTuple):
    """By group and code: members with a low rank below `lows` or a high rank from `highs` on."""

    lows: Int32s
    highs: Int32s


class Visits(NamedTuple):
    """Which callers fall into which block, by group.

    Group g owns the visits `offsets[g]` to `stops[g]`; visit i is the callers from `firsts[i]` on,
    up to the next visit's, in block `blocks[i]` of the group.
    """

    offsets: Int64s
    stops: Int64s
    blocks: Int32s
    firsts: Int32s


def visited(tree: Rectangles, values: Int64s) -> Visits:
    """The visits of callers with these ascending values."""
    n_groups, n_blocks = tree.points.size, np.diff(tree.boundary_offsets)
    offsets = np.zeros(n_groups + 1, np.int64)
    np.cumsum(np.minimum(n_blocks, values.size), out=offsets[1:])
    visits = Visits(
        offsets, offsets[:-1].copy(), np.empty(offsets[-1], np.int32),
        np.empty(offsets[-1], np.int32),
    )  # fmt: skip
    posts = None
    if offsets[-1] > max(ENOUGH, values.size // CROWD):
        posts = signposts(values, np.array([0, values.size]))

    def visit(first: int, last: int) -> None:
        if posts is None:
            _gallop(tree, values, first, last, visits)
        else:
            _follow(tree, posts, first, last, visits)

    in_parts(visit, n_groups, cost=20 * int(offsets[-1]))
    return visits


@kernel
def _gallop(tree: Rectangles, values: Int64s, first: int, last: int, visits: Visits) -> None:
    """Find the blocks of the groups `first` to `last` that callers fall into.

    Blocks gallop to the next caller and callers to the next boundary, so whichever are fewer count.
    """
    n = values.size
    for g in range(first, last):
        begin, end = tree.boundary_offsets[g], tree.boundary_offsets[g + 1]
        at, block = visits.offsets[g], begin
        least = tree.boundaries[begin]
        caller = 0 if least == LEAST else first_above(values, least - 1, 0, n)
        while caller < n:
            block = first_above(tree.boundaries, values[caller], block, end)
            visits.blocks[at], visits.firsts[at] = block - 1 - begin, caller
            at += 1
            if block == end:
                break
            caller = first_above(values, tree.boundaries[block] - 1, caller, n)
        visits.stops[g] = at


@kernel
def _follow(tree: Rectangles, posts: Signposts, first: int, last: int, visits: Visits) -> None:
    """The same with signposts: no boundary waits for the one before it."""
    n = posts.keys.size
    for g in range(first, last):
        begin, end = tree.boundary_offsets[g], tree.boundary_offsets[g + 1]
        if end - begin > GALLOP * n:
            _gallop(tree, posts.keys, g, g + 1, visits)
            continue
        least, firsts = tree.boundaries[begin], np.empty(end - begin + 1, np.int64)
        count_at_most(posts, 0, tree.boundaries[begin:end] - 1, firsts)
        firsts[0] = 0 if least == LEAST else firsts[0]
        firsts[end - begin] = n
        at = visits.offsets[g]
        for block in range(end - begin):
            if firsts[block] < firsts[block + 1]:
                visits.blocks[at], visits.firsts[at] = block, firsts[block]
                at += 1
        visits.stops[g] = at


@inlined
def first_visit(visits: Visits, group: int, caller: int) -> int:
    """The last visit of the group that does not begin after the caller, or the group's first."""
    low, high = visits.offsets[group], visits.stops[group]
    while low + 1 < high:
        middle = (low + high) >> 1
        if visits.firsts[middle] <= caller:
            low = middle
        else:
            high = middle
    return int(low)


@inlined
def callers_of(visits: Visits, group: int, visit: int, first: int, last: int) -> tuple[int, int]:
    """The callers of a visit that lie in `first` to `last`."""
    stop = last
    if visit + 1 < visits.stops[group]:
        stop = min(last, visits.firsts[visit + 1])
    return max(first, visits.firsts[visit]), stop


class Held(NamedTuple):
    """The living ragged members of a block that hold a caller's value, in no order.

    Callers of a visit ascend, so each turn of the block is taken once for all of them.
    """

    members: Int32s
    slots: Int32s
    lows: Int32s  # ranks in the low order
    highs: Int32s  # in the high order


@inlined
def room_for_held(tree: Rectangles) -> Held:
    """Room for those of any block."""
    n = tree.most_ragged
    return Held(
        np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    )


@inlined
def turns_of(tree: Rectangles, group: int, block: int) -> tuple[int, int]:
    """Where the turns of the block stand."""
    number = tree.boundary_offsets[group] + block
    return tree.turn_offsets[number], tree.turn_offsets[number + 1]


@inlined
def turned(
    tree: Rectangles, ragged_slots: Int32s, turn: int, stop: int, value: int, held: Held, n: int
) -> tuple[int, int]:
    """Take the turns up to a value; the next turn, and how many are held then."""
    while turn < stop and tree.turn_keys[turn] <= value:
        member = tree.turn_members[turn]
        turn += 1
        if member >= 0:
            if ragged_slots[member] >= 0:
                held.members[n], held.slots[n] = member, ragged_slots[member]
                held.lows[n] = tree.ragged_ranks[0, member]
                held.highs[n] = tree.ragged_ranks[1, member]
                n += 1
            continue
        at = 0
        while at < n and held.members[at] != ~member:
            at += 1
        if at < n:
            n -= 1
            held.members[at], held.slots[at] = held.members[n], held.slots[n]
            held.lows[at], held.highs[at] = held.lows[n], held.highs[n]
    return turn, n
