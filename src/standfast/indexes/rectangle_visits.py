"""Visits: which events of a batch fall into which block of each group of a rectangle tree.

    callers, by own value    v0 v1 v2 v3 v4 v5 v6 v7
    blocks of group 0        |----2---|-3-|----7----|      three visits
    blocks of group 1           |-------0------|           two callers lie outside its own ranges

Invariant  within a group visits ascend by block and do not descend by first caller; callers of a
           visit lie in its block, callers of none lie below the group's first boundary; a group
           has no more visits than blocks or callers, and some may have no callers.
Cost       the least of: O(blocks + callers) small steps in all, past the boundaries of all groups
           in one order; O(log callers) a block, many searched for in step; O(log) a visit, where
           callers gallop to the next boundary and boundaries to the next caller.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from standfast._numba import in_parts, inlined, kernel
from standfast.arrays import Bools, Int32s, Int64s
from standfast.indexes.keys import LEAST
from standfast.indexes.rectangle_layout import Rectangles
from standfast.indexes.signposts import ABREAST, steps_for
from standfast.indexes.sorted_runs import first_above

# Galloping to a visit, or searching for a block in step, costs as much as so many steps of a walk.
GALLOP, SEARCH = 16, 8


class Callers(NamedTuple):
    """Events by ascending own value; `events` are their places in the batch, `codes` the number
    of each one's code among those of the batch."""

    events: Int32s
    values: Int64s
    codes: Int32s

    def among(self, which: Bools) -> Callers:
        """Some of them."""
        return Callers(self.events[which], self.values[which], self.codes[which])


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
    n_callers, n_blocks, offsets = values.size, tree.boundaries.size, tree.boundary_offsets
    rooms = np.minimum(np.diff(offsets), n_callers)
    most = int(rooms.sum())
    if n_callers < n_blocks and GALLOP * most < n_callers + n_blocks:
        return _visited_by_few(tree, values, rooms)
    firsts = np.empty(n_blocks, np.int32)

    def find(first: int, last: int) -> None:
        if SEARCH * n_blocks <= n_callers:
            _search(tree.boundaries, values, first, last, firsts)
        else:
            _walk(tree.walk_keys, tree.walk_blocks, values, first, last, firsts)

    in_parts(find, n_blocks, cost=2 * min(SEARCH * n_blocks, n_callers + n_blocks))
    visits = Visits(offsets, offsets[1:], tree.block_numbers, firsts)
    if most < n_blocks:
        visits = Visits(offsets, offsets[1:].copy(), tree.block_numbers.copy(), firsts)
        _leave_out(n_callers, visits)
    return visits


def _visited_by_few(tree: Rectangles, values: Int64s, rooms: Int64s) -> Visits:
    """The visits of callers so few that most blocks have none; room for those of each group."""
    offsets = np.zeros(rooms.size + 1, np.int64)
    np.cumsum(rooms, out=offsets[1:])
    visits = Visits(
        offsets, offsets[:-1].copy(), np.empty(offsets[-1], np.int32),
        np.empty(offsets[-1], np.int32),
    )  # fmt: skip

    def visit(first: int, last: int) -> None:
        _gallop(tree.boundaries, tree.boundary_offsets, values, first, last, visits)

    in_parts(visit, rooms.size, cost=20 * int(offsets[-1]))
    return visits


@kernel
def _gallop(
    boundaries: Int64s, boundary_offsets: Int64s, values: Int64s, first: int, last: int,
    visits: Visits,
) -> None:  # fmt: skip
    """Find the blocks of the groups `first` to `last` that callers fall into.

    Blocks gallop to the next caller and callers to the next boundary, so whichever are fewer count.
    """
    n = values.size
    for g in range(first, last):
        begin, end = boundary_offsets[g], boundary_offsets[g + 1]
        at, block = visits.offsets[g], begin
        caller = _first_caller(values, boundaries[begin], 0)
        while caller < n:
            block = first_above(boundaries, values[caller], block, end)
            visits.blocks[at], visits.firsts[at] = block - 1 - begin, caller
            at += 1
            if block == end:
                break
            caller = _first_caller(values, boundaries[block], caller)
        visits.stops[g] = at


@inlined
def _first_caller(values: Int64s, boundary: int, caller: int) -> int:
    """The first caller from `caller` on that does not lie below the boundary."""
    return caller if boundary == LEAST else first_above(values, boundary - 1, caller, values.size)


@kernel
def _search(boundaries: Int64s, values: Int64s, first: int, last: int, firsts: Int32s) -> None:
    """The first caller of the blocks `first` to `last`, many searched for in step, as by signposts.

    The last caller stands for those that are not there.
    """
    one, last_caller = np.uint64(1), np.uint64(values.size - 1)
    places, n_steps = np.empty(ABREAST, np.uint64), steps_for(values.size)
    for begin in range(first, last, ABREAST):
        n = min(ABREAST, last - begin)
        places[:n] = 0
        for step in range(n_steps - 1, -1, -1):
            bits = np.uint64(step)
            ahead = (one << bits) - one
            for i in range(n):
                value = values[min(places[i] + ahead, last_caller)]
                places[i] += np.uint64(value < boundaries[begin + i]) << bits
        for i in range(n):
            firsts[begin + i] = min(int(places[i]), values.size)


@kernel
def _walk(
    keys: Int64s, blocks: Int32s, values: Int64s, first: int, last: int, firsts: Int32s
) -> None:
    """The first caller of the blocks whose boundaries are `first` to `last` of all, ascending.

    A step passes up to two callers, and the boundary if they were fewer. Which of them is
    arithmetic: a branch would be guessed wrong every other time.
    """
    n, at, caller = values.size, first, _first_caller(values, keys[first], 0)
    while at < last and caller + 2 <= n:
        key = keys[at]
        n_below = int(values[caller] < key) + int(values[caller + 1] < key)
        caller += n_below
        firsts[blocks[at]] = caller
        at += int(n_below < 2)
    for i in range(at, last):  # with one caller left, or none
        firsts[blocks[i]] = caller + (caller < n and values[caller] < keys[i])


@kernel
def _leave_out(n_callers: int, visits: Visits) -> None:
    """Leave out the blocks without callers, where every block is a visit so far."""
    offsets, stops, blocks, firsts = visits
    for g in range(stops.size):
        at, end = offsets[g], offsets[g + 1]
        for i in range(at, end):
            following = firsts[i + 1] if i + 1 < end else n_callers
            blocks[at], firsts[at] = blocks[i], firsts[i]
            at += int(firsts[at] < following)
        stops[g] = at


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
