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

A key with a row inside a leaf covers it only in part: such keys are listed with the leaf, and those
of the leaf of the start are looked at one by one. A leaf takes about LEAF rows, but rows of one
time stay together: a time with many rows is a leaf of its own, which its rows cover whole.

Invariant  of every key a segment stands in the nodes that make up the leaves strictly between those
           of its ends, and in its last leaf if that is a single time, else the key is listed there;
           every list but those of keys ascends by (value, key).
Cost       search O(log^2 N + LEAF + answer); a row O(log N) lists, searched in O(log N) each and
           moved up by one place (memory O(keys) in the worst case); amortised rebuilding
           O(log N) a row; space O(N log N). N counts rows that matter only.
Paper      [shared-windows] Fig. 1 states bounds for MAX and MIN without the algorithm; this is ours
           (decision 015).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from standfast._numba import inlined, kernel
from standfast.arrays import Int32s, Int64s
from standfast.indexes.key_maxima import KeyMaxima, Peaks, displaced, first_from, replace
from standfast.indexes.key_rows import Bools
from standfast.indexes.keys import FAR, LEAST

LEAF = 16
LEAST_LEAVES = 16
# A new tree has room for this many rows, or three times as many as it is made of.
FEW = 4096
MOST_NODES = 128
N_LEAVES, USED, LATEST, IS_FULL = range(4)


class Tree(NamedTuple):
    """What kernels see. Node 1 is the root, n has the children 2 n and 2 n + 1.

    Leaf i is node `room + i`; its list of keys stands at `2 room + i` of the same arrays.
    """

    cuts: Int64s  # where each leaf begins; leaf 0 has no beginning
    is_single: Bools  # whether a leaf is one time
    begins: Int64s  # of each list in the pool
    sizes: Int64s
    rooms: Int64s
    entries: Int64s  # the pool: value and key of entry i at 2 i and 2 i + 1
    state: Int64s  # N_LEAVES, USED of the pool, LATEST time, IS_FULL: must be made again


class MaximaTree:
    """Windows by their start over the maxima of keys; tests make the leaves tiny."""

    def __init__(self, maxima: KeyMaxima, *, leaf: int = LEAF, few: int = FEW) -> None:
        self.maxima = maxima
        self.leaf = leaf
        self.few = few
        self._build()

    def insert(self, numbers: Int64s, times: Int64s, values: Int64s, oldest: int) -> None:
        """Take in rows whose times ascend; rows before `oldest` may be let go."""
        if numbers.size > max(self.few, 2 * self.maxima.n_rows):
            # Most of these rows would come and go within the batch.
            self.maxima.insert(numbers, times, values)
            self.settle(oldest)
            return
        self.maxima.make_room(numbers)
        late = times[times > self.tree.state[LATEST]]
        _cut(self.tree, late, self.leaf)
        _insert(self.maxima.peaks, self.tree, numbers, times, values)
        if self.tree.state[IS_FULL]:
            self.settle(oldest)

    def settle(self, oldest: int) -> None:
        """Let the rows before `oldest` go and make the tree again."""
        self.maxima.expire(oldest)
        self._build()

    def memory_bytes(self) -> int:
        return sum(array.nbytes for array in self.tree)

    def check(self) -> None:
        self.maxima.check()
        tree, n_leaves = self.tree, int(self.tree.state[N_LEAVES])
        room = tree.cuts.size
        assert not tree.state[IS_FULL], "a tree that is full was kept"
        cuts = tree.cuts[:n_leaves]
        assert np.all(cuts[:-1] < cuts[1:]), "cuts do not ascend"
        found: dict[int, list[tuple[int, int]]] = {}
        for node in range(3 * room):
            span = slice(tree.begins[node], tree.begins[node] + tree.sizes[node])
            entries = [(v, k) for v, k in tree.entries.reshape(-1, 2)[span].tolist()]
            if node < 2 * room:
                assert entries == sorted(set(entries)), f"node {node} is out of order"
            if entries:
                found[node] = entries
        wanted = self._wanted()
        listed = {n: {k for _, k in e} for n, e in found.items() if n >= 2 * room}
        assert all(wanted.get(n, set()) <= listed.get(n, set()) for n in wanted if n >= 2 * room), (
            "a leaf does not list a key"
        )
        nodes = {n: set(e) for n, e in found.items() if n < 2 * room}
        assert nodes == {n: e for n, e in wanted.items() if n < 2 * room}, "segments differ"

    def _wanted(self) -> dict[int, set[Any]]:
        """What each node should hold, leaf by leaf from the definition."""
        tree, peaks = self.tree, self.maxima.peaks
        room, wanted = tree.cuts.size, dict[int, set[Any]]()
        for k in range(peaks.begins.size):
            for at in range(peaks.firsts[k], peaks.ends[k]):
                nodes, entry = np.empty(MOST_NODES, np.int64), (int(peaks.values[at]), k)
                for node in nodes[: _nodes(tree, peaks, k, at, nodes)].tolist():
                    wanted.setdefault(node, set()).add(entry if node < 2 * room else k)
        return wanted

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
        nothing = np.zeros(3 * room, np.int64)
        self.tree = Tree(
            cuts=np.full(room, FAR, np.int64), is_single=np.zeros(room, np.bool_),
            begins=nothing, sizes=nothing.copy(), rooms=nothing,
            entries=np.empty(0, np.int64), state=np.zeros(4, np.int64),
        )  # fmt: skip
        self.tree.cuts[0], self.tree.state[N_LEAVES], self.tree.state[LATEST] = LEAST, 1, LEAST
        _cut(self.tree, ascending, self.leaf)
        order = np.lexsort((numbers, values))
        sizes = np.zeros(3 * room, np.int64)
        _count(peaks, self.tree, numbers[order], places[order], sizes)
        rooms = np.where(sizes > 0, sizes + (sizes >> 1) + 2, 0)
        ends = np.cumsum(rooms)
        used = int(ends[-1])
        # Every row that comes until the next making may ask for some new lists.
        size = 2 * used + 64 * self.few
        self.tree = self.tree._replace(
            begins=ends - rooms, rooms=rooms, entries=np.empty(2 * size, np.int64)
        )
        self.tree.state[USED] = used
        _fill(peaks, self.tree, numbers[order], places[order])
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
    i, held = 0, tree.sizes[2 * tree.cuts.size + tree.state[N_LEAVES] - 1]
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
            tree.is_single[tree.state[N_LEAVES] - 1] = tree.state[IS_FULL] == 0
            _begin_leaf(tree, times[i] + 1)
            held = 0
        i = same


@inlined
def _begin_leaf(tree: Tree, time: int) -> None:
    n = tree.state[N_LEAVES]
    if tree.cuts[n - 1] == time:
        return
    if n == tree.cuts.size:
        tree.state[IS_FULL] = 1
        return
    tree.cuts[n] = time
    tree.state[N_LEAVES] = n + 1


@inlined
def _leaf_of(tree: Tree, time: int) -> int:
    low, high = 0, tree.state[N_LEAVES]
    while low + 1 < high:
        middle = (low + high) >> 1
        if tree.cuts[middle] <= time:
            low = middle
        else:
            high = middle
    return int(low)


@inlined
def _nodes(tree: Tree, peaks: Peaks, k: int, at: int, out: Int64s) -> int:
    """The lists that the segment of a row of key k stands in; how many."""
    room, n = tree.cuts.size, 0
    last = _leaf_of(tree, peaks.times[at])
    low, high = room, room + last
    if at > peaks.firsts[k]:
        low += _leaf_of(tree, peaks.times[at - 1]) + 1
    while low < high:
        if low & 1:
            out[n] = low
            low, n = low + 1, n + 1
        if high & 1:
            high -= 1
            out[n] = high
            n += 1
        low, high = low >> 1, high >> 1
    out[n] = room + last if tree.is_single[last] else 2 * room + last
    return n + 1


@kernel
def _count(peaks: Peaks, tree: Tree, numbers: Int64s, places: Int64s, sizes: Int64s) -> None:
    """How many entries each list will have."""
    nodes = np.empty(MOST_NODES, np.int64)
    for i in range(numbers.size):
        for j in range(_nodes(tree, peaks, numbers[i], places[i], nodes)):
            sizes[nodes[j]] += 1


@kernel
def _fill(peaks: Peaks, tree: Tree, numbers: Int64s, places: Int64s) -> None:
    """Append the segments of rows, which ascend by (value, key), to their lists."""
    nodes = np.empty(MOST_NODES, np.int64)
    for i in range(numbers.size):
        k, at = numbers[i], places[i]
        for j in range(_nodes(tree, peaks, k, at, nodes)):
            node = nodes[j]
            if node >= 2 * tree.cuts.size and _is_listed(tree, node, k):
                continue
            place = tree.begins[node] + tree.sizes[node]
            tree.entries[2 * place], tree.entries[2 * place + 1] = peaks.values[at], k
            tree.sizes[node] += 1


@kernel
def _insert(peaks: Peaks, tree: Tree, numbers: Int64s, times: Int64s, values: Int64s) -> None:
    """Take rows into the maxima of their keys, and move segments in the tree accordingly."""
    nodes = np.empty(MOST_NODES, np.int64)
    for i in range(numbers.size):
        k, time = numbers[i], times[i]
        low, high = displaced(peaks, k, time, values[i])
        if low >= 0:
            # The row behind the new one begins later from now on.
            last = high + (high < peaks.ends[k])
            for at in range(low, last):
                _remove_segment(tree, peaks, k, at, nodes)
            replace(peaks, k, low, high, time, values[i])
            for at in range(low, low + 1 + last - high):
                _add_segment(tree, peaks, k, at, nodes)
        tree.state[LATEST] = max(tree.state[LATEST], time)


@inlined
def _add_segment(tree: Tree, peaks: Peaks, k: int, at: int, nodes: Int64s) -> None:
    if tree.state[IS_FULL]:
        return
    for j in range(_nodes(tree, peaks, k, at, nodes)):
        node, value = nodes[j], peaks.values[at]
        size, begin = tree.sizes[node], tree.begins[node]
        is_list = node >= 2 * tree.cuts.size
        if is_list and _is_listed(tree, node, k):
            continue
        if size == tree.rooms[node]:
            if not _enlarge(tree, node):
                return
            begin = tree.begins[node]
        place = begin + size
        if not is_list:
            place = _place(tree, node, value, k)
            for other in range(2 * (begin + size) + 1, 2 * place + 1, -1):
                tree.entries[other] = tree.entries[other - 2]
        tree.entries[2 * place], tree.entries[2 * place + 1] = value, k
        tree.sizes[node] = size + 1


@inlined
def _remove_segment(tree: Tree, peaks: Peaks, k: int, at: int, nodes: Int64s) -> None:
    """Take a segment out; a key stays in the list of a leaf and is passed over there."""
    if tree.state[IS_FULL]:
        return
    for j in range(_nodes(tree, peaks, k, at, nodes)):
        node = nodes[j]
        if node >= 2 * tree.cuts.size:
            continue
        tree.sizes[node] -= 1
        place = _place(tree, node, peaks.values[at], k)
        for other in range(2 * place, 2 * (tree.begins[node] + tree.sizes[node])):
            tree.entries[other] = tree.entries[other + 2]


@inlined
def _place(tree: Tree, node: int, value: int, k: int) -> int:
    """The first place of a list whose entry is not before (value, k)."""
    low, high = tree.begins[node], tree.begins[node] + tree.sizes[node]
    while low < high:
        middle = (low + high) >> 1
        found = tree.entries[2 * middle]
        if found < value or (found == value and tree.entries[2 * middle + 1] < k):
            low = middle + 1
        else:
            high = middle
    return int(low)


@inlined
def _is_listed(tree: Tree, node: int, k: int) -> bool:
    for i in range(tree.begins[node], tree.begins[node] + tree.sizes[node]):
        if tree.entries[2 * i + 1] == k:
            return True
    return False


@kernel
def _enlarge(tree: Tree, node: int) -> bool:
    """Give a list twice its room at the end of the pool; not when that is full."""
    room, size, begin = max(2 * tree.rooms[node], 4), tree.sizes[node], tree.begins[node]
    used = tree.state[USED]
    if 2 * (used + room) > tree.entries.size:
        tree.state[IS_FULL] = 1
        return False
    for i in range(2 * size):
        tree.entries[2 * used + i] = tree.entries[2 * begin + i]
    tree.begins[node], tree.rooms[node], tree.state[USED] = used, room, used + room
    return True


@inlined
def keys_with_maximum(
    tree: Tree, peaks: Peaks, start: int, low: int, high: int, out: Int32s, n: int
) -> int:
    """Write the keys whose maximum from `start` on is `low` to `high`, from place n on."""
    room, leaf = tree.cuts.size, _leaf_of(tree, start)
    node = room + leaf
    while node > 0:
        end = tree.begins[node] + tree.sizes[node]
        i = _place(tree, node, low, 0)
        while i < end and tree.entries[2 * i] <= high:
            out[n] = tree.entries[2 * i + 1]
            i, n = i + 1, n + 1
        node >>= 1
    listed = 2 * room + leaf
    begins = tree.cuts[leaf]
    ends = tree.cuts[leaf + 1] if leaf + 1 < tree.state[N_LEAVES] else FAR
    for i in range(tree.begins[listed], tree.begins[listed] + tree.sizes[listed]):
        k = tree.entries[2 * i + 1]
        at = first_from(peaks, k, start)
        if at == peaks.ends[k] or not low <= peaks.values[at] <= high:
            continue
        out[n] = k
        n += peaks.times[at] < ends or (at > peaks.firsts[k] and peaks.times[at - 1] >= begins)
    return n
