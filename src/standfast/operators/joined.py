"""Join first: an event and its rows are points, which stab an index of all boxes.

event 0 x its rows   .  .  .    | event 1 x its rows  .  .       points, in rounds
boxes that hold it   3  3  -    |                     3  8
                        8
kept                 3 8        |                     3 8        each slot once an event
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from standfast._numba import in_parts, kernel
from standfast.arrays import Hits, Int32s, Int64s, Matches
from standfast.indexes.box_index import BoxIndex
from standfast.indexes.sorted_runs import Run
from standfast.operators.equality import CANDIDATES_AT_ONCE, Blocks, Candidates, rounds

# Points that stab the index at once; as many as the index itself takes at once.
POINTS_AT_ONCE = 4096
# Stabbing with a point costs about so many steps at least, for sharing the work between threads.
STEPS_A_POINT = 200


class Points(NamedTuple):
    """Point i is `values[:, i]`, of event `events[i]`."""

    events: Int64s
    values: Int64s


# Makes points of events, each with one row: its place in a run.
PointsOf = Callable[[Int64s, Run, Int64s], Points]


def stab_with_rows(
    index: BoxIndex, n_slots: int, found: list[Blocks], n_events: int, points_of: PointsOf
) -> Hits:
    """For each event the slots of the boxes that hold one of its points, once each."""
    index.n_trees()  # works in what waits, before threads read the index
    n_rows = np.zeros(n_events, np.int64)
    for block in found:
        n_rows += block.stops - block.starts
    offsets, parts = np.zeros(n_events + 1, np.int64), {0: [np.empty(0, np.int32)]}

    def stab(first: int, last: int) -> None:
        stamps = np.full(n_slots, -1, np.int64)
        hit = parts.setdefault(first, [])
        for begin, end in rounds(n_rows[first:last], POINTS_AT_ONCE):
            points = _gathered(found, first + begin, first + end, points_of)
            for few in _turns(index, points):
                slots = Candidates.of(few.hits, n_slots)
                hit.append(_unstamped(few.events, slots, stamps, offsets[1:]))

    in_parts(stab, n_events, cost=STEPS_A_POINT * int(n_rows.sum()))
    hit = [slots for first in sorted(parts) for slots in parts[first]]
    return Matches(np.cumsum(offsets), np.concatenate(hit))


class _Turn(NamedTuple):
    """What the points of these events hit."""

    events: Int64s
    hits: Hits


def _gathered(found: list[Blocks], first: int, last: int, points_of: PointsOf) -> Points:
    """The points of some events with the living rows of their blocks, event by event."""
    made = []
    for run, starts, stops in (block.of(slice(first, last)) for block in found):
        sizes = stops - starts
        events = np.repeat(np.arange(first, last), sizes)
        places = np.arange(events.size) + np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
        if run.above.size:
            living = run.alive[places]
            events, places = events[living], places[living]
        made.append(points_of(events, run, places))
    if len(made) == 1:
        return made[0]
    events = np.concatenate([points.events for points in made])
    order = np.argsort(events, kind="stable")
    values = np.concatenate([points.values for points in made], axis=1)
    return Points(events[order], values[:, order])


def _turns(index: BoxIndex, points: Points) -> Iterator[_Turn]:
    """Stab in turns, each with hits that are few enough to be written out."""
    for start in range(0, points.events.size, POINTS_AT_ONCE):
        events = points.events[start : start + POINTS_AT_ONCE]
        values = points.values[:, start : start + POINTS_AT_ONCE]
        hits = index.stab(values)
        for first, last in rounds(hits.counts(), CANDIDATES_AT_ONCE):
            whole = last - first == events.size
            yield _Turn(events[first:last], hits if whole else index.stab(values[:, first:last]))


@kernel
def _unstamped(events: Int64s, hit: Candidates, stamps: Int64s, counts: Int64s) -> Int32s:
    """The slots that have no stamp of their event yet; they get it and are counted."""
    out, at = np.empty(hit.slots.size, np.int32), 0
    for point in range(events.size):
        event, before = events[point], at
        for i in range(hit.starts[point], hit.stops[point]):
            slot = np.uint64(hit.slots[i])
            out[at] = slot
            at += stamps[slot] != event
            stamps[slot] = event
        counts[event] += at - before
    return out[:at].copy()
