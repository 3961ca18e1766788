"""Signposts: where to look in a sorted array, so that a search needs a step or two, not log n.

    keys        2 3 3 7 8 8 9 | 40 | 77 78        one section; cells are equally wide
    cell width  |----0----|----1----|----2----|   cell of a key: (key - first) >> shift
    posts       0         7         8         10  where each cell begins

A table lookup gives the cell that a value falls into, and counting in a window from there on the
place. With evenly spread keys a cell holds about PER_CELL of them; the worst case, all keys in one
cell, is a plain binary search.

Invariant  posts of a section ascend from 0 to its size; keys in `posts[c]:posts[c + 1]` fall into
           cell c, none of the others does.
Cost       count O(1) expected, O(log n) worst; build O(n); 1 byte a key.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from standfast._numba import kernel
from standfast.arrays import Int32s, Int64s

# Fewer keys per cell means fewer steps and a larger table; below 4 the table stops paying.
PER_CELL = 4
# Keys compared at once; most cells hold fewer.
WINDOW = 8
# Up to this many keys a plain binary search is faster.
FEW = 32


class Signposts(NamedTuple):
    """Posts of several sorted sections side by side; section s owns `keys[offsets[s]:...]`."""

    keys: Int64s
    offsets: Int64s
    shifts: Int64s
    post_offsets: Int64s
    posts: Int32s


def signposts(keys: Int64s, offsets: Int64s) -> Signposts:
    """Put up posts for sections of ascending keys."""
    # Two cells at least: keys can lie 2^64 - 1 apart, and a shift stops at 63.
    n_cells = np.maximum(np.diff(offsets) // PER_CELL, 2)
    post_offsets = np.zeros(offsets.size, np.int64)
    np.cumsum(n_cells + 1, out=post_offsets[1:])
    made = Signposts(
        keys, offsets, np.zeros(n_cells.size, np.int64), post_offsets,
        np.empty(post_offsets[-1], np.int32),
    )  # fmt: skip
    _put_up(made)
    return made


def check(made: Signposts) -> None:
    """Assert the invariant."""
    for s in range(made.shifts.size):
        keys = made.keys[made.offsets[s] : made.offsets[s + 1]]
        posts = made.posts[made.post_offsets[s] : made.post_offsets[s + 1]]
        cells = (keys.astype(np.uint64) - keys[:1].astype(np.uint64)) >> np.uint64(made.shifts[s])
        assert posts[0] == 0, "the first cell begins at the first key"
        assert posts[-1] == keys.size, "the last cell ends at the last key"
        found = np.searchsorted(cells, np.arange(posts.size, dtype=np.uint64))
        assert np.array_equal(found[:-1], posts[:-1]), "a post stands at the wrong key"


@kernel
def _put_up(made: Signposts) -> None:
    for s in range(made.shifts.size):
        begin, end = made.offsets[s], made.offsets[s + 1]
        first, n_cells = made.post_offsets[s], made.post_offsets[s + 1] - made.post_offsets[s] - 1
        shift = 1  # at least, so that a cell number is never above int64
        while _cell(made.keys[end - 1], made.keys[begin], shift) >= n_cells:
            shift += 1
        made.shifts[s] = shift
        cell = 0
        for i in range(begin, end):
            while cell <= _cell(made.keys[i], made.keys[begin], shift):
                made.posts[first + cell] = i - begin
                cell += 1
        while cell <= n_cells:
            made.posts[first + cell] = end - begin
            cell += 1


@kernel
def _cell(key: int, first: int, shift: int) -> int:
    # Unsigned, because two int64 can lie further apart than an int64 reaches.
    return int(np.int64((np.uint64(key) - np.uint64(first)) >> np.uint64(shift)))


@kernel
def section(made: Signposts, s: int) -> tuple[Int64s, Int32s, int]:
    """Keys, posts and shift of one section, for `count_at_most`."""
    return (
        made.keys[made.offsets[s] : made.offsets[s + 1]],
        made.posts[made.post_offsets[s] : made.post_offsets[s + 1]],
        made.shifts[s],
    )


@kernel
def count_at_most(keys: Int64s, posts: Int32s, shift: int, value: int) -> int:
    """How many keys of a section are at most `value`."""
    n = keys.size
    if keys[0] > value:
        return 0
    if keys[n - 1] <= value:
        return n
    low, high = 0, n
    if n > FEW:
        cell = _cell(value, keys[0], shift)
        low = min(posts[cell], n - WINDOW)
        # Keys of later cells are above the value, so a whole window is counted without a branch.
        within = 0
        for i in range(WINDOW):
            within += keys[low + i] <= value
        if within < WINDOW:
            return int(low + within)
        low, high = low + WINDOW, posts[cell + 1]
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return int(low)
