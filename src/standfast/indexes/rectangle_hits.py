"""Located: the answer of a rectangle tree, as it is found: where each event stands in each group.

    events by value      v0 v1 v2 | v3 v4 | v5 ...       visits of group g: which events fall into
    block of group g         2    |   5   |  6           which block of the own axis
    code of the event     a  b  a |  a  c |  b
    group g, code a      low rank < 17  or  high rank >= 12     decided by the rows of that code

Locating costs a walk over blocks or events, whichever are fewer, for each group, and a look-up for
each group and distinct code: neither follows the number of queries. What the places mean is read
off when somebody asks. An event hits, in the nodes above its block, the members whose low rank is
below the code's limit and those whose high rank is not; the former are a prefix of each node's low
list, as long as `rectangle_reach` can make it. Of the rest of the node, whichever is shorter is
looked through: the low list beyond the prefix or the suffix of the high list.

Of join keys with many events nobody reads lists to count: `rectangle_sweep` passes all ends once.

Cost       counts O(tau log^2 n) an event plus that rest, or O(n) a code; fill plus the hits; spans
           O(tau log^2 n) (`rectangle_slices`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from standfast._numba import in_parts, inlined, kernel
from standfast.arrays import Int32s, Int64s, SpanList
from standfast.indexes.keys import FAR, LEAST
from standfast.indexes.rectangle_layout import Rectangles, ancestors_of
from standfast.indexes.rectangle_reach import first_from, rank_if_hit, rest_of, widened
from standfast.indexes.rectangle_slices import sliced
from standfast.indexes.rectangle_sweep import OwnAxis, swept, worth
from standfast.indexes.rectangle_tree import Roll, Standing
from standfast.indexes.rectangle_visits import (
    Callers,
    Limits,
    Visits,
    callers_of,
    first_visit,
    room_for_held,
    turned,
    turns_of,
    visited,
)

# What counting by a sweep costs for each end, of which there are two a member, and each caller.
AN_END, A_CALLER = 1.0, 100.0


@dataclass(frozen=True, slots=True)
class Located:
    """What events hit in one rectangle tree; the parts of the tree that it holds never change."""

    tree: Rectangles
    axis: OwnAxis
    roll: Roll
    callers: Callers
    limits: Limits
    visits: Visits
    n_events: int

    @staticmethod
    def of(tree: Standing, callers: Callers, limits: Limits, n_events: int) -> Located:
        """Find the block of each caller in each group."""
        visits = visited(tree.rectangles, callers.values)
        return Located(tree.rectangles, tree.axis, tree.roll, callers, limits, visits, n_events)

    def counts(self) -> Int64s:
        state = self.tree, self.axis, self.callers, self.limits
        many = worth(*state, an_end=AN_END, a_caller=A_CALLER)
        if not many.any():
            return self._counts_of_lists()
        is_swept = many[self.callers.codes]
        some, rest = self.callers.among(is_swept), self.callers.among(~is_swept)
        counts = np.zeros(self.n_events, np.int64)
        ends, codes = self.roll.own_ends(self.tree, self.axis), np.flatnonzero(many)
        counts[some.events] = swept(ends, some, self.limits, codes)
        if rest.events.size:
            visits = visited(self.tree, rest.values)
            counts += replace(self, callers=rest, visits=visits)._counts_of_lists()
        return counts

    def _counts_of_lists(self) -> Int64s:
        """How many slots each event hit, by reading the lists of the nodes above it."""
        totals = np.zeros(self.callers.events.size, np.int64)
        ragged_slots, live_before = self.roll.ragged_slots(self.tree), np.empty(0, np.int32)
        if self.roll.any_buried:
            live_before = self.roll.live_before(self.tree)
        state = self._state()

        def count(first: int, last: int) -> None:
            _count(*state, ragged_slots, live_before, first, last, totals)

        in_parts(count, totals.size, cost=self._cost())
        counts = np.zeros(self.n_events, np.int64)
        counts[self.callers.events] = totals
        return counts

    def fill(self, starts: Int64s, ids: Int64s, out: Int64s) -> None:
        low_slots, low_ids = self.roll.low_slots(self.tree), np.empty(0, np.int64)
        if out.size > 2 * low_slots.size and not self.roll.any_buried:
            low_ids = ids[low_slots]  # so much to write that the lists are named first
        following, ragged_slots = starts[self.callers.events], self.roll.ragged_slots(self.tree)
        state = self._state()

        def fill(first: int, last: int) -> None:
            _fill(*state, ragged_slots, low_slots, low_ids, ids, first, last, following, out)

        in_parts(fill, following.size, cost=self._cost() + out.size)

    def spans(self) -> SpanList:
        limits = widened(self.tree, self.limits)
        return sliced(self.tree, self.roll, self.callers, limits, self.visits, cost=self._cost())

    def take(self, events: Int64s) -> Located:
        places = np.searchsorted(events, self.callers.events)
        own = np.flatnonzero(np.append(events, -1)[places] == self.callers.events)
        callers = Callers(
            places[own].astype(np.int32), self.callers.values[own], self.callers.codes[own]
        )
        visits = visited(self.tree, callers.values)
        return replace(self, callers=callers, visits=visits, n_events=events.size)

    def _state(self) -> tuple[Rectangles, Int32s, Callers, Limits, Visits]:
        limits = widened(self.tree, self.limits)
        return self.tree, self.roll.slots, self.callers, limits, self.visits

    def _cost(self) -> int:
        return 50 * self.tree.points.size * self.callers.events.size


@kernel
def _count(
    tree: Rectangles, slots: Int32s, callers: Callers, limits: Limits, visits: Visits,
    ragged_slots: Int32s, live_before: Int32s, first: int, last: int, totals: Int64s,
) -> None:  # fmt: skip
    """Raise the totals of the callers `first` to `last`; `live_before` is empty if all live."""
    nodes, is_full = np.empty(64, np.int64), live_before.size == 0
    held = room_for_held(tree)
    for g in range(tree.points.size):
        base, size = tree.offsets[g], tree.offsets[g + 1] - tree.offsets[g]
        for visit in range(first_visit(visits, g, first), visits.stops[g]):
            begin, stop = callers_of(visits, g, visit, first, last)
            if begin >= last:
                break
            if begin == stop:
                continue
            turn, turns_end = turns_of(tree, g, visits.blocks[visit])
            n_nodes = ancestors_of(tree, g, visits.blocks[visit], nodes)
            n_held, awake = 0, LEAST
            for k in range(begin, stop):
                value = callers.values[k]
                if value < awake:
                    continue
                turn, n_held = turned(tree, ragged_slots, turn, turns_end, value, held, n_held)
                if n_held + n_nodes == 0:
                    awake = tree.turn_keys[turn] if turn < turns_end else FAR
                    continue
                low, high = limits.lows[g, callers.codes[k]], limits.highs[g, callers.codes[k]]
                if low == 0 and high == size:
                    continue
                total = 0
                for i in range(n_held):
                    total += (held.lows[i] < low) | (held.highs[i] >= high)
                for node in nodes[:n_nodes]:
                    start, end = tree.node_offsets[node], tree.node_offsets[node + 1]
                    place = end if low == size else first_from(tree.node_lows, start, end, low)
                    total += place - start if is_full else live_before[place] - live_before[start]
                    by_high, start, end = rest_of(tree, start, end, place, high)
                    for i in range(start, end):
                        rank = rank_if_hit(tree, base, by_high, i, low, high)
                        total += rank >= 0 and slots[base + rank] >= 0
                totals[k] += total


@kernel
def _fill(
    tree: Rectangles, slots: Int32s, callers: Callers, limits: Limits, visits: Visits,
    ragged_slots: Int32s, low_slots: Int32s, low_ids: Int64s, ids: Int64s,
    first: int, last: int, following: Int64s, out: Int64s,
) -> None:  # fmt: skip
    """Write the ids that the callers `first` to `last` hit; `low_ids` may name the low lists."""
    nodes, held = np.empty(64, np.int64), room_for_held(tree)
    for g in range(tree.points.size):
        base, size = tree.offsets[g], tree.offsets[g + 1] - tree.offsets[g]
        for visit in range(first_visit(visits, g, first), visits.stops[g]):
            begin, stop = callers_of(visits, g, visit, first, last)
            if begin >= last:
                break
            if begin == stop:
                continue
            turn, turns_end = turns_of(tree, g, visits.blocks[visit])
            n_nodes = ancestors_of(tree, g, visits.blocks[visit], nodes)
            n_held, awake = 0, LEAST
            for k in range(begin, stop):
                value = callers.values[k]
                if value < awake:
                    continue
                turn, n_held = turned(tree, ragged_slots, turn, turns_end, value, held, n_held)
                if n_held + n_nodes == 0:
                    awake = tree.turn_keys[turn] if turn < turns_end else FAR
                    continue
                low, high = limits.lows[g, callers.codes[k]], limits.highs[g, callers.codes[k]]
                if low == 0 and high == size:
                    continue
                at = following[k]
                for i in range(n_held):
                    if (held.lows[i] < low) | (held.highs[i] >= high):
                        out[at] = ids[held.slots[i]]
                        at += 1
                for node in nodes[:n_nodes]:
                    start, end = tree.node_offsets[node], tree.node_offsets[node + 1]
                    place = end if low == size else first_from(tree.node_lows, start, end, low)
                    at = _write(low_slots, low_ids, ids, start, place, at, out)
                    by_high, start, end = rest_of(tree, start, end, place, high)
                    for i in range(start, end):
                        rank = rank_if_hit(tree, base, by_high, i, low, high)
                        if rank >= 0 and slots[base + rank] >= 0:
                            out[at] = ids[slots[base + rank]]
                            at += 1
                following[k] = at


@inlined
def _write(
    low_slots: Int32s, low_ids: Int64s, ids: Int64s, start: int, stop: int, at: int, out: Int64s
) -> int:
    """Write the ids of a slice of the low lists from `at` on; where they end."""
    if low_ids.size:
        for i in range(stop - start):
            out[at + i] = low_ids[start + i]
        return at + stop - start
    for i in range(start, stop):
        if low_slots[i] >= 0:
            out[at] = ids[low_slots[i]]
            at += 1
    return at
