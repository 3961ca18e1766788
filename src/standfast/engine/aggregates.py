"""What a window template does with its aggregates: lookups, and what a batch changed.

    lookup  windows of slots x lanes -> strategy -> bound of QUALIFY -> relation
    push    the relation of now against the one reported before -> rows that went, rows that came

A push reads a window again only if its first or last row is another than last time, or some row in
it changed: of windows in time that is a part of them, of windows by rows each one in a lane that
rows came to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from standfast.arrays import Int64s
from standfast.engine.registry import Registry
from standfast.engine.relations import Columns, Relation, differences, places_of, shown
from standfast.engine.store import Store
from standfast.engine.strings import Strings
from standfast.engine.windows import REPORTED, WindowReader, renumbered
from standfast.indexes.lane_changes import Change, PutBy
from standfast.indexes.lane_kernels import Bools, Values
from standfast.model.numbers import float_keys
from standfast.model.query import WindowAggregate
from standfast.operators.aggregates import UserAggregate, aggregate_of
from standfast.operators.base import AggregateStrategy, Found
from standfast.operators.catalog import WINDOW_AGGREGATES

TOLD = ["query", "key", "raw", "known", "change"]


class Windows(NamedTuple):
    """The window of each slot in each lane, by the positions of its rows."""

    slots: Int64s
    lanes: Int64s
    firsts: Int64s
    lasts: Int64s

    def take(self, which: Bools) -> Windows:
        return Windows(self.slots[which], self.lanes[which], self.firsts[which], self.lasts[which])


class AggregateReader(WindowReader):
    """Answers `window_aggregate`."""

    strategy: AggregateStrategy
    question: WindowAggregate

    def __init__(
        self, question: WindowAggregate, strings: Strings, stores: Mapping[str, Store],
        users: Mapping[str, UserAggregate],
    ) -> None:  # fmt: skip
        super().__init__(question, strings, stores)
        self.aggregate = aggregate_of(
            question.function, is_float=self._value_kind() == "float64",
            counts_rows=question.column is None, users=users,
        )  # fmt: skip
        self.reported = Relation.empty()
        self._told = (Relation.empty(), Relation.empty())  # by the last report: went, came
        self.n_overflowed = 0
        self._forget_last()
        self._changed = PutBy()  # from where on each lane changed since the last report

    def _forget_last(self) -> None:
        """Nothing is known of what was read for the last report."""
        nothing = np.empty(0, np.int64)
        self._read_last = (Windows(nothing, nothing, nothing, nothing), Found(nothing, nothing > 0))

    def use(self, way: str) -> None:
        self.strategy = WINDOW_AGGREGATES[way](self.aggregate, self.lanes)
        self.strategy.take_in(self.lanes.all_changed())

    def boxes(self, slots: Int64s, registry: Registry) -> tuple[Int64s, Int64s]:
        """The windows, and the shares of quantiles."""
        n = 2 if self.aggregate.takes_share else 1
        return registry.lows[:n].take(slots, axis=1), registry.highs[:n].take(slots, axis=1)

    def changes(self, slots: Int64s, registry: Registry) -> tuple[Relation, Relation]:
        windows = self._windows(slots, registry)
        found = self._kept(windows)
        self._read_last = (windows, found)
        self._changed.take()
        now = self._relation(windows, found, registry)
        # Queries that went take their rows with them.
        stays = np.isin(self.reported.slots, slots)
        self._told = differences(self.reported.take(stays), now)
        self.reported = now
        return self._told

    def told(self, registry: Registry) -> pa.Table:
        """What the last report said, for `retell`; keys by their values, queries by their ids."""
        rows = Relation(*(np.concatenate(pair) for pair in zip(*self._told, strict=True)))
        change = np.repeat(np.array([-1, 1], np.int8), [each.slots.size for each in self._told])
        kind = self.key_kind()
        keys = pa.array(rows.codes) if kind is None else shown(rows.codes, kind, self.strings)
        ids = registry.ids[rows.slots] if rows.slots.size else rows.slots
        return pa.table([ids, keys, rows.raw, rows.known, change], names=TOLD)

    def retell(self, table: pa.Table, registry: Registry) -> None:
        """Take it that this was reported, as `told` has it, after all that was before."""
        ids, raw, known, change = (table[n].to_numpy() for n in TOLD if n != "key")
        keys = table["key"].combine_chunks()
        codes = keys.to_numpy() if self.question.key is None else self._codes(keys)[0]
        rows = Relation(registry.slots_of(ids), codes, raw, known)
        stays = np.ones(self.reported.slots.size, np.bool_)
        stays[places_of(rows.take(change < 0), self.reported)] = False
        together = zip(self.reported.take(stays), rows.take(change > 0), strict=True)
        now = Relation(*(np.concatenate(pair) for pair in together))
        self.reported = now.take(np.lexsort((now.codes, now.slots)))

    def columns(self) -> Columns:
        return Columns(self.key_kind(), self.question.result, self.strings)

    def answers(self, slots: Int64s, registry: Registry) -> Relation:
        windows = self._windows(slots, registry)
        return self._relation(windows, self._read(windows), registry)

    def _windows(self, slots: Int64s, registry: Registry) -> Windows:
        """The windows of slots in every lane, by slot and code; over keys those with rows only."""
        n_lanes = self.lanes.n_lanes
        if self.question.bound is not None:
            # A bound that nothing meets: no strategy knows the query.
            slots = slots[registry.lows[-1, slots] <= registry.highs[-1, slots]]
        by_code = np.argsort(self.lanes.codes[:n_lanes], kind="stable")
        pairs, lanes = np.repeat(np.sort(slots), n_lanes), np.tile(by_code, slots.size)
        lows, highs = registry.lows[0, pairs], registry.highs[0, pairs]
        firsts, lasts = self.lanes.positions(lanes, lows, highs)
        lasts = np.where(lows <= highs, lasts, firsts - 1)
        windows = Windows(pairs, lanes, firsts, lasts)
        return windows if self.question.key is None else windows.take(firsts <= lasts)

    def _relation(self, windows: Windows, found: Found, registry: Registry) -> Relation:
        """Answers that QUALIFY lets through."""
        inside = self._inside(windows.slots, found, registry)
        raw = np.where(found.known, np.ascontiguousarray(found.values).view(np.int64), 0)
        codes = self.lanes.codes[windows.lanes] if raw.size else raw
        return Relation(windows.slots, codes, raw, found.known).take(inside)

    def _read(self, windows: Windows) -> Found:
        """The answers of windows; one that holds no row has none, or counts 0."""
        holds = windows.firsts <= windows.lasts
        found = self.strategy.answers(*windows.take(holds))
        self.n_overflowed += found.n_overflowed
        if holds.all():
            return found
        values = np.zeros(holds.size, found.values.dtype)
        known = np.full(holds.size, self.question.function.startswith("COUNT"))
        values[holds], known[holds] = found.values, found.known
        return Found(values, known)

    def _kept(self, windows: Windows) -> Found:
        """The answers of all windows, reading only those whose rows are others than last time."""
        before, found = self._read_last
        if not np.array_equal(before.slots, windows.slots) or not np.array_equal(
            before.lanes, windows.lanes
        ):
            return self._read(windows)
        since = self._changed.firsts(self.lanes.n_lanes)
        same = (before.firsts == windows.firsts) & (before.lasts == windows.lasts)
        same &= windows.lasts < since[windows.lanes]
        if not same.any():
            return self._read(windows)
        new = self._read(windows.take(~same))
        values, known = found.values.copy(), found.known.copy()
        values[~same], known[~same] = new.values, new.known
        return Found(values, known)

    def _inside(self, slots: Int64s, found: Found, registry: Registry) -> Bools:
        """Which answers QUALIFY lets through; no answer never is."""
        if self.question.bound is None:
            return np.ones(slots.size, np.bool_)
        keys = found.values
        if self.question.result == "float64":
            keys = float_keys(np.where(np.isnan(found.values), 0.0, found.values))
        inside = (registry.lows[-1, slots] <= keys) & (keys <= registry.highs[-1, slots])
        inside &= found.known & ~np.isnan(found.values)
        return np.asarray(inside, np.bool_)

    def _append(self, codes: Int64s, times: Int64s, values: Values, valid: Bools) -> None:
        self._take_in(self.lanes.append(codes, times, values, valid))

    def _all_moved(self) -> None:
        self._take_in(
            self.lanes.all_changed()._replace(firsts=np.zeros(self.lanes.n_lanes, np.int64))
        )

    def _take_in(self, change: Change) -> None:
        self.strategy.take_in(change)
        self._changed.add(change, self.lanes.n_lanes)

    def memory_bytes(self) -> int:
        windows, found = self._read_last
        told = sum(column.nbytes for column in (*self.reported, *windows, found.values))
        return super().memory_bytes() + told

    def renumber(self, living: Int64s) -> None:
        self.reported = renumbered(self.reported, living)
        self._forget_last()

    def unreported(self, registry: Registry) -> pa.Table:
        """What was reported last."""
        rows = self.reported.take(np.isin(self.reported.slots, registry.living()))
        ids = registry.ids[rows.slots] if rows.slots.size else rows.slots
        return pa.table([ids, rows.codes, rows.raw, rows.known], names=REPORTED)

    def resume(self, table: pa.Table, registry: Registry) -> None:
        ids, codes, raw, known = (column.to_numpy() for column in table.columns)
        rows = Relation(registry.slots_of(ids), codes, raw, known)
        self.reported = rows.take(np.lexsort((rows.codes, rows.slots)))
