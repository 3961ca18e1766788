"""The rows of one input: kept as Arrow segments by row id, in order of any column asked for.

    segments   | ids 0..81919 | ids 81920..91000 | ids 91001..91200 |     largest first
    orders     price -> sorted runs of (key, row id)                      one for each join
    keys       table key -> row id                                        tables only

A stream keeps rows only from the moment a join reads it; a table always keeps them. Rows of a
stream that only window joins read go when they are before the *horizon*: what no living query can
reach any more.

Invariant  row ids ascend over all segments; each order holds the living rows that its literal
           conditions let through and whose values all have keys (neither null nor NaN); `keys`
           leads to exactly the living rows of a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from standfast.arrays import Int64s
from standfast.engine.cutting import text_bytes
from standfast.engine.door import Batch, Door
from standfast.engine.strings import Strings
from standfast.indexes.sorted_runs import RATIO, SortedRuns
from standfast.model.key_ranges import column_keys, row_mask
from standfast.model.query import Range
from standfast.model.rows import ARROW_TYPES
from standfast.model.stream import Input

Mask = npt.NDArray[np.bool_]

# Rows that came since the last look for old ones, as a share of all, before the next look.
LOOK_AGAIN = 8


class OrderBy(NamedTuple):
    """What a join wants to find rows by: blocks of `code`, in order of `key`, with `extras`.

    Without a `key` every row has key 0. Only rows that satisfy `fixed` are in the order.
    """

    key: str | None
    code: str | None = None
    extras: tuple[str, ...] = ()
    fixed: tuple[Range, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column whose values are kept."""
        named = (self.key, self.code, *self.extras)
        return tuple(dict.fromkeys(name for name in named if name is not None))


class Entries(NamedTuple):
    """Rows as an order holds them."""

    keys: Int64s
    ids: Int64s
    codes: Int64s
    extras: Int64s


class Segment(NamedTuple):
    """Consecutive rows that were stored together."""

    ids: Int64s
    rows: pa.Table
    alive: Mask


class Rows(NamedTuple):
    """Rows as they were stored at one moment; later changes of the store do not reach them."""

    schema: pa.Schema
    segments: tuple[Segment, ...]

    def only(self, names: list[str]) -> Rows:
        """The same rows with these columns alone."""
        fields = [self.schema.field(name) for name in names]
        some = (segment._replace(rows=segment.rows.select(names)) for segment in self.segments)
        return Rows(pa.schema(fields), tuple(some))

    def text_bytes(self, ids: Int64s) -> Int64s:
        """How many bytes of text each of these rows has."""
        found = np.zeros(ids.size, np.int64)
        for segment in self.segments:
            within, inside = _places(segment, ids)
            found[inside] = text_bytes(segment.rows, within)
        return found

    def take(self, ids: Int64s) -> pa.Table:
        """The rows with these ids, in this order."""
        taken, order = [self.schema.empty_table()], [np.empty(0, np.int64)]
        # Segment by segment, because taking from a table in chunks joins all its text first.
        for segment in self.segments:
            within, inside = _places(segment, ids)
            if within.size:
                taken.append(segment.rows.take(pa.array(within)))
                order.append(np.flatnonzero(inside))
        return pa.concat_tables(taken).take(pa.array(np.argsort(np.concatenate(order))))


class Store:
    """Rows of one input, by id, by key and in order of the join columns."""

    def __init__(self, source: Input, strings: Strings) -> None:
        self.input = source
        self.strings = strings
        strings.used_by(self._string_codes)
        self.schema = pa.schema([(n, ARROW_TYPES[kind]) for n, kind in source.columns.items()])
        self.keeps = source.kind == "table"
        self.is_forgone = False  # whether rows are not kept all the same
        self.n_living = 0
        self.next_id = 0
        self._segments: list[Segment] = []
        self.horizon: int | None = None
        self._expired: int | None = None  # the horizon that rows were last looked at with
        self._unseen = 0  # rows that came since
        self._orders: dict[OrderBy, SortedRuns] = {}
        self._keys: dict[Any, int] = {}

    def __len__(self) -> int:
        return self.n_living

    @property
    def holds_rows(self) -> bool:
        """Whether rows that come stay."""
        return self.keeps and not self.is_forgone

    def published(self) -> Rows:
        """The rows of this moment, for answers that are written out later."""
        return Rows(self.schema, tuple(self._segments))

    def order(self, by: OrderBy) -> SortedRuns:
        """The living rows in this order, kept up to date from now on."""
        self.keeps = True
        if by not in self._orders:
            self._orders[by] = SortedRuns(coded=by.code is not None, n_extras=len(by.extras))
            for segment in self._segments:
                rows = segment.rows.filter(segment.alive)
                self._orders[by].insert(*self._entries(by, segment.ids[segment.alive], rows))
        return self._orders[by]

    def append(self, rows: pa.Table) -> None:
        """Store rows of a stream, or rows of a table whose keys are free."""
        ids = np.arange(self.next_id, self.next_id + rows.num_rows)
        self.next_id += rows.num_rows
        if not self.holds_rows or not rows.num_rows:
            return
        for by, order in self._orders.items():
            order.insert(*self._entries(by, ids, rows))
        self._unseen += ids.size
        self.n_living += ids.size
        self._segments.append(Segment(ids, rows, np.ones(ids.size, np.bool_)))
        while len(self._segments) > 1 and (
            self._segments[-2].ids.size < RATIO * self._segments[-1].ids.size
        ):
            self._segments[-2:] = [_joined(self._segments[-2:])]
        if self.input.key:
            self._keys.update(zip(key_values(self.input, rows), ids.tolist(), strict=True))

    def find(self, keys: list[Any]) -> Int64s:
        """Row id of each key of a table, or -1."""
        return np.array([self._keys.get(key, -1) for key in keys], np.int64)

    def replaced_by(self, batch: Batch) -> tuple[Batch, Int64s, Batch]:
        """What a batch replaces in this table: old rows, their ids, and the rows to store.

        Of several rows with one key the last counts; a row equal to the stored one changes nothing.
        """
        keys = key_values(self.input, batch.rows)
        last = np.array(sorted({key: i for i, key in enumerate(keys)}.values()), np.int64)
        found = self.find([keys[i] for i in last])
        present = found >= 0
        old = self.published().take(found[present])
        same = np.zeros(last.size, np.bool_)
        same[present] = _equal_rows(old, batch.rows.take(pa.array(last[present])))
        changed, gone = last[~same], present & ~same
        return (
            Batch(old.filter(pa.array(~same[present])), batch.places[last[gone]], batch.n_rows),
            found[gone],
            Batch(batch.rows.take(pa.array(changed)), batch.places[changed], batch.n_rows),
        )

    def named_by(self, batch: Batch, door: Door) -> tuple[Batch, Int64s]:
        """The living rows that keys name, each once; unknown and repeated keys stay outside."""
        keys = key_values(self.input, batch.rows)
        places = {key: i for i, key in reversed(list(enumerate(keys)))}
        first = np.array(sorted(places.values()), np.int64)
        found = self.find([keys[i] for i in first])
        unknown = np.setdiff1d(np.arange(len(keys)), first[found >= 0])
        if unknown.size:
            texts = [str(keys[i]) for i in unknown]
            door.reject(batch.places[unknown], "unknown key", self.input.key[0], texts)
        known = found >= 0
        old = self.published().take(found[known])
        return Batch(old, batch.places[first[known]], batch.n_rows), found[known]

    def delete(self, ids: Int64s) -> None:
        """Forget these living rows."""
        self.n_living -= ids.size
        rows = self.published().take(ids)
        for by, order in self._orders.items():
            gone = self._entries(by, ids, rows)
            order.delete(gone.keys, gone.ids, gone.codes)
        if self.input.key:
            for key in key_values(self.input, rows):
                del self._keys[key]
        for i, segment in enumerate(self._segments):
            within, inside = _places(segment, ids)
            if inside.any():
                alive = segment.alive.copy()
                alive[within] = False
                self._segments[i] = segment._replace(alive=alive)
        self._segments = [_compact(s) for s in self._segments if s.alive.any()]

    def expire(self, horizon: int) -> None:
        """Rows with a time before the horizon are not needed any more.

        They go when enough rows came since the last time to pay for looking at all.
        """
        self.horizon = horizon if self.horizon is None else max(self.horizon, horizon)
        if LOOK_AGAIN * self._unseen >= len(self):
            self.expire_now()

    def keep_more(self) -> None:
        """Somebody will need older rows from now on: those before the horizon go first.

        So what a newcomer sees does not depend on when old rows were last looked for.
        """
        self.expire_now()
        self.horizon = None

    def expire_now(self) -> None:
        """Let every row go that is before the horizon."""
        if self.horizon is None or (self._unseen == 0 and self._expired == self.horizon):
            return
        self._unseen, self._expired = 0, self.horizon
        old = [np.empty(0, np.int64)]
        for segment in self._segments:
            times, _ = column_keys(segment.rows[self.input.time or ""], "timestamp")
            old.append(segment.ids[segment.alive & (times < self.horizon)])
        ids = np.concatenate(old)
        if ids.size:
            self.delete(ids)

    def living(self) -> pa.Table:
        """All living rows in order of their ids."""
        tables = [segment.rows.filter(segment.alive) for segment in self._segments]
        return pa.concat_tables(tables) if tables else self.schema.empty_table()

    def memory_bytes(self) -> int:
        rows = sum(s.rows.nbytes + s.ids.nbytes + s.alive.nbytes for s in self._segments)
        return int(rows + sum(order.memory_bytes() for order in self._orders.values()))

    def check(self) -> None:
        ids = [segment.ids for segment in self._segments]
        flat = np.concatenate(ids) if ids else np.empty(0, np.int64)
        assert np.all(flat[:-1] < flat[1:]), "row ids do not ascend over the segments"
        living = self.living()
        alive = [segment.ids[segment.alive] for segment in self._segments]
        held = np.concatenate([np.empty(0, np.int64), *alive])
        assert held.size == self.n_living, "living rows are miscounted"
        for by, order in self._orders.items():
            order.check()
            wanted = self._entries(by, held, living)
            assert np.array_equal(np.sort(wanted.keys), order.keys()), (
                f"the order of {by.columns} differs"
            )
        if self.input.key:
            found = self.find(key_values(self.input, living))
            assert len(self._keys) == found.size, "keys and living rows differ in number"
            assert np.array_equal(found, held), "a key leads astray"

    def _entries(self, by: OrderBy, ids: Int64s, rows: pa.Table) -> Entries:
        """These rows as an order holds them, without those that it leaves out."""
        usable = row_mask(by.fixed, rows)
        keys = {}
        for name in by.columns:
            column = rows[name].combine_chunks()
            if self.input.columns[name] == "string":
                keys[name] = self.strings.intern(column)
                valid = keys[name] >= 0
            else:
                keys[name], valid = column_keys(column, self.input.columns[name])
            usable = usable & valid
        nothing = np.empty(0, np.int64)
        return Entries(
            keys[by.key][usable] if by.key else np.zeros(np.count_nonzero(usable), np.int64),
            ids[usable],
            keys[by.code][usable] if by.code else nothing,
            np.array([keys[name][usable] for name in by.extras], np.int64).reshape(
                len(by.extras), -1 if by.extras else 0
            ),
        )

    def _string_codes(self) -> Iterator[Int64s]:
        """The codes of the strings that orders hold."""
        for by, order in self._orders.items():
            for run in order.runs:
                if by.code and self.input.columns[by.code] == "string":
                    yield np.unique(run.codes)
                for i, name in enumerate(by.extras):
                    if self.input.columns[name] == "string":
                        yield np.unique(run.extras[i])


def key_values(source: Input, rows: pa.Table) -> list[Any]:
    """The key of each row as a hashable value."""
    columns = [rows[name].to_pylist() for name in source.key]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def _places(segment: Segment, ids: Int64s) -> tuple[Int64s, Mask]:
    """Places in a segment of those ids that lie in its range, and which do."""
    inside = (ids >= segment.ids[0]) & (ids <= segment.ids[-1])
    return np.searchsorted(segment.ids, ids[inside]), inside


def _equal_rows(one: pa.Table, other: pa.Table) -> Mask:
    """Which rows are equal in every column; null equals null, and NaN equals NaN."""
    equal = np.ones(one.num_rows, np.bool_)
    for a, b in zip(one.columns, other.columns, strict=True):
        same = pc.equal(a, b)
        if pa.types.is_floating(a.type):
            same = pc.or_(same, pc.and_(pc.is_nan(a), pc.is_nan(b)))
        same = pc.or_(same.fill_null(False), pc.and_(a.is_null(), b.is_null()))
        equal &= same.to_numpy(zero_copy_only=False)
    return equal


def _joined(segments: list[Segment]) -> Segment:
    return Segment(
        np.concatenate([s.ids[s.alive] for s in segments]),
        pa.concat_tables([s.rows.filter(s.alive) for s in segments]).combine_chunks(),
        np.ones(sum(int(np.count_nonzero(s.alive)) for s in segments), np.bool_),
    )


def _compact(segment: Segment) -> Segment:
    return _joined([segment]) if 2 * np.count_nonzero(segment.alive) < segment.ids.size else segment
