"""Key blocks: where in a pool the rows of each key stand, with room behind them.

key 0   | . . 3 5 5 9 . . |      begins, rooms: the block; firsts, ends: the rows in it
key 1   | 4 8 . . |              a key that needs more moves to a new block at the pool's end,
                                 or to the front of its own when that is half empty
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from standfast._numba import kernel
from standfast.arrays import Int64s

LEAST_ROOM = 4


class Blocks(Protocol):
    """Arrays by key number."""

    @property
    def begins(self) -> Int64s: ...
    @property
    def rooms(self) -> Int64s: ...
    @property
    def firsts(self) -> Int64s: ...
    @property
    def ends(self) -> Int64s: ...


class Move(NamedTuple):
    """Keys to move, where to, how large their blocks become, and how much of the pool is used."""

    keys: Int64s
    begins: Int64s
    rooms: Int64s
    used: int


@kernel
def moves(blocks: Blocks, touched: Int64s, counts: Int64s, used: int) -> Move:
    """What must move so that each touched key has room for so many more rows."""
    keys, n = np.empty(touched.size, np.int64), 0
    begins, rooms = np.empty(touched.size, np.int64), np.empty(touched.size, np.int64)
    for i in range(touched.size):
        k = touched[i]
        if blocks.ends[k] + counts[i] <= blocks.begins[k] + blocks.rooms[k]:
            continue
        keys[n], begins[n], rooms[n] = k, blocks.begins[k], blocks.rooms[k]
        room = max(LEAST_ROOM, 2 * (blocks.ends[k] - blocks.firsts[k] + counts[i]))
        if room > rooms[n]:
            begins[n], rooms[n] = used, room
            used += room
        n += 1
    return Move(keys[:n], begins[:n], rooms[:n], used)


def packed(blocks: Blocks, touched: Int64s, counts: Int64s) -> Move:
    """All blocks one after the other, each with half as much room again as it needs."""
    needed = blocks.ends - blocks.firsts
    needed[touched] += counts
    rooms = np.where(needed > 0, np.maximum(LEAST_ROOM, needed + (needed >> 1)), 0)
    ends = np.cumsum(rooms)
    return Move(np.arange(rooms.size), ends - rooms, rooms, int(ends[-1]))


def check_blocks(blocks: Blocks) -> None:
    """Assert that blocks do not overlap and hold their rows."""
    order = np.argsort(blocks.begins, kind="stable")
    order = order[blocks.rooms[order] > 0]
    ends = blocks.begins + blocks.rooms
    assert np.all(ends[order][:-1] <= blocks.begins[order][1:]), "blocks overlap"
    assert np.all((blocks.begins <= blocks.firsts) & (blocks.ends <= ends)), "rows leave a block"
    assert np.all(blocks.firsts <= blocks.ends), "a block ends before it begins"
