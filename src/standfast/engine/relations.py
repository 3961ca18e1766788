"""The answers of windows as a relation; a report tells how it differs from the one before.

    query   key    value                before        now           reported
    7       ABC    12.5                 7 ABC 12.5    7 ABC 13.0    -1  7 ABC 12.5
    7       XYZ     3.0                               9 ABC  1.0    +1  7 ABC 13.0,  +1  9 ABC 1.0

Rows are sorted by slot and code. Values are compared bit by bit, so NaN equals itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from standfast.arrays import Int64s, Matches
from standfast.engine.cutting import entries, fitting
from standfast.engine.strings import Strings
from standfast.indexes.lane_kernels import Bools
from standfast.model.numbers import floats_of
from standfast.model.query import Kind
from standfast.model.rows import ARROW_TYPES


class Relation(NamedTuple):
    """Answers by slot and code; `raw` are the bits of the values, 0 where none is known."""

    slots: Int64s
    codes: Int64s
    raw: Int64s
    known: Bools

    @staticmethod
    def empty() -> Relation:
        nothing = np.empty(0, np.int64)
        return Relation(nothing, nothing, nothing, np.empty(0, np.bool_))

    def take(self, places: Int64s | Bools) -> Relation:
        return Relation(
            self.slots[places], self.codes[places], self.raw[places], self.known[places]
        )

    def slices(self, slots: Int64s) -> tuple[Int64s, Int64s]:
        """Where the rows of these slots begin, and how many there are of each."""
        if np.array_equal(self.slots, slots):  # one row each, and in order
            return np.arange(slots.size), np.ones(slots.size, np.int64)
        starts = np.searchsorted(self.slots, slots)
        return starts, np.searchsorted(self.slots, slots, side="right") - starts


def places_of(sought: Relation, within: Relation) -> Int64s:
    """Where each (slot, code) stands in another relation, or -1."""
    if np.array_equal(sought.slots, within.slots) and np.array_equal(sought.codes, within.codes):
        return np.arange(sought.slots.size)
    n = within.slots.size
    slots = np.concatenate([within.slots, sought.slots])
    codes = np.concatenate([within.codes, sought.codes])
    order = np.lexsort((codes, slots))  # stable: a row of `within` comes before its equal
    same = np.zeros(order.size, np.bool_)
    same[1:] = (np.diff(slots[order]) == 0) & (np.diff(codes[order]) == 0)
    places = np.full(sought.slots.size, -1, np.int64)
    at = np.flatnonzero(same & (order >= n))
    places[order[at] - n] = order[at - 1]
    return places


def in_order(parts: list[Relation]) -> Relation:
    """Rows of several relations by slot and code."""
    rows = Relation(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    steps = np.diff(rows.slots)
    # Codes are compared, for the difference of two may leave int64.
    if np.all((steps > 0) | ((steps == 0) & (rows.codes[1:] > rows.codes[:-1]))):
        return rows
    return rows.take(np.lexsort((rows.codes, rows.slots)))


@dataclass(frozen=True, slots=True)
class Columns:
    """How rows of a relation are shown: the key if there is one, the value if it is selected."""

    key: Kind | None
    value: Kind | None
    strings: Strings

    def of(self, rows: Relation) -> list[pa.ChunkedArray]:
        columns = []
        if self.key is not None:
            columns.append(shown(rows.codes, self.key, self.strings))
        if self.value is not None:
            values = rows.raw.view(np.float64) if self.value == "float64" else rows.raw
            array = pa.array(values, mask=~rows.known)
            columns.append(pa.chunked_array([array.cast(ARROW_TYPES[self.value])]))
        return columns


@dataclass(frozen=True, slots=True)
class RelationRows:
    """Result rows of windows: what the relation says of each affected query."""

    relation: Relation
    columns: Columns
    widest: int  # bytes of text that a row has at most

    @staticmethod
    def of(relation: Relation, columns: Columns) -> RelationRows:
        """Only texts are looked up now, each once: the engine may forget them."""
        if columns.key != "string":
            return RelationRows(relation, columns, 0)
        columns = replace(columns, strings=columns.strings.some(relation.codes))
        longest = max(map(len, columns.strings.codes), default=0)
        return RelationRows(relation, columns, 4 * longest)  # bytes of a character, at most

    def rows(
        self, events: Int64s, slots: Int64s, most: int
    ) -> Iterator[tuple[Int64s, list[pa.ChunkedArray]]]:
        most = min(most, fitting(self.widest))
        for pair, places in entries(*self.relation.slices(slots), most):
            yield pair, self.columns.of(self.relation.take(places))


def hits_of(relation: Relation) -> Matches:
    """One event, the batch, that hit every slot of the relation."""
    is_first = np.ones(relation.slots.size, np.bool_)
    is_first[1:] = np.diff(relation.slots) != 0
    slots = relation.slots[is_first].astype(np.int32)
    return Matches(np.array([0, slots.size]), slots)


def shown(codes: Int64s, kind: Kind, strings: Strings) -> pa.ChunkedArray:
    """The values of a column whose keys or codes these are."""
    if kind == "string":
        distinct, places = np.unique(codes, return_inverse=True)
        array = pa.array(strings.texts(distinct), pa.string()).take(pa.array(places))
    elif kind == "float64":
        array = pa.array(floats_of(codes))
    else:
        array = pa.array(codes).cast(ARROW_TYPES[kind])
    return pa.chunked_array([array])
