"""What a window template does with rows: into lanes, from there to its strategy, and answers.

    rows -> literal conditions -> key, time, value -> lanes -> strategy
    lookup: windows of slots x lanes -> strategy -> bound of QUALIFY -> relation
    push:   the relation of now against the one reported before -> rows that went, rows that came

The latest time is the latest that the input has seen, for all keys alike, whether or not the row
passed the conditions; an engine that follows also takes the times it is told. Rows that no window
reaches go. A query sees the rows that were kept when it came and those that come after.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from standfast.arrays import Int64s
from standfast.engine.reading import Processed
from standfast.engine.registry import Registry
from standfast.engine.relations import (
    Columns,
    Relation,
    RelationRows,
    differences,
    hits_of,
    places_of,
)
from standfast.engine.store import Store
from standfast.engine.strings import Strings
from standfast.indexes.lane_kernels import FARTHEST, Bools, Values
from standfast.indexes.lanes import NEVER, Kept, Lanes
from standfast.model.numbers import float_keys
from standfast.model.parameters import column_keys, row_mask
from standfast.model.query import KeyThreshold, Kind, WindowAggregate, Windowed
from standfast.model.rows import ARROW_TYPES, numbers_of
from standfast.model.stream import Input
from standfast.operators.aggregates import UserAggregate, aggregate_of
from standfast.operators.base import AggregateStrategy, Crossings, Found, ThresholdStrategy
from standfast.operators.catalog import KEY_THRESHOLDS, WINDOW_AGGREGATES

NOTHING = -1  # the reach of no window at all


class WindowReader(ABC):
    """Answers a template over a sliding window: what both questions share."""

    strategy: AggregateStrategy | ThresholdStrategy

    def __init__(
        self, question: Windowed, strings: Strings, stores: Mapping[str, Store],
    ) -> None:  # fmt: skip
        self.question = question
        self.strings = strings
        self.inputs = (question.input,)
        self.source = stores[question.input].input
        kind = self._value_kind()
        unit = question.unit if isinstance(question, WindowAggregate) else "range"
        self.lanes = Lanes(
            unit, is_float=kind == "float64", is_keyed=question.key is not None, reach=NOTHING
        )
        self._is_stale = False  # whether windows went that may have reached furthest
        strings.used_by(self._string_codes)

    def _value_kind(self) -> Kind | None:
        column = self.question.column
        return None if column is None else self.source.columns[column]

    def take_in(self, batch: pa.Table, latest_us: int | None, registry: Registry) -> int:
        """Rows that came, with the latest time of their input; returns how many can matter."""
        self._settle(registry)
        times = batch[self.question.order].cast(pa.int64()).to_numpy()
        now = max(
            [NEVER if latest_us is None else latest_us, *times.max(initial=NEVER, keepdims=1)]
        )
        self.lanes.advance(int(now))
        rows, codes, values, valid = self._rows(batch)
        self._append(codes, times[rows], values, valid)
        if self.lanes.look():
            self._all_moved()
        return rows.size

    def advance(self, latest_us: int) -> None:
        """The latest time of the input is at least this one."""
        self.lanes.advance(latest_us)

    def enter(self, registry: Registry, highs: Int64s) -> None:
        """Queries are about to come: what they reach is kept from now on."""
        self._settle(registry)
        widest = int(highs[0].max(initial=NOTHING))
        if widest > self.lanes.reach:
            self.lanes.set_reach(min(widest, FARTHEST))

    def leave(self, registry: Registry) -> None:
        """Queries went."""
        self._is_stale = True

    def _settle(self, registry: Registry) -> None:
        """Let rows go that only queries reached which went."""
        if self._is_stale:
            self._is_stale = False
            widest = int(registry.highs[0, registry.living()].max(initial=NOTHING))
            if self.lanes.set_reach(min(widest, FARTHEST)):
                self._all_moved()

    def _rows(self, batch: pa.Table) -> tuple[Int64s, Int64s, Values, Bools]:
        """Which rows have a key and pass the conditions; their keys and values."""
        usable = row_mask(self.question.fixed, batch)
        codes = np.empty(0, np.int64)
        if self.question.key is not None:
            codes, has_key = self._codes(batch[self.question.key].combine_chunks())
            usable &= has_key
        rows = np.flatnonzero(usable)
        values, valid = self._values(batch)
        return rows, codes[rows] if codes.size else codes, values[rows], valid[rows]

    def _codes(self, column: pa.Array) -> tuple[Int64s, Bools]:
        kind = self.source.columns[self.question.key or ""]
        if kind != "string":
            return column_keys(column, kind)
        codes = self.strings.intern(column)
        return codes, codes >= 0

    def _values(self, batch: pa.Table) -> tuple[Values, Bools]:
        """The aggregated column; null and NaN are no values."""
        kind, n = self._value_kind(), batch.num_rows
        if kind is None or self.question.column is None:
            return np.zeros(n, np.int64), np.ones(n, np.bool_)
        column = batch[self.question.column].combine_chunks()
        if kind == "string":
            if self.question.function != "COUNT_DISTINCT":
                return np.zeros(n, np.int64), column.is_valid().to_numpy(zero_copy_only=False)
            codes = self.strings.intern(column)
            return np.maximum(codes, 0), codes >= 0
        values, valid = numbers_of(column.view(pa.int64()) if kind == "timestamp" else column)
        known = np.ones(n, np.bool_) if valid is None else valid
        if kind == "float64":
            known = known & ~np.isnan(values)
            values = np.where(known, values, 0.0)
        return values, known

    def _string_codes(self) -> Iterator[Int64s]:
        """The codes of the strings that lanes hold."""
        if self.question.key and self.source.columns[self.question.key] == "string":
            yield self.lanes.codes[: self.lanes.n_lanes]
        if self._value_kind() == "string" and self.question.function == "COUNT_DISTINCT":
            yield np.unique(self.lanes.kept().values.astype(np.int64))

    def conditions(self) -> str:
        """How the conditions of the template are met, for `explain()`."""
        return ", ".join(f"{wanted.column} before the lanes" for wanted in self.question.fixed)

    def key_kind(self) -> Kind | None:
        """The kind of the keys."""
        return None if self.question.key is None else self.source.columns[self.question.key]

    def memory_bytes(self) -> int:
        """What the rows take."""
        return self.lanes.memory_bytes()

    def kept(self) -> Kept:
        """The rows that windows reach."""
        return self.lanes.kept()

    def restore(self, rows: Kept, now_us: int) -> None:
        """Take in rows that were kept; the queries are there already."""
        self.lanes.advance(now_us)
        self._append(rows.codes, rows.times, rows.values, rows.valid)

    @abstractmethod
    def use(self, way: str) -> None:
        """Start over with an empty strategy of this way."""

    @abstractmethod
    def answers(self, slots: Int64s, registry: Registry) -> Relation:
        """The current answers of these slots, by slot and code."""

    @abstractmethod
    def columns(self) -> Columns:
        """How answers are shown."""

    @abstractmethod
    def renumber(self, living: Int64s) -> None:
        """Slot `living[i]` is about to become slot i, all others are about to go."""

    @abstractmethod
    def unreported(self, registry: Registry) -> pa.Table:
        """Where reporting stands, for a snapshot."""

    @abstractmethod
    def resume(self, table: pa.Table, registry: Registry) -> None:
        """Go on reporting from where a snapshot stopped."""

    @abstractmethod
    def _append(self, codes: Int64s, times: Int64s, values: Values, valid: Bools) -> None: ...

    @abstractmethod
    def _all_moved(self) -> None:
        """All lanes have other places."""


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
        self.n_overflowed = 0

    def use(self, way: str) -> None:
        self.strategy = WINDOW_AGGREGATES[way](self.aggregate, self.lanes)
        self.strategy.take_in(self.lanes.all_changed())

    def boxes(self, slots: Int64s, registry: Registry) -> tuple[Int64s, Int64s]:
        """The windows, and the shares of quantiles."""
        n = 2 if self.aggregate.takes_share else 1
        return registry.lows[:n].take(slots, axis=1), registry.highs[:n].take(slots, axis=1)

    def process(self, batch: pa.Table, side: int, registry: Registry) -> list[Processed]:
        """What the batch, and whatever came unasked before it, changed."""
        now = self.answers(registry.living(), registry)
        # Queries that went take their rows with them.
        stays = np.isin(self.reported.slots, registry.living())
        went, came = differences(self.reported.take(stays), now)
        self.reported = now
        return [self._part(went, batch, registry), self._part(came, batch, registry)]

    def _part(self, rows: Relation, batch: pa.Table, registry: Registry) -> Processed:
        last = np.array([batch.num_rows - 1])
        return Processed(last, hits_of(rows), RelationRows(rows, self.columns().of(rows)))

    def columns(self) -> Columns:
        return Columns(self.key_kind(), self.question.result, self.strings)

    def answers(self, slots: Int64s, registry: Registry) -> Relation:
        """The current answers of slots that ascend, by slot and code."""
        slots = np.sort(slots)
        n_lanes = self.lanes.n_lanes
        by_code = np.argsort(self.lanes.codes[:n_lanes], kind="stable")
        pairs, lanes = np.repeat(slots, n_lanes), np.tile(by_code, slots.size)
        ages = registry.lows[0, pairs], registry.highs[0, pairs]
        firsts, lasts = self.lanes.positions(lanes, *ages)
        holds = (firsts <= lasts) & (ages[0] <= ages[1])
        if self.question.key is not None:
            pairs, lanes, firsts, lasts = (c[holds] for c in (pairs, lanes, firsts, lasts))
            holds = np.ones(pairs.size, np.bool_)
        found = self._read(pairs, lanes, firsts, lasts, holds)
        inside = self._inside(pairs, found, registry)
        raw = np.where(found.known, np.ascontiguousarray(found.values).view(np.int64), 0)
        codes = self.lanes.codes[lanes] if pairs.size else lanes
        return Relation(pairs, codes, raw, found.known).take(inside)

    def _read(
        self, slots: Int64s, lanes: Int64s, firsts: Int64s, lasts: Int64s, holds: Bools
    ) -> Found:
        """The answers of windows; one that holds no row has none, or counts 0."""
        found = self.strategy.answers(slots[holds], lanes[holds], firsts[holds], lasts[holds])
        self.n_overflowed += found.n_overflowed
        if holds.all():
            return found
        values = np.zeros(slots.size, found.values.dtype)
        known = np.full(slots.size, self.question.function.startswith("COUNT"))
        values[holds], known[holds] = found.values, found.known
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
        self.strategy.take_in(self.lanes.append(codes, times, values, valid))

    def _all_moved(self) -> None:
        self.strategy.take_in(self.lanes.all_changed())

    def renumber(self, living: Int64s) -> None:
        self.reported = _renumbered(self.reported, living)

    def unreported(self, registry: Registry) -> pa.Table:
        """What was reported last."""
        rows = self.reported.take(np.isin(self.reported.slots, registry.living()))
        ids = registry.ids[rows.slots] if rows.slots.size else rows.slots
        return pa.table([ids, rows.codes, rows.raw, rows.known], names=_REPORTED)

    def resume(self, table: pa.Table, registry: Registry) -> None:
        ids, codes, raw, known = (column.to_numpy() for column in table.columns)
        rows = Relation(registry.slots_of(ids), codes, raw, known)
        self.reported = rows.take(np.lexsort((rows.codes, rows.slots)))


class ThresholdReader(WindowReader):
    """Answers `key_threshold`."""

    strategy: ThresholdStrategy
    question: KeyThreshold

    def __init__(
        self, question: KeyThreshold, strings: Strings, stores: Mapping[str, Store]
    ) -> None:
        super().__init__(question, strings, stores)
        self._pending = Relation.empty()  # crossings of ways that were replaced; raw is the change

    def use(self, way: str) -> None:
        before = getattr(self, "strategy", None)
        if before is not None:
            self._put_by(before.changed())
        is_float = self.lanes.dtype == np.float64
        self.strategy = KEY_THRESHOLDS[way](self.question.function, self.lanes, is_float=is_float)
        kept = self.lanes.kept()
        order = np.argsort(kept.times, kind="stable")
        self.strategy.append(kept.codes[order], kept.times[order], kept.values[order])
        self.strategy.advance(self.lanes.now)
        self._is_new = before is not None

    def boxes(self, slots: Int64s, registry: Registry) -> tuple[Int64s, Int64s]:
        """Windows and bounds."""
        return registry.lows.take(slots, axis=1), registry.highs.take(slots, axis=1)

    def advance(self, latest_us: int) -> None:
        super().advance(latest_us)
        self.strategy.advance(self.lanes.now)

    def process(self, batch: pa.Table, side: int, registry: Registry) -> list[Processed]:
        """The keys that left and those that came."""
        self._put_by(self.strategy.changed())
        rows, self._pending = self._pending, Relation.empty()
        rows = rows.take(np.isin(rows.slots, registry.living()))
        parts = []
        for change in (-1, 1):
            some = rows.take(rows.raw == change)
            results = RelationRows(some, self.columns().of(some))
            parts.append(Processed(np.array([batch.num_rows - 1]), hits_of(some), results))
        return parts

    def columns(self) -> Columns:
        return Columns(self.key_kind(), None, self.strings)

    def answers(self, slots: Int64s, registry: Registry) -> Relation:
        """The keys of slots, which come in ascending order, by slot and code."""
        slots = np.sort(slots)
        offsets, codes = self.strategy.lookup(slots)
        pairs = np.repeat(slots, np.diff(offsets))
        codes = codes[np.lexsort((codes, pairs))]
        return Relation(pairs, codes, np.zeros(codes.size, np.int64), np.ones(codes.size, np.bool_))

    def _put_by(self, crossings: Crossings) -> None:
        """Add crossings to those not reported yet; one that was undone is none."""
        known, before = np.ones(crossings.slots.size, np.bool_), self._pending
        new = Relation(crossings.slots, crossings.codes, crossings.changes.astype(np.int64), known)
        new = new.take(np.lexsort((new.codes, new.slots)))
        at = places_of(new, before)
        met = at >= 0
        before.raw[at[met]] += new.raw[met]
        together = [np.concatenate(c) for c in zip(before, new.take(~met), strict=True)]
        rows = Relation(*together)
        rows = rows.take(rows.raw != 0)
        self._pending = rows.take(np.lexsort((rows.codes, rows.slots)))

    def _append(self, codes: Int64s, times: Int64s, values: Values, valid: Bools) -> None:
        order = np.flatnonzero(valid)
        order = order[np.argsort(times[order], kind="stable")]
        codes, times, values = codes[order], times[order], values[order]
        self.lanes.append(codes, times, values, valid[order])
        self.strategy.append(codes, times, values)
        self.strategy.advance(self.lanes.now)

    def _all_moved(self) -> None:
        """Strategies see it by the lanes' generation."""

    def renumber(self, living: Int64s) -> None:
        self._put_by(self.strategy.changed())
        self._pending = _renumbered(self._pending, living)

    def settled(self) -> None:
        """Queries are indexed by a strategy that replaced another: what they hold is known."""
        if self._is_new:
            self._is_new = False
            self.strategy.changed()

    def unreported(self, registry: Registry) -> pa.Table:
        """The crossings that were not reported yet."""
        self._put_by(self.strategy.changed())
        rows = self._pending.take(np.isin(self._pending.slots, registry.living()))
        ids = registry.ids[rows.slots] if rows.slots.size else rows.slots
        return pa.table([ids, rows.codes, rows.raw, rows.known], names=_REPORTED)

    def resume(self, table: pa.Table, registry: Registry) -> None:
        self.strategy.changed()
        ids, codes, raw, known = (column.to_numpy() for column in table.columns)
        rows = Relation(registry.slots_of(ids), codes, raw.copy(), known)
        self._pending = rows.take(np.lexsort((rows.codes, rows.slots)))


_REPORTED = ["query", "code", "raw", "known"]


def window_columns(question: Windowed, source: Input) -> list[tuple[str, pa.DataType]]:
    """The columns of answers: the key if there is one, the value if it is selected."""
    columns = []
    if question.key is not None and question.key_name is not None:
        columns.append((question.key_name, ARROW_TYPES[source.columns[question.key]]))
    if isinstance(question, WindowAggregate):
        columns.append((question.value_name, ARROW_TYPES[question.result]))
    return columns


def _renumbered(rows: Relation, living: Int64s) -> Relation:
    """Rows of the living slots, with the slot's place among them as its number."""
    rows = rows.take(np.isin(rows.slots, living))
    return rows._replace(slots=np.searchsorted(living, rows.slots))


def kept_table(reader: WindowReader) -> pa.Table:
    """The rows that a reader keeps, by code, as a snapshot holds them."""
    rows = reader.kept()
    columns = [rows.codes, rows.times, rows.values.view(np.int64), rows.valid]
    # In which order keys came first is not kept.
    order = np.argsort(rows.codes, kind="stable")
    return pa.table([column[order] for column in columns], names=["code", "time", "raw", "valid"])


def kept_of(table: pa.Table, reader: WindowReader) -> Kept:
    """The rows that `kept_table` wrote."""
    codes, times, raw, valid = (column.to_numpy().copy() for column in table.columns)
    values: Any = raw.view(reader.lanes.dtype)
    return Kept(codes, times, values, valid)
