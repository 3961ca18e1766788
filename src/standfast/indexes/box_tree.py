"""Box tree: boxes split by whatever end of whatever attribute parts them best.

    low of y < 3 ?            the node's children differ in y: the left one reaches from 0 to 9,
      /        \\              the right one from 3 to 7; a value goes to the children whose reach
   0 <= y <= 9   3 <= y <= 7   holds it, maybe to both
     / \\          high of x < 8 ?
    leaf ...       / \\        a leaf holds up to `leaf` boxes, compared one by one

A split is one of the 2d ends (each low and each high) and a threshold, see `box_splits`. Splitting
by a low or a high also parts wide boxes from narrow ones, so a few wide boxes spoil one branch and
not every leaf.

Invariant  a node's boxes are those of its two children; its reach on the attribute of its parent
           is exactly theirs; leaves hold 1 to `leaf` boxes each and cover all places once.
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
from standfast.arrays import Int32s, Int64s
from standfast.indexes.box_splits import evened, split
from standfast.indexes.growing import longer

STACK = 128  # more than any branch is deep
FEW = 12  # events for which a list is not worth the bookkeeping


class Nodes(NamedTuple):
    """The tree. The children of node i are `children[i]` and `children[i] + 1`; -1 marks a leaf."""

    children: Int32s
    attributes: Int32s  # on which the children are told apart; in a leaf, bits of those to compare
    reaches: Int64s  # [node, 2]: from where to where on the parent's attribute
    places: Int32s  # [node, 2]: its boxes
    bounds: Int64s  # low, high, low, ... of all boxes together


class BoxTree:
    """Closed boxes, built at once; entries can be buried. `boxes[place]` is low, high, low, ..."""

    def __init__(self, slots: Int64s, lows: Int64s, highs: Int64s, *, leaf: int) -> None:
        by_slot = np.argsort(slots, kind="stable")
        self.slots = slots[by_slot].astype(np.int32)
        self.n_live = slots.size
        self._leaf = leaf
        boxes = np.empty((slots.size, 2 * lows.shape[0]), np.int64)
        boxes[:, 0::2], boxes[:, 1::2] = lows[:, by_slot].T, highs[:, by_slot].T
        entries = np.arange(slots.size, dtype=np.int32)
        self.nodes = Nodes(*split(evened(boxes), entries, leaf), np.empty(boxes.shape[1], np.int64))
        self.boxes = np.take(boxes, entries, axis=0)
        _bound(self.nodes, self.boxes)
        self.order = self.slots[entries]
        self._places = np.empty(slots.size, np.int32)
        self._places[entries] = np.arange(slots.size, dtype=np.int32)
        self._hits_per_event = 16.0

    def probe(self, values: Int64s) -> tuple[Int32s, Int32s]:
        """Every pair of an event, `values[:, e]`, and a slot whose box holds it."""
        n_events = values.shape[1]
        room = int(n_events * self._hits_per_event * 1.2) + 1024
        events, slots = _probe(self.nodes, self.boxes, self.order, values, room)
        self._hits_per_event = slots.size / max(1, n_events)
        return events, slots

    def bury(self, entries: Int64s) -> None:
        """Mark entries as removed; no answer holds the order."""
        places = self._places[entries]
        assert np.all(self.order[places] >= 0), "a box was removed twice"
        self.order[places] = -1
        self.n_live -= entries.size

    def live(self) -> tuple[Int64s, Int64s, Int64s]:
        """Slots, lows and highs of the entries that are not buried."""
        kept = self.order[self._places] >= 0
        boxes = self.boxes[self._places[kept]].T
        return self.slots[kept].astype(np.int64), boxes[0::2], boxes[1::2]

    def check(self) -> None:
        """Assert the invariant."""
        children, attributes, reaches, places, bounds = self.nodes
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
        kept = self.order[self._places] >= 0
        assert np.count_nonzero(kept) == self.n_live, "burials are miscounted"
        assert np.array_equal(self.order[self._places][kept], self.slots[kept]), "wrong place"

    def memory_bytes(self) -> int:
        held = [*self.nodes, self.boxes, self.order, self.slots, self._places]
        return sum(array.nbytes for array in held)


@kernel
def _bound(nodes: Nodes, boxes: Int64s) -> None:
    """Set every reach and the bounds of all: leaves first, then upwards, as children come later."""
    n_nodes, n_ends = nodes.children.size, boxes.shape[1]
    bounds = np.empty((n_nodes, n_ends), np.int64)
    for node in range(n_nodes - 1, -1, -1):
        left = nodes.children[node]
        if left < 0:
            _enclose(boxes, nodes.places[node, 0], nodes.places[node, 1], bounds, node)
        else:
            _enclose(bounds, left, left + 2, bounds, node)
            for child in range(left, left + 2):
                for side in range(2):
                    nodes.reaches[child, side] = bounds[child, 2 * nodes.attributes[node] + side]
    for end in range(n_ends):
        nodes.bounds[end] = bounds[0, end]
    nodes.reaches[0, 0], nodes.reaches[0, 1] = bounds[0, 0], bounds[0, 1]
    for node in range(n_nodes):
        if nodes.children[node] < 0:
            nodes.attributes[node] = 0
            for place in range(nodes.places[node, 0], nodes.places[node, 1]):
                for end in range(n_ends):
                    if boxes[place, end] != nodes.bounds[end]:
                        nodes.attributes[node] |= 1 << (end // 2)


@kernel
def _enclose(boxes: Int64s, begin: int, stop: int, bounds: Int64s, node: int) -> None:
    """Set the bounds of a node to those of the boxes from `begin` to `stop`."""
    for end in range(0, boxes.shape[1], 2):
        low, high = boxes[begin, end], boxes[begin, end + 1]
        for i in range(begin + 1, stop):
            low, high = min(low, boxes[i, end]), max(high, boxes[i, end + 1])
        bounds[node, end], bounds[node, end + 1] = low, high


@kernel
def _probe(
    nodes: Nodes, boxes: Int64s, order: Int32s, values: Int64s, room: int
) -> tuple[Int32s, Int32s]:
    """All pairs (event, slot); `room` is a guess of how many there are.

    Node by node, each with the list of events that enter it. The lists lie in one array like
    plates on a stack: the right child's replaces its parent's, the left child's comes on top.
    """
    n_attributes, n_events = values.shape
    listed = np.empty(4 * n_events + 64, np.int32)
    for event in range(n_events):
        listed[event] = event
    n_listed = _held(nodes.bounds, (1 << n_attributes) - 1, listed[:n_events], values, listed)
    stack = np.empty((STACK, 3), np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2], height = 0, 0, n_listed, min(1, n_listed)
    hit_events, hit_slots, used = np.empty(room, np.int32), np.empty(room, np.int32), 0
    while height:
        height -= 1
        node, begin, end = stack[height, 0], stack[height, 1], stack[height, 2]
        left = nodes.children[node]
        if left < 0:
            first, last = nodes.places[node, 0], nodes.places[node, 1]
            most = used + (last - first) * (end - begin)
            if most > hit_slots.size:
                hit_events, hit_slots = longer(hit_events, most), longer(hit_slots, most)
            wanted = nodes.attributes[node]
            for place in range(first, last):
                if order[place] < 0:
                    continue
                if end - begin > FEW:
                    n_hit = _held(
                        boxes[place], wanted, listed[begin:end], values, hit_events[used:]
                    )
                    for k in range(used, used + n_hit):
                        hit_slots[k] = order[place]
                    used += n_hit
                    continue
                for k in range(begin, end):
                    hit_events[used], hit_slots[used] = listed[k], order[place]
                    used += _holds(boxes, place, wanted, values, listed[k])
            continue
        if 2 * end - begin > listed.size:
            listed = longer(listed, 2 * end)
        column = values[nodes.attributes[node]]
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
        if middle > begin:
            stack[height, 0], stack[height, 1], stack[height, 2] = left + 1, begin, middle
            height += 1
        if top > end:
            stack[height, 0], stack[height, 1] = left, middle
            stack[height, 2] = middle + top - end
            height += 1
    return hit_events[:used], hit_slots[:used]


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
