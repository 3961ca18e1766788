"""Hits that tell how long writing them as slices took, to whom wants to know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from standfast.arrays import Hits, Int64s, SpanList


@dataclass(slots=True)
class Watched:
    """The hits of a way; `note` is told the seconds of the first `spans`."""

    hits: Hits
    clock: Callable[[], float]
    note: Callable[[float], None] | None

    @property
    def n_events(self) -> int:
        return self.hits.n_events

    def counts(self) -> Int64s:
        return self.hits.counts()

    def fill(self, starts: Int64s, ids: Int64s, out: Int64s) -> None:
        self.hits.fill(starts, ids, out)

    def spans(self) -> SpanList:
        begin = self.clock()
        found = self.hits.spans()
        if self.note is not None:
            self.note(self.clock() - begin)
            self.note = None
        return found

    def take(self, events: Int64s) -> Hits:
        return self.hits.take(events)
