"""Split-join trees: ordered sets of intervals that are cut and glued in logarithmic time.

                    [4, 9]                 every node carries what its subtree shares:
                   /  4..7 \\               the largest low and the smallest high (4..7 here;
              [1, 7]      [4, 8]           largest low > smallest high: nothing shared)
              1..7         4..8

One `Nodes` holds many trees: a tree is the number of its root, a node the slot of its interval,
-1 no tree. Nodes are ordered by (low, slot) and form a heap by priorities hashed from the slots
(treaps), so a tree's shape depends on who is in it and not on how they came.

`greedy_point` finds, by one walk down a tree, where the greedy scan over all its intervals would
close the first group: lows ascend and the smallest high so far descends, so once an interval does
not belong, none after it does. The group is then everything with a low up to the smallest high
of the group, which is its point: one split takes it off.

Invariant  in-order keys ascend; no child has a higher priority; each node's size, largest low
           and smallest high are those of its subtree.
Cost       split, join, insert, delete, greedy_point O(log n) expected, build O(n) from sorted;
           `visits` counts the nodes that were looked at; 48 bytes per node.
Paper      [hotspot] appendix A.2 asks for height-balanced leaf trees; treaps need less code.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from standfast._numba import kernel
from standfast.arrays import Int32s, Int64s

LEFT, RIGHT, SIZE, PRIORITY = 0, 1, 2, 3
LOW, HIGH, MOST_LOW, LEAST_HIGH = 0, 1, 2, 3
MOST = np.iinfo(np.int64).max
LAST_SLOT = np.iinfo(np.int32).max
DEEPEST = 512  # a random treap of 2**31 nodes is about 100 deep


class Nodes(NamedTuple):
    """All trees' nodes by slot: links are left, right, size, priority; bounds as named above."""

    links: Int32s
    bounds: Int64s
    path: Int32s  # scratch: the nodes that the walk at hand has changed
    visits: Int64s

    @staticmethod
    def none() -> Nodes:
        """Room for nobody."""
        return Nodes(
            np.empty((0, 4), np.int32), np.empty((0, 4), np.int64),
            np.empty(DEEPEST, np.int32), np.zeros(1, np.int64),
        )  # fmt: skip

    def with_leaves(self, slots: Int64s, lows: Int64s, highs: Int64s) -> Nodes:
        """These nodes with room for `slots`, which become single nodes."""
        nodes, size = self, self.links.shape[0]
        need = int(slots.max()) + 1 if slots.size else 0
        if size < need:
            room = max(need, 2 * size, 16)
            nodes = self._replace(
                links=np.zeros((room, 4), np.int32), bounds=np.zeros((room, 4), np.int64)
            )
            nodes.links[:size], nodes.bounds[:size] = self.links, self.bounds
        nodes.links[slots, LEFT] = nodes.links[slots, RIGHT] = -1
        nodes.links[slots, SIZE], nodes.links[slots, PRIORITY] = 1, priorities(slots)
        nodes.bounds[slots, LOW], nodes.bounds[slots, HIGH] = lows, highs
        nodes.bounds[slots, MOST_LOW], nodes.bounds[slots, LEAST_HIGH] = lows, highs
        return nodes


def priorities(slots: Int64s) -> Int32s:
    """Numbers that look random but depend on the slot alone (the finish of a 64-bit mixer)."""
    mixed = slots.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (mixed >> np.uint64(33)).astype(np.int32)


def check_tree(nodes: Nodes, root: int) -> list[int]:
    """Assert the invariant of one tree; its slots in order."""
    if root < 0:
        return []
    left, right, size, priority = nodes.links[root].tolist()
    low, high, most_low, least_high = nodes.bounds[root].tolist()
    for child in (left, right):
        assert child < 0 or nodes.links[child, PRIORITY] <= priority, "a heap by priority"
    before, after = check_tree(nodes, left), check_tree(nodes, right)
    keys = [(int(nodes.bounds[slot, LOW]), slot) for slot in (*before[-1:], root, *after[:1])]
    assert keys == sorted(set(keys)), "keys ascend"
    assert size == len(before) + 1 + len(after), "size counts the subtree"
    below = [nodes.bounds[child].tolist() for child in (left, right) if child >= 0]
    assert most_low == max([low, *(b[MOST_LOW] for b in below)]), "the largest low is known"
    assert least_high == min([high, *(b[LEAST_HIGH] for b in below)]), "so is the smallest high"
    return [*before, root, *after]


@kernel
def split(nodes: Nodes, root: int, low: int, slot: int) -> tuple[int, int]:
    """Cut a tree in two: keys up to (low, slot), and the rest."""
    links, bounds, path = nodes.links, nodes.bounds, nodes.path
    first, second, first_end, second_end, depth, node = -1, -1, -1, -1, 0, root
    while node >= 0:
        path[depth] = node
        depth += 1
        assert depth < DEEPEST, "a tree is too deep"
        if bounds[node, LOW] < low or (bounds[node, LOW] == low and node <= slot):
            if first_end < 0:
                first = node
            else:
                links[first_end, RIGHT] = node
            first_end = node
            node = links[node, RIGHT]
        else:
            if second_end < 0:
                second = node
            else:
                links[second_end, LEFT] = node
            second_end = node
            node = links[node, LEFT]
    if first_end >= 0:
        links[first_end, RIGHT] = -1
    if second_end >= 0:
        links[second_end, LEFT] = -1
    _renew(nodes, depth)
    return first, second


@kernel
def join(nodes: Nodes, first: int, second: int) -> int:
    """Glue two trees, all keys of the first before all keys of the second."""
    links, path = nodes.links, nodes.path
    root, end, side, depth = -1, -1, LEFT, 0
    while first >= 0 and second >= 0:
        take_first = links[first, PRIORITY] >= links[second, PRIORITY]
        node = first if take_first else second
        path[depth] = node
        depth += 1
        assert depth < DEEPEST, "a tree is too deep"
        if end < 0:
            root = node
        else:
            links[end, side] = node
        end = node
        if take_first:
            side = RIGHT
            first = links[node, RIGHT]
        else:
            side = LEFT
            second = links[node, LEFT]
    rest = first if first >= 0 else second
    if end < 0:
        return rest
    links[end, side] = rest
    _renew(nodes, depth)
    return root


@kernel
def insert(nodes: Nodes, root: int, slot: int) -> int:
    """Put a single node into a tree."""
    first, second = split(nodes, root, nodes.bounds[slot, LOW], slot)
    return join(nodes, join(nodes, first, slot), second)


@kernel
def delete(nodes: Nodes, root: int, slot: int) -> int:
    """Take a node out of the tree that it is in."""
    first, rest = split(nodes, root, nodes.bounds[slot, LOW], slot - 1)
    node, second = split(nodes, rest, nodes.bounds[slot, LOW], slot)
    assert node == slot, "a slot was removed twice or never added"
    return join(nodes, first, second)


@kernel
def build(nodes: Nodes, slots: Int64s) -> int:
    """The tree of single nodes whose keys ascend: the last branch grows at its end."""
    links, path = nodes.links, nodes.path
    if slots.size == 0:
        return -1
    depth = 0
    for slot in slots:
        below = -1
        while depth and links[path[depth - 1], PRIORITY] < links[slot, PRIORITY]:
            depth -= 1
            below = path[depth]
            _renew_node(nodes, below)
        links[slot, LEFT] = below
        if depth:
            links[path[depth - 1], RIGHT] = slot
        path[depth] = slot
        depth += 1
        assert depth < DEEPEST, "a tree is too deep"
    _renew(nodes, depth)
    return int(path[0])


@kernel
def greedy_point(nodes: Nodes, root: int) -> int:
    """The smallest high of the first group that the greedy scan makes of a nonempty tree."""
    links, bounds = nodes.links, nodes.bounds
    point, node = MOST, root  # the first interval of all always belongs
    while node >= 0:
        nodes.visits[0] += 1
        left = links[node, LEFT]
        reach = min(point, bounds[left, LEAST_HIGH]) if left >= 0 else point
        if left >= 0 and bounds[left, MOST_LOW] > reach:
            node = left
            continue
        point = reach
        if bounds[node, LOW] > point:
            break
        point = min(point, bounds[node, HIGH])
        node = links[node, RIGHT]
    return point


@kernel
def least_high(nodes: Nodes, root: int) -> int:
    """The slot of an interval with the smallest high of a nonempty tree."""
    links, bounds, node = nodes.links, nodes.bounds, root
    while bounds[node, HIGH] != bounds[root, LEAST_HIGH]:
        nodes.visits[0] += 1
        left = links[node, LEFT]
        if left >= 0 and bounds[left, LEAST_HIGH] == bounds[root, LEAST_HIGH]:
            node = left
        else:
            node = links[node, RIGHT]
    return node


@kernel
def _renew(nodes: Nodes, depth: int) -> None:
    """Bring the nodes of the path up to date, the deepest first."""
    nodes.visits[0] += depth
    for i in range(depth - 1, -1, -1):
        _renew_node(nodes, nodes.path[i])


@kernel
def _renew_node(nodes: Nodes, node: int) -> None:
    """Make a node's size and common intersection those of its subtree."""
    links, bounds = nodes.links, nodes.bounds
    size, low, high = 1, bounds[node, LOW], bounds[node, HIGH]
    left, right = links[node, LEFT], links[node, RIGHT]
    if left >= 0:
        size += links[left, SIZE]
        high = min(high, bounds[left, LEAST_HIGH])
    if right >= 0:
        size += links[right, SIZE]
        low = bounds[right, MOST_LOW]  # lows ascend
        high = min(high, bounds[right, LEAST_HIGH])
    links[node, SIZE] = size
    bounds[node, MOST_LOW], bounds[node, LEAST_HIGH] = low, high
