"""What was reported of windows, kept in place: a report costs what was read for it.

    slot code     7 ABC   7 XYZ   9 ABC          ascending by slot and code
    value         12.5    3.0     1.0
    has           x               x              7 XYZ went: its place stays, in case it comes back

Answers that were read again are found by galloping, since both ascend: where all were read each is
next to the last, where few were a logarithm away.

Invariant  rows ascend strictly by slot and code; at most half of the places stand empty.
Cost       update O(k log n) for k answers read, and O(n) more when one came that has no place; 26
           bytes a place.
"""

from __future__ import annotations

import numpy as np

from standfast._numba import kernel
from standfast.arrays import Int64s
from standfast.engine.relations import Relation
from standfast.indexes.lane_kernels import Bools

# What became of an answer; ANOTHER both went and came.
_SAME, _CAME, _WENT, _ANOTHER = range(4)


class Reported:
    """The answers that whoever adds up all reports has."""

    def __init__(self) -> None:
        self.become(Relation.empty())

    def become(self, rows: Relation) -> None:
        """These were reported, by slot and code, and no others."""
        self._rows = rows.take(np.arange(rows.slots.size))  # to be written to
        self._has = np.ones(rows.slots.size, np.bool_)
        self._n_empty = 0

    def rows(self) -> Relation:
        """The answers, by slot and code."""
        return self._rows.take(self._has)

    def keep(self, which: Bools) -> Relation:
        """Forget all of `rows` but these; returns the others."""
        rows = self.rows()
        if which.all():
            return rows.take(~which)
        self.become(rows.take(which))
        return rows.take(~which)

    def update(self, read: Relation, holds: Bools) -> tuple[Relation, Relation]:
        """Answers were read, by slot and code, some of which hold; what went and what came."""
        n = read.slots.size
        places, what = np.empty(n, np.int64), np.empty(n, np.int8)
        met, old_known, old_raw = *np.empty((2, n), np.bool_), np.empty(n, np.int64)
        self._n_empty += _compare(
            *self._rows, self._has, *read, holds, places, met, what, old_raw, old_known
        )
        before = Relation(read.slots, read.codes, old_raw, old_known)
        told = before.take(what >= _WENT), read.take((what == _CAME) | (what == _ANOTHER))
        self._insert(read, places, np.flatnonzero((what == _CAME) & ~met))
        if 2 * self._n_empty > self._has.size:
            self.become(self.rows())
        return told

    def _insert(self, read: Relation, places: Int64s, new: Int64s) -> None:
        """Make places for answers that have none."""
        if new.size:
            pairs = zip(self._rows, read.take(new), strict=True)
            self._rows = Relation(*(np.insert(old, places[new], more) for old, more in pairs))
            self._has = np.insert(self._has, places[new], True)

    def memory_bytes(self) -> int:
        return sum(column.nbytes for column in (*self._rows, self._has))

    def check(self) -> None:
        slots, codes = self._rows.slots, self._rows.codes
        follows = (np.diff(slots) > 0) | ((np.diff(slots) == 0) & (codes[1:] > codes[:-1]))
        assert follows.all(), "answers do not ascend by slot and code"
        assert self._n_empty == np.count_nonzero(~self._has), "empty places are miscounted"
        assert 2 * self._n_empty <= self._has.size, "most places stand empty"


@kernel
def _compare(
    slots: Int64s, codes: Int64s, raw: Int64s, known: Bools, has: Bools,
    new_slots: Int64s, new_codes: Int64s, new_raw: Int64s, new_known: Bools, holds: Bools,
    places: Int64s, met: Bools, what: np.ndarray, old_raw: Int64s, old_known: Bools,
) -> int:  # fmt: skip
    """Find each answer that was read, say what became of it and write it where it has a place.

    Returns how many more places stand empty.
    """
    n, at, n_empty = slots.size, 0, 0
    for i in range(new_slots.size):
        slot, code = new_slots[i], new_codes[i]
        step, high = 1, at
        while high < n and (slots[high] < slot or (slots[high] == slot and codes[high] < code)):
            at = high + 1
            high += step
            step <<= 1
        high = min(high, n)
        while at < high:
            middle = (at + high) >> 1
            if slots[middle] < slot or (slots[middle] == slot and codes[middle] < code):
                at = middle + 1
            else:
                high = middle
        places[i] = at
        met[i] = at < n and slots[at] == slot and codes[at] == code
        if not met[i] or not has[at]:
            what[i] = _CAME if holds[i] else _SAME
            if met[i] and holds[i]:
                raw[at], known[at], has[at] = new_raw[i], new_known[i], True
                n_empty -= 1
            continue
        old_raw[i], old_known[i] = raw[at], known[at]
        if not holds[i]:
            what[i], has[at] = _WENT, False
            n_empty += 1
        elif raw[at] == new_raw[i] and known[at] == new_known[i]:
            what[i] = _SAME
        else:
            what[i] = _ANOTHER
            raw[at], known[at] = new_raw[i], new_known[i]
    return n_empty
