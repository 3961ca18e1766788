"""Rows in time, as events of one side of a window join meet them: m_b, and the size of skylines.

Both are learned from every batch that the router looks at and move by a part of what is new, so
that they follow the stream and a strange batch does not turn them over.
"""

from __future__ import annotations

from math import log1p
from typing import Protocol
from weakref import ref

import numpy as np

from standfast.arrays import Int64s
from standfast.indexes.keys import differences
from standfast.indexes.sorted_runs import SortedRuns
from standfast.operators.base import Arrivals

# A batch moves a mean by one part in so many: after 16 batches little is left of what was before.
SMOOTH = 8
# Rows and events that are asked how far apart they are in time: about a thousand pairs.
SAMPLE = 32


class Climbed(Protocol):
    """Groups that count the rows on the skylines that their events saw."""

    @property
    def n_points(self) -> int: ...

    @property
    def n_stabbing(self) -> int: ...


class TimeStats:
    """The part of the rows within the largest window, and the rows on skylines."""

    def __init__(self, *, is_float: bool) -> None:
        self.near: float | None = None  # m_b / m', unknown before the first batch
        self.skyline = SkylineSize()  # around all groups
        self.hot_skyline = SkylineSize()  # around the hot ones
        self._is_float = is_float

    def anew(self) -> TimeStats:
        """The same before the first batch."""
        return TimeStats(is_float=self._is_float)

    def look(self, events: Arrivals, stored: SortedRuns, largest: int) -> None:
        """Learn which part of the stored rows is no farther from the events than `largest`."""
        if len(stored) and events.times.size:
            self.near = moved(self.near, _near(events, stored, largest, self._is_float))

    def stats(self, share: float, rows: float, n_groups: float, n_hot: float) -> dict[str, float]:
        """The stats of a batch; an event meets `rows` rows."""
        near = self.near or 0.0
        return {
            "near": near,
            "near_share": near * share,
            "skyline": self.skyline.known_or_guessed(rows, n_groups),
            "hot_skyline": self.hot_skyline.known_or_guessed(rows, n_hot),
        }


class SkylineSize:
    """Rows on a skyline for each stabbing point, as the way that climbs them counts them."""

    def __init__(self) -> None:
        self.known: float | None = None
        # Whose counts were read, and how far; a way that was dropped must not live on in here.
        self._counts: ref[Climbed] | None = None
        self._read = (0, 0)

    def learn(self, counts: Climbed | None) -> None:
        """Read what was counted since the last time; None if no way has skylines now."""
        if counts is None:
            self.known = self._counts = None
            return
        if self._counts is None or self._counts() is not counts:
            self._counts, self._read = ref(counts), (0, 0)
        n_points, n_stabbing = counts.n_points - self._read[0], counts.n_stabbing - self._read[1]
        if n_stabbing:
            self.known = moved(self.known, n_points / n_stabbing)
            self._read = counts.n_points, counts.n_stabbing

    def known_or_guessed(self, rows: float, n_groups: float) -> float:
        """The size, guessed as that of rows whose times do not follow their keys.

        Of k rows between two points, about ln k are newer than all before them on either side.
        """
        if self.known is not None:
            return self.known
        return 2 * log1p(rows / max(n_groups, 1.0) / 2)


def moved(old: float | None, new: float) -> float:
    """A mean after what was seen last; the first is believed."""
    return new if old is None else old + (new - old) / SMOOTH


def sampled(parts: list[Int64s], most: int) -> Int64s:
    """About so many of the numbers of all parts, evenly over all of them."""
    step, start, out = max(1, sum(part.size for part in parts) // most), 0, list[Int64s]()
    for part in parts:
        out.append(part[start::step])
        start = (start - part.size) % step
    return np.concatenate(out)


def _near(events: Arrivals, stored: SortedRuns, largest: int, is_float: bool) -> float:
    rows = sampled([run.extras[0] for run in stored.runs], SAMPLE)
    times = sampled([events.times], SAMPLE)
    apart = np.empty(rows.size * times.size, np.int64)
    differences(np.tile(rows, times.size), np.repeat(times, rows.size), is_float, apart)
    return float(np.mean(np.abs(apart) <= largest))
