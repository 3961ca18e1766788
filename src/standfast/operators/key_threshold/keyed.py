"""What ways of key thresholds share: queries, numbers of keys, and what changed since last asked.

    codes -> numbers -> holder: rows by key, insert, expire, ask -> numbers -> codes
    changed()  what each query that is asked holds now against what it held at the last call

Rows that no window reaches are let go when as many came as are kept. If windows reach further than
before, or might again, the rows are taken from the lanes, which know what is still to be seen.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal, Protocol

import numpy as np

from standfast._numba import kernel
from standfast.arrays import Int64s
from standfast.indexes.key_numbers import KeyNumbers
from standfast.indexes.keys import FAR, LEAST
from standfast.indexes.lane_kernels import FARTHEST, Values
from standfast.indexes.lanes import Lanes
from standfast.operators.base import Crossings, ThresholdStrategy
from standfast.operators.key_threshold.searching import Found, codes_taken, taken

Function = Literal["COUNT", "SUM", "MIN", "MAX"]

# Rows that came are counted up to this before old ones are looked for.
FEW = 1024


class Holder(Protocol):
    """Keeps rows by key number and finds the keys of queries."""

    def insert(self, numbers: Int64s, times: Int64s, values: Values, oldest: int) -> None:
        """Take in rows whose times ascend; those before `oldest` are of no use."""

    def expire(self, oldest: int) -> None:
        """Let rows before `oldest` go."""

    def n_rows(self) -> int:
        """How many rows are kept."""

    def is_due(self, n_new: int) -> bool:
        """Whether it is time to let old rows go, so many having come since the last time."""

    def without_rows(self, numbers: Int64s) -> Int64s:
        """Those of these keys that have no rows."""

    def forget(self, numbers: Int64s) -> None:
        """Keys without rows: their numbers go to others."""

    def serve(self, lows: Int64s, highs: Int64s) -> None:
        """From now on these are the ranges of the queries, by place."""

    def ask(self, places: Int64s, starts: Int64s, *, exact: bool = True) -> tuple[Found, Int64s]:
        """The keys of the queries at these places, whose windows begin at `starts`.

        They are found in the order that is best; the second says where each one stands. Without
        `exact` those of a relaxed range will do, which holds them all.
        """

    def memory_bytes(self) -> int: ...

    def check(self) -> None: ...


class KeyedStrategy(ThresholdStrategy):
    """Queries over a holder that each way chooses."""

    def __init__(self, function: Function, lanes: Lanes, *, is_float: bool) -> None:
        super().__init__(function, lanes, is_float=is_float)
        self._now = lanes.now
        self._slots = np.empty(0, np.int64)  # ascending; what follows is by place
        self._windows = np.empty(0, np.int64)
        self._lows = np.empty(0, np.int64)
        self._highs = np.empty(0, np.int64)
        # Queries that came and slots of those that went since somebody looked.
        self._coming: list[tuple[Int64s, Int64s, Int64s, Int64s]] = []
        self._going: list[Int64s] = []
        self._held = Found(np.zeros(1, np.int64), np.empty(0, np.int32))
        self._is_asked = np.empty(0, np.bool_)  # who is told of what it holds
        self._is_served = False
        self._reach = lanes.reach
        self._may_shrink = self._is_outdated = False
        self._start()

    @abstractmethod
    def _make_holder(self) -> Holder:
        """An empty holder for the function of this strategy."""

    def _start(self) -> None:
        self._holder, self._numbers, self._n_new = self._make_holder(), KeyNumbers(), 0
        self._is_served = False

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        if self._going:
            self._settle()  # the widest may be among those that went
        self._is_outdated |= self._may_shrink or self.lanes.reach > self._reach
        is_empty = (lows > highs).any(axis=0)
        bounds = (np.where(is_empty, FAR, lows[1]), np.where(is_empty, LEAST, highs[1]))
        self._coming.append((slots, np.minimum(highs[0], FARTHEST), *bounds))

    def remove(self, slots: Int64s) -> None:
        self._going.append(slots)

    def _settle(self) -> None:
        """Let queries in that came and those go that went, together: it takes a look at all."""
        if self._coming:
            coming, self._coming = self._coming, []
            n, own = self._slots.size, (self._slots, self._windows, self._lows, self._highs)
            columns = [np.concatenate(parts) for parts in zip(own, *coming, strict=True)]
            order = np.argsort(columns[0], kind="stable")
            self._slots, self._windows, self._lows, self._highs = (c[order] for c in columns)
            self._held = taken(self._held, order)
            are_asked = np.ones(order.size, np.bool_)
            are_asked[:n] = self._is_asked
            self._is_asked, self._is_served = are_asked[order], False
        if self._going:
            kept = np.flatnonzero(~np.isin(self._slots, np.concatenate(self._going)))
            self._going = []
            self._slots, self._windows = self._slots[kept], self._windows[kept]
            self._lows, self._highs = self._lows[kept], self._highs[kept]
            self._held = taken(self._held, kept)
            self._is_asked, self._is_served = self._is_asked[kept], False
            self._may_shrink |= bool(self._windows.max(initial=-1) < self._reach)

    def append(self, codes: Int64s, times: Int64s, values: Values) -> None:
        if self._is_outdated:
            self._catch_up()  # the lanes hold these rows already
            return
        self._reach, self._may_shrink = self.lanes.reach, False
        oldest = max(self._now, self.lanes.now, int(times.max(initial=self._now))) - self._reach
        if times.size and times[0] < oldest:
            inside = times >= oldest
            codes, times, values = codes[inside], times[inside], values[inside]
        self._insert(codes, times, values, oldest)
        if self._n_new > FEW and self._holder.is_due(self._n_new):
            self._sweep(oldest)

    def advance(self, now_us: int) -> None:
        self._now = max(self._now, now_us)

    def lookup(self, slots: Int64s, *, exact: bool = True) -> tuple[Int64s, Int64s]:
        self._settle()
        places = np.searchsorted(self._slots, slots)
        places[places == self._slots.size] = 0
        known = np.flatnonzero(self._slots[places] == slots) if self._slots.size else places[:0]
        found, at = self._ask(places[known], exact=exact)
        places = np.full(slots.size, known.size)  # behind the last, where nothing is held
        places[known] = at
        return codes_taken(found, places, self._numbers.by_number)

    def changed(self, slots: Int64s | None = None) -> Crossings:
        self._settle()
        if self._is_outdated:
            self._catch_up()
        if slots is not None:
            self._is_asked = np.isin(self._slots, slots)
        asked, n_queries = np.flatnonzero(self._is_asked), self._slots.size
        found, at = self._ask(asked)
        places = np.full(n_queries, n_queries)  # the others hold nothing, as if behind the last
        places[asked] = at
        found = taken(found, places)
        if asked.size < n_queries:
            self._held = taken(
                self._held, np.where(self._is_asked, np.arange(n_queries), n_queries)
            )
        marks = np.zeros(self._numbers.room, np.int64)
        n = self._held.keys.size + found.keys.size
        places, keys, changes = (
            np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int8),
        )  # fmt: skip
        n = _compare(self._held, found, marks, places, keys, changes)
        self._held = found
        return Crossings(self._slots[places[:n]], self._numbers.codes(keys[:n]), changes[:n].copy())

    def held(self) -> Int64s:
        return self._numbers.codes(np.unique(self._held.keys))

    def memory_bytes(self) -> int:
        self._settle()
        queries = (self._slots, self._windows, self._lows, self._highs, self._is_asked, *self._held)
        own = sum(array.nbytes for array in queries)
        return own + self._numbers.memory_bytes() + self._holder.memory_bytes()

    def check(self) -> None:
        self._settle()
        assert np.all(np.diff(self._slots) > 0), "slots do not ascend"
        assert self._held.offsets.size == self._slots.size + 1, "what queries held is lost"
        assert self._is_asked.size == self._slots.size, "who is asked is lost"
        assert not np.diff(self._held.offsets)[~self._is_asked].any(), "one holds and is not asked"
        self._numbers.check()
        self._holder.check()

    def describe(self) -> dict[str, object]:
        return {"keys": len(self._numbers), "rows": self._holder.n_rows()}

    def _ask(self, places: Int64s, *, exact: bool = True) -> tuple[Found, Int64s]:
        if self._is_outdated:
            self._catch_up()
        if not self._is_served:
            self._holder.serve(self._lows, self._highs)
            self._is_served = True
        return self._holder.ask(places, self._now - self._windows[places], exact=exact)

    def _insert(self, codes: Int64s, times: Int64s, values: Values, oldest: int) -> None:
        self._n_new += codes.size
        self._holder.insert(self._numbers.numbers(codes), times, values, oldest)

    def _catch_up(self) -> None:
        """Start over with the rows of the lanes; what queries held stays."""
        held = self._numbers.codes(self._held.keys)
        self._start()
        kept = self.lanes.kept()
        order = np.argsort(kept.times, kind="stable")
        self._reach, self._may_shrink, self._is_outdated = self.lanes.reach, False, False
        rows = kept.codes[order], kept.times[order], kept.values[order]
        self._insert(*rows, self.lanes.now - self._reach)
        numbers = self._numbers.numbers(held).astype(np.int32)
        self._held = self._held._replace(keys=numbers)

    def _sweep(self, oldest: int) -> None:
        """Let rows go that no window reaches, and numbers of keys without rows when they are many.

        Numbers that are still held stand for keys that will be reported as gone.
        """
        self._n_new = 0
        self._holder.expire(oldest)
        living = self._numbers.living()
        gone = np.setdiff1d(self._holder.without_rows(living), self._held.keys)
        if 2 * gone.size > living.size:
            self._holder.forget(gone)
            self._numbers.free(gone)


@kernel
def _compare(
    before: Found, now: Found, marks: Int64s, places: Int64s, keys: Int64s, changes: np.ndarray
) -> int:
    """The keys that left and those that came, query by query; `marks` are zeros by key."""
    n = 0
    for q in range(now.offsets.size - 1):
        held, both = 2 * q + 1, 2 * q + 2
        for i in range(before.offsets[q], before.offsets[q + 1]):
            marks[before.keys[i]] = held
        for i in range(now.offsets[q], now.offsets[q + 1]):
            k = now.keys[i]
            if marks[k] == held:
                marks[k] = both
                continue
            places[n], keys[n], changes[n] = q, k, 1
            n += 1
        for i in range(before.offsets[q], before.offsets[q + 1]):
            k = before.keys[i]
            if marks[k] == held:
                places[n], keys[n], changes[n] = q, k, -1
                n += 1
    return n
