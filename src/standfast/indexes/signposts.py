"""Signposts: where to look in a sorted array, so that a search takes few steps and no guesses.

    keys        2 3 3 7 8 8 9 | 40 | 77 78        one section; cells are equally wide
    cell        |----0----|----1----|----2----|   cell of a key: (key - first) >> shift
    posts       0         7         8         10  where each cell begins
    width       7                                 keys in the fullest cell

A table lookup gives the cell of a value, and a binary search among `width` keys or more from there
on the place: later cells hold only larger keys, so it may reach into them. Every search of a
section takes the same number of steps and none of them branches, so that many go in step. With
evenly spread keys the fullest cell holds a few times PER_CELL keys; the worst case, all keys in one
cell, is a binary search over the section.

Invariant  posts of a section ascend from 0 to its size; keys in `posts[c]:posts[c + 1]` fall into
           cell c, none of the others does; no cell holds more than `width` keys.
Cost       count O(log width); build O(n); 2 bytes a key.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from standfast._numba import inlined, kernel
from standfast.arrays import Int32s, Int64s

# Fewer keys per cell means fewer steps and a larger table; 4 is 7 % slower, 1 no faster.
PER_CELL = 2
# Searches done in step: one after the other each would guess its way, and half of the guesses fail.
ABREAST = 128


class Signposts(NamedTuple):
    """Posts of several sorted sections side by side; section s owns `keys[offsets[s]:...]`."""

    keys: Int64s
    offsets: Int64s
    shifts: Int64s
    widths: Int64s
    post_offsets: Int64s
    posts: Int32s


def signposts(keys: Int64s, offsets: Int64s) -> Signposts:
    """Put up posts for sections of ascending keys, none of them empty."""
    n_sections = offsets.size - 1
    # Two cells at least: keys can lie 2^64 - 1 apart, and a shift stops at 63.
    n_cells = np.maximum(np.diff(offsets) // PER_CELL, 2)
    post_offsets = np.zeros(offsets.size, np.int64)
    np.cumsum(n_cells + 1, out=post_offsets[1:])
    made = Signposts(
        keys, offsets, np.zeros(n_sections, np.int64), np.zeros(n_sections, np.int64),
        post_offsets, np.empty(post_offsets[-1], np.int32),
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
        assert np.diff(posts).max() == made.widths[s], "the width is not that of the fullest cell"


@kernel
def _put_up(made: Signposts) -> None:
    for s in range(made.shifts.size):
        begin, end = made.offsets[s], made.offsets[s + 1]
        first, n_cells = made.post_offsets[s], made.post_offsets[s + 1] - made.post_offsets[s] - 1
        shift = 0
        spread = np.uint64(made.keys[end - 1]) - np.uint64(made.keys[begin])
        while (spread >> np.uint64(shift)) >= np.uint64(n_cells):
            shift += 1
        made.shifts[s] = shift
        posts, at = made.posts[first : first + n_cells + 1], 0
        for i in range(begin, end):
            spread = np.uint64(made.keys[i]) - np.uint64(made.keys[begin])
            while at <= np.int64(spread >> np.uint64(shift)):
                posts[at] = i - begin
                at += 1
        while at <= n_cells:
            posts[at] = end - begin
            at += 1
        for cell in range(n_cells):
            made.widths[s] = max(made.widths[s], posts[cell + 1] - posts[cell])


@kernel
def count_at_most(made: Signposts, section: int, values: Int64s, counts: Int64s) -> None:
    """How many keys of a section are at most each value.

    Unsigned throughout: two int64 can lie further apart than an int64 reaches, and an index that
    cannot be negative needs no test. A value below the first key gets some cell, too; its count is
    set to 0 at the end. Steps are powers of two, so that a comparison can be shifted to the step
    that it takes: multiplied, it would be compiled to a branch. They may look beyond the section,
    where the last key stands for those that are not there.
    """
    one, places = np.uint64(1), np.empty(min(ABREAST, values.size), np.uint64)
    keys = made.keys[made.offsets[section] : made.offsets[section + 1]]
    posts = made.posts[made.post_offsets[section] : made.post_offsets[section + 1]]
    shift, n_steps = np.uint64(made.shifts[section]), steps_for(made.widths[section])
    last = np.uint64(keys.size - 1)
    for begin in range(0, values.size, ABREAST):
        n = min(ABREAST, values.size - begin)
        for i in range(n):
            cell = (np.uint64(values[begin + i]) - np.uint64(keys[0])) >> shift
            places[i] = posts[min(cell, np.uint64(posts.size - 2))]
        for step in range(n_steps - 1, -1, -1):
            bits = np.uint64(step)
            ahead = (one << bits) - one
            for i in range(n):
                key = keys[min(places[i] + ahead, last)]
                places[i] += np.uint64(key <= values[begin + i]) << bits
        for i in range(n):
            count = min(int(places[i]), keys.size)
            counts[begin + i] = count * (values[begin + i] >= keys[0])


@inlined
def steps_for(width: int) -> int:
    """How many halving steps find a place among so many keys."""
    n_steps = 0
    while (1 << n_steps) <= width:
        n_steps += 1
    return n_steps
