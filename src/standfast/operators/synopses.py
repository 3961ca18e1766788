"""Synopses by place: what ways that merge have in common, whatever the aggregate.

    lift     rows            ->  a synopsis of one row each
    combine  two places      ->  a third
    scan     places in order ->  each merged with the one before
    fold     places a window ->  the synopsis of each window
    lower    synopses        ->  answers

The fields of a synopsis stand side by side: one array of int64, seen as float64 where they are
floats. Built-in aggregates are kernels that branch on the kind once a synopsis; users' aggregates
are called with whole arrays.

Cost       8 bytes a field: COUNT 1 field, SUM and AVG 3, VARIANCE 5, MIN and MAX 2, FIRST and
           LAST 3, users' one more than theirs.
"""

from __future__ import annotations

import numpy as np

from standfast.arrays import Int64s
from standfast.indexes.lane_kernels import Bools, Values
from standfast.operators import synopsis_kernels as kernels
from standfast.operators.aggregates import Aggregate, Fields


class Synopses:
    """An array of synopses that grows by places."""

    def __init__(self, aggregate: Aggregate, size: int = 0) -> None:
        self.aggregate = aggregate
        self._ints = np.zeros((size, aggregate.width), np.int64)

    @property
    def ints(self) -> Int64s:
        return self._ints

    @property
    def floats(self) -> Fields:
        """The same memory as floats."""
        return self._ints.view(np.float64)

    def resize(self, size: int) -> None:
        """Have so many places at least; what stands there stays."""
        if size > len(self._ints):
            wide = np.zeros((max(size, len(self._ints) * 3 // 2), self._ints.shape[1]), np.int64)
            wide[: len(self._ints)] = self._ints
            self._ints = wide

    def memory_bytes(self) -> int:
        return int(self._ints.nbytes)

    def lift(self, places: Int64s, rows: Int64s, values: Values, valid: Bools) -> None:
        """Make the synopsis of row `rows[i]` alone at `places[i]`."""
        user = self.aggregate.user
        if user is None:
            raw = values.view(np.int64)
            kernels.lift(
                self.aggregate.kind, self._ints, self.floats, places, rows,
                raw, raw.view(np.float64), valid,
            )  # fmt: skip
            return
        self._ints[places, 0] = valid[rows]
        self.floats[places, 1:] = user.lift(values[rows].astype(np.float64))

    def combine(self, out: Int64s, left: Int64s, right: Int64s) -> None:
        """Merge the synopses of two places each; later entries may use what earlier ones made.

        Users' aggregates are merged in stretches that do not.
        """
        if self.aggregate.user is None:
            kernels.combine(self.aggregate.kind, self._ints, self.floats, out, left, right)
            return
        at = 0
        while at < out.size:
            # Levels come one after the other: an entry of the next uses what this one made.
            used = np.isin(left[at:], out[at:]) | np.isin(right[at:], out[at:])
            end = at + (int(np.argmax(used)) if used.any() else used.size)
            end = max(end, at + 1)
            part = slice(at, end)
            self._ints[out[part]] = self._merged(self._ints[left[part]], self._ints[right[part]])
            at = end

    def scan(self, places: Int64s, starts: Bools, *, backward: bool = False) -> None:
        """Merge each place with the one before it in this order, except where a run starts.

        Backward runs come in descending order, so the place before is of later rows.
        """
        if self.aggregate.user is None:
            kernels.scan(self.aggregate.kind, self._ints, self.floats, places, starts, backward)
            return
        # Doubling: log n merges of whole arrays instead of n small ones.
        n = places.size
        run = np.maximum.accumulate(np.where(starts, np.arange(n), 0))
        merged, step = self._ints[places], 1
        while step < n:
            inside = np.flatnonzero(np.arange(n) - step >= run)
            if not inside.size:
                break
            before, here = merged[inside - step], merged[inside]
            merged[inside] = self._merged(here, before) if backward else self._merged(before, here)
            step *= 2
        self._ints[places] = merged

    def fold(self, offsets: Int64s, places: Int64s) -> Int64s:
        """The synopsis of each window: its places, from earlier rows to later, merged."""
        n = offsets.size - 1
        found = np.zeros((n, self.aggregate.width), np.int64)
        if self.aggregate.user is None:
            kernels.fold(
                self.aggregate.kind, self._ints, self.floats, offsets, places,
                found, found.view(np.float64),
            )  # fmt: skip
            return found
        counts = np.diff(offsets)
        for k in range(int(counts.max()) if n else 0):
            has = np.flatnonzero(counts > k)
            found[has] = self._merged(found[has], self._ints[places[offsets[has] + k]])
        return found

    def differences(self, ends: Int64s, turns: Int64s, befores: Int64s) -> Int64s:
        """The synopsis at `ends`, merged behind that at `turns`, without that at `befores`.

        A place of -1 stands for nothing.
        """
        found = np.zeros((ends.size, self.aggregate.width), np.int64)
        user = self.aggregate.user
        if user is None:
            kernels.differences(
                self.aggregate.kind, self._ints, self.floats, ends, turns, befores,
                found, found.view(np.float64),
            )  # fmt: skip
            return found
        assert user.inverse is not None, "a way that subtracts was let through"
        found[ends >= 0] = self._ints[ends[ends >= 0]]
        has = np.flatnonzero(turns >= 0)
        found[has] = self._merged(self._ints[turns[has]], found[has])
        has = np.flatnonzero(befores >= 0)
        part = self._ints[befores[has]]
        has, part = has[part[:, 0] > 0], part[part[:, 0] > 0]
        left = found[has]
        found[has, 0] -= part[:, 0]
        found.view(np.float64)[has, 1:] = user.inverse(
            left.view(np.float64)[:, 1:], part.view(np.float64)[:, 1:]
        )
        return found

    def _merged(self, left: Int64s, right: Int64s) -> Int64s:
        """Synopses of the user's merged; one without values leaves the other as it is."""
        user = self.aggregate.user
        assert user is not None, "kernels merge the others"
        both = (left[:, 0] > 0) & (right[:, 0] > 0)
        merged = np.where((left[:, 0] > 0)[:, None], left, right)
        if both.any():
            one, other = left[both].view(np.float64)[:, 1:], right[both].view(np.float64)[:, 1:]
            merged.view(np.float64)[both, 1:] = user.combine(one, other)
        merged[:, 0] = left[:, 0] + right[:, 0]
        return merged
