"""Marks to matches: the ways that look at every query tick a table [event, query] first."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from standfast._numba import kernel
from standfast.arrays import Int32s, Int64s, Matches

Marks = npt.NDArray[np.bool_]

# Ticks held at once; more events are done in rounds so that memory stays bounded.
MARKS_AT_ONCE = 1 << 24


def matches_by_marks(
    values: Int64s, slots: Int32s, mark: Callable[[Int64s, Marks], None]
) -> Matches:
    """Matches of `values` where `mark(events, marks)` ticks `marks[event, i]` for `slots[i]`."""
    rounds, counts = [], []
    at_once = max(1, MARKS_AT_ONCE // max(1, slots.size))
    for start in range(0, values.size, at_once):
        events = values[start : start + at_once]
        marks = np.zeros((events.size, slots.size), np.bool_)
        mark(events, marks)
        counts.append(marks.sum(axis=1))
        rounds.append(np.empty(int(counts[-1].sum()), np.int32))
        _collect(marks, slots, rounds[-1])
    offsets = np.zeros(values.size + 1, np.int64)
    if rounds:
        np.cumsum(np.concatenate(counts), out=offsets[1:])
        return Matches(offsets, np.concatenate(rounds))
    return Matches(offsets, np.empty(0, np.int32))


@kernel
def _collect(marks: Marks, slots: Int32s, out: Int32s) -> None:
    at = 0
    for e in range(marks.shape[0]):
        for i in range(slots.size):
            if marks[e, i]:
                out[at] = slots[i]
                at += 1
