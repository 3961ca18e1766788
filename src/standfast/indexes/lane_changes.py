"""What changed in lanes: from which position on, and all that changed since somebody looked."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from standfast.arrays import Int64s
from standfast.indexes.lane_kernels import FARTHEST


class Change(NamedTuple):
    """Lanes, each once, whose rows differ from position `firsts[i]` on."""

    lanes: Int64s
    firsts: Int64s


class PutBy:
    """Changes of lanes that are put by until somebody asks: the first position of each lane.

    Invariant  of all changes put by, the least position of every lane; none is `FARTHEST`.
    """

    def __init__(self) -> None:
        self._firsts = np.empty(0, np.int64)

    def __bool__(self) -> bool:
        return self._firsts.size > 0

    def add(self, change: Change, n_lanes: int) -> None:
        """Put a change by; when all lanes moved it names all of them."""
        firsts = np.full(n_lanes, FARTHEST)
        known = min(n_lanes, self._firsts.size)
        firsts[:known] = self._firsts[:known]
        firsts[change.lanes] = np.minimum(firsts[change.lanes], change.firsts)
        self._firsts = firsts

    def firsts(self, n_lanes: int) -> Int64s:
        """For each lane the first position that changed."""
        firsts = np.full(n_lanes, FARTHEST)
        firsts[: self._firsts.size] = self._firsts[:n_lanes]
        return firsts

    def take(self) -> Change:
        """All that was put by, as one change; it is not put by any more."""
        lanes = np.flatnonzero(self._firsts < FARTHEST)
        change = Change(lanes, self._firsts[lanes])
        self._firsts = np.empty(0, np.int64)
        return change

    def check(self) -> None:
        assert np.all((self._firsts >= 0) & (self._firsts <= FARTHEST)), "no position of a lane"
