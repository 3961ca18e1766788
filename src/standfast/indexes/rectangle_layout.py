"""How a rectangle tree is laid out in arrays, and built; `rectangle_tree` has the picture."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from standfast._numba import inlined, kernel
from standfast.arrays import Int32s, Int64s
from standfast.indexes.keys import FAR
from standfast.indexes.signposts import Signposts, signposts
from standfast.indexes.stabbing_partition import canonical

Bools = npt.NDArray[np.bool_]

MOST_NODES = 2048  # that cover one member, at the largest fanout
# Blocks of a group, about; beyond that they hold more ends, so that walking them costs a batch of
# events no more when there are more queries.
MOST_BLOCKS = 2048
STRIDE = 64  # places of the low order whose least high rank is kept


class Ends(NamedTuple):
    """The ends of the other ranges, ascending within each group, with signposts."""

    lows: Signposts
    highs: Signposts


class Rectangles(NamedTuple):
    """The tree in arrays; group g owns the places `offsets[g]:offsets[g + 1]` of both orders.

    A rank counts from the group's start. Group g also owns the blocks `boundary_offsets[g]` to
    `boundary_offsets[g + 1]`, each from its boundary up to the next one, and the nodes
    `node_bases[g]` to `node_bases[g + 1]`, level by level from the blocks up.
    """

    points: Int64s
    offsets: Int64s
    low_to_high: Int32s  # rank in the high order of each place of the low order
    high_to_low: Int32s
    least_highs: Int32s  # the least of `low_to_high` in each STRIDE places
    fanout_bits: int
    long: int  # a slice of at least so many members stays a slice
    boundaries: Int64s
    boundary_offsets: Int64s
    block_numbers: Int32s  # of each block in its group
    walk_keys: Int64s  # the boundaries of all groups, ascending
    walk_blocks: Int32s  # walk_keys[i] is boundaries[walk_blocks[i]]
    node_bases: Int64s
    node_offsets: Int64s  # node i owns this slice of the two lists
    node_lows: Int32s
    node_highs: Int32s
    ragged_offsets: Int64s  # block b owns this slice of what is ragged
    ragged_ranks: Int32s  # [0, i] rank in the low order, [1, i] in the high order
    most_ragged: int  # in any block
    turn_offsets: Int64s  # block b owns this slice of the turns
    turn_keys: Int64s  # ascending in a block: from this own value on
    turn_members: Int32s  # i: the range of what is ragged at i has begun, ~i: it has ended


def laid_out(
    own_lows: Int64s,
    own_highs: Int64s,
    lows: Int64s,
    highs: Int64s,
    *,
    block: int,
    fanout_bits: int,
    long: int,
) -> tuple[Rectangles, Ends]:
    """The tree of rectangles that ascend by their other low."""
    n = lows.size
    group_of, points = canonical(lows, highs)  # ascending, since the lows are
    n_groups = points.size
    offsets = np.searchsorted(group_of, np.arange(n_groups + 1))
    by_high = _by_group(highs, group_of, offsets)
    base = offsets[group_of]
    high_to_low = (by_high - base).astype(np.int32)
    low_to_high = np.empty(n, np.int32)
    low_to_high[by_high] = np.arange(n) - base
    least_highs = np.minimum.reduceat(low_to_high, np.arange(0, n, STRIDE))
    by_own_low = _by_group(own_lows, group_of, offsets)
    by_own_high = _by_group(own_highs, group_of, offsets)
    boundaries, boundary_offsets = np.empty(2 * n // block + n_groups, np.int64), offsets.copy()
    _cut(own_lows[by_own_low], own_highs[by_own_high], offsets, block, boundaries, boundary_offsets)
    boundaries = boundaries[: boundary_offsets[-1]].copy()
    walk = np.argsort(boundaries).astype(np.int32)
    reaches = np.empty((2, n), np.int32)
    inside = np.empty((2, n), np.bool_)
    _reach_lows(own_lows, by_own_low, offsets, boundaries, boundary_offsets, reaches[0], inside[0])
    _reach_highs(
        own_highs, by_own_high, offsets, boundaries, boundary_offsets, reaches[1], inside[1]
    )  # fmt: skip
    n_blocks = np.diff(boundary_offsets)
    node_bases = np.zeros(n_groups + 1, np.int64)
    np.cumsum(_n_nodes(n_blocks, fanout_bits), out=node_bases[1:])
    tree = Rectangles(
        points, offsets, low_to_high, high_to_low, least_highs, fanout_bits, long,
        boundaries, boundary_offsets, _numbered(n_blocks), boundaries[walk], walk, node_bases,
        np.zeros(node_bases[-1] + 1, np.int64),
        np.empty(0, np.int32), np.empty(0, np.int32),
        np.zeros(boundaries.size + 1, np.int64), np.empty((2, 0), np.int32), 0,
        np.zeros(boundaries.size + 1, np.int64), np.empty(0, np.int64), np.empty(0, np.int32),
    )  # fmt: skip
    _size_lists(tree, reaches, inside)
    n_listed, n_turns = tree.node_offsets[-1], tree.turn_offsets[-1]
    tree = tree._replace(
        node_lows=np.empty(n_listed, np.int32), node_highs=np.empty(n_listed, np.int32),
        ragged_ranks=np.empty((2, tree.ragged_offsets[-1]), np.int32),
        most_ragged=int(np.diff(tree.ragged_offsets).max(initial=0)),
        turn_keys=np.empty(n_turns, np.int64), turn_members=np.empty(n_turns, np.int32),
    )  # fmt: skip
    _list_by_low(tree, reaches)
    _list_by_high(tree, reaches)
    ragged_at = _list_ragged(tree, reaches, inside)
    _list_turns(tree, reaches, ragged_at, own_lows, own_highs, by_own_low, by_own_high)
    return tree, Ends(signposts(lows, offsets), signposts(highs[by_high], offsets))


def _by_group(values: Int64s, group_of: Int32s, offsets: Int64s) -> Int32s:
    """The places by group, and by ascending value within each."""
    order = np.argsort(values).astype(np.int32)
    if offsets.size <= 2:
        return order
    dealt = np.empty(order.size, np.int32)
    _deal(order, group_of, offsets, dealt)
    return dealt


def _numbered(sizes: Int64s) -> Int32s:
    """The numbers from 0 on of what each of these sizes counts, side by side."""
    begins = np.cumsum(sizes) - sizes
    return (np.arange(sizes.sum()) - np.repeat(begins, sizes)).astype(np.int32)


def _n_nodes(n_blocks: Int64s, fanout_bits: int) -> Int64s:
    """How many nodes stand above so many blocks, the blocks included."""
    total, level = n_blocks.copy(), n_blocks
    while np.any(level > 1):
        above = np.where(level > 1, (level + (1 << fanout_bits) - 1) >> fanout_bits, 0)
        total, level = total + above, above
    return total


@kernel
def _deal(order: Int32s, group_of: Int32s, offsets: Int64s, dealt: Int32s) -> None:
    """Part an order by group."""
    following = offsets.copy()
    for i in range(order.size):
        group = group_of[order[i]]
        dealt[following[group]] = order[i]
        following[group] += 1


@kernel
def _cut(
    lows: Int64s, highs: Int64s, offsets: Int64s, block: int,
    boundaries: Int64s, boundary_offsets: Int64s,
) -> None:  # fmt: skip
    """Cut each group's own axis at every `block`-th end; a high ends before its next key.

    An end that occurs `block` times or more is a boundary, so no block has that many inside. A
    large group has larger blocks.
    """
    used = 0
    boundary_offsets[0] = 0
    for g in range(offsets.size - 1):
        i, j, end = offsets[g], offsets[g], offsets[g + 1]
        every = max(block, 2 * (end - i) // MOST_BLOCKS)
        first, rank = used, 0
        while i < end or j < end:
            if j == end or highs[j] == FAR or (i < end and lows[i] <= highs[j] + 1):
                if i == end:
                    break  # what is left reaches to the end of the line
                key = lows[i]
                i += 1
            else:
                key = highs[j] + 1
                j += 1
            if rank % every == 0 and (used == first or boundaries[used - 1] != key):
                boundaries[used] = key
                used += 1
            rank += 1
        boundary_offsets[g + 1] = used


@kernel
def _reach_lows(
    own_lows: Int64s, order: Int32s, offsets: Int64s, boundaries: Int64s, boundary_offsets: Int64s,
    firsts: Int32s, inside: Bools,
) -> None:  # fmt: skip
    """The first block that each member may cover, and whether it begins inside the one before."""
    for g in range(offsets.size - 1):
        begin, stop = boundary_offsets[g], boundary_offsets[g + 1]
        at = begin
        for i in range(offsets[g], offsets[g + 1]):
            low = own_lows[order[i]]
            while at < stop and boundaries[at] < low:
                at += 1
            firsts[order[i]] = at - begin
            inside[order[i]] = at == stop or boundaries[at] != low


@kernel
def _reach_highs(
    own_highs: Int64s, order: Int32s, offsets: Int64s, boundaries: Int64s, boundary_offsets: Int64s,
    stops: Int32s, inside: Bools,
) -> None:  # fmt: skip
    """The block up to which each member may cover, and whether it ends inside that one."""
    for g in range(offsets.size - 1):
        begin, stop = boundary_offsets[g], boundary_offsets[g + 1]
        at = begin
        for i in range(offsets[g], offsets[g + 1]):
            high = own_highs[order[i]]
            while at < stop and boundaries[at] <= high:
                at += 1
            whole = high == FAR or (at < stop and boundaries[at] == high + 1)
            stops[order[i]] = at - begin - 1 + whole
            inside[order[i]] = not whole


@inlined
def _nodes_of(first: int, stop: int, n_blocks: int, bits: int, out: Int64s) -> int:
    """The highest nodes that cover the blocks `first` to `stop`, each once; how many."""
    count, base, level, mask = 0, 0, n_blocks, (1 << bits) - 1
    # Beyond the last block is nothing, so who covers the last one covers all that follow.
    to_the_end = stop == n_blocks
    while first < stop:
        if level == 1:
            out[count] = base
            return count + 1
        while first < stop and first & mask:
            out[count] = base + first
            count += 1
            first += 1
        while first < stop and stop & mask and not to_the_end:
            stop -= 1
            out[count] = base + stop
            count += 1
        base += level
        level = (level + mask) >> bits
        first = (first + mask) >> bits
        stop = level if to_the_end else stop >> bits
    return count


@kernel
def ancestors_of(tree: Rectangles, group: int, block: int, out: Int64s) -> int:
    """The nodes above a block whose lists are not empty, from the block up; how many."""
    bits = tree.fanout_bits
    level = tree.boundary_offsets[group + 1] - tree.boundary_offsets[group]
    base, count = tree.node_bases[group], 0
    while True:
        node = base + block
        if tree.node_offsets[node + 1] > tree.node_offsets[node]:
            out[count] = node
            count += 1
        if level == 1:
            return count
        base += level
        level = (level + (1 << bits) - 1) >> bits
        block >>= bits


@kernel
def _size_lists(tree: Rectangles, reaches: Int32s, inside: Bools) -> None:
    """Fill in `node_offsets`, `ragged_offsets` and `turn_offsets`."""
    nodes = np.empty(MOST_NODES, np.int64)
    for g in range(tree.points.size):
        n_blocks = tree.boundary_offsets[g + 1] - tree.boundary_offsets[g]
        node_base, block_base = tree.node_bases[g] + 1, tree.boundary_offsets[g] + 1
        for i in range(tree.offsets[g], tree.offsets[g + 1]):
            first, stop = reaches[0, i], reaches[1, i]
            for k in range(_nodes_of(first, stop, n_blocks, tree.fanout_bits, nodes)):
                tree.node_offsets[node_base + nodes[k]] += 1
            if inside[0, i]:
                tree.ragged_offsets[block_base + first - 1] += 1
            if inside[1, i]:
                tree.ragged_offsets[block_base + stop] += not (inside[0, i] and first - 1 == stop)
                tree.turn_offsets[block_base + stop] += 1
    for node in range(tree.node_offsets.size - 1):
        tree.node_offsets[node + 1] += tree.node_offsets[node]
    for block in range(tree.ragged_offsets.size - 1):
        # Every range begins to be held, and some end.
        tree.turn_offsets[block + 1] += tree.turn_offsets[block] + tree.ragged_offsets[block + 1]
        tree.ragged_offsets[block + 1] += tree.ragged_offsets[block]


@kernel
def _list_by_low(tree: Rectangles, reaches: Int32s) -> None:
    """Fill in `node_lows`."""
    nodes, following = np.empty(MOST_NODES, np.int64), tree.node_offsets.copy()
    for g in range(tree.points.size):
        n_blocks = tree.boundary_offsets[g + 1] - tree.boundary_offsets[g]
        for i in range(tree.offsets[g], tree.offsets[g + 1]):
            first, stop = reaches[0, i], reaches[1, i]
            for k in range(_nodes_of(first, stop, n_blocks, tree.fanout_bits, nodes)):
                node = tree.node_bases[g] + nodes[k]
                tree.node_lows[following[node]] = i - tree.offsets[g]
                following[node] += 1


@kernel
def _list_by_high(tree: Rectangles, reaches: Int32s) -> None:
    """Fill in `node_highs`."""
    nodes, following = np.empty(MOST_NODES, np.int64), tree.node_offsets.copy()
    for g in range(tree.points.size):
        n_blocks = tree.boundary_offsets[g + 1] - tree.boundary_offsets[g]
        begin = tree.offsets[g]
        for h in range(begin, tree.offsets[g + 1]):
            i = begin + tree.high_to_low[h]
            first, stop = reaches[0, i], reaches[1, i]
            for k in range(_nodes_of(first, stop, n_blocks, tree.fanout_bits, nodes)):
                node = tree.node_bases[g] + nodes[k]
                tree.node_highs[following[node]] = h - begin
                following[node] += 1


@kernel
def _list_ragged(tree: Rectangles, reaches: Int32s, inside: Bools) -> Int32s:
    """Fill in what is ragged, in each block by rank in the low order.

    Returns where each member is ragged, [0] with its low end and [1] with its high end, or -1.
    """
    following = tree.ragged_offsets.copy()
    places = np.full((2, tree.low_to_high.size), -1, np.int32)
    for g in range(tree.points.size):
        block_base = tree.boundary_offsets[g]
        for i in range(tree.offsets[g], tree.offsets[g + 1]):
            first, stop = reaches[0, i] - 1, reaches[1, i]
            for end in range(2):
                if not inside[end, i]:
                    continue
                if end == 1 and inside[0, i] and first == stop:
                    places[1, i] = places[0, i]
                    continue
                block = block_base + (first if end == 0 else stop)
                at = following[block]
                following[block] += 1
                tree.ragged_ranks[0, at] = i - tree.offsets[g]
                tree.ragged_ranks[1, at] = tree.low_to_high[i]
                places[end, i] = at
    return places


@kernel
def _list_turns(
    tree: Rectangles, reaches: Int32s, ragged_at: Int32s, own_lows: Int64s, own_highs: Int64s,
    by_own_low: Int32s, by_own_high: Int32s,
) -> None:  # fmt: skip
    """Fill in the turns: all ends by ascending value, each where its member is ragged."""
    following = tree.turn_offsets.copy()
    for g in range(tree.points.size):
        block_base = tree.boundary_offsets[g]
        i, j, end = tree.offsets[g], tree.offsets[g], tree.offsets[g + 1]
        while j < end:
            if i < end and own_lows[by_own_low[i]] <= own_highs[by_own_high[j]]:
                member = by_own_low[i]
                i += 1
                low_at, high_at = ragged_at[0, member], ragged_at[1, member]
                if low_at >= 0:
                    block = block_base + reaches[0, member] - 1
                    _turn(tree, following, block, own_lows[member], low_at)
                if high_at >= 0 and high_at != low_at:
                    block = block_base + reaches[1, member]
                    _turn(tree, following, block, own_lows[member], high_at)
            else:
                member = by_own_high[j]
                j += 1
                high_at = ragged_at[1, member]
                if high_at >= 0:
                    block = block_base + reaches[1, member]
                    _turn(tree, following, block, own_highs[member] + 1, ~high_at)


@inlined
def _turn(tree: Rectangles, following: Int64s, block: int, key: int, member: int) -> None:
    """One more turn of a block."""
    at = following[block]
    following[block] += 1
    tree.turn_keys[at], tree.turn_members[at] = key, member
