"""Hits that tell how long it took to write them down, to whom wants to know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from standfast.arrays import Hits, Int64s, SpanList


@dataclass(slots=True)
class Watched:
    """The hits of a way; `note` is told the seconds of each call, and whether it was `spans`.

    Slices are told once, whoever asks again.
    """

    hits: Hits
    clock: Callable[[], float]
    note: Callable[[float, bool], None]
    is_told: bool = False

    @property
    def n_events(self) -> int:
        return self.hits.n_events

    def counts(self) -> Int64s:
        begin = self.clock()
        found = self.hits.counts()
        self.note(self.clock() - begin, False)
        return found

    def fill(self, starts: Int64s, ids: Int64s, out: Int64s) -> None:
        begin = self.clock()
        self.hits.fill(starts, ids, out)
        self.note(self.clock() - begin, False)

    def spans(self) -> SpanList:
        begin = self.clock()
        found = self.hits.spans()
        if not self.is_told:
            self.note(self.clock() - begin, True)
            self.is_told = True
        return found

    def take(self, events: Int64s) -> Hits:
        return self.hits.take(events)
