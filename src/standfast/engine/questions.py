"""What a question does with a batch of rows: keys for the strategy, result rows for the answer.

One class per question, each with the same steps: `use` (an empty strategy of some way), `process`
(which queries are affected, left compact) and, in what that returns, `rows` (the result tuples,
when somebody asks for them).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from standfast.arrays import Hits, Int64s
from standfast.engine.answer import Results, expand
from standfast.engine.registry import Registry
from standfast.engine.store import Rows, Store
from standfast.indexes.sorted_runs import Run, slices
from standfast.model.numbers import Keys, Mask
from standfast.model.parameters import column_keys, row_mask
from standfast.model.query import BandJoin, Filter, Output, Question
from standfast.operators.base import BandStrategy, FilterStrategy
from standfast.operators.catalog import BAND_JOINS, FILTERS


class Processed(NamedTuple):
    """Hits of the events that can match at all; event e is row `rows[e]` of the batch."""

    rows: Int64s
    hits: Hits
    results: Results


class Strings:
    """Codes for the strings that queries compare with, ascending; events never add any."""

    def __init__(self) -> None:
        self.codes: dict[str, dict[str, int]] = {}

    def intern(self, column: str, values: npt.NDArray[Any]) -> Int64s:
        """The code of each string, a new one where it is new."""
        known = self.codes.setdefault(column, {})
        found = pa.array(values, pa.string()).dictionary_encode()
        texts = found.dictionary.to_pylist()
        for text in texts:
            if text not in known:
                known[text] = next(reversed(known.values()), -1) + 1
        codes: Int64s = np.array([known[text] for text in texts], np.int64)
        places: Int64s = codes[found.indices.to_numpy()]
        return places

    def keep(self, column: str, codes: Int64s) -> None:
        """Forget the strings of a column whose code is not among these."""
        kept = set(codes.tolist())
        self.codes[column] = {t: c for t, c in self.codes[column].items() if c in kept}

    def keys(self, column: str, values: pa.Array) -> tuple[Keys, Mask]:
        """The code of each string of an event column, and which have one.

        Costs a look-up for each different string of the batch, however many queries know.
        """
        known, found = self.codes.get(column, {}), values.dictionary_encode()
        codes = np.array([known.get(t, -1) for t in found.dictionary.to_pylist()] + [-1], np.int64)
        keys: Keys = codes[found.indices.fill_null(codes.size - 1).to_numpy()]
        return keys, keys >= 0


class FilterReader:
    """Answers a `filter` template."""

    strategy: FilterStrategy

    def __init__(self, question: Filter, strings: Strings) -> None:
        self.question = question
        self.strings = strings
        self.inputs = (question.input,)

    def use(self, way: str) -> None:
        """Start over with an empty strategy of this way."""
        self.strategy = FILTERS[way](len(self.question.ranges))

    def process(self, batch: pa.Table, side: int, registry: Registry) -> Processed:
        """Hits of the batch; rows with a null or NaN in a compared column match nothing."""
        usable = row_mask(self.question.fixed, batch)
        values = np.empty((len(self.question.ranges), batch.num_rows), np.int64)
        for a, wanted in enumerate(self.question.ranges):
            column = batch[wanted.column].combine_chunks()
            if wanted.kind == "string":
                values[a], valid = self.strings.keys(wanted.column, column)
            else:
                values[a], valid = column_keys(column, wanted.kind)
            usable = usable & valid
        rows = np.flatnonzero(usable)
        hits = self.strategy.process(values[:, rows])
        return Processed(rows, hits, FilterResults(self.question.select, batch, rows))


@dataclass(frozen=True, slots=True)
class FilterResults:
    """Result rows of a filter: the pushed rows themselves."""

    select: tuple[Output, ...]
    batch: pa.Table
    kept: Int64s

    def rows(self, events: Int64s, slots: Int64s) -> tuple[Int64s, list[pa.ChunkedArray]]:
        taken = self.batch.take(pa.array(self.kept[events]))
        return np.arange(events.size), [taken[output.column] for output in self.select]


class BandReader:
    """Answers a `band_join` template."""

    strategy: BandStrategy

    def __init__(self, question: BandJoin, stores: Mapping[str, Store]) -> None:
        self.question = question
        self.is_float = question.band.kind == "float64"
        self.inputs = tuple(side.input for side in question.sides)
        self.stores = tuple(stores[name] for name in self.inputs)
        for side, store in zip(question.sides, self.stores, strict=True):
            store.order(side.column)

    def use(self, way: str) -> None:
        """Start over with an empty strategy of this way."""
        self.strategy = BAND_JOINS[way](is_float=self.is_float)

    def process(self, batch: pa.Table, side: int, registry: Registry) -> Processed:
        """Hits of rows that arrive on `side` against the rows stored for the other side."""
        column = batch[self.question.sides[side].column].combine_chunks()
        keys, valid = column_keys(column, self.question.band.kind)
        rows = np.flatnonzero(valid)
        rows = rows[np.argsort(keys[rows], kind="stable")]
        events, other = keys[rows], self.stores[1 - side]
        stored = other.order(self.question.sides[1 - side].column)
        minuend = side != self.question.subtrahend
        hits = self.strategy.process(events, stored, minuend=minuend)
        bands = Bands(registry.lows[0], registry.highs[0], self.is_float, minuend)
        results = BandResults(
            self.question.select, side, batch, rows, events,
            bands, stored.published(), other.published(),
        )  # fmt: skip
        return Processed(rows, hits, results)


class Bands(NamedTuple):
    """The bands by slot, and how the difference is taken."""

    lows: Keys
    highs: Keys
    is_float: bool
    minuend: bool


@dataclass(frozen=True, slots=True)
class BandResults:
    """Result rows of a band join: each affected query covers a slice of every run of the store."""

    select: tuple[Output, ...]
    side: int
    batch: pa.Table
    kept: Int64s
    events: Int64s
    bands: Bands
    runs: tuple[Run, ...]
    stored: Rows

    def rows(self, events: Int64s, slots: Int64s) -> tuple[Int64s, list[pa.ChunkedArray]]:
        pairs, ids = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        lows, highs, is_float, minuend = self.bands
        for run in self.runs:
            starts, stops = np.empty(events.size, np.int64), np.empty(events.size, np.int64)
            slices(
                run.keys, self.events[events], lows[slots], highs[slots],
                is_float, minuend, starts, stops,
            )  # fmt: skip
            places = expand(starts, stops - starts)
            alive = run.alive[places]
            pairs.append(np.repeat(np.arange(events.size), stops - starts)[alive])
            ids.append(run.ids[places][alive])
        pair = np.concatenate(pairs)
        arrived = self.batch.take(pa.array(self.kept[events[pair]]))
        found = self.stored.take(np.concatenate(ids))
        return pair, [
            (arrived if output.side == self.side else found)[output.column]
            for output in self.select
        ]


def reader_of(
    question: Question, strings: Strings, stores: Mapping[str, Store]
) -> FilterReader | BandReader:
    """The reader that answers this question."""
    if isinstance(question, Filter):
        return FilterReader(question, strings)
    assert isinstance(question, BandJoin), "only band joins have a reader so far"
    return BandReader(question, stores)


def result_schema(question: Question, stores: Mapping[str, Store]) -> pa.Schema:
    """Columns of `Answer.rows`: the query, what the template selects, the change."""
    inputs = (
        (question.input,)
        if isinstance(question, Filter)
        else tuple(side.input for side in question.sides)
    )
    fields = [
        (output.name, stores[inputs[output.side]].schema.field(output.column).type)
        for output in question.select
    ]
    return pa.schema([("query", pa.int64()), *fields, ("change", pa.int8())])
