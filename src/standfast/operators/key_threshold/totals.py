"""Counts and sums of keys: rows with running totals, and the collective index over them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from standfast.arrays import Int64s
from standfast.indexes.collective_index import PER_SIZE, CollectiveIndex, Served
from standfast.indexes.key_rows import KeyRows
from standfast.model.numbers import INF_KEY, floats_of
from standfast.operators.key_threshold.searching import (
    Asked,
    Found,
    every_key,
    named_keys,
    places_after,
)

NOTHING = np.empty(0, np.int64)


class Totals:
    """COUNT and SUM by looking at every key."""

    def __init__(self, *, counts: bool, is_float: bool) -> None:
        self.counts = counts
        self.whole = counts or not is_float
        kind = np.int64 if self.whole else np.float64
        self.rows = KeyRows(None if counts else kind)
        self.lows: npt.NDArray[Any] = NOTHING
        self.highs: npt.NDArray[Any] = NOTHING

    def insert(self, numbers: Int64s, times: Int64s, values: npt.NDArray[Any], oldest: int) -> None:
        self._refresh(*self.rows.insert(numbers, times, values))

    def expire(self, oldest: int) -> None:
        self._refresh(NOTHING, self.rows.expire(oldest))

    def n_rows(self) -> int:
        return self.rows.n_rows

    def is_due(self, n_new: int) -> bool:
        return 2 * n_new > self.rows.n_rows

    def without_rows(self, numbers: Int64s) -> Int64s:
        return self.rows.without_rows(numbers)

    def forget(self, numbers: Int64s) -> None:
        self.rows.forget(numbers)

    def serve(self, lows: Int64s, highs: Int64s) -> None:
        if self.whole:
            self.lows, self.highs = lows, highs
        else:
            bounds = np.clip([lows, highs], -INF_KEY, INF_KEY)
            self.lows, self.highs = (floats_of(some) for some in bounds)

    def ask(self, places: Int64s, starts: Int64s, *, exact: bool = True) -> tuple[Found, Int64s]:
        asked = Asked(starts, self.lows[places], self.highs[places])
        found = every_key(self.rows.rows, asked, self.counts, self.whole)
        return found, np.arange(places.size)

    def memory_bytes(self) -> int:
        return self.rows.memory_bytes()

    def check(self) -> None:
        self.rows.check()

    def _refresh(self, touched: Int64s, anew: Int64s) -> None:
        """Rows of these keys came, each named once; some keys have other totals."""


class IndexedTotals(Totals):
    """COUNT and SUM by a collective index, each answer decided by the rows."""

    def __init__(self, *, counts: bool, is_float: bool, per_size: int = PER_SIZE) -> None:
        super().__init__(counts=counts, is_float=is_float)
        self.index = CollectiveIndex(self.rows, counts=counts, per_size=per_size)
        self._served = Served(NOTHING, NOTHING, NOTHING, NOTHING)
        self._room = 0  # as many keys as were found the last time

    def serve(self, lows: Int64s, highs: Int64s) -> None:
        super().serve(lows, highs)
        self._served = self.index.serve(self.lows, self.highs)

    def ask(self, places: Int64s, starts: Int64s, *, exact: bool = True) -> tuple[Found, Int64s]:
        # Queries of one level one after the other: what they read is near.
        order = np.argsort(self._served.late[places], kind="stable")
        places = places[order]
        asked = Asked(starts[order], self.lows[places], self.highs[places])
        found = named_keys(
            self.rows.rows, self.index.times.levels, Served(*(s[places] for s in self._served)),
            self.index.odd(), asked, self.counts, self.whole, exact, self._room,
        )  # fmt: skip
        self._room = found.keys.size
        return found, places_after(order)

    def memory_bytes(self) -> int:
        return self.rows.memory_bytes() + self.index.memory_bytes()

    def check(self) -> None:
        self.rows.check()
        self.index.check()

    def _refresh(self, touched: Int64s, anew: Int64s) -> None:
        self.index.refresh(touched, anew=anew)
