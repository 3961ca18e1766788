"""Sorted runs: an ordered multiset of keys with ids, as one large sorted array and a few small.

    run 0   1 1 3 4 6 7 7 8 9 ...          oldest and largest
    run 1   2 5 . 9                        each run at least RATIO times the next,
    run 2   0 7                            else the two are merged
                ^ deleted: a tombstone, skipped by links to the next living neighbour

Entries may carry a *code* (the join key of an equality join): then a run is ordered by code first,
and the entries of one code are a block. They may also carry extra values, which go along.

Invariant  within a run (code, key, id) ascends strictly; a run has at most as many tombstones as
           living entries; no run is larger than the one before it; a living entry links to itself,
           a tombstone to a place beyond it with only tombstones between.
Cost       insert O(log b) sort + O(RATIO log m) amortised merging per entry; delete O(log m)
           amortised; neighbours and slices O(log m) per run, O(log m / RATIO) runs.
Paper      [hotspot] uses B-trees on S(B); the same bounds in arrays (decision 003).

A `Run` that was published by `published()` never changes: its tombstones are copied on write.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from standfast._numba import in_place, inlined, kernel
from standfast.arrays import Int32s, Int64s
from standfast.indexes.changed_codes import ChangedCodes
from standfast.indexes.keys import FAR, LEAST, difference, saturated_sum

Bools = npt.NDArray[np.bool_]

# Larger means fewer runs to probe and more merging; 8 keeps a million rows that came in batches of
# a thousand in at most four runs.
RATIO = 8

_NO_LINKS = np.empty(0, np.int32)
_NOTHING = np.empty(0, np.int64)
_NO_EXTRAS = np.empty((0, 0), np.int64)


class Run(NamedTuple):
    """One sorted array. `below[i]` / `above[i]` lead towards the nearest living entry."""

    keys: Int64s
    ids: Int64s
    alive: Bools
    below: Int32s  # empty while nothing of the run was deleted
    above: Int32s
    codes: Int64s  # empty unless entries have codes
    extras: Int64s  # [e, i]: extra value e of entry i


class SortedRuns:
    """An ordered multiset of (code, key, id) with batch insert, delete, neighbours and slices."""

    def __init__(self, ratio: int = RATIO, *, coded: bool = False, n_extras: int = 0) -> None:
        self.ratio = ratio
        self.coded = coded
        self.n_extras = n_extras
        self.changes = ChangedCodes()
        self._runs: list[Run] = []
        self._dead: list[int] = []
        self._published = False

    def __len__(self) -> int:
        return sum(run.keys.size for run in self._runs) - sum(self._dead)

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs as they are now, for probing at once; `published` for keeping."""
        return tuple(self._runs)

    def published(self) -> tuple[Run, ...]:
        """The runs as they are now; their keys, ids and `alive` will never change."""
        self._published = True
        return tuple(self._runs)

    def insert(
        self, keys: Int64s, ids: Int64s, codes: Int64s = _NOTHING, extras: Int64s = _NO_EXTRAS
    ) -> None:
        """Add entries; no id may be in the set already. `codes` if coded, `extras[e, i]` if any."""
        if keys.size == 0:
            return
        assert codes.size == (keys.size if self.coded else 0), "codes do not fit"
        assert extras.shape[0] == self.n_extras, "extras do not fit"
        self.changes.note(codes)
        if not self.coded and bool(np.all(ids[:-1] < ids[1:])):
            order = np.argsort(keys, kind="stable")
        else:
            order = np.lexsort((ids, keys, codes) if self.coded else (ids, keys))
        self._runs.append(
            _fresh(
                keys[order], ids[order], codes[order] if self.coded else codes,
                np.ascontiguousarray(extras[:, order]) if self.n_extras else _NO_EXTRAS,
            )
        )  # fmt: skip
        self._dead.append(0)
        while len(self._runs) > 1 and (
            self._runs[-2].keys.size < self.ratio * self._runs[-1].keys.size
        ):
            self._merge_last_two()

    def delete(self, keys: Int64s, ids: Int64s, codes: Int64s = _NOTHING) -> None:
        """Remove entries given by key, id and, if coded, code; each must be present."""
        found = 0
        for i, run in enumerate(self._runs):
            if found == ids.size:
                break
            places = np.empty(ids.size, np.int64)
            n = _locate(run, keys, ids, codes, places)
            if n:
                self._bury(i, places[:n])
                found += n
        assert found == ids.size, f"{ids.size - found} of {ids.size} entries to delete are unknown"
        self.changes.note(codes)
        self._purge()

    def consolidate(self) -> None:
        """Merge everything into one run; worth it when many probes follow."""
        while len(self._runs) > 1:
            self._merge_last_two()

    def clean(self) -> None:
        """Merge everything into one run without tombstones: the next deletion makes a copy."""
        self.consolidate()
        if self._runs and self._dead[0]:
            self._runs = [_living(self._runs[0])]
            self._dead = [0]

    def keys(self) -> Int64s:
        """All living keys, ascending."""
        living = [run.keys[run.alive] for run in self._runs]
        return np.sort(np.concatenate(living)) if living else np.empty(0, np.int64)

    def memory_bytes(self) -> int:
        return self.changes.memory_bytes() + sum(a.nbytes for run in self._runs for a in run)

    def check(self) -> None:
        for i, (run, dead) in enumerate(zip(self._runs, self._dead, strict=True)):
            keys, ids = run.keys, run.ids
            assert keys.size, f"run {i} is empty"
            assert run.codes.size == (keys.size if self.coded else 0), f"run {i}: codes lost"
            assert run.extras.shape[0] == self.n_extras, f"run {i}: extras lost"
            assert np.all(run.codes[:-1] <= run.codes[1:]), f"run {i}: codes do not ascend"
            same = np.diff(run.codes if self.coded else np.zeros_like(keys)) == 0
            assert np.all((keys[:-1] <= keys[1:])[same]), f"run {i}: keys do not ascend"
            tied = same & (keys[:-1] == keys[1:])
            assert np.all(ids[:-1][tied] < ids[1:][tied]), f"run {i}: ids of equal keys disordered"
            assert dead == np.count_nonzero(~run.alive), f"run {i}: tombstones miscounted"
            assert 2 * dead <= keys.size, f"run {i}: more tombstones than living entries"
            assert _links_are_right(run), f"run {i}: a link leads past a living entry"
            before = self._runs[max(i - 1, 0)].keys.size
            assert before >= keys.size, f"run {i} is larger than run {i - 1}"

    def _bury(self, i: int, places: Int64s) -> None:
        run = self._runs[i]
        if self._published:
            # Every run may be in somebody's hands: from now on write to copies.
            self._runs = [r._replace(alive=r.alive.copy()) for r in self._runs]
            self._published = False
            run = self._runs[i]
        if run.below.size == 0:
            n = run.keys.size
            run = run._replace(
                below=np.arange(n, dtype=np.int32), above=np.arange(n, dtype=np.int32)
            )
            self._runs[i] = run
        run.alive[places] = False
        run.below[places] = places - 1
        run.above[places] = places + 1
        self._dead[i] += places.size

    def _purge(self) -> None:
        for i in range(len(self._runs) - 1, -1, -1):
            run = self._runs[i]
            if 2 * self._dead[i] > run.keys.size:
                if self._dead[i] == run.keys.size:
                    del self._runs[i], self._dead[i]
                    continue
                self._runs[i] = _living(run)
                self._dead[i] = 0
        # A run that shrank may be too close to its neighbour now.
        for i in range(len(self._runs) - 1, 0, -1):
            if self._runs[i - 1].keys.size < self._runs[i].keys.size:
                self._merge(i - 1)

    def _merge_last_two(self) -> None:
        self._merge(len(self._runs) - 2)

    def _merge(self, i: int) -> None:
        older, newer = self._runs[i], self._runs[i + 1]
        n = older.keys.size + newer.keys.size - self._dead[i] - self._dead[i + 1]
        keys, ids = np.empty(n, np.int64), np.empty(n, np.int64)
        codes = np.empty(n if self.coded else 0, np.int64)
        extras = np.empty((self.n_extras, n), np.int64) if self.n_extras else _NO_EXTRAS
        _merge(older, newer, keys, ids, codes, extras)
        self._runs[i : i + 2] = [_fresh(keys, ids, codes, extras)]
        self._dead[i : i + 2] = [0]


def _fresh(keys: Int64s, ids: Int64s, codes: Int64s, extras: Int64s) -> Run:
    return Run(keys, ids, np.ones(keys.size, np.bool_), _NO_LINKS, _NO_LINKS, codes, extras)


def _living(run: Run) -> Run:
    """The run without its tombstones."""
    alive = run.alive
    return _fresh(
        run.keys[alive], run.ids[alive], run.codes[alive] if run.codes.size else run.codes,
        np.ascontiguousarray(run.extras[:, alive]) if run.extras.size else run.extras,
    )  # fmt: skip


def _links_are_right(run: Run) -> bool:
    if run.below.size == 0:
        return bool(run.alive.all())
    places = np.arange(run.keys.size)
    living_before = np.concatenate([[0], np.cumsum(run.alive)])
    goes_on = (run.below < places) & (places < run.above)
    stays = (run.below == places) & (places == run.above)
    skips_none = living_before[places + 1] == living_before[run.below + 1]
    skips_none &= living_before[run.above] == living_before[places]
    return bool(np.all(np.where(run.alive, stays, goes_on & skips_none)))


@kernel
def _before(one: Run, i: int, other: Run, j: int) -> bool:
    if one.codes.size and one.codes[i] != other.codes[j]:
        return bool(one.codes[i] < other.codes[j])
    if one.keys[i] == other.keys[j]:
        return bool(one.ids[i] < other.ids[j])
    return bool(one.keys[i] < other.keys[j])


@kernel
def _merge(
    older: Run, newer: Run, keys: Int64s, ids: Int64s, codes: Int64s, extras: Int64s
) -> None:
    i, j, at = 0, 0, 0
    n, m = older.keys.size, newer.keys.size
    while i < n or j < m:
        if j == m or (i < n and _before(older, i, newer, j)):
            if older.alive[i]:
                _take(older, i, at, keys, ids, codes, extras)
                at += 1
            i += 1
        else:
            if newer.alive[j]:
                _take(newer, j, at, keys, ids, codes, extras)
                at += 1
            j += 1


@inlined
def _take(
    run: Run, i: int, at: int, keys: Int64s, ids: Int64s, codes: Int64s, extras: Int64s
) -> None:
    keys[at], ids[at] = run.keys[i], run.ids[i]
    if codes.size:
        codes[at] = run.codes[i]
    for e in range(extras.shape[0]):
        extras[e, at] = run.extras[e, i]


@kernel
def _locate(run: Run, wanted: Int64s, wanted_ids: Int64s, codes: Int64s, out: Int64s) -> int:
    """Places of the wanted (code, key, id) that live in this run; returns how many."""
    keys, ids, found = run.keys, run.ids, 0
    for w in range(wanted.size):
        low, high = 0, keys.size
        if codes.size:
            low, high = block(run.codes, codes[w], 0)
        stop = high
        while low < high:
            middle = (low + high) >> 1
            if keys[middle] < wanted[w] or (
                keys[middle] == wanted[w] and ids[middle] < wanted_ids[w]
            ):
                low = middle + 1
            else:
                high = middle
        present = low < stop and keys[low] == wanted[w] and ids[low] == wanted_ids[w]
        if present and run.alive[low]:
            out[found] = low
            found += 1
    return found


@inlined
def block(codes: Int64s, code: int, start: int) -> tuple[int, int]:
    """First and last place of a code, at or after `start`, by galloping."""
    first = start if code == LEAST else first_above(codes, code - 1, start, codes.size)
    return first, first_above(codes, code, first, codes.size)


@kernel
def blocks(codes: Int64s, wanted: Int64s, starts: Int64s, stops: Int64s) -> None:
    """The block of each wanted code, which ascend: `codes[starts[e]:stops[e]]` equal it."""
    place = 0
    for e in range(wanted.size):
        if e and wanted[e] == wanted[e - 1]:
            starts[e], stops[e] = starts[e - 1], stops[e - 1]
            continue
        starts[e], stops[e] = block(codes, wanted[e], place)
        place = stops[e]


@in_place
def living_below(run: Run, i: int) -> int:
    """The nearest living entry at or below i, or -1; halves the links on its way."""
    if run.below.size == 0:
        return i
    links = run.below
    while i >= 0 and links[i] != i:
        after = links[i]
        if after >= 0:
            links[i] = links[after]
        i = after
    return i


@in_place
def living_above(run: Run, i: int) -> int:
    """The nearest living entry at or above i, or the run's size; halves the links on its way."""
    if run.above.size == 0:
        return i
    links, n = run.above, run.keys.size
    while i < n and links[i] != i:
        after = links[i]
        if after < n:
            links[i] = links[after]
        i = after
    return i


@inlined
def first_beyond(keys: Int64s, event: int, limit: int, is_float: bool, start: int) -> int:
    """First place at or after `start` whose `key - event` is above `limit`, by galloping.

    Everything before `start` is known not to be above. O(log distance).
    """
    if not is_float and -FAR < limit < FAR:
        last = saturated_sum(event, limit)
        if LEAST < last < FAR:
            # No saturation is in sight, so the difference need not be taken at every step.
            return first_above(keys, last, start, keys.size)
    n = keys.size
    step, low, high = 1, start, start
    while high < n and difference(keys[high], event, is_float) <= limit:
        low = high + 1
        high += step
        step <<= 1
    high = min(high, n)
    while low < high:
        middle = (low + high) >> 1
        if difference(keys[middle], event, is_float) <= limit:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def first_above(keys: Int64s, last: int, start: int, n: int) -> int:
    """First place of `start` to `n` with a key above `last`, by galloping; `n` if there is none."""
    step, low, high = 1, start, start
    while high < n and keys[high] <= last:
        low = high + 1
        high += step
        step <<= 1
    high = min(high, n)
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] <= last:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def slices(
    keys: Int64s, events: Int64s, lows: Int64s, highs: Int64s,
    is_float: bool, minuend: bool, starts: Int64s, stops: Int64s,
) -> None:  # fmt: skip
    """For each i the slice of keys whose difference to `events[i]` lies in its closed range.

    The difference is key minus event, or event minus key when the event is the `minuend`.
    """
    for i in range(events.size):
        low, high = lows[i], highs[i]
        if minuend:
            low, high = -high, -low
        # A low of LEAST + 1 = -FAR still has a key below it, so low - 1 does not overflow.
        start = first_beyond(keys, events[i], max(low - 1, LEAST), is_float, 0)
        starts[i] = start
        stops[i] = first_beyond(keys, events[i], high, is_float, start)
