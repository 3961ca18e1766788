"""Located: the answer of a rectangle tree, as it is found: where each event stands in each group.

    events by value      v0 v1 v2 | v3 v4 | v5 ...       visits of group g: which events fall into
    block of group g         2    |   5   |  6           which block of the own axis
    code of the event     a  b  a |  a  c |  b
    group g, code a      low rank < 17  or  high rank >= 12     decided by the rows of that code

Locating costs a walk over blocks or events, whichever are fewer, for each group, and a look-up for
each group and distinct code: neither follows the number of queries. What the places mean is read
off when somebody asks. An event hits, in the nodes above its block, the members whose low rank is
below the code's limit and those whose high rank is not; the former are a prefix of each node's low
list. Of the rest of the node, whichever is shorter is looked through: the low list beyond the
prefix or the suffix of the high list.

Cost       counts O(tau log^2 n) an event plus that rest, fill plus the hits; spans O(tau log^2 n),
           slices shorter than `long` written out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from standfast._numba import in_parts, inlined, kernel
from standfast.arrays import Int32s, Int64s, SpanList, pooled
from standfast.indexes.rectangle_layout import Rectangles, ancestors_of
from standfast.indexes.rectangle_tree import Roll, Standing
from standfast.indexes.rectangle_visits import (
    Callers,
    Limits,
    Visits,
    callers_of,
    first_visit,
    ragged_of,
    visited,
)

# Looking at this many members beyond a prefix costs about as much as a slice of the high list that
# has to be made and read for them.
WORTH = 16


class Sizes(NamedTuple):
    """How many slices, members written out, and slices of high lists among the former."""

    slices: int
    singles: int
    highs: int


NOTHING = Sizes(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Located:
    """What events hit in one rectangle tree; the parts of the tree that it holds never change."""

    tree: Rectangles
    roll: Roll
    callers: Callers
    limits: Limits
    visits: Visits
    n_events: int

    @staticmethod
    def of(tree: Standing, callers: Callers, limits: Limits, n_events: int) -> Located:
        """Find the block of each caller in each group."""
        visits = visited(tree.rectangles, callers.values)
        return Located(tree.rectangles, tree.roll, callers, limits, visits, n_events)

    def counts(self) -> Int64s:
        totals = np.zeros(self.callers.events.size, np.int64)
        ragged_slots, live_before = self.roll.ragged_slots(self.tree), np.empty(0, np.int32)
        if self.roll.any_buried:
            live_before = self.roll.live_before(self.tree)

        def count(first: int, last: int) -> None:
            _count(*self._state(), ragged_slots, live_before, first, last, totals)

        in_parts(count, totals.size, cost=self._cost())
        counts = np.zeros(self.n_events, np.int64)
        counts[self.callers.events] = totals
        return counts

    def fill(self, starts: Int64s, ids: Int64s, out: Int64s) -> None:
        low_slots, low_ids = self.roll.low_slots(self.tree), np.empty(0, np.int64)
        if out.size > 2 * low_slots.size and not self.roll.any_buried:
            low_ids = ids[low_slots]  # so much to write that the lists are named first
        following, ragged_slots = starts[self.callers.events], self.roll.ragged_slots(self.tree)

        def fill(first: int, last: int) -> None:
            _fill(
                *self._state(), ragged_slots, low_slots, low_ids, ids, first, last, following, out
            )

        in_parts(fill, following.size, cost=self._cost() + out.size)

    def spans(self) -> SpanList:
        low_slots, ragged_slots = self.roll.low_slots(self.tree), self.roll.ragged_slots(self.tree)
        n_callers, n = self.callers.events.size, low_slots.size
        parts: list[tuple[int, int, Sizes]] = []
        slices, singles = np.empty((4, 0), np.int64), np.empty(0, np.int32)

        def measure(first: int, last: int) -> None:
            sizes = _slice(*self._state(), ragged_slots, first, last, NOTHING, 0, slices, singles)
            parts.append((first, last, sizes))

        in_parts(measure, n_callers, cost=self._cost())
        ends = np.cumsum([NOTHING, *(sizes for _, _, sizes in parts)], axis=0)
        ends[:, 1] += np.arange(len(parts) + 1)  # each part has a single to spare
        n_slices, n_singles, n_highs = ends[-1].tolist()
        slices, singles = pooled((4, n_slices), np.int64), pooled(n_singles, np.int32)
        # What is written out stands behind the lists; the high ones may not be needed.
        behind = 2 * n if n_highs else n

        def write(first: int, last: int) -> None:
            for i in range(first, last):
                begin = Sizes(*ends[i].tolist())
                _slice(*self._state(), ragged_slots, *parts[i][:2], begin, behind, slices, singles)

        in_parts(write, len(parts), cost=self._cost())
        singles[ends[1:, 1] - 1] = -1
        highs = (self.roll.high_slots(self.tree),) if n_highs else ()
        events, starts, stops, floors = slices
        return SpanList(events, starts, stops, floors, ((low_slots, None), *highs, (singles, None)))

    def _state(self) -> tuple[Rectangles, Int32s, Callers, Limits, Visits]:
        return self.tree, self.roll.slots, self.callers, self.limits, self.visits

    def _cost(self) -> int:
        return 50 * self.tree.points.size * self.callers.events.size


@inlined
def _first_from(ranks: Int32s, begin: int, end: int, limit: int) -> int:
    """First place of `begin` to `end` whose rank is not below the limit, without branches."""
    left = end - begin
    while left > 0:
        half = (left + 1) >> 1
        begin += half * (ranks[begin + half - 1] < limit)
        left -= half
    return begin


@inlined
def _rest(tree: Rectangles, begin: int, end: int, place: int, high: int) -> tuple[bool, int, int]:
    """Where to look for the hits of a node beyond its prefix: in the high list?, from, to."""
    if end - place <= tree.long:
        return False, place, end
    suffix = _first_from(tree.node_highs, begin, end, high)
    if end - suffix < end - place:
        return True, suffix, end
    return False, place, end


@inlined
def _rank_if_hit(
    tree: Rectangles, base: int, by_high: bool, place: int, low: int, high: int
) -> int:
    """The low rank of a member of `_rest` if it is hit, else -1."""
    if by_high:
        rank = tree.high_to_low[base + tree.node_highs[place]]
        return rank if rank >= low else -1
    rank = tree.node_lows[place]
    return rank if tree.low_to_high[base + rank] >= high else -1


@inlined
def _is_ragged_hit(tree: Rectangles, i: int, value: int, low: int, high: int) -> bool:
    """Whether a member that ends inside the block is hit."""
    return bool(
        (tree.ragged_own[0, i] <= value)
        & (value <= tree.ragged_own[1, i])
        & ((tree.ragged_ranks[0, i] < low) | (tree.ragged_ranks[1, i] >= high))
    )


@kernel
def _count(
    tree: Rectangles, slots: Int32s, callers: Callers, limits: Limits, visits: Visits,
    ragged_slots: Int32s, live_before: Int32s, first: int, last: int, totals: Int64s,
) -> None:  # fmt: skip
    """Raise the totals of the callers `first` to `last`; `live_before` is empty if all live."""
    nodes, is_full = np.empty(64, np.int64), live_before.size == 0
    for g in range(tree.points.size):
        base, size = tree.offsets[g], tree.offsets[g + 1] - tree.offsets[g]
        for visit in range(first_visit(visits, g, first), visits.stops[g]):
            begin, stop = callers_of(visits, g, visit, first, last)
            if begin >= last:
                break
            ragged, ragged_end = ragged_of(tree, g, visits.blocks[visit])
            n_nodes = ancestors_of(tree, g, visits.blocks[visit], nodes)
            for k in range(begin, stop):
                low, high = limits.lows[g, callers.codes[k]], limits.highs[g, callers.codes[k]]
                if low == 0 and high == size:
                    continue
                total = 0
                for i in range(ragged, ragged_end):
                    is_hit = _is_ragged_hit(tree, i, callers.values[k], low, high)
                    total += is_hit & (ragged_slots[i] >= 0)
                for node in nodes[:n_nodes]:
                    start, end = tree.node_offsets[node], tree.node_offsets[node + 1]
                    place = end if low == size else _first_from(tree.node_lows, start, end, low)
                    total += place - start if is_full else live_before[place] - live_before[start]
                    by_high, start, end = _rest(tree, start, end, place, high)
                    for i in range(start, end):
                        rank = _rank_if_hit(tree, base, by_high, i, low, high)
                        total += rank >= 0 and slots[base + rank] >= 0
                totals[k] += total


@kernel
def _fill(
    tree: Rectangles, slots: Int32s, callers: Callers, limits: Limits, visits: Visits,
    ragged_slots: Int32s, low_slots: Int32s, low_ids: Int64s, ids: Int64s,
    first: int, last: int, following: Int64s, out: Int64s,
) -> None:  # fmt: skip
    """Write the ids that the callers `first` to `last` hit; `low_ids` may name the low lists."""
    nodes = np.empty(64, np.int64)
    for g in range(tree.points.size):
        base, size = tree.offsets[g], tree.offsets[g + 1] - tree.offsets[g]
        for visit in range(first_visit(visits, g, first), visits.stops[g]):
            begin, stop = callers_of(visits, g, visit, first, last)
            if begin >= last:
                break
            ragged, ragged_end = ragged_of(tree, g, visits.blocks[visit])
            n_nodes = ancestors_of(tree, g, visits.blocks[visit], nodes)
            for k in range(begin, stop):
                low, high = limits.lows[g, callers.codes[k]], limits.highs[g, callers.codes[k]]
                if low == 0 and high == size:
                    continue
                at = following[k]
                for i in range(ragged, ragged_end):
                    is_hit = _is_ragged_hit(tree, i, callers.values[k], low, high)
                    if is_hit & (ragged_slots[i] >= 0):
                        out[at] = ids[ragged_slots[i]]
                        at += 1
                for node in nodes[:n_nodes]:
                    start, end = tree.node_offsets[node], tree.node_offsets[node + 1]
                    place = end if low == size else _first_from(tree.node_lows, start, end, low)
                    at = _write(low_slots, low_ids, ids, start, place, at, out)
                    by_high, start, end = _rest(tree, start, end, place, high)
                    for i in range(start, end):
                        rank = _rank_if_hit(tree, base, by_high, i, low, high)
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


@kernel
def _slice(
    tree: Rectangles, slots: Int32s, callers: Callers, limits: Limits, visits: Visits,
    ragged_slots: Int32s, first: int, last: int,
    begin: Sizes, behind: int, slices: Int64s, singles: Int32s,
) -> Sizes:  # fmt: skip
    """Slice up what the callers `first` to `last` hit; how much there is.

    A slice is an event, a start, a stop and a floor, in the low lists, in the high lists, which
    stand behind them, or in `singles`, which stand at `behind`. They are written from `begin` on,
    unless there is no room at all. A single may be written that is then overwritten, so there must
    be room for one more.
    """
    nodes, behind_lows = np.empty(64, np.int64), tree.node_lows.size
    n_slices, used, n_highs = begin
    writes = slices.shape[1] > 0
    for g in range(tree.points.size):
        base, size = tree.offsets[g], tree.offsets[g + 1] - tree.offsets[g]
        for visit in range(first_visit(visits, g, first), visits.stops[g]):
            begin_at, stop_at = callers_of(visits, g, visit, first, last)
            if begin_at >= last:
                break
            ragged, ragged_end = ragged_of(tree, g, visits.blocks[visit])
            n_nodes = ancestors_of(tree, g, visits.blocks[visit], nodes)
            for k in range(begin_at, stop_at):
                low, high = limits.lows[g, callers.codes[k]], limits.highs[g, callers.codes[k]]
                if low == 0 and high == size:
                    continue
                event, before = callers.events[k], used
                value = callers.values[k]
                if writes:
                    for i in range(ragged, ragged_end):
                        singles[used] = ragged_slots[i]
                        is_hit = _is_ragged_hit(tree, i, value, low, high)
                        used += is_hit & (ragged_slots[i] >= 0)
                else:
                    for i in range(ragged, ragged_end):
                        is_hit = _is_ragged_hit(tree, i, value, low, high)
                        used += is_hit & (ragged_slots[i] >= 0)
                for node in nodes[:n_nodes]:
                    start, end = tree.node_offsets[node], tree.node_offsets[node + 1]
                    place = end if low == size else _first_from(tree.node_lows, start, end, low)
                    prefix_end = place
                    if place - start >= tree.long:
                        if writes:
                            slices[0, n_slices], slices[1, n_slices] = event, start
                            slices[2, n_slices], slices[3, n_slices] = place, 0
                        n_slices += 1
                        prefix_end = start
                    for i in range(start, prefix_end):
                        slot = slots[base + tree.node_lows[i]]
                        if writes:
                            singles[used] = slot
                        used += slot >= 0
                    by_high, rest, rest_end = _rest(tree, start, end, place, high)
                    if rest_end - rest > WORTH * tree.long:
                        suffix = _first_from(tree.node_highs, start, end, high)
                        if writes:
                            slices[0, n_slices], slices[1, n_slices] = event, behind_lows + suffix
                            slices[2, n_slices], slices[3, n_slices] = behind_lows + end, low
                        n_slices, n_highs, rest_end = n_slices + 1, n_highs + 1, rest
                    for i in range(rest, rest_end):
                        rank = _rank_if_hit(tree, base, by_high, i, low, high)
                        if rank >= 0 and slots[base + rank] >= 0:
                            if writes:
                                singles[used] = slots[base + rank]
                            used += 1
                if used > before:
                    if writes:
                        slices[0, n_slices], slices[1, n_slices] = event, behind + before
                        slices[2, n_slices], slices[3, n_slices] = behind + used, 0
                    n_slices += 1
    return Sizes(n_slices - begin.slices, used - begin.singles, n_highs - begin.highs)
