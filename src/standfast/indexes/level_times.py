"""Level times: a time for every key on every level, and which keys are at or after some time.

    level 0   9 4 7 2 8 8 1 3 | 5 5 ...        the time of each key
    tops      9               | 6              the latest of FAN keys, of FAN such blocks, ...
    floors    1               | 2              the earliest

A search walks down through blocks that can hold an answer: those whose top on one level is late
enough and whose floor on another is early enough. Keys come out in ascending order.

Invariant  `tops` and `floors` are the maximum and the minimum of the FAN entries below; keys that
           are not there, and room beyond the last key, have the time LEAST.
Cost       put O(FAN log keys) and mostly the first step of it; search O(FAN log keys) for each key
           found on the sparser of the two sides; 8 (1 + 2 / FAN) bytes a key and level.
Paper      [shared-windows] 4.1, in place of a search tree per level (decision 015).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from standfast._numba import in_place, inlined, kernel
from standfast.arrays import Int64s
from standfast.indexes.keys import LEAST

FAN = 8
NO_LEVEL = -1


class Levels(NamedTuple):
    """What kernels see: `times[level, key]`, and the storeys above it one after the other."""

    times: Int64s
    tops: Int64s  # [level, place]
    floors: Int64s
    starts: Int64s  # where each storey begins, and where the last one ends


class LevelTimes:
    """Times by level and key. Levels are rows that are given out and taken back."""

    def __init__(self) -> None:
        self.levels = _empty(0, FAN)

    def make_room(self, n_levels: int, n_keys: int) -> None:
        """Have at least so many levels and keys; new ones hold LEAST."""
        old = self.levels.times
        if n_levels <= old.shape[0] and n_keys <= old.shape[1]:
            return
        wide = old.shape[1]
        while wide < n_keys:
            wide *= 2
        self.levels = _empty(max(n_levels, old.shape[0]), wide)
        self.levels.times[: old.shape[0], : old.shape[1]] = old
        for level in range(old.shape[0]):
            raise_storeys(self.levels, level)

    def memory_bytes(self) -> int:
        return sum(array.nbytes for array in self.levels)

    def check(self) -> None:
        times, tops, floors, starts = self.levels
        assert times.shape[1] % FAN == 0, "the keys are not whole blocks"
        below_tops = below_floors = times
        for storey in range(starts.size - 1):
            n = below_tops.shape[1] // FAN
            span = slice(starts[storey], starts[storey] + n)
            shape = (times.shape[0], n, FAN)
            assert np.array_equal(
                tops[:, span], below_tops[:, : n * FAN].reshape(shape).max(axis=2)
            ), f"storey {storey}: a top is wrong"
            assert np.array_equal(
                floors[:, span], below_floors[:, : n * FAN].reshape(shape).min(axis=2)
            ), f"storey {storey}: a floor is wrong"
            whole = slice(starts[storey], starts[storey + 1])
            below_tops, below_floors = tops[:, whole], floors[:, whole]


def _empty(n_levels: int, n_keys: int) -> Levels:
    starts, n = [0], n_keys
    while True:
        n = -(-n // FAN)
        starts.append(starts[-1] + -(-n // FAN) * FAN)
        if n <= FAN:
            break
    shape = (n_levels, starts[-1])
    return Levels(
        np.full((n_levels, n_keys), LEAST, np.int64), np.full(shape, LEAST, np.int64),
        np.full(shape, LEAST, np.int64), np.array(starts),
    )  # fmt: skip


@kernel
def raise_storeys(levels: Levels, level: int) -> None:
    """Make the storeys of a level from its times."""
    n = levels.times.shape[1] // FAN
    for storey in range(levels.starts.size - 1):
        for block in range(n):
            _summarise(levels, level, storey, block)
        n = (levels.starts[storey + 1] - levels.starts[storey]) // FAN


@kernel
def clear(levels: Levels, level: int) -> None:
    """Nothing is known on this level any more."""
    levels.times[level, :] = LEAST
    levels.tops[level, :] = LEAST
    levels.floors[level, :] = LEAST


@in_place
def put(levels: Levels, level: int, key: int, time: int) -> None:
    """Set the time of a key, and what the storeys say, as far up as that changes anything.

    An entry that was neither top nor floor, and is within both, changes nothing: mostly so.
    """
    old = levels.times[level, key]
    if old == time:
        return
    levels.times[level, key] = time
    block = key // FAN
    if levels.floors[level, block] < old < levels.tops[level, block] and (
        levels.floors[level, block] <= time <= levels.tops[level, block]
    ):
        return
    for storey in range(levels.starts.size - 1):
        if not _summarise(levels, level, storey, block):
            return
        block //= FAN


@in_place
def _summarise(levels: Levels, level: int, storey: int, block: int) -> bool:
    """Take the top and the floor of a block again; whether one of them changed."""
    at = levels.starts[storey] + block
    if storey == 0:
        below = FAN * block
        top = floor = levels.times[level, below]
        for i in range(below + 1, below + FAN):
            top = max(top, levels.times[level, i])
            floor = min(floor, levels.times[level, i])
    else:
        below = levels.starts[storey - 1] + FAN * block
        top, floor = levels.tops[level, below], levels.floors[level, below]
        for i in range(below + 1, below + FAN):
            top = max(top, levels.tops[level, i])
            floor = min(floor, levels.floors[level, i])
    same = levels.tops[level, at] == top and levels.floors[level, at] == floor
    levels.tops[level, at], levels.floors[level, at] = top, floor
    return not same


@kernel
def keys_between(
    levels: Levels, late: int, early: int, time: int, blocks: Int64s, out: Int64s
) -> int:
    """Keys with a time at or after `time` on the level `late` and before it on `early`.

    NO_LEVEL for `early` asks nothing of it. `out` has room for all keys, `blocks` for as many.
    """
    n, last = 0, levels.starts.size - 2
    tops, floors = levels.tops[late], levels.floors[max(early, 0)]
    for at in range(levels.starts[last], levels.starts[last + 1]):
        blocks[n] = at - levels.starts[last]
        n += tops[at] >= time and (early == NO_LEVEL or floors[at] < time)
    for storey in range(last - 1, -1, -1):
        first, end = levels.starts[storey], levels.starts[storey + 1]
        n = _below(tops[first:end], floors[first:end], early, time, blocks, n, out)
        for i in range(n):
            blocks[i] = out[i]
    return _below(levels.times[late], levels.times[max(early, 0)], early, time, blocks, n, out)


@inlined
def _below(
    tops: Int64s, floors: Int64s, early: int, time: int, blocks: Int64s, n: int, out: Int64s
) -> int:
    """The entries of the first n `blocks` with a late top, and an early floor if that is asked."""
    found = 0
    if early == NO_LEVEL:
        for i in range(n):
            first = FAN * blocks[i]
            for at in range(first, first + FAN):
                out[found] = at
                found += tops[at] >= time
        return found
    for i in range(n):
        first = FAN * blocks[i]
        for at in range(first, first + FAN):
            out[found] = at
            found += (tops[at] >= time) & (floors[at] < time)
    return found
