"""What a window template does with its aggregates: lookups, and what a batch changed.

    lookup  windows of slots x lanes -> strategy -> bound of QUALIFY -> relation
    push    windows that may have changed -> strategy -> bound of QUALIFY -> against what was told

Which windows a push reads again is decided in `rereading`; what was told is kept in `reported`, in
place, so that a push costs what it reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from standfast.arrays import Int64s
from standfast.engine.registry import Registry
from standfast.engine.relations import Columns, Relation, in_order, places_of, shown
from standfast.engine.reported import Reported
from standfast.engine.rereading import WAYS, Rereading, Windows
from standfast.engine.sharing import Share
from standfast.engine.store import Store
from standfast.engine.strings import Strings
from standfast.engine.windows import REPORTED, WindowReader, renumbered
from standfast.errors import FailedAggregate
from standfast.indexes.lane_changes import Change
from standfast.indexes.lane_kernels import Bools, Values
from standfast.model.numbers import float_keys
from standfast.model.query import WindowAggregate
from standfast.operators.aggregates import UserAggregate, aggregate_of
from standfast.operators.base import AggregateStrategy, Found, spread_out
from standfast.operators.catalog import WINDOW_AGGREGATES
from standfast.operators.retried import Retried
from standfast.operators.synopses import reads_ages

TOLD = ["query", "key", "raw", "known", "change"]


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
        self.reported = Reported()
        self.rereading = Rereading(question, self.lanes)
        self._told = (Relation.empty(), Relation.empty())  # by the last report: went, came
        self.n_overflowed = 0
        self.n_reread = 0  # windows that the last report read

    def use(self, way: str) -> None:
        made = WINDOW_AGGREGATES[way]
        if self.aggregate.user is None:
            self.strategy = made(self.aggregate, self.lanes)
        else:
            self.strategy = Retried(made, self.aggregate, self.lanes)
        self.strategy.take_in(self.lanes.all_changed())

    def boxes(self, slots: Int64s, registry: Registry) -> tuple[Int64s, Int64s]:
        """The windows, and the shares of quantiles."""
        n = 2 if self.aggregate.takes_share else 1
        return registry.lows[:n].take(slots, axis=1), registry.highs[:n].take(slots, axis=1)

    def changes(self, share: Share, registry: Registry) -> tuple[Relation, Relation]:
        went, came, self.n_reread = [Relation.empty()], [Relation.empty()], 0
        if self.rereading.begin(share):
            went.append(self._lost(share, registry))
        try:
            for slots, lanes in self.rereading.pairs(self.reported, registry):
                gone, new = self._reread(slots, lanes, registry)
                went.append(gone)
                came.append(new)
        except FailedAggregate:
            # Nothing of it is told: the next report begins from where this one did.
            self._retell(in_order(came), in_order(went))
            raise
        self.rereading.end(registry)
        self._told = in_order(went), in_order(came)
        return self._told

    def _lost(self, share: Share, registry: Registry) -> Relation:
        """Answers told of whose keys are gone; queries that went take theirs with them untold."""
        slots = self.reported.rows().slots
        self.reported.keep(registry.are_living(slots) & share.has(registry.ids[slots]))
        if self.question.key is None:
            return Relation.empty()
        return self.reported.keep(self.lanes.lanes_of(self.reported.rows().codes) >= 0)

    def _reread(
        self, slots: Int64s, lanes: Int64s, registry: Registry
    ) -> tuple[Relation, Relation]:
        """Read windows that may have changed, by slot and code; the answers that went and came."""
        windows = self._positions(slots, lanes, registry)
        windows = windows.take(self.rereading.moved(windows, registry))
        found = self._read(windows)
        self.n_reread += windows.slots.size
        inside = self._inside(windows.slots, found, registry)
        self.rereading.read(windows.slots, found, inside, registry)
        if self.question.key is not None:
            inside &= windows.firsts <= windows.lasts
        return self.reported.update(self._relation(windows.slots, windows.lanes, found), inside)

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
        self._retell(rows.take(change < 0), rows.take(change > 0))

    def take_back(self, went: Relation, came: Relation) -> None:
        self._retell(came, went)
        self._told = (Relation.empty(), Relation.empty())

    def _retell(self, went: Relation, came: Relation) -> None:
        """Of what was reported some went, and more came."""
        before = self.reported.rows()
        stays = np.ones(before.slots.size, np.bool_)
        stays[places_of(went, before)] = False
        self._take_as_told([before.take(stays), came])

    def _take_as_told(self, rows: list[Relation]) -> None:
        """These were reported; nobody knows what was read for it."""
        self.reported.become(in_order(rows))
        self.rereading.forget()

    def columns(self) -> Columns:
        return Columns(self.key_kind(), self.question.result, self.strings)

    def answers(self, slots: Int64s, registry: Registry, *, exact: bool = True) -> Relation:
        slots = np.sort(self._asked(slots, registry))
        # A window that no row can be in is unknown to strategies.
        are_windows = bool((registry.lows[0, slots] <= registry.highs[0, slots]).all())
        if are_windows and self.question.key is None and reads_ages(self.aggregate, self.lanes):
            lanes = np.zeros(slots.size, np.int64)
            found = self.strategy.lookup(slots, lanes)
        else:
            windows = self._windows(slots, registry)
            slots, lanes, found = windows.slots, windows.lanes, self._read(windows)
        return self._relation(slots, lanes, found).take(self._inside(slots, found, registry))

    def _asked(self, slots: Int64s, registry: Registry) -> Int64s:
        """Those whose bound something may meet: no strategy knows the others."""
        if self.question.bound is None:
            return slots
        asked: Int64s = slots[registry.lows[-1, slots] <= registry.highs[-1, slots]]
        return asked

    def _windows(self, slots: Int64s, registry: Registry) -> Windows:
        """The windows of ascending slots in every lane, by code; over keys those with rows."""
        n_lanes = self.lanes.n_lanes
        by_code = np.argsort(self.lanes.codes[:n_lanes], kind="stable")
        pairs, lanes = np.repeat(slots, n_lanes), np.tile(by_code, slots.size)
        windows = self._positions(pairs, lanes, registry)
        if self.question.key is None:
            return windows
        return windows.take(windows.firsts <= windows.lasts)

    def _positions(self, slots: Int64s, lanes: Int64s, registry: Registry) -> Windows:
        """The window of each slot in its lane."""
        lows, highs = registry.lows[0, slots], registry.highs[0, slots]
        firsts, lasts = self.lanes.positions(lanes, lows, highs)
        return Windows(slots, lanes, firsts, np.where(lows <= highs, lasts, firsts - 1))

    def _relation(self, slots: Int64s, lanes: Int64s, found: Found) -> Relation:
        """Answers, whether or not QUALIFY lets them through."""
        raw = np.where(found.known, np.ascontiguousarray(found.values).view(np.int64), 0)
        codes = self.lanes.codes[lanes] if raw.size else raw
        return Relation(slots, codes, raw, found.known)

    def _read(self, windows: Windows) -> Found:
        """The answers of windows; one that holds no row has none, or counts 0."""
        holds = windows.firsts <= windows.lasts
        found = self.strategy.answers(*windows.take(holds))
        self.n_overflowed += found.n_overflowed
        if holds.all():
            return found
        spread = spread_out(found, np.flatnonzero(holds), holds.size)
        if self.question.function.startswith("COUNT"):
            spread.known[:] = True
        return spread

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

    def _told_codes(self) -> Iterator[Int64s]:
        for rows in (self.reported.rows(), *self._told):
            yield np.unique(rows.codes)

    def _append(self, codes: Int64s, times: Int64s, values: Values, valid: Bools) -> None:
        self._take_in(self.lanes.append(codes, times, values, valid))

    def _all_moved(self) -> None:
        self._take_in(
            self.lanes.all_changed()._replace(firsts=np.zeros(self.lanes.n_lanes, np.int64))
        )

    def _take_in(self, change: Change) -> None:
        self.strategy.take_in(change)
        self.rereading.note(change)

    def _look(self) -> None:
        if self.lanes.is_due:
            self.rereading.catch_up()
            super()._look()
            self.rereading.rows_went()

    def telling(self) -> str:
        """What a push reads again, for `explain()`."""
        return f"reads {WAYS[self.rereading.way]}; {self.n_reread:,} windows by the last"

    def check(self) -> None:
        super().check()
        self.reported.check()
        self.rereading.check()

    def memory_bytes(self) -> int:
        told = self.reported.memory_bytes() + self.rereading.memory_bytes()
        return super().memory_bytes() + told

    def renumber(self, living: Int64s) -> None:
        self._take_as_told([renumbered(self.reported.rows(), living)])

    def unreported(self, registry: Registry) -> pa.Table:
        """What was reported last."""
        rows = self.reported.rows()
        rows = rows.take(registry.are_living(rows.slots))
        ids = registry.ids[rows.slots] if rows.slots.size else rows.slots
        return pa.table([ids, rows.codes, rows.raw, rows.known], names=REPORTED)

    def resume(self, table: pa.Table, registry: Registry) -> None:
        ids, codes, raw, known = (column.to_numpy() for column in table.columns)
        self._take_as_told([self._named(Relation(registry.slots_of(ids), codes, raw, known))])
