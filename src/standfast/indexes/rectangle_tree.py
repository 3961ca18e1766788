"""Rectangle tree: in which stabbing groups of other ranges do which own ranges hold a value?

    own axis      |  block 0  |  block 1  |  block 2  |  block 3  |   cut at about every 16th end
    level 0       |           |     a     |           |           |   nodes that cover a block,
    level 1       |                       |           b           |   here with fanout 2
    ragged        |    a c    |           |    a      |    c      |   ends inside the block
                      [--------- a -----------]

A query is a rectangle: its *own* range holds the event's value, its *other* range must hold a
stored row. The other ranges are cut into the fewest stabbing groups. Only the rows next to a
group's point matter: a member is hit iff its other low is at most the row to the left or its other
high at least the row to the right, so by its rank in the low order or in the high order of the
group. Inside a group the own ranges are in a segment tree: blocks of the own axis are the leaves,
and a member stands in the list of each node that it covers while it does not cover the parent.
Each list is kept twice, as ascending ranks in the low order and as ascending ranks in the high
order. A value's answer is then, for each ancestor of its block, a prefix of the one and a suffix
of the other. The few members that end inside the block are held from one of its *turns* to another,
which events that ascend pass one after the other.

Invariant  groups are the greedy partition of the other ranges; boundaries of a group ascend
           strictly, and fewer than `block` ends lie inside a block, more only in a group that
           would have more than MOST_BLOCKS; every member covers the blocks of its nodes, each
           block once, and is ragged in those that it meets and does not cover; the turns of a block
           ascend, one where each of them begins and one where it ends in it; both lists of a node
           ascend and hold the same members.
Cost       build O(n log n); a member stands in at most 2 (fanout - 1) log(n) nodes, 8 bytes each,
           and in at most two blocks, 8 bytes each and 12 a turn.
Paper      [hotspot] 3.2.2 has an R-tree in each group; lists answer with slices (decision 008).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from standfast._numba import kernel
from standfast.arrays import Bools, Int32s, Int64s
from standfast.indexes.keys import FAR
from standfast.indexes.rectangle_layout import STRIDE, Ends, Rectangles, ancestors_of, laid_out
from standfast.indexes.rectangle_sweep import OwnAxis, OwnEnds

BLOCK = 16  # ends in a block; the figures of decision 008 chose all three
FANOUT_BITS = 2
LONG = 16  # a slice of at least this many members stays a slice


class Roll:
    """The slots of a tree by place in its low order, -1 for who is gone; made lists of them.

    Answers hold on to a roll, so it never changes: burying makes another. A list is kept once it is
    whole, because answers may be read on several threads.
    """

    def __init__(self, slots: Int32s, *, any_buried: bool) -> None:
        self.slots = slots
        self.any_buried = any_buried
        self._low_slots: Int32s | None = None
        self._high_slots: tuple[Int32s, Int32s] | None = None
        self._live_before: Int32s | None = None
        self._ragged_slots: Int32s | None = None
        self._own_ends: tuple[OwnEnds, OwnEnds] | None = None

    def low_slots(self, tree: Rectangles) -> Int32s:
        """The slots of `node_lows`."""
        if self._low_slots is None:
            slots = np.empty(tree.node_lows.size, np.int32)
            _name(tree, tree.node_lows, self.slots, slots)
            self._low_slots = slots
        return self._low_slots

    def high_slots(self, tree: Rectangles) -> tuple[Int32s, Int32s]:
        """The slots of `node_highs` and their ranks in the low order."""
        if self._high_slots is None:
            ranks = np.empty(tree.node_highs.size, np.int32)
            _name(tree, tree.node_highs, tree.high_to_low, ranks)
            slots = np.empty(ranks.size, np.int32)
            _name(tree, ranks, self.slots, slots)
            self._high_slots = slots, ranks
        return self._high_slots

    def ragged_slots(self, tree: Rectangles) -> Int32s:
        """The slots of what is ragged."""
        if self._ragged_slots is None:
            slots = np.empty(tree.ragged_offsets[-1], np.int32)
            _name_ragged(tree, self.slots, slots)
            self._ragged_slots = slots
        return self._ragged_slots

    def live_before(self, tree: Rectangles) -> Int32s:
        """How many of `node_lows` before each place live."""
        if self._live_before is None:
            live_before = np.zeros(tree.node_lows.size + 1, np.int32)
            np.cumsum(self.low_slots(tree) >= 0, out=live_before[1:])
            self._live_before = live_before
        return self._live_before

    def own_ends(self, tree: Rectangles, axis: OwnAxis) -> tuple[OwnEnds, OwnEnds]:
        """The ends of all own ranges, those of members that are gone in a group of their own."""
        if not self.any_buried:
            return axis.ends(tree)
        if self._own_ends is None:
            low, high = (self._without_gone(tree, ends) for ends in axis.ends(tree))
            self._own_ends = low, high
        return self._own_ends

    def _without_gone(self, tree: Rectangles, ends: OwnEnds) -> OwnEnds:
        is_gone = self.slots[tree.offsets[ends.groups] + ends.lows] < 0
        nobodys = np.int32(tree.points.size)
        return ends._replace(groups=np.where(is_gone, nobodys, ends.groups))

    def check(self, tree: Rectangles, axis: OwnAxis) -> None:
        """Assert that the ends, where somebody asked for them, leave out who is gone."""
        assert self.any_buried or np.all(self.slots >= 0), "somebody is gone and nobody was buried"
        if self._own_ends is None:
            return
        for ends, of_all in zip(self._own_ends, axis.ends(tree), strict=True):
            is_gone = self.slots[tree.offsets[of_all.groups] + of_all.lows] < 0
            assert np.all(ends.groups[is_gone] == tree.points.size), "who is gone can be hit"
            assert np.array_equal(ends.groups[~is_gone], of_all.groups[~is_gone]), "a wrong group"

    def without(self, places: Int32s) -> Roll:
        """A roll on which the slots at these places are gone."""
        slots = self.slots.copy()
        assert np.all(slots[places] >= 0), "a slot was removed twice"
        slots[places] = -1
        return Roll(slots, any_buried=True)

    def memory_bytes(self) -> int:
        made = [self.slots, *(self._high_slots or ())]
        maybe = [self._low_slots, self._live_before, self._ragged_slots]
        maybe += [ends.groups for ends in self._own_ends or ()]  # the rest is the axis's
        made += [array for array in maybe if array is not None]
        return sum(array.nbytes for array in made)


class Standing(NamedTuple):
    """A tree as it stands now, for answers to hold on to."""

    rectangles: Rectangles
    ends: Ends
    axis: OwnAxis
    roll: Roll


class RectangleTree:
    """Rectangles, built at once; entries can be buried."""

    def __init__(
        self, slots: Int64s, lows: Int64s, highs: Int64s, *,
        block: int = BLOCK, fanout_bits: int = FANOUT_BITS, long: int = LONG,
    ) -> None:  # fmt: skip
        """Attribute 0 of `lows` and `highs` is the own range, attribute 1 the other."""
        assert block >= 1, f"a block of {block} ends"
        assert 1 <= fanout_bits <= 6, f"a fanout of 2^{fanout_bits}"
        if np.any(slots[1:] < slots[:-1]):
            by_slot = np.argsort(slots)
            slots, lows, highs = slots[by_slot], lows[:, by_slot], highs[:, by_slot]
        self.slots = slots.astype(np.int32)
        self.n_live = slots.size
        by_low = np.argsort(lows[1], kind="stable").astype(np.int32)
        self.axis = OwnAxis(lows[0][by_low], highs[0][by_low])
        self._places = np.empty(slots.size, np.int32)  # by entry
        self._places[by_low] = np.arange(slots.size, dtype=np.int32)
        self.rectangles, self.ends = laid_out(
            self.axis.lows, self.axis.highs, lows[1][by_low], highs[1][by_low],
            block=block, fanout_bits=fanout_bits, long=long,
        )  # fmt: skip
        self.roll = Roll(self.slots[by_low], any_buried=False)

    @property
    def n_groups(self) -> int:
        """How many stabbing groups the other ranges are in."""
        return int(self.rectangles.points.size)

    def standing(self) -> Standing:
        """The tree as it stands now; published."""
        return Standing(self.rectangles, self.ends, self.axis, self.roll)

    def group_sizes(self) -> Int64s:
        """How many entries each group was built of."""
        return np.diff(self.rectangles.offsets)

    def are_live(self, entries: Int64s) -> Bools:
        """Which entries are not buried."""
        live: Bools = self.roll.slots[self._places[entries]] >= 0
        return live

    def bury(self, entries: Int64s) -> None:
        """Take entries out of later answers."""
        if entries.size:
            self.roll = self.roll.without(self._places[entries])
            self.n_live -= entries.size

    def live(self) -> tuple[Int64s, Int64s, Int64s]:
        """Slots, lows and highs of the entries that are not buried."""
        tree = self.rectangles
        kept = self._places[self.roll.slots[self._places] >= 0]
        group_of = np.repeat(np.arange(tree.points.size), np.diff(tree.offsets))
        high_places = tree.offsets[group_of] + tree.low_to_high
        return (
            self.roll.slots[kept].astype(np.int64),
            np.array([self.axis.lows[kept], self.ends.lows.keys[kept]]),
            np.array([self.axis.highs[kept], self.ends.highs.keys[high_places[kept]]]),
        )

    def memory_bytes(self) -> int:
        tree = self.rectangles
        arrays = [a for a in tree if isinstance(a, np.ndarray)]
        arrays += [a for posts in self.ends for a in posts]
        arrays += [self.slots, self._places]
        beside = self.axis.memory_bytes() + self.roll.memory_bytes()
        # The signposts share the offsets of the groups.
        return sum(a.nbytes for a in arrays) - 2 * tree.offsets.nbytes + beside

    def check(self) -> None:
        """Assert the invariant."""
        tree, n = self.rectangles, self.slots.size
        assert np.array_equal(np.sort(self._places), np.arange(n)), "places must be distinct"
        named = self.roll.slots[self._places]
        assert np.array_equal(named[named >= 0], self.slots[named >= 0]), "a slot is misplaced"
        assert np.count_nonzero(named >= 0) == self.n_live, "burials are miscounted"
        for cell, least in enumerate(tree.least_highs):
            strided = tree.low_to_high[STRIDE * cell : STRIDE * (cell + 1)]
            assert least == strided.min(), "the least high rank of a cell is wrong"
        assert np.array_equal(tree.walk_keys, np.sort(tree.boundaries)), "the walk must ascend"
        assert np.array_equal(np.sort(tree.walk_blocks), np.arange(tree.boundaries.size))
        assert np.array_equal(tree.walk_keys, tree.boundaries[tree.walk_blocks]), "a wrong block"
        for g in range(tree.points.size):
            begin, end = tree.offsets[g : g + 2]
            lows, highs = self.ends.lows.keys[begin:end], self.ends.highs.keys[begin:end]
            ranks = np.arange(end - begin)
            assert np.all(lows[1:] >= lows[:-1]), "other lows must ascend"
            assert np.all(highs[1:] >= highs[:-1]), "other highs must ascend"
            assert lows[-1] <= tree.points[g] == highs[0], "a member must hold its group's point"
            assert g == 0 or lows[0] > tree.points[g - 1], "a group could take in its neighbour"
            to_high, to_low = tree.low_to_high[begin:end], tree.high_to_low[begin:end]
            assert np.array_equal(to_low[to_high], ranks), "ranks must lead back"
            self._check_group(g)
        self.axis.check(tree)
        self.roll.check(tree, self.axis)

    def _check_group(self, g: int) -> None:
        """Every member covers the blocks of its nodes and is ragged where it should be."""
        tree = self.rectangles
        begin, end = tree.offsets[g : g + 2]
        boundaries = tree.boundaries[tree.boundary_offsets[g] : tree.boundary_offsets[g + 1]]
        assert np.all(boundaries[1:] > boundaries[:-1]), "boundaries must ascend"
        n_blocks, ancestors = boundaries.size, np.empty(64, np.int64)
        numbers = tree.block_numbers[tree.boundary_offsets[g] : tree.boundary_offsets[g + 1]]
        assert np.array_equal(numbers, np.arange(n_blocks)), "blocks are misnumbered"
        own_lows, own_highs = self.axis.lows[begin:end], self.axis.highs[begin:end]
        assert own_lows.min() == boundaries[0], "blocks begin at the first own low"
        for block in range(n_blocks):
            low = boundaries[block]
            high = boundaries[block + 1] - 1 if block + 1 < n_blocks else FAR
            meets = (own_lows <= high) & (own_highs >= low)
            covers = meets & (own_lows <= low) & (own_highs >= high)
            listed: list[int] = []
            for node in ancestors[: ancestors_of(tree, g, block, ancestors)]:
                part = slice(*tree.node_offsets[node : node + 2])
                ranks, high_ranks = tree.node_lows[part], tree.node_highs[part]
                assert np.all(np.diff(ranks) > 0), "the low list of a node must ascend"
                assert np.all(np.diff(high_ranks) > 0), "the high list of a node must ascend"
                led = tree.high_to_low[begin + high_ranks]
                assert np.array_equal(np.sort(led), ranks), "the lists of a node differ"
                listed += ranks.tolist()
            assert sorted(listed) == np.flatnonzero(covers).tolist(), "a block is covered wrongly"
            number = int(tree.boundary_offsets[g]) + block
            part = slice(*tree.ragged_offsets[number : number + 2])
            ranks = tree.ragged_ranks[0, part]
            assert np.array_equal(ranks, np.flatnonzero(meets & ~covers)), "ragged members differ"
            assert np.array_equal(tree.ragged_ranks[1, part], tree.low_to_high[begin + ranks])
            assert ranks.size <= tree.most_ragged, "more are ragged than there is room for"
            begun = [(key, part.start + i) for i, key in enumerate(own_lows[ranks])]
            ended = [(k + 1, ~(part.start + i)) for i, k in enumerate(own_highs[ranks]) if k < high]
            turns = slice(*tree.turn_offsets[number : number + 2])
            keys, members = tree.turn_keys[turns], tree.turn_members[turns]
            assert np.all(keys[1:] >= keys[:-1]), "turns must ascend"
            listed_turns = sorted(zip(keys.tolist(), members.tolist(), strict=True))
            assert listed_turns == sorted(begun + ended), "turns differ from the ends"


@kernel
def _name(tree: Rectangles, ranks: Int32s, names: Int32s, out: Int32s) -> None:
    """The name, by place in its group, of each rank in a list of the nodes."""
    for g in range(tree.points.size):
        first, last = tree.node_bases[g], tree.node_bases[g + 1]
        for i in range(tree.node_offsets[first], tree.node_offsets[last]):
            out[i] = names[tree.offsets[g] + ranks[i]]


@kernel
def _name_ragged(tree: Rectangles, slots: Int32s, out: Int32s) -> None:
    """The slot of each ragged member."""
    for g in range(tree.points.size):
        first, last = tree.boundary_offsets[g], tree.boundary_offsets[g + 1]
        for i in range(tree.ragged_offsets[first], tree.ragged_offsets[last]):
            out[i] = slots[tree.offsets[g] + tree.ragged_ranks[0, i]]
