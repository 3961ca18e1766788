"""The currency between layers: who was hit, kept compact until somebody asks for the ids.

A strategy answers a batch of events with `Hits`. Three forms exist, from plain to compact:

    Matches      for each event the slots themselves         offsets | slots
    Spans        for each event slices of one order          offsets | (start, stop) -> order
    GroupSpans   for each event and stabbing group           [group, event] -> low prefix,
                 two prefix lengths                          high suffix

All of them tell how many slots each event hit (`counts`) and write the ids where told (`fill`), so
answers of several strategies are put together in row order without a copy. A *slot* is the
position of a standing query in its group's arrays; `ids[slot]` is what the user calls it.

Every array that a `Hits` holds is published: nobody changes it afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from standfast._numba import in_parts, kernel

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]


T = TypeVar("T", bound=np.generic)


def pooled(shape: int | tuple[int, ...], dtype: type[T]) -> npt.NDArray[T]:
    """An array from Arrow's memory pool, with whatever stands in it.

    Answers are large and short-lived: fresh memory would cost more than filling it (decision 003).
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer(pa.allocate_buffer(size), dtype).reshape(shape)


def with_room(array: npt.NDArray[T], size: int) -> npt.NDArray[T]:
    """The array itself if its last axis holds `size`, else a copy with half as much again."""
    have = array.shape[-1]
    if size <= have:
        return array
    wide = np.empty((*array.shape[:-1], max(size, have * 3 // 2)), array.dtype)
    wide[..., :have] = array
    return wide


_NO_SLOTS: Int32s = np.empty(0, np.int32)


class SpanList(NamedTuple):
    """Slices of a published order: event `events[i]` hit `order[starts[i]:stops[i]]`.

    A slot of -1 in the order is a query that was removed. Of span i only the entries whose
    `ranks` is at least `floors[i]` count; the others stand in an earlier span of that event.
    """

    events: Int64s
    starts: Int64s
    stops: Int64s
    floors: Int64s
    pieces: tuple[tuple[Int32s, Int32s | None], ...]  # of the order, with ranks where they matter

    @property
    def n_entries(self) -> int:
        """Length of the order."""
        return sum(slots.size for slots, _ in self.pieces)

    @property
    def order(self) -> Int32s:
        """The published order of slots, put together: O(n), unlike the spans."""
        return np.concatenate([_NO_SLOTS, *(slots for slots, _ in self.pieces)])

    @property
    def ranks(self) -> Int32s:
        """The rank of each entry of the order, 0 where it does not matter."""
        known = (np.zeros(s.size, np.int32) if ranks is None else ranks for s, ranks in self.pieces)
        return np.concatenate([_NO_SLOTS, *known])


class Hits(Protocol):
    """Which slots each event of a batch hit."""

    @property
    def n_events(self) -> int: ...

    def counts(self) -> Int64s:
        """How many slots each event hit."""

    def fill(self, starts: Int64s, ids: Int64s, out: Int64s) -> None:
        """Write the ids that event e hit to `out[starts[e]:starts[e] + counts()[e]]`."""

    def spans(self) -> SpanList:
        """The same answer as slices of a published order of slots."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Compressed rows: event e hit `slots[offsets[e]:offsets[e + 1]]`."""

    offsets: Int64s
    slots: Int32s

    @property
    def n_events(self) -> int:
        return self.offsets.size - 1

    def counts(self) -> Int64s:
        return np.diff(self.offsets)

    def fill(self, starts: Int64s, ids: Int64s, out: Int64s) -> None:
        _fill_matches(self.offsets, self.slots, starts, ids, out)

    def spans(self) -> SpanList:
        n = self.n_events
        return SpanList(
            np.arange(n), self.offsets[:-1], self.offsets[1:], np.zeros(n, np.int64),
            ((self.slots, None),),
        )  # fmt: skip

    @staticmethod
    def none(n_events: int) -> Matches:
        """No event hit anything."""
        return Matches(np.zeros(n_events + 1, np.int64), np.empty(0, np.int32))


@dataclass(frozen=True, slots=True)
class Spans:
    """Disjoint slices of one order: event e hit `order[starts[i]:stops[i]]`, i in its offsets.

    Slots of -1 are queries that were removed; they are skipped.
    """

    offsets: Int64s
    starts: Int32s
    stops: Int32s
    order: Int32s

    @property
    def n_events(self) -> int:
        return self.offsets.size - 1

    def counts(self) -> Int64s:
        counts = np.empty(self.n_events, np.int64)
        live = np.zeros(self.order.size + 1, np.int64)
        np.cumsum(self.order >= 0, out=live[1:])
        _count_spans(self.offsets, self.starts, self.stops, live, counts)
        return counts

    def fill(self, starts: Int64s, ids: Int64s, out: Int64s) -> None:
        _fill_spans(self.offsets, self.starts, self.stops, self.order, starts, ids, out)

    def spans(self) -> SpanList:
        n = self.starts.size
        return SpanList(
            np.repeat(np.arange(self.n_events), np.diff(self.offsets)),
            self.starts.astype(np.int64), self.stops.astype(np.int64), np.zeros(n, np.int64),
            ((self.order, None),),
        )  # fmt: skip


class Groups(NamedTuple):
    """Stabbing groups side by side: group g owns positions `offsets[g]:offsets[g + 1]`.

    Every interval of group g holds `points[g]`. Within a group `lows` ascend with their slots in
    `low_slots`, `highs` ascend with theirs in `high_slots`, and `high_ranks[i]` is where the owner
    of `highs[i]` stands in the group's low order (counted from the group's start).
    """

    points: Int64s
    offsets: Int64s
    lows: Int64s
    low_slots: Int32s
    highs: Int64s
    high_slots: Int32s
    high_ranks: Int32s

    @property
    def n_groups(self) -> int:
        return self.points.size


class LowRanks:
    """For each place in the low order of some groups, where its owner stands in the high order.

    Only counting needs them: made when first asked for, then shared by all answers of the groups.
    """

    def __init__(self) -> None:
        self._made: Int32s | None = None

    def of(self, groups: Groups) -> Int32s:
        """The ranks of these groups, which must be the same in every call."""
        if self._made is None:
            self._made = _low_ranks(groups)
        return self._made


@dataclass(frozen=True, slots=True)
class GroupSpans:
    """Two prefix lengths per event and group: the whole answer of a stabbing set index.

    Event e hit, in group g, the first `low_counts[g, e]` intervals of the low order and the last
    `high_counts[g, e]` of the high order; an interval can stand in both, but counts once.
    """

    groups: Groups
    low_counts: Int32s
    high_counts: Int32s
    ranks: LowRanks = field(default_factory=LowRanks)

    @property
    def n_events(self) -> int:
        return int(self.low_counts.shape[1])

    def counts(self) -> Int64s:
        counts, g = np.empty(self.n_events, np.int64), self.groups
        low_ranks = self.ranks.of(g)

        def count(first: int, last: int) -> None:
            _count_groups(
                g.offsets, low_ranks, g.high_ranks, self.low_counts, self.high_counts,
                first, counts[first:last],
            )  # fmt: skip

        in_parts(count, self.n_events, cost=20 * self.low_counts.size)
        return counts

    def fill(self, starts: Int64s, ids: Int64s, out: Int64s) -> None:
        g, low_ids, high_ids = self.groups, np.empty(0, np.int64), np.empty(0, np.int64)
        if out.size > g.low_slots.size:  # so much to write that the orders are named first
            low_ids, high_ids = ids[g.low_slots], ids[g.high_slots]

        def fill(first: int, last: int) -> None:
            _fill_groups(
                g, ids, low_ids, high_ids,
                self.low_counts, self.high_counts, first, starts[first:last], out,
            )  # fmt: skip

        in_parts(fill, self.n_events, cost=out.size)

    def spans(self) -> SpanList:
        g, n = self.groups, self.groups.low_slots.size
        low_group, low_event = np.nonzero(self.low_counts)
        high_group, high_event = np.nonzero(self.high_counts)
        low_start, high_stop = g.offsets[low_group], g.offsets[high_group + 1] + n
        return SpanList(
            np.concatenate([low_event, high_event]),
            np.concatenate([low_start, high_stop - self.high_counts[high_group, high_event]]),
            np.concatenate([low_start + self.low_counts[low_group, low_event], high_stop]),
            np.concatenate(
                [np.zeros(low_event.size, np.int64), self.low_counts[high_group, high_event]]
            ),
            ((g.low_slots, None), (g.high_slots, g.high_ranks)),
        )


@dataclass(frozen=True, slots=True)
class Together:
    """Several hits over the same events that never hit the same slot."""

    parts: tuple[Hits, ...]

    @property
    def n_events(self) -> int:
        return self.parts[0].n_events

    def counts(self) -> Int64s:
        total = self.parts[0].counts().copy()
        for part in self.parts[1:]:
            total += part.counts()
        return total

    def fill(self, starts: Int64s, ids: Int64s, out: Int64s) -> None:
        starts = starts.copy()
        for part in self.parts:
            part.fill(starts, ids, out)
            starts += part.counts()

    def spans(self) -> SpanList:
        lists = [part.spans() for part in self.parts]
        bases = np.cumsum([0] + [s.n_entries for s in lists[:-1]])
        return SpanList(
            np.concatenate([s.events for s in lists]),
            np.concatenate([s.starts + b for s, b in zip(lists, bases, strict=True)]),
            np.concatenate([s.stops + b for s, b in zip(lists, bases, strict=True)]),
            np.concatenate([s.floors for s in lists]),
            tuple(piece for s in lists for piece in s.pieces),
        )


@kernel
def _fill_matches(offsets: Int64s, slots: Int32s, starts: Int64s, ids: Int64s, out: Int64s) -> None:
    for e in range(starts.size):
        at = starts[e]
        for i in range(offsets[e], offsets[e + 1]):
            out[at] = ids[slots[i]]
            at += 1


@kernel
def _count_spans(
    offsets: Int64s, starts: Int32s, stops: Int32s, live: Int64s, counts: Int64s
) -> None:
    for e in range(counts.size):
        total = 0
        for i in range(offsets[e], offsets[e + 1]):
            total += live[stops[i]] - live[starts[i]]
        counts[e] = total


@kernel
def _fill_spans(
    offsets: Int64s, first: Int32s, last: Int32s, order: Int32s,
    starts: Int64s, ids: Int64s, out: Int64s,
) -> None:  # fmt: skip
    for e in range(starts.size):
        at = starts[e]
        for i in range(offsets[e], offsets[e + 1]):
            for k in range(first[i], last[i]):
                slot = order[k]
                if slot >= 0:
                    out[at] = ids[slot]
                    at += 1


def _low_ranks(groups: Groups) -> Int32s:
    """For each place in the low order, where its owner stands in the group's high order."""
    within = np.arange(groups.high_slots.size, dtype=np.int64)
    base = np.repeat(groups.offsets[:-1], np.diff(groups.offsets))
    ranks = np.empty(within.size, np.int32)
    ranks[base + groups.high_ranks] = (within - base).astype(np.int32)
    return ranks


@kernel
def _count_groups(
    offsets: Int64s, low_ranks: Int32s, high_ranks: Int32s,
    low_counts: Int32s, high_counts: Int32s, first: int, counts: Int64s,
) -> None:  # fmt: skip
    """Both prefixes minus their overlap, or everybody minus those between the neighbours.

    Whichever is shorter is looked through, so neither many nor few hits cost a whole group.
    """
    for e in range(first, first + counts.size):
        total = 0
        for g in range(offsets.size - 1):
            begin, end = offsets[g], offsets[g + 1]
            size = end - begin
            low, high = low_counts[g, e], high_counts[g, e]
            both, missed = 0, 0
            if min(low, high) < size - max(low, high):
                if low <= high:
                    for i in range(begin, begin + low):
                        both += low_ranks[i] >= size - high
                else:
                    for i in range(end - high, end):
                        both += high_ranks[i] < low
                total += low + high - both
                continue
            if low >= high:
                for i in range(begin + low, end):
                    missed += low_ranks[i] < size - high
            else:
                for i in range(begin, end - high):
                    missed += high_ranks[i] >= low
            total += size - missed
        counts[e - first] = total


@kernel
def _fill_groups(
    groups: Groups, ids: Int64s, low_ids: Int64s, high_ids: Int64s,
    low_counts: Int32s, high_counts: Int32s, first: int, starts: Int64s, out: Int64s,
) -> None:  # fmt: skip
    """Write the hits; `low_ids` and `high_ids` name the orders, or are empty and `ids` names."""
    named = low_ids.size > 0
    for e in range(first, first + starts.size):
        at = starts[e - first]
        for g in range(groups.points.size):
            begin, end = groups.offsets[g], groups.offsets[g + 1]
            low = low_counts[g, e]
            if named:
                out[at : at + low] = low_ids[begin : begin + low]
            else:
                for i in range(low):
                    out[at + i] = ids[groups.low_slots[begin + i]]
            at += low
            if low < end - begin:
                for i in range(end - high_counts[g, e], end):
                    if groups.high_ranks[i] >= low:
                        out[at] = high_ids[i] if named else ids[groups.high_slots[i]]
                        at += 1
