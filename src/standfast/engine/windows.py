"""What a window template does with rows: into lanes, from there to its strategy, and answers.

    rows -> literal conditions -> key, time, value -> lanes -> strategy
    lookup: windows of slots x lanes -> strategy -> bound of QUALIFY -> relation
    push:   answers that may have changed against those reported -> rows that went, rows that came

The latest time is the latest that the input has seen, for all keys alike, whether or not the row
passed the conditions; an engine that follows also takes the times it is told. Rows that no window
reaches go. A query sees the rows that were kept when it came and those that come after.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from standfast.arrays import Int64s
from standfast.engine.reading import Processed
from standfast.engine.registry import Registry
from standfast.engine.relations import Columns, Relation, RelationRows, hits_of
from standfast.engine.sharing import ALL, Share
from standfast.engine.store import Store
from standfast.engine.strings import Strings
from standfast.indexes.lane_kernels import FARTHEST, Bools, Values
from standfast.indexes.lanes import NEVER, Kept, Lanes
from standfast.model.key_ranges import column_keys, row_mask
from standfast.model.query import Kind, WindowAggregate, Windowed
from standfast.model.rows import ARROW_TYPES, numbers_of
from standfast.model.stream import Input
from standfast.operators.base import AggregateStrategy, ThresholdStrategy

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
        self._held = NOTHING  # the least reach while queries come and go
        strings.used_by(self._string_codes)

    def _value_kind(self) -> Kind | None:
        column = self.question.column
        return None if column is None else self.source.columns[column]

    def take_in(self, batch: pa.Table, latest_us: int | None, registry: Registry) -> int:
        """Rows that came, with the latest time of their input; returns how many can matter."""
        self.settle(registry)
        times = batch[self.question.order].cast(pa.int64()).to_numpy()
        now = max(
            [NEVER if latest_us is None else latest_us, *times.max(initial=NEVER, keepdims=1)]
        )
        self.lanes.advance(int(now))
        rows, codes, values, valid = self._rows(batch)
        self._append(codes, times[rows], values, valid)
        self._look()
        return rows.size

    def _look(self) -> None:
        """Let rows go that no window reaches, when it pays."""
        if self.lanes.look():
            self._all_moved()

    def advance(self, latest_us: int) -> None:
        """The latest time of the input is at least this one."""
        self.lanes.advance(latest_us)

    def enter(self, registry: Registry, highs: Int64s) -> None:
        """Queries are about to come: what they reach is kept from now on."""
        self.settle(registry)
        widest = int(highs[0].max(initial=NOTHING))
        if widest > self.lanes.reach:
            self.lanes.set_reach(min(widest, FARTHEST))

    def leave(self, registry: Registry, slots: Int64s) -> None:
        """Queries went."""
        self._is_stale = True

    def settle(self, registry: Registry) -> None:
        """Let rows go that only queries reached which went."""
        if self._is_stale:
            self._is_stale = False
            widest = int(registry.highs[0, registry.living()].max(initial=self._held))
            if self.lanes.set_reach(min(widest, FARTHEST)):
                self._all_moved()

    @contextmanager
    def holding(self, reach: int) -> Iterator[None]:
        """While queries come and go, rows within this reach stay, whoever still reaches them."""
        self._held = reach
        try:
            yield
        finally:
            self._held, self._is_stale = NOTHING, True

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
        """The codes of the strings that lanes hold, and of keys that are gone and yet to be told.

        A key's last row may go long before a report says so.
        """
        if self.key_kind() == "string":
            yield self.lanes.codes[: self.lanes.n_lanes]
            yield from self._told_codes()
        if self._value_kind() == "string" and self.question.function == "COUNT_DISTINCT":
            yield np.unique(self.lanes.kept().values.astype(np.int64))

    def _named(self, rows: Relation) -> Relation:
        """Rows of a snapshot without those of keys whose text it lacks, as some releases wrote."""
        if self.key_kind() != "string":
            return rows
        return rows.take(np.isin(rows.codes, np.fromiter(self.strings.codes.values(), np.int64)))

    def conditions(self) -> str:
        """How the conditions of the template are met, for `explain()`."""
        return ", ".join(f"{wanted.column} before the lanes" for wanted in self.question.fixed)

    def key_kind(self) -> Kind | None:
        """The kind of the keys."""
        return None if self.question.key is None else self.source.columns[self.question.key]

    def memory_bytes(self) -> int:
        """What the rows take."""
        return self.lanes.memory_bytes()

    def check(self) -> None:
        """Assert the invariants of lanes and of what is kept beside them; for tests."""
        self.lanes.check()

    def kept(self) -> Kept:
        """The rows that windows reach."""
        return self.lanes.kept()

    def restore(self, rows: Kept, now_us: int) -> None:
        """Take in rows that were kept; the queries are there already."""
        self.lanes.advance(now_us)
        self._append(rows.codes, rows.times, rows.values, rows.valid)

    def process(self, batch: pa.Table, side: int, registry: Registry) -> list[Processed]:
        """What the batch, and whatever came unasked before it, changed: by its last row."""
        return self.report(ALL, registry, batch.num_rows - 1)

    def report(self, share: Share, registry: Registry, row: int = 0) -> list[Processed]:
        """What went from the answers of a share since the last report, and what came.

        Should it fail to be put into words, nothing counts as told.
        """
        rows, told = np.array([row]), self.changes(share, registry)
        try:
            return [
                Processed(rows, hits_of(some), RelationRows.of(some, self.columns()))
                for some in told
            ]
        except BaseException:
            self.take_back(*told)
            raise

    @abstractmethod
    def changes(self, share: Share, registry: Registry) -> tuple[Relation, Relation]:
        """Answers of this share that went since the last report, and those that came.

        All living queries are taken as reported then.
        """

    @abstractmethod
    def take_back(self, went: Relation, came: Relation) -> None:
        """The last `changes` reached nobody: the next ones have them again."""

    @abstractmethod
    def use(self, way: str) -> None:
        """Start over with an empty strategy of this way."""

    @abstractmethod
    def answers(self, slots: Int64s, registry: Registry, *, exact: bool = True) -> Relation:
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
    def _told_codes(self) -> Iterator[Int64s]:
        """The codes of the keys that the next report may tell of as gone."""

    @abstractmethod
    def _append(self, codes: Int64s, times: Int64s, values: Values, valid: Bools) -> None: ...

    @abstractmethod
    def _all_moved(self) -> None:
        """All lanes have other places."""


REPORTED = ["query", "code", "raw", "known"]


def window_columns(question: Windowed, source: Input) -> list[tuple[str, pa.DataType]]:
    """The columns of answers: the key if there is one, the value if it is selected."""
    columns = []
    if question.key is not None and question.key_name is not None:
        columns.append((question.key_name, ARROW_TYPES[source.columns[question.key]]))
    if isinstance(question, WindowAggregate):
        columns.append((question.value_name, ARROW_TYPES[question.result]))
    return columns


def renumbered(rows: Relation, living: Int64s) -> Relation:
    """Rows of the living slots, with the slot's place among them as its number."""
    rows = rows.take(np.isin(rows.slots, living))
    return rows._replace(slots=np.searchsorted(living, rows.slots))


def kept_table(reader: WindowReader) -> pa.Table:
    """The rows that a reader keeps, as a snapshot holds them."""
    rows = reader.kept()
    # Lanes are numbered as they came; a snapshot does not tell.
    order = np.argsort(rows.codes, kind="stable")
    columns = (rows.codes, rows.times, rows.values.view(np.int64), rows.valid)
    return pa.table([column[order] for column in columns], names=["code", "time", "raw", "valid"])


def kept_of(table: pa.Table, reader: WindowReader) -> Kept:
    """The rows that `kept_table` wrote."""
    codes, times, raw, valid = (column.to_numpy().copy() for column in table.columns)
    values: Any = raw.view(reader.lanes.dtype)
    return Kept(codes, times, values, valid)
