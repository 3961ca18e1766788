"""Maxima tree: which keys have a maximum in a range, over any window that ends now.

The maximum of a window depends on its start alone. A row that matters (`key_maxima`) is the maximum
of its key for every start after the row before it and up to its own time: one horizontal segment
for each such row, and of each key exactly one segment lies over any start.

    value                                    time is cut into leaves; over them stands a binary
      9 |=====o                              tree. A segment goes to the few nodes that make up
      7 |      ======o                       the leaves it covers whole. A node orders its
      4 |             ===========o           segments by value.
        +---|------|------|------|--- start
          leaf 0     1      2      3

    search    the nodes from the leaf of the start up to the root; in each the slice of the range

A key with a row inside a leaf covers it only in part: such keys are listed with the leaf, at their
largest value there, and those of the leaf of the start that reach the range with it are looked at
one by one. A leaf takes about LEAF rows, but rows of one time stay together: a time with many rows
is a leaf of its own, which its rows cover whole.

Invariant  of every key a segment stands in the nodes that make up the leaves strictly between those
           of its ends, and in its last leaf if that is a single time, else the key is listed there,
           with a value that is not below that of the segment.
Cost       search O(log^2 N + LEAF + answer); a row O(log N) lists, each changed as `young_lists`
           says; amortised rebuilding O(log N) a row; space O(N log N). N counts rows that matter
           only, and rows that a later row of their batch equals or beats are left out before.
Paper      [shared-windows] Fig. 1 states bounds for MAX and MIN without the algorithm; this is ours
           (decision 015).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from standfast._numba import inlined, kernel
from standfast.arrays import Int32s, Int64s
from standfast.indexes.key_maxima import (
    KeyMaxima,
    Peaks,
    displaced,
    first_from,
    replace,
)
from standfast.indexes.key_rows import Bools
from standfast.indexes.keys import FAR, LEAST
from standfast.indexes.young_lists import (
    BEGIN,
    IS_FULL,
    YOUNG,
    Lists,
    change,
    check_lists,
    entries_of,
    fill,
    keys_within,
    made,
)

# Larger means fewer lists to change, and more keys to look at; measured in decision 015.
LEAF = 64
LEAST_LEAVES = 16
# A new tree has room for this many rows, or three times as many as it is made of.
FEW = 4096
# Changes of lists that are collected before they are done.
MOVES = 4096
N_LEAVES, LATEST = range(2)


class Tree(NamedTuple):
    """What kernels see. Node 1 is the root, n has the children 2 n and 2 n + 1.

    Leaf i is node `room + i`; the keys that cover it in part are in list `2 room + i`.
    """

    cuts: Int64s  # where each leaf begins; leaf 0 has no beginning
    is_single: Bools  # whether a leaf is one time
    lists: Lists  # by node; IS_FULL also when there are no leaves left
    state: Int64s  # N_LEAVES, LATEST time


class MaximaTree:
    """Windows by their start over the maxima of keys; tests make the leaves tiny."""

    def __init__(self, maxima: KeyMaxima, *, leaf: int = LEAF, few: int = FEW) -> None:
        self.maxima = maxima
        self.leaf = leaf
        self.few = few
        self._moves = np.empty((3, MOVES), np.int64)
        self._build()

    def insert(self, numbers: Int64s, times: Int64s, values: Int64s, oldest: int) -> None:
        """Take in rows whose times ascend; rows before `oldest` may be let go."""
        kept = self.maxima.unbeaten(numbers, values)
        numbers, times, values = numbers[kept], times[kept], values[kept]
        if numbers.size > self.few and numbers.size > 2 * self.maxima.n_rows:
            # Most of the tree would be new.
            self.maxima.insert(numbers, times, values)
            self.settle(oldest)
            return
        self.maxima.make_room(numbers)
        _cut(self.tree, times[times > self.tree.state[LATEST]], self.leaf)
        done = 0
        while done < numbers.size and not self.tree.lists.state[IS_FULL]:
            before, peaks, tree = done, self.maxima.peaks, self.tree
            done, n = _insert(peaks, tree, numbers, times, values, done, *self._moves)
            change(tree.lists, *self._moves[:, :n])
            if done == before:  # a row that displaces very many
                self._moves = np.empty((3, 2 * self._moves.shape[1]), np.int64)
        if self.tree.lists.state[IS_FULL]:
            self.maxima.insert(numbers[done:], times[done:], values[done:])
            self.settle(oldest)

    def settle(self, oldest: int) -> None:
        """Let the rows before `oldest` go and make the tree again."""
        self.maxima.expire(oldest)
        self._build()

    def memory_bytes(self) -> int:
        own = (self.tree.cuts, self.tree.is_single, *self.tree.lists)
        return sum(array.nbytes for array in own)

    def check(self) -> None:
        self.maxima.check()
        tree, n_leaves = self.tree, int(self.tree.state[N_LEAVES])
        room = tree.cuts.size
        assert not tree.lists.state[IS_FULL], "a tree that is full was kept"
        cuts = tree.cuts[:n_leaves]
        assert np.all(cuts[:-1] < cuts[1:]), "cuts do not ascend"
        check_lists(tree.lists)
        wanted = self._wanted()
        for i in range(3 * room):
            found, right = set(entries_of(tree.lists, i)), wanted.get(i, set())
            if i < 2 * room:
                assert found == right, f"node {i}: segments differ"
            else:
                most = {k: value for value, k in found}
                for value, k in right:
                    assert k in most, f"leaf {i - 2 * room} does not list a key"
                    assert most[k] >= value, f"leaf {i - 2 * room} lists a key too low"

    def _wanted(self) -> dict[int, set[tuple[int, int]]]:
        """What each list should hold, row by row from the definition."""
        peaks, wanted = self.maxima.peaks, dict[int, set[tuple[int, int]]]()
        rows = np.empty((4, self.maxima.n_rows), np.int64)
        _gather(peaks, *rows)
        for node, value, k in self._segments_of(rows[0], rows[1]).T.tolist():
            wanted.setdefault(node, set()).add((value, k))
        return wanted

    def _segments_of(self, numbers: Int64s, places: Int64s) -> Int64s:
        """Where the segments of these rows stand: lists, values and keys."""
        segments = np.empty((3, numbers.size * _most_nodes(self.tree.cuts.size)), np.int64)
        n = _segments(self.maxima.peaks, self.tree, numbers, places, *segments)
        return segments[:, :n]

    def _build(self) -> None:
        peaks = self.maxima.peaks
        n = self.maxima.n_rows
        times, values = np.empty(n, np.int64), np.empty(n, np.int64)
        numbers, places = np.empty(n, np.int64), np.empty(n, np.int64)
        _gather(peaks, numbers, places, times, values)
        ascending = np.sort(times)
        room = LEAST_LEAVES
        while room * self.leaf < 4 * (n + self.few):
            room *= 2
        self.tree = Tree(
            cuts=np.full(room, FAR, np.int64), is_single=np.zeros(room, np.bool_),
            lists=made(np.zeros(3 * room, np.int64), spare=0, n_sorted=2 * room),
            state=np.array([1, LEAST]),
        )  # fmt: skip
        self.tree.cuts[0] = LEAST
        _cut(self.tree, ascending, self.leaf)
        order = np.lexsort((numbers, values))
        segments = self._segments_of(numbers[order], places[order])
        sizes = np.bincount(segments[0], minlength=3 * room)
        # Every row that comes until the next making may ask for some new lists.
        lists = made(sizes, spare=64 * self.few, n_sorted=2 * room)
        self.tree = self.tree._replace(lists=lists)
        fill(lists, *segments)
        if n:
            self.tree.state[LATEST] = ascending[-1]


@kernel
def _gather(peaks: Peaks, numbers: Int64s, places: Int64s, times: Int64s, values: Int64s) -> None:
    n = 0
    for k in range(peaks.begins.size):
        for at in range(peaks.firsts[k], peaks.ends[k]):
            numbers[n], places[n] = k, at
            times[n], values[n] = peaks.times[at], peaks.values[at]
            n += 1


@kernel
def _cut(tree: Tree, times: Int64s, leaf: int) -> None:
    """Cut time beyond the latest row into leaves for rows of these ascending times."""
    i, held = 0, tree.lists.heads[2 * tree.cuts.size + tree.state[N_LEAVES] - 1, YOUNG]
    while i < times.size:
        same = i + 1
        while same < times.size and times[same] == times[i]:
            same += 1
        heavy = 2 * (same - i) >= leaf
        if heavy or held + same - i > leaf:
            _begin_leaf(tree, times[i])
            held = 0
        held += same - i
        if heavy:
            tree.is_single[tree.state[N_LEAVES] - 1] = tree.lists.state[IS_FULL] == 0
            _begin_leaf(tree, times[i] + 1)
            held = 0
        i = same


@inlined
def _begin_leaf(tree: Tree, time: int) -> None:
    n = tree.state[N_LEAVES]
    if tree.cuts[n - 1] == time:
        return
    if n == tree.cuts.size:
        tree.lists.state[IS_FULL] = 1
        return
    tree.cuts[n] = time
    tree.state[N_LEAVES] = n + 1


@inlined
def _leaf_of(cuts: Int64s, n_leaves: int, time: int) -> int:
    """The leaf that holds a time, mostly the last one."""
    if cuts[n_leaves - 1] <= time:
        return n_leaves - 1
    low, high = 0, n_leaves
    while low + 1 < high:
        middle = (low + high) >> 1
        if cuts[middle] <= time:
            low = middle
        else:
            high = middle
    return int(low)


@inlined
def _most_nodes(room: int) -> int:
    """No segment stands in more lists than this."""
    n = 1
    while room > 1:
        n, room = n + 2, room >> 1
    return n


@inlined
def _write(
    room: int, first: int, last: int, is_whole: bool, value: int, k: int,
    nodes: Int64s, values: Int64s, keys: Int64s, n: int,
) -> int:  # fmt: skip
    """Write where a segment stands that begins before leaf `first` and ends in leaf `last`.

    As (list, value, key) from place n on; how many there are now. `is_whole` tells whether it
    covers its last leaf. With `~key` for `k` it leaves, but it stays in the plain list of a leaf,
    where it is passed over.
    """
    low, high, end = room + first, room + last, n
    while low < high:
        if low & 1:
            nodes[end] = low
            low, end = low + 1, end + 1
        if high & 1:
            high -= 1
            nodes[end] = high
            end += 1
        low, high = low >> 1, high >> 1
    nodes[end] = room + last if is_whole else 2 * room + last
    end += is_whole or k >= 0
    for j in range(n, end):
        values[j], keys[j] = value, k
    return end


@kernel
def _segments(
    peaks: Peaks, tree: Tree, numbers: Int64s, places: Int64s,
    nodes: Int64s, values: Int64s, keys: Int64s,
) -> int:  # fmt: skip
    """Write where the segments of rows stand, as (list, value, key); how many."""
    cuts, n_leaves, n = tree.cuts, tree.state[N_LEAVES], 0
    for i in range(numbers.size):
        k, at, first = numbers[i], places[i], 0
        if at > peaks.firsts[k]:
            first = _leaf_of(cuts, n_leaves, peaks.times[at - 1]) + 1
        last = _leaf_of(cuts, n_leaves, peaks.times[at])
        n = _write(
            cuts.size, first, last, tree.is_single[last], peaks.values[at], k,
            nodes, values, keys, n,
        )  # fmt: skip
    return n


@kernel
def _insert(
    peaks: Peaks, tree: Tree, numbers: Int64s, times: Int64s, values: Int64s, done: int,
    nodes: Int64s, moved_values: Int64s, moved_keys: Int64s,
) -> tuple[int, int]:  # fmt: skip
    """Take rows from `done` on into the maxima of their keys, and write how segments move.

    How far, and how many moves: it stops before a row whose moves might not fit. Helpers are given
    arrays, not tuples: a kernel counts the references to all that it hands on.
    """
    cuts, is_single, n_leaves = tree.cuts, tree.is_single, tree.state[N_LEAVES]
    n, most = 0, _most_nodes(cuts.size)
    for i in range(done, numbers.size):
        k, time = numbers[i], times[i]
        low, high = displaced(peaks, k, time, values[i])
        if low < 0:
            continue
        # The row behind the new one begins later from now on.
        last = high + (high < peaks.ends[k])
        if n + (2 * (last - low) + 1) * most > nodes.size:
            return i, n
        begin = 0
        if low > peaks.firsts[k]:
            begin = _leaf_of(cuts, n_leaves, peaks.times[low - 1]) + 1
        n_gone = last - low
        n_moved = n_gone + 1 + last - high
        first = begin
        for j in range(n_moved):
            if j == n_gone:
                replace(peaks, k, low, high, time, values[i])
                first = begin
            at = low + j if j < n_gone else low + j - n_gone
            leaf = _leaf_of(cuts, n_leaves, peaks.times[at])
            n = _write(
                cuts.size, first, leaf, is_single[leaf], peaks.values[at],
                ~k if j < n_gone else k, nodes, moved_values, moved_keys, n,
            )  # fmt: skip
            first = leaf + 1
        tree.state[LATEST] = max(tree.state[LATEST], time)
    return numbers.size, n


@inlined
def keys_with_maximum(
    tree: Tree, peaks: Peaks, start: int, low: int, high: int, out: Int32s, n: int
) -> int:
    """Write the keys whose maximum from `start` on is `low` to `high`, from place n on."""
    heads, values, keys = tree.lists.heads, tree.lists.values, tree.lists.keys
    cuts, n_leaves, room = tree.cuts, tree.state[N_LEAVES], tree.cuts.size
    leaf = _leaf_of(cuts, n_leaves, start)
    node = room + leaf
    while node > 0:
        n = keys_within(heads, values, keys, node, low, high, out, n)
        node >>= 1
    begins, ends = cuts[leaf], cuts[leaf + 1] if leaf + 1 < n_leaves else FAR
    first = heads[2 * room + leaf, BEGIN]
    for i in range(first, first + heads[2 * room + leaf, YOUNG]):
        if values[i] < low:
            continue
        k = keys[i]
        at = first_from(peaks, k, start)
        if at == peaks.ends[k] or not low <= peaks.values[at] <= high:
            continue
        out[n] = k
        n += peaks.times[at] < ends or (at > peaks.firsts[k] and peaks.times[at - 1] >= begins)
    return n
