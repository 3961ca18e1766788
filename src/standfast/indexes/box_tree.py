"""Box tree: boxes split by whatever end of whatever attribute parts them best.

    low of y < 3 ?            the node's children differ in y: the left one reaches from 0 to 9,
      /        \\              the right one from 3 to 7; a value goes to the children whose reach
   0 <= y <= 9   3 <= y <= 7   holds it, maybe to both
     / \\          high of x < 8 ?
    leaf ...       / \\        a leaf holds up to `leaf` boxes, compared one by one

A split is one of the 2d ends (each low and each high) and a threshold, see `box_splits`. Splitting
by a low or a high also parts wide boxes from narrow ones, so a few wide boxes spoil one branch and
not every leaf. A large node whose boxes have a core in common answers an event in the core as one
slice, without looking further.

Invariant  a node's boxes are those of its two children; its reach on the attribute of its parent
           is exactly theirs; leaves hold 1 to `leaf` boxes each and cover all places once; the
           core of a node of at least LONG boxes is their intersection, if there is one.
Cost       build O(d s + log n) a box, s samples a node; 16 d + 20 bytes a box; probes are
           measured (decision 006): nodes visited follow the answer, at worst as in a k-d tree of
           2d-dimensional points, O(n^(1 - 1/2d) + k).
Source     bounding interval hierarchies (Waechter and Keller 2006) with the greedy top-down split
           of packed R-trees (Garcia, Lopez and Leutenegger 1998).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from standfast._numba import kernel
from standfast.arrays import Bools, Int32s, Int64s
from standfast.indexes.box_splits import evened, split
from standfast.indexes.growing import longer
from standfast.indexes.slot_order import SlotOrder

LONG = 64  # a node of at least this many boxes may be answered as one slice
STACK = 128  # more than any branch is deep
MOST_ROOM = 1 << 24  # pairs to allocate on the word of the last batch
FEW = 12  # events for which a list is not worth the bookkeeping


class Nodes(NamedTuple):
    """The tree. The children of node i are `children[i]` and `children[i] + 1`; -1 marks a leaf.

    Boxes, bounds and cores are written low, high, low, high, ... attribute by attribute.
    """

    children: Int32s
    attributes: Int32s  # on which the children are told apart; in a leaf, bits of those to compare
    reaches: Int64s  # [node, 2]: from where to where on the parent's attribute
    places: Int32s  # [node, 2]: its boxes
    bounds: Int64s  # of all boxes together
    core_rows: Int32s  # the row of `cores` for each node, -1 for none
    cores: Int64s


class Pairs(NamedTuple):
    """What events hit, in no order: single slots, and nodes all of whose boxes hold the event."""

    events: Int32s
    slots: Int32s
    long_events: Int32s
    long_nodes: Int32s


class BoxTree:
    """Closed boxes, built at once; entries can be buried."""

    def __init__(
        self, slots: Int64s, lows: Int64s, highs: Int64s, *, leaf: int, long: int = LONG
    ) -> None:
        by_slot = np.argsort(slots, kind="stable")
        self.slots = slots[by_slot].astype(np.int32)
        self.n_live = slots.size
        self._leaf, self._long = leaf, long
        boxes = np.empty((slots.size, 2 * lows.shape[0]), np.int64)
        boxes[:, 0::2], boxes[:, 1::2] = lows[:, by_slot].T, highs[:, by_slot].T
        entries = np.arange(slots.size, dtype=np.int32)
        children, attributes, places = split(evened(boxes), entries, leaf)
        self.boxes = np.take(boxes, entries, axis=0)
        reaches, bounds, inners = _bound(children, attributes, places, self.boxes)
        shared = np.all(inners[:, 0::2] <= inners[:, 1::2], axis=1)
        shared &= places[:, 1] - places[:, 0] >= long
        core_rows = np.where(shared, np.cumsum(shared) - 1, -1).astype(np.int32)
        self.nodes = Nodes(children, attributes, reaches, places, bounds, core_rows, inners[shared])
        self.order = SlotOrder(self.slots[entries])
        self._places = np.empty(slots.size, np.int32)
        self._places[entries] = np.arange(slots.size, dtype=np.int32)
        self._hits_per_event = 16.0

    def probe(self, values: Int64s) -> Pairs:
        """Every event, `values[:, e]`, with the slots whose boxes hold it."""
        n_events = values.shape[1]
        room = min(int(n_events * self._hits_per_event * 1.2) + 1024, MOST_ROOM)
        pairs = Pairs(*_probe(self.nodes, self.boxes, self.order.slots, values, room))
        self._hits_per_event = pairs.slots.size / max(1, n_events)
        return pairs

    def are_live(self, entries: Int64s) -> Bools:
        """Which entries are not buried."""
        live: Bools = self.order.slots[self._places[entries]] >= 0
        return live

    def bury(self, entries: Int64s) -> None:
        """Take entries out of later answers."""
        self.order.bury(self._places[entries])
        self.n_live -= entries.size

    def live(self) -> tuple[Int64s, Int64s, Int64s]:
        """Slots, lows and highs of the entries that are not buried."""
        kept = self.order.slots[self._places] >= 0
        boxes = self.boxes[self._places[kept]].T
        return self.slots[kept].astype(np.int64), boxes[0::2], boxes[1::2]

    def check(self) -> None:
        """Assert the invariant."""
        children, attributes, reaches, places, bounds, core_rows, cores = self.nodes
        leaves = np.flatnonzero(children < 0)
        spans = places[leaves][np.argsort(places[leaves, 0])]
        assert spans[0, 0] == 0, "leaves must cover all places"
        assert spans[-1, 1] == self.slots.size, "leaves must cover all places"
        assert np.array_equal(spans[1:, 0], spans[:-1, 1]), "leaves must cover all places once"
        sizes = spans[:, 1] - spans[:, 0]
        assert sizes.min() >= 1, "a leaf is empty"
        assert sizes.max() <= self._leaf, "a leaf is too large"
        for node in np.flatnonzero(children >= 0):
            left, right = children[node], children[node] + 1
            inside = [places[left, 0], places[right, 1], places[left, 1] == places[right, 0]]
            assert inside == [*places[node], True], "children must share out their parent's boxes"
            for child in (left, right):
                boxes = self.boxes[places[child, 0] : places[child, 1]]
                low, high = boxes[:, 2 * attributes[node]], boxes[:, 2 * attributes[node] + 1]
                assert list(reaches[child]) == [low.min(), high.max()], "a reach is not exact"
        for leaf in leaves:
            differs = self.boxes[places[leaf, 0] : places[leaf, 1]] != bounds
            wanted = differs.any(axis=0).reshape(-1, 2).any(axis=1)
            assert attributes[leaf] == (wanted << np.arange(wanted.size)).sum(), "wrong bits"
        for node in np.arange(children.size):
            boxes = self.boxes[places[node, 0] : places[node, 1]]
            core = np.array([boxes[:, 0::2].max(axis=0), boxes[:, 1::2].min(axis=0)])
            has_core = boxes.shape[0] >= self._long and bool(np.all(core[0] <= core[1]))
            assert has_core == (core_rows[node] >= 0), "a core is missing or made up"
            assert not has_core or np.array_equal(cores[core_rows[node]], core.T.ravel()), (
                "a core is not the intersection"
            )
        order = self.order.slots[self._places]
        assert np.count_nonzero(order >= 0) == self.n_live, "burials are miscounted"
        assert np.array_equal(order, np.where(order >= 0, self.slots, -1)), "wrong place"

    def memory_bytes(self) -> int:
        nodes = sum(array.nbytes for array in self.nodes)
        entries = self.boxes.nbytes + self.slots.nbytes + self._places.nbytes
        return nodes + entries + self.order.memory_bytes()


@kernel
def _bound(
    children: Int32s, attributes: Int32s, places: Int32s, boxes: Int64s
) -> tuple[Int64s, Int64s, Int64s]:
    """The reaches, the bounds of all boxes, and of each node the intersection of its boxes.

    Leaves first, then upwards, as children come after their parents. Also sets the bits of a
    leaf: the attributes on which some box is narrower than the bounds of all.
    """
    n_nodes, n_ends = children.size, boxes.shape[1]
    bounds, inners = np.empty((n_nodes, n_ends), np.int64), np.empty((n_nodes, n_ends), np.int64)
    reaches = np.empty((n_nodes, 2), np.int64)
    for node in range(n_nodes - 1, -1, -1):
        left = children[node]
        if left < 0:
            _enclose(boxes, boxes, places[node, 0], places[node, 1], bounds[node], inners[node])
        else:
            _enclose(bounds, inners, left, left + 2, bounds[node], inners[node])
            for child in range(left, left + 2):
                for side in range(2):
                    reaches[child, side] = bounds[child, 2 * attributes[node] + side]
    reaches[0, 0], reaches[0, 1] = bounds[0, 0], bounds[0, 1]
    for node in range(n_nodes):
        if children[node] < 0:
            for place in range(places[node, 0], places[node, 1]):
                for end in range(n_ends):
                    if boxes[place, end] != bounds[0, end]:
                        attributes[node] |= 1 << (end // 2)
    return reaches, bounds[0].copy(), inners


@kernel
def _enclose(
    outers: Int64s, inners: Int64s, begin: int, stop: int, outer: Int64s, inner: Int64s
) -> None:
    """The union of the outer boxes and the intersection of the inner ones, `begin` to `stop`."""
    for low in range(0, outer.size, 2):
        high = low + 1
        outer[low], outer[high] = outers[begin, low], outers[begin, high]
        inner[low], inner[high] = inners[begin, low], inners[begin, high]
        for i in range(begin + 1, stop):
            outer[low] = min(outer[low], outers[i, low])
            outer[high] = max(outer[high], outers[i, high])
            inner[low] = max(inner[low], inners[i, low])
            inner[high] = min(inner[high], inners[i, high])


@kernel
def _probe(
    nodes: Nodes, boxes: Int64s, order: Int32s, values: Int64s, room: int
) -> tuple[Int32s, Int32s, Int32s, Int32s]:
    """The fields of `Pairs`; `room` is a guess of how many slots there are.

    Node by node, each with the list of events that enter it. The lists lie in one array like
    plates on a stack: the right child's replaces its parent's, the left child's comes on top.
    """
    n_attributes, n_events = values.shape
    every = (1 << n_attributes) - 1
    listed = np.empty(4 * n_events + 64, np.int32)
    for event in range(n_events):
        listed[event] = event
    end = _held(nodes.bounds, every, listed[:n_events], values, listed)
    stack = np.empty((STACK, 3), np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2], height = 0, 0, end, min(1, end)
    events, slots, used = np.empty(room, np.int32), np.empty(room, np.int32), 0
    long_events, long_nodes, n_long = np.empty(64, np.int32), np.empty(64, np.int32), 0
    while height:
        height -= 1
        node, begin, end = stack[height, 0], stack[height, 1], stack[height, 2]
        if nodes.core_rows[node] >= 0:
            if n_long + end - begin > long_nodes.size:
                long_events = longer(long_events, end - begin)
                long_nodes = longer(long_nodes, end - begin)
            kept = begin
            for k in range(begin, end):
                event = listed[k]
                long_events[n_long], long_nodes[n_long], listed[kept] = event, node, event
                inside = _holds(nodes.cores, nodes.core_rows[node], every, values, event)
                n_long += inside
                kept += not inside
            end = kept
        left = nodes.children[node]
        if left < 0:
            room = (nodes.places[node, 1] - nodes.places[node, 0]) * (end - begin)
            if used + room > slots.size:
                events, slots = longer(events, room), longer(slots, room)
            entering = listed[begin:end]
            used = _compare(nodes, node, boxes, order, values, entering, events, slots, used)
            continue
        if 2 * end - begin > listed.size:
            listed = longer(listed, 2 * end)
        middle, top = _deal(nodes, left, values[nodes.attributes[node]], listed, begin, end)
        if middle > begin:
            stack[height, 0], stack[height, 1], stack[height, 2] = left + 1, begin, middle
            height += 1
        if top > middle:
            stack[height, 0], stack[height, 1], stack[height, 2] = left, middle, top
            height += 1
    return events[:used], slots[:used], long_events[:n_long], long_nodes[:n_long]


@kernel
def _compare(
    nodes: Nodes, leaf: int, boxes: Int64s, order: Int32s, values: Int64s, entering: Int32s,
    events: Int32s, slots: Int32s, used: int,
) -> int:  # fmt: skip
    """Write the events that enter a leaf with the slots that hold them, and how far it is then."""
    wanted = nodes.attributes[leaf]
    for place in range(nodes.places[leaf, 0], nodes.places[leaf, 1]):
        if order[place] >= 0 and entering.size > FEW:
            n_held = _held(boxes[place], wanted, entering, values, events[used:])
            for k in range(used, used + n_held):
                slots[k] = order[place]
            used += n_held
        elif order[place] >= 0:
            for event in entering:
                events[used], slots[used] = event, order[place]
                used += _holds(boxes, place, wanted, values, event)
    return used


@kernel
def _deal(
    nodes: Nodes, left: int, column: Int64s, listed: Int32s, begin: int, end: int
) -> tuple[int, int]:
    """Deal the events of a node to its children: the right one's in place of it, the left one's
    on top of those; where each list ends."""
    top, middle = end, begin
    low, high = nodes.reaches[left, 0], nodes.reaches[left, 1]
    for k in range(begin, end):
        listed[top] = listed[k]
        top += low <= column[listed[k]] <= high
    low, high = nodes.reaches[left + 1, 0], nodes.reaches[left + 1, 1]
    for k in range(begin, end):
        listed[middle] = listed[k]
        middle += low <= column[listed[k]] <= high
    for k in range(top - end):
        listed[middle + k] = listed[end + k]
    return middle, middle + top - end


@kernel
def _held(box: Int64s, wanted: int, events: Int32s, values: Int64s, held: Int32s) -> int:
    """Write the events that the box holds on the wanted attributes; how many they are.

    Attribute by attribute and without branches, since whether a box holds an event is a guess.
    """
    n = events.size
    for k in range(n):
        held[k] = events[k]
    attribute = 0
    while wanted and n:
        if wanted % 2:
            low, high, column = box[2 * attribute], box[2 * attribute + 1], values[attribute]
            kept = 0
            for k in range(n):
                held[kept] = held[k]
                value = column[held[k]]
                kept += (low <= value) & (value <= high)
            n = kept
        wanted >>= 1
        attribute += 1
    return n


@kernel
def _holds(boxes: Int64s, place: int, wanted: int, values: Int64s, event: int) -> bool:
    """Whether one box holds one event on the wanted attributes."""
    attribute = 0
    while wanted:
        if wanted % 2:
            value = values[attribute, event]
            if value < boxes[place, 2 * attribute] or value > boxes[place, 2 * attribute + 1]:
                return False
        wanted >>= 1
        attribute += 1
    return True
