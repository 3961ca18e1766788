"""Hits as plain lists, read in both ways."""

from __future__ import annotations

import numpy as np

from standfast.arrays import Hits


def slots_of(hits: Hits) -> list[list[int]]:
    """The slots of each event, read by counts and fill."""
    counts = hits.counts()
    starts = np.cumsum(counts) - counts
    out = np.full(int(counts.sum()), -1)
    hits.fill(starts, np.arange(10_000), out)
    return [sorted(out[s : s + n].tolist()) for s, n in zip(starts, counts, strict=True)]


def slots_in_spans(hits: Hits) -> list[list[int]]:
    """The slots of each event, read from the spans."""
    spans, found = hits.spans(), [list[int]() for _ in range(hits.n_events)]
    for i, event in enumerate(spans.events):
        cut = slice(spans.starts[i], spans.stops[i])
        slots = spans.order[cut][spans.ranks[cut] >= spans.floors[i]]
        found[event] += [int(slot) for slot in slots if slot >= 0]
    return [sorted(slots) for slots in found]
