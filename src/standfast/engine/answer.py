"""The answer of one template to one batch: compact inside, enumerated when asked.

An answer is a few `Part`s, each the hits of some rows on some queries with a sign: +1 for rows
that came, -1 for rows that went. Nothing in it changes when queries or rows change later.
What is too much to enumerate at once is cut into answers that are not (`Answer.pieces`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
import pyarrow as pa

from standfast._numba import in_parts, kernel
from standfast.arrays import Hits, Int64s, Matches, SpanList, expand, pooled
from standfast.engine.cutting import cuts, slots_of
from standfast.errors import BadInput, FailedAggregate

PAIRS_AT_ONCE = 1 << 20  # looked through at once to count queries that several parts name
EVERYTHING = 1 << 62

Rows = tuple[Int64s, list[pa.ChunkedArray]]


class Results(Protocol):
    """Turns pairs of event and slot into result rows."""

    def rows(self, events: Int64s, slots: Int64s, most: int) -> Iterator[Rows]:
        """For pairs (event, slot): which pair each result row belongs to, and the columns.

        In pieces of at most `most` rows, if there are no more pairs than that.
        """


@dataclass(frozen=True, slots=True)
class SomeResults:
    """Result rows of some events: its event e is event `events[e]` of the whole."""

    whole: Results
    events: Int64s

    def rows(self, events: Int64s, slots: Int64s, most: int) -> Iterator[Rows]:
        return self.whole.rows(self.events[events], slots, most)


@dataclass(frozen=True, slots=True)
class Part:
    """Hits of some events: event e is the pushed row `rows[e]`; `ids[slot]` names the query."""

    change: Literal[1, -1]
    rows: Int64s
    hits: Hits
    ids: Int64s
    results: Results

    def take(self, events: Int64s, first: int) -> Part:
        """Only these events, of rows from `first` on, which are numbered anew."""
        rows, results = self.rows[events] - first, SomeResults(self.results, events)
        return Part(self.change, rows, self.hits.take(events), self.ids, results)

    def cut(self, most: int) -> Iterator[Part]:
        """The hits of its only event, at most so many at a time."""
        for slots in slots_of(self.hits.spans(), most):
            hits = Matches(np.array([0, slots.size]), slots)
            yield Part(self.change, self.rows, hits, self.ids, self.results)


# What a template has to say to a batch: what the batch changed, or why that is not known.
Outcome = Sequence[Part] | FailedAggregate


@dataclass(frozen=True)
class Spans:
    """An answer as slices: span i says that row `row[i]` affected `order[start[i]:stop[i]]`.

    Entries of the order that are null were removed before; of span i only entries whose `rank`
    is at least `floor[i]` count, the others stand in an earlier span of the same row. A row that
    meets a query on both sides of a self join has it in a span of each side.
    """

    spans: pa.Table  # row, start, stop, floor, change
    _orders: tuple[tuple[SpanList, Int64s], ...]  # each with the ids of its slots

    @cached_property
    def order(self) -> pa.Array:
        """The ids of the queries in the order that spans slice; as long as there are queries."""
        named = [pa.array([], pa.int64())]
        for spans, ids in self._orders:
            slots = spans.order
            named.append(pa.array(ids[np.where(slots < 0, 0, slots)], mask=slots < 0))
        return pa.concat_arrays(named)

    @cached_property
    def rank(self) -> pa.Array:
        """The rank of each entry of the order."""
        return pa.array(_flat([spans.ranks for spans, _ in self._orders], np.int32))

    def ids(self, i: int) -> list[int]:
        """The queries of span i."""
        span = self.spans.slice(i, 1).to_pylist()[0]
        order = self.order[span["start"] : span["stop"]].to_pylist()
        rank = self.rank[span["start"] : span["stop"]].to_pylist()
        return [q for q, r in zip(order, rank, strict=True) if q is not None and r >= span["floor"]]


class Answer:
    """What a pushed batch changed for the standing queries of one template.

    Where an aggregate of the user's own failed, `failed` is the error, and whoever asks for the
    changes gets it raised; they are told by a later answer, once it does not fail.
    """

    failed: FailedAggregate | None

    def __init__(
        self, n_rows: int, outcome: Outcome, schema: pa.Schema, *, signed: bool,
        counts: Int64s | None = None,
    ) -> None:  # fmt: skip
        self.n_rows = n_rows
        self._counts = counts  # pairs of each row, once they are known
        self.failed = outcome if isinstance(outcome, FailedAggregate) else None
        parts = () if isinstance(outcome, FailedAggregate) else tuple(outcome)
        self._known = parts
        self._schema = schema
        self._signed = signed
        # In a self join a row arrives on both sides, each a part, and can meet a query on both.
        self._doubled = len({part.change for part in parts}) < len(parts)

    def __repr__(self) -> str:
        inside = f"{len(self._known)} parts" if self.failed is None else "failed"
        return f"Answer({self.n_rows} rows, {inside})"

    @property
    def _parts(self) -> tuple[Part, ...]:
        if self.failed is not None:
            raise self.failed
        return self._known

    def counts(self, by: Literal["row", "query"] = "row") -> pa.Table:
        """How many queries each pushed row affected, or how many rows affected each query.

        By row every pushed row is listed; by query only those that were affected. A row that
        left a query's result and came back changed affected it once.
        """
        if by not in ("row", "query"):
            raise BadInput(f"counts by {by!r} are not known", hint='by="row" or by="query"')
        if by == "row" and len(self._parts) <= 1:
            return pa.table({"row": np.arange(self.n_rows), "queries": self._row_counts()})
        if by == "row":
            counts = np.zeros(self.n_rows, np.int64)
            for first, piece in self.pieces(PAIRS_AT_ONCE):
                some = np.bincount(piece._named()["row"].to_numpy(), minlength=piece.n_rows)
                counts[first : first + piece.n_rows] = some
            return pa.table({"row": np.arange(self.n_rows), "queries": counts})
        pairs = self._named()
        query, rows = np.unique(pairs["query"].to_numpy(), return_counts=True)
        return pa.table({"query": query, "rows": rows})

    def pairs(self) -> pa.Table:
        """(row, query): which query is affected by which pushed row.

        Rows ascend; the queries of a row come in no particular order. Answers about tables have a
        third column, `change`: -1 for what went, +1 for what came.
        """
        counts = self._row_counts()
        starts = np.cumsum(counts) - counts
        query = pooled(int(counts.sum()), np.int64)
        change = np.empty(query.size if self._signed else 0, np.int8)
        for part in self._parts:
            own = self._part_counts(part)
            places = starts[part.rows]
            part.hits.fill(places, part.ids, query)
            if self._signed:
                change[expand(places, own)] = part.change
            starts[part.rows] += own
        columns = {"row": repeated(counts), "query": query}
        pairs = pa.table(columns | {"change": change} if self._signed else columns)
        return _distinct(pairs) if self._doubled else pairs

    def rows(self) -> pa.Table:
        """The changed result rows: query, the selected columns, change (+1 / -1)."""
        return self.traced_rows()[0]

    def traced_rows(self) -> tuple[pa.Table, Int64s]:
        """The changed result rows, and for each the pushed row that it comes from."""
        found = list(self._traced(EVERYTHING))
        table = pa.concat_tables([self._schema.empty_table(), *(rows for rows, _ in found)])
        return table, _flat([pushed for _, pushed in found], np.int64)

    def traced_pieces(self, most: int) -> Iterator[tuple[pa.Table, Int64s]]:
        """The same in pieces; never are more than `most` pairs or rows enumerated at once."""
        for first, piece in self.pieces(most, "result"):
            for rows, pushed in piece._traced(most):
                yield rows, pushed + first

    def _traced(self, most: int) -> Iterator[tuple[pa.Table, Int64s]]:
        for part in self._parts:
            counts = self._part_counts(part)
            if not counts.any():
                continue
            slots = np.empty(int(counts.sum()), np.int64)
            part.hits.fill(np.cumsum(counts) - counts, np.arange(part.ids.size), slots)
            events = np.repeat(np.arange(part.hits.n_events), counts)
            for pair, columns in part.results.rows(events, slots, most):
                change = pa.array(np.full(pair.size, part.change, np.int8))
                query = pa.array(part.ids[slots[pair]])
                table = pa.Table.from_arrays([query, *columns, change], schema=self._schema)
                yield table, part.rows[events[pair]]

    def pieces(
        self, most: int, cut: Literal["pair", "result"] | None = None
    ) -> Iterator[tuple[int, Answer]]:
        """The same as answers with at most `most` pairs each, and the pushed row each begins with.

        A row with more pairs is a piece by itself, or cut: into pairs that `pairs` would name, or
        into all that `rows` would write, which has queries on both sides of a self join twice.
        """
        if not isinstance(most, int) or most < 1:
            raise BadInput(f"a piece of an answer has 1 pair at least, not {most!r}")
        counts = self._row_counts()
        if counts.sum() <= most:
            yield 0, self
            return
        by_row = [np.argsort(part.rows, kind="stable") for part in self._parts]
        for first, last in cuts(counts, most):
            own, parts = counts[first:last], []
            for part, order in zip(self._parts, by_row, strict=True):
                begin, end = np.searchsorted(part.rows, (first, last), sorter=order)
                if begin < end:
                    parts.append(part.take(np.sort(order[begin:end]), first))
            piece = Answer(own.size, parts, self._schema, signed=self._signed, counts=own)
            if cut is None or own.sum() <= most:
                yield first, piece
            else:
                yield from ((first, some) for some in piece._cut(most, cut))

    def _cut(self, most: int, by: Literal["pair", "result"]) -> Iterator[Answer]:
        """The pairs of the only row, at most so many at a time."""
        seen = {part.change: np.zeros(part.ids.size, np.bool_) for part in self._parts}
        for part in self._parts:
            for some in part.cut(most):
                if by == "pair" and self._doubled:
                    slots = some.hits.spans().order
                    slots = slots[~seen[part.change][slots]]
                    seen[part.change][slots] = True
                    hits = Matches(np.array([0, slots.size]), slots)
                    some = replace(some, hits=hits)
                yield Answer(1, [some], self._schema, signed=self._signed)

    def spans(self) -> Spans:
        """The same answer in compact form, before anything is enumerated."""
        row, start, stop, floor, change = [], [], [], [], []
        orders, base = [], 0
        for part in self._parts:
            spans = part.hits.spans()
            row.append(part.rows[spans.events])
            start.append(spans.starts + base)
            stop.append(spans.stops + base)
            floor.append(spans.floors)
            change.append(np.full(spans.events.size, part.change, np.int8))
            orders.append((spans, part.ids))
            base += spans.n_entries
        columns = [_flat(c, np.int64) for c in (row, start, stop, floor)] + [_flat(change, np.int8)]
        return Spans(
            pa.table(columns, names=["row", "start", "stop", "floor", "change"]), tuple(orders)
        )

    def _named(self) -> pa.Table:
        """(row, query), each once, whether something came, went or both."""
        pairs = self.pairs().select(["row", "query"])
        return _distinct(pairs) if len(self._parts) > 1 else pairs

    def _row_counts(self) -> Int64s:
        """How many pairs each row has, over all parts."""
        if self._counts is None:
            self._counts = np.zeros(self.n_rows, np.int64)
            for part in self._parts:
                self._counts[part.rows] += part.hits.counts()
        return self._counts

    def _part_counts(self, part: Part) -> Int64s:
        """How many pairs each event of a part has."""
        return part.hits.counts() if len(self._parts) > 1 else self._row_counts()[part.rows]


def _distinct(pairs: pa.Table) -> pa.Table:
    """Each pair once, still in order of the rows."""
    columns = [column.to_numpy() for column in pairs.columns]
    order = np.lexsort(columns[::-1])
    is_new = np.ones(order.size, np.bool_)
    is_new[1:] = np.any([np.diff(column[order]) != 0 for column in columns], axis=0)
    return pairs.take(pa.array(order[is_new]))


def _flat(arrays: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate(arrays) if arrays else np.empty(0, dtype)


def repeated(counts: Int64s) -> Int64s:
    """0 counts[0] times, 1 counts[1] times, and so on."""
    ends = np.cumsum(counts)
    out = pooled(int(ends[-1]) if ends.size else 0, np.int64)

    def fill(first: int, last: int) -> None:
        _repeat(first, ends[first:last] - counts[first:last], ends[first:last], out)

    in_parts(fill, counts.size, cost=out.size)
    return out


@kernel
def _repeat(first: int, starts: Int64s, ends: Int64s, out: Int64s) -> None:
    for i in range(starts.size):
        out[starts[i] : ends[i]] = first + i
