"""Answers of the parts of a batch, put together again in the order of its events.

events   0 1 2 3 4 5 6 7            a batch, each event sent one way
part 0   0 . . 3 4 . . 7            `places` of a part: which events it has, ascending
part 1   . 1 2 . . 5 6 .
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from standfast.arrays import Hits, Int64s, SpanList


class Part(NamedTuple):
    """Hits of some events of a batch: its event i is event `places[i]` of the whole."""

    places: Int64s
    hits: Hits


@dataclass(frozen=True, slots=True)
class Split:
    """Hits of a batch whose events were answered in parts; every event is in one part."""

    n_events: int
    parts: tuple[Part, ...]

    def counts(self) -> Int64s:
        counts = np.zeros(self.n_events, np.int64)
        for part in self.parts:
            counts[part.places] = part.hits.counts()
        return counts

    def fill(self, starts: Int64s, ids: Int64s, out: Int64s) -> None:
        for part in self.parts:
            part.hits.fill(starts[part.places], ids, out)

    def spans(self) -> SpanList:
        lists = [part.hits.spans() for part in self.parts]
        bases = np.cumsum([0] + [s.n_entries for s in lists[:-1]])
        nothing = np.empty(0, np.int64)
        return SpanList(
            np.concatenate(
                [nothing, *(p.places[s.events] for p, s in zip(self.parts, lists, strict=True))]
            ),
            np.concatenate([nothing, *(s.starts + b for s, b in zip(lists, bases, strict=False))]),
            np.concatenate([nothing, *(s.stops + b for s, b in zip(lists, bases, strict=False))]),
            np.concatenate([nothing, *(s.floors for s in lists)]),
            tuple(piece for s in lists for piece in s.pieces),
        )

    def take(self, events: Int64s) -> Hits:
        parts = []
        for places, hits in self.parts:
            at = np.searchsorted(places, events)
            own = np.flatnonzero(np.append(places, -1)[at] == events)
            if own.size:
                parts.append(Part(own, hits.take(at[own])))
        return Split(events.size, tuple(parts))


def joined(n_events: int, parts: list[Part]) -> Hits:
    """The parts as one answer; a part that has all events is the answer itself."""
    if len(parts) == 1 and parts[0].places.size == n_events:
        return parts[0].hits
    return Split(n_events, tuple(parts))
