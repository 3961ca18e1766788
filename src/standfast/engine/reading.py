"""What readers of all questions share: the keys of a column, and the shape of what they return."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from standfast.arrays import Hits, Int64s
from standfast.engine.answer import Results
from standfast.engine.strings import Strings
from standfast.model.key_ranges import column_keys
from standfast.model.numbers import Keys, Mask
from standfast.model.query import Kind


class Processed(NamedTuple):
    """Hits of the events that can match at all; event e is row `rows[e]` of the batch."""

    rows: Int64s
    hits: Hits
    results: Results


def keys_of(column: pa.ChunkedArray, kind: Kind, strings: Strings) -> tuple[Keys, Mask]:
    """The key of each value, and which have one: null, NaN and unknown strings have none."""
    values = column.combine_chunks()
    return strings.keys(values) if kind == "string" else column_keys(values, kind)
