"""Slices: what located events hit, as slices of the lists of a rectangle tree.

    low lists    | node 0 | node 1 |    node 2    | ...   a prefix of each node above the block
    high lists   | node 0 | node 1 |    node 2    | ...   a suffix where many are left over
    singles      e0 e0 e0 | e1 | e3 e3 ...                what is too short or ragged, written out

Sizes are found first, then written to pooled memory that fits: growing arrays cost more than the
searches (decision 008). The high lists are named only if some slice of them is worth it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from standfast._numba import in_parts, in_place, kernel
from standfast.arrays import Int32s, Int64s, SpanList, pooled
from standfast.indexes.keys import FAR, LEAST
from standfast.indexes.rectangle_layout import Rectangles, ancestors_of
from standfast.indexes.rectangle_reach import first_from, rank_if_hit, rest_of
from standfast.indexes.rectangle_tree import Roll
from standfast.indexes.rectangle_visits import (
    Callers,
    Limits,
    Visits,
    callers_of,
    first_visit,
    room_for_held,
    turned,
    turns_of,
)

# Looking at this many times `long` members beyond a prefix costs about as much as a slice of the
# high list that has to be made and read for them.
WORTH = 2


class Sizes(NamedTuple):
    """How many slices, members written out, and slices of high lists among the former."""

    slices: int
    singles: int
    highs: int


class Lists(NamedTuple):
    """Slots by place in the low order, in the low lists and of what is ragged."""

    slots: Int32s
    low_slots: Int32s
    ragged_slots: Int32s


NOTHING = Sizes(0, 0, 0)


def sliced(
    tree: Rectangles, roll: Roll, callers: Callers, limits: Limits, visits: Visits, *, cost: int
) -> SpanList:
    """What the callers hit; the limits are widened."""
    lists = Lists(roll.slots, roll.low_slots(tree), roll.ragged_slots(tree))
    state = tree, lists, callers, limits, visits
    parts: list[tuple[int, int, Sizes]] = []
    slices, singles = np.empty((4, 0), np.int64), np.empty(0, np.int32)

    def measure(first: int, last: int) -> None:
        parts.append((first, last, _slice(*state, first, last, NOTHING, 0, slices, singles)))

    in_parts(measure, callers.events.size, cost=cost)
    ends = np.cumsum([NOTHING, *(sizes for _, _, sizes in parts)], axis=0)
    ends[:, 1] += np.arange(len(parts) + 1)  # each part has a single to spare
    n_slices, n_singles, n_highs = ends[-1].tolist()
    slices, singles = pooled((4, n_slices), np.int64), pooled(n_singles, np.int32)
    # What is written out stands behind the lists; the high ones may not be needed.
    behind = lists.low_slots.size * (2 if n_highs else 1)

    def write(first: int, last: int) -> None:
        for i in range(first, last):
            begin = Sizes(*ends[i].tolist())
            _slice(*state, *parts[i][:2], begin, behind, slices, singles)

    in_parts(write, len(parts), cost=cost)
    singles[ends[1:, 1] - 1] = -1
    highs = (roll.high_slots(tree),) if n_highs else ()
    pieces = ((lists.low_slots, None), *highs, (singles, None))
    events, starts, stops, floors = slices
    return SpanList(events, starts, stops, floors, pieces)


@kernel
def _slice(
    tree: Rectangles, lists: Lists, callers: Callers, limits: Limits, visits: Visits,
    first: int, last: int, begin: Sizes, behind: int, slices: Int64s, singles: Int32s,
) -> Sizes:  # fmt: skip
    """Slice up what the callers `first` to `last` hit; how much there is.

    A slice is an event, a start, a stop and a floor, in the low lists, in the high lists, which
    stand behind them, or in `singles`, which stand at `behind`. They are written from `begin` on,
    unless there is no room at all. A single may be written that is then overwritten, so there must
    be room for one more. Who is gone may be -1 in singles, as in slices.
    """
    nodes, held = np.empty(64, np.int64), room_for_held(tree)
    writes = slices.shape[1] > 0
    n_slices, used, n_highs = begin
    for g in range(tree.points.size):
        size = tree.offsets[g + 1] - tree.offsets[g]
        for visit in range(first_visit(visits, g, first), visits.stops[g]):
            begin_at, stop_at = callers_of(visits, g, visit, first, last)
            if begin_at >= last:
                break
            if begin_at == stop_at:
                continue
            turn, turns_end = turns_of(tree, g, visits.blocks[visit])
            n_nodes = ancestors_of(tree, g, visits.blocks[visit], nodes)
            n_held, awake = 0, LEAST
            for k in range(begin_at, stop_at):
                value = callers.values[k]
                if value < awake:
                    continue
                turn, n_held = turned(
                    tree, lists.ragged_slots, turn, turns_end, value, held, n_held
                )
                if n_held + n_nodes == 0:
                    awake = tree.turn_keys[turn] if turn < turns_end else FAR
                    continue
                low, high = limits.lows[g, callers.codes[k]], limits.highs[g, callers.codes[k]]
                if low == 0 and high == size:
                    continue
                event, before = callers.events[k], used
                if writes:
                    for i in range(n_held):
                        singles[used] = held.slots[i]
                        used += (held.lows[i] < low) | (held.highs[i] >= high)
                else:
                    for i in range(n_held):
                        used += (held.lows[i] < low) | (held.highs[i] >= high)
                for node in nodes[:n_nodes]:
                    n_slices, used, n_highs = _slice_node(
                        tree, lists, g, node, event, low, high, slices, singles,
                        n_slices, used, n_highs,
                    )  # fmt: skip
                if used > before:
                    if writes:
                        _put(slices, n_slices, event, behind + before, behind + used, 0)
                    n_slices += 1
    return Sizes(n_slices - begin.slices, used - begin.singles, n_highs - begin.highs)


@in_place
def _slice_node(
    tree: Rectangles, lists: Lists, g: int, node: int, event: int, low: int, high: int,
    slices: Int64s, singles: Int32s, n_slices: int, used: int, n_highs: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Slice up what an event hits of one node; how much there is by then."""
    base, size = tree.offsets[g], tree.offsets[g + 1] - tree.offsets[g]
    behind_lows, writes = tree.node_lows.size, slices.shape[1] > 0
    start, end = tree.node_offsets[node], tree.node_offsets[node + 1]
    place = end if low == size else first_from(tree.node_lows, start, end, low)
    if place - start >= tree.long:
        if writes:
            _put(slices, n_slices, event, start, place, 0)
        n_slices += 1
    else:
        if writes:
            for i in range(place - start):
                singles[used + i] = lists.low_slots[start + i]
        used += place - start
    if place == end:
        return n_slices, used, n_highs
    by_high, rest, rest_end = rest_of(tree, start, end, place, high)
    if rest_end - rest > WORTH * tree.long:
        suffix = first_from(tree.node_highs, start, end, high)
        if writes:
            _put(slices, n_slices, event, behind_lows + suffix, behind_lows + end, low)
        n_slices, n_highs, rest_end = n_slices + 1, n_highs + 1, rest
    for i in range(rest, rest_end):
        rank = rank_if_hit(tree, base, by_high, i, low, high)
        if rank >= 0:
            if writes:
                singles[used] = lists.slots[base + rank]
            used += 1
    return n_slices, used, n_highs


@in_place
def _put(slices: Int64s, at: int, event: int, start: int, stop: int, floor: int) -> None:
    slices[0, at], slices[1, at] = event, start
    slices[2, at], slices[3, at] = stop, floor
