"""Slot order: the slots that answers are slices of; a removed slot becomes -1, never for readers.

    order    7 3 9 4 1 8        an answer holds order[1:5], published
    bury 4   7 3 9 x 1 8        in a copy: the answer still reads the old one

Invariant  an array that was handed out never changes; `n_live` counts what is not -1.
Cost       burying O(b), and O(n) once after each batch whose answer kept slices; counting a
           slice O(1), after O(n) once if something was buried since.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from standfast.arrays import Int32s, Int64s, SpanList, Spans


@dataclass(frozen=True, slots=True)
class CountedSpans:
    """Spans that know how many live slots each event hit."""

    slices: Spans
    totals: Int64s

    @property
    def n_events(self) -> int:
        return self.totals.size

    def counts(self) -> Int64s:
        return self.totals

    def fill(self, starts: Int64s, ids: Int64s, out: Int64s) -> None:
        self.slices.fill(starts, ids, out)

    def spans(self) -> SpanList:
        return self.slices.spans()

    def take(self, events: Int64s) -> CountedSpans:
        return CountedSpans(self.slices.take(events), self.totals[events])


class SlotOrder:
    """Slots in an order that answers may hold on to."""

    def __init__(self, slots: Int32s) -> None:
        self.slots = slots
        self._published = False
        self._any_buried = False
        self._live_before: Int32s | None = None

    def bury(self, places: Int32s) -> None:
        """Turn the slots at these places into -1, in a copy if an answer holds the array."""
        assert np.all(self.slots[places] >= 0), "a slot was removed twice"
        if self._published:
            self.slots = self.slots.copy()
            self._published = False
        self.slots[places] = -1
        self._any_buried = True
        self._live_before = None

    def slices(self, events: Int64s, starts: Int32s, stops: Int32s, n_events: int) -> CountedSpans:
        """Publish the answer in which `events[i]` hit `slots[starts[i]:stops[i]]`."""
        self._published = True
        by_event = np.argsort(events, kind="stable")
        starts, stops = starts[by_event], stops[by_event]
        offsets = np.zeros(n_events + 1, np.int64)
        np.cumsum(np.bincount(events, minlength=n_events), out=offsets[1:])
        ends = np.zeros(events.size + 1, np.int64)
        np.cumsum(self._sizes(starts, stops), out=ends[1:])
        spans = Spans(offsets, starts, stops, self.slots)
        return CountedSpans(spans, np.diff(ends[offsets]))

    def _sizes(self, starts: Int32s, stops: Int32s) -> Int32s:
        if not self._any_buried:
            return stops - starts
        live_before = self._live_before
        if live_before is None:
            live_before = np.zeros(self.slots.size + 1, np.int32)
            np.cumsum(self.slots >= 0, out=live_before[1:])
            self._live_before = live_before  # once it is whole: several threads stab at a time
        return live_before[stops] - live_before[starts]

    def memory_bytes(self) -> int:
        counted = 0 if self._live_before is None else self._live_before.nbytes
        return self.slots.nbytes + counted
