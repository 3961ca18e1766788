"""Rows in time, as events of one side of a window join meet them: m_b, and the size of skylines.

Both are looked at in every batch and move by a part of what is new, so that they follow the stream
and a strange batch does not turn them over.
"""

from __future__ import annotations

from math import log1p

import numpy as np

from standfast.indexes.keys import differences
from standfast.indexes.sorted_runs import SortedRuns
from standfast.operators.base import Arrivals

# A batch moves a mean by one part in so many.
SMOOTH = 8
# Rows and events that are asked how far apart they are in time, about.
SAMPLE = 32


class TimeStats:
    """The part of the rows that lie within the largest window, and the rows of a skyline."""

    def __init__(self, *, is_float: bool) -> None:
        self.near: float | None = None  # m_b / m', before the first batch unknown
        self.skyline: float | None = None  # rows for each stabbing point, where a way counts them
        self._is_float = is_float

    def look(self, events: Arrivals, stored: SortedRuns, largest: int) -> None:
        """See which part of the stored rows is no farther from the events than `largest`."""
        if stored.runs and events.times.size:
            self.near = _moved(self.near, _near(events, stored, largest, self._is_float))

    def climb(self, size: float | None) -> None:
        """Take what a way with skylines saw in its last batch, if there is one."""
        if size is not None:
            self.skyline = _moved(self.skyline, size)

    def stats(self, share: float, rows: float, n_groups: float) -> dict[str, float]:
        """The stats of a batch; an event meets `rows` rows.

        While no way has skylines they are taken for those of rows whose times do not follow their
        keys: among k rows between two points, about ln k are newer than all before on either side.
        """
        near, skyline = self.near or 0.0, self.skyline
        if skyline is None:
            skyline = 2 * log1p(near * rows / max(n_groups, 1.0) / 2)
        return {"near": near, "near_share": near * share, "skyline": skyline}


def _moved(old: float | None, new: float) -> float:
    return new if old is None else old + (new - old) / SMOOTH


def _near(events: Arrivals, stored: SortedRuns, largest: int, is_float: bool) -> float:
    step = max(1, len(stored) // SAMPLE)
    rows = np.concatenate([run.extras[0][::step] for run in stored.runs])
    times = events.times[:: max(1, events.times.size // SAMPLE)]
    apart = np.empty(rows.size * times.size, np.int64)
    differences(np.tile(rows, times.size), np.repeat(times, rows.size), is_float, apart)
    return float(np.mean(np.abs(apart) <= largest))
