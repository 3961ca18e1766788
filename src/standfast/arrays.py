"""The currency between layers: who was hit, kept compact until somebody asks for the ids.

A strategy answers a batch of events with `Hits`. Three forms exist, from plain to compact:

    Matches      for each event the slots themselves         offsets | slots
    Spans        for each event slices of one order          offsets | (start, stop) -> order
    GroupSpans   for each event and stabbing group           [group, event] -> low prefix,
                 two prefix lengths (`group_spans.py`)       high suffix

All of them tell how many slots each event hit (`counts`) and write the ids where told (`fill`), so
answers of several strategies are put together in row order without a copy. A *slot* is the
position of a standing query in its group's arrays; `ids[slot]` is what the user calls it.

Every array that a `Hits` holds is published: nobody changes it afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from standfast._numba import kernel

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


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

    def take(self, events: Int64s) -> Hits:
        """The hits of these events, which ascend and are numbered anew."""


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

    def take(self, events: Int64s) -> Matches:
        offsets, places = _taken(self.offsets, events)
        return Matches(offsets, self.slots[places])

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

    def take(self, events: Int64s) -> Spans:
        offsets, places = _taken(self.offsets, events)
        return Spans(offsets, self.starts[places], self.stops[places], self.order)


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

    def take(self, events: Int64s) -> Hits:
        return Together(tuple(part.take(events) for part in self.parts))


def expand(starts: Int64s, counts: Int64s) -> Int64s:
    """starts[0], starts[0] + 1, ... counts[0] of them, then the same for the next."""
    ends = np.cumsum(counts)
    places: Int64s = np.arange(ends[-1] if ends.size else 0)
    places += np.repeat(starts - (ends - counts), counts)
    return places


def _taken(offsets: Int64s, events: Int64s) -> tuple[Int64s, Int64s]:
    """The offsets of some events among themselves, and where their entries stood."""
    starts = offsets[events]
    counts = offsets[events + 1] - starts
    return np.append(0, np.cumsum(counts)), expand(starts, counts)


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
