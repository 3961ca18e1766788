"""Who reads a template: one reader per shape of question, each with much the same steps.

`use` starts an empty strategy of some way, `boxes` gives it the ranges of queries, `process` tells
which queries a batch affects, left compact, and what that returns writes `rows` when asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from standfast.arrays import Int64s
from standfast.engine.aggregates import AggregateReader
from standfast.engine.cutting import text_bytes, text_cuts
from standfast.engine.joins import JoinReader
from standfast.engine.reading import Processed, keys_of
from standfast.engine.registry import Registry
from standfast.engine.store import Store
from standfast.engine.strings import Strings
from standfast.engine.thresholds import ThresholdReader
from standfast.engine.windows import window_columns
from standfast.model.key_ranges import row_mask
from standfast.model.query import Filter, KeyThreshold, Output, Question, WindowAggregate
from standfast.operators.aggregates import UserAggregate
from standfast.operators.base import FilterStrategy
from standfast.operators.catalog import FILTERS


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

    def boxes(self, slots: Int64s, registry: Registry) -> tuple[Int64s, Int64s]:
        """The ranges that the strategy indexes: all of them."""
        # `take` and not an index, because that may leave the rows scattered in memory.
        return registry.lows.take(slots, axis=1), registry.highs.take(slots, axis=1)

    def process(self, batch: pa.Table, side: int, registry: Registry) -> list[Processed]:
        """Hits of the batch; rows with a null or NaN in a compared column match nothing."""
        usable = row_mask(self.question.fixed, batch)
        values = np.empty((len(self.question.ranges), batch.num_rows), np.int64)
        for a, wanted in enumerate(self.question.ranges):
            values[a], valid = keys_of(batch[wanted.column], wanted.kind, self.strings)
            usable = usable & valid
        rows = np.flatnonzero(usable)
        hits = self.strategy.process(values[:, rows])
        return [Processed(rows, hits, FilterResults(self.question.select, batch, rows))]

    def enter(self, registry: Registry, highs: Int64s) -> None:
        """Queries are about to come."""

    def leave(self, registry: Registry, slots: Int64s) -> None:
        """Queries went."""

    def conditions(self) -> str:
        """How the conditions of the template are met, for `explain()`."""
        parts = [f"{wanted.column} before the index" for wanted in self.question.fixed]
        return ", ".join(
            parts + [f"{wanted.column} by the index" for wanted in self.question.ranges]
        )


@dataclass(frozen=True, slots=True)
class FilterResults:
    """Result rows of a filter: the pushed rows themselves."""

    select: tuple[Output, ...]
    batch: pa.Table
    kept: Int64s

    def rows(
        self, events: Int64s, slots: Int64s, most: int
    ) -> Iterator[tuple[Int64s, list[pa.ChunkedArray]]]:
        names = dict.fromkeys(output.column for output in self.select)
        batch, kept = self.batch.select(list(names)), self.kept[events]
        for first, last in text_cuts(text_bytes(batch, kept)):
            taken = batch.take(pa.array(kept[first:last]))
            yield np.arange(first, last), [taken[output.column] for output in self.select]


Reader = FilterReader | JoinReader | AggregateReader | ThresholdReader


def reader_of(
    question: Question, strings: Strings, stores: Mapping[str, Store],
    users: Mapping[str, UserAggregate],
) -> Reader:  # fmt: skip
    """The reader that answers this question; `users` are the aggregates that users brought."""
    if isinstance(question, Filter):
        return FilterReader(question, strings)
    if isinstance(question, WindowAggregate):
        return AggregateReader(question, strings, stores, users)
    if isinstance(question, KeyThreshold):
        return ThresholdReader(question, strings, stores)
    return JoinReader(question, strings, stores)


def result_schema(question: Question, stores: Mapping[str, Store]) -> pa.Schema:
    """Columns of `Answer.rows`: the query, what the template selects, the change."""
    if isinstance(question, WindowAggregate | KeyThreshold):
        columns = window_columns(question, stores[question.input].input)
        return pa.schema([("query", pa.int64()), *columns, ("change", pa.int8())])
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
