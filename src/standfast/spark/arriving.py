"""Rows as they arrive in the tasks that pack them: times in UTC, and the files that they come from.

Spark deals the files of a micro-batch to tasks by size, the largest first. Where a row replaces
another one, as changes of queries do too, chunks say which file they are from, and a shard takes
them in the order of the files: the one that was modified last comes last, of those of one time the
one with the last name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from standfast.spark.wire import PLACE

# Where a row comes from: when its file was modified, the file, and the part of it that is read.
FILE = ("standfast modified", "standfast path", "standfast start")
TEXT = "standfast text"  # of a row that Spark could not read; null where it could
_UTC = pa.timestamp("us", "UTC")
_DAYS = 10**8  # more than these do not fit into microseconds, and no door lets them in
_DAY_US = 86_400 * 10**6

Batches = Iterable[pa.RecordBatch]


def arriving(
    pack: Callable[[Batches], Iterator[pa.RecordBatch]], batches: Batches
) -> Iterator[pa.RecordBatch]:
    """Pack rows, put right before."""
    yield from pack(map(in_utc, by_file(batches)))


def in_utc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Dates and times without a zone as times in UTC, whatever the zone of the session is."""
    for i, field in enumerate(batch.schema):
        if pa.types.is_date32(field.type):
            days = pc.cast(pc.cast(batch.column(i), pa.int32()), pa.int64())
            days = pc.min_element_wise(days, _DAYS, skip_nulls=False)
            days = pc.max_element_wise(days, -_DAYS, skip_nulls=False)
            found = pc.multiply(days, _DAY_US).cast(_UTC)
        elif pa.types.is_timestamp(field.type) and field.type.tz is None:
            found = batch.column(i).cast(_UTC)
        else:
            continue
        batch = batch.set_column(i, field.name, found)
    return batch


def by_file(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Rows cut where another file begins, each piece with its file, if rows say it."""
    for batch in batches:
        if not batch.num_rows or FILE[0] not in batch.schema.names:
            yield batch
            continue
        places = [batch.column(name) for name in FILE]
        rows, is_first = batch.drop_columns(list(FILE)), np.zeros(batch.num_rows, np.bool_)
        for column in places:
            is_other = pc.not_equal(column[1:], column[:-1])
            is_first[1:] |= is_other.to_numpy(zero_copy_only=False)
        edges = [0, *np.flatnonzero(is_first).tolist(), batch.num_rows]
        for first, last in pairwise(edges):
            modified, path, start = (column[first] for column in places)
            place = [modified.cast(pa.int64()).as_py(), path.as_py(), start.as_py()]
            said = {PLACE: json.dumps(place)}
            yield rows.slice(first, last - first).replace_schema_metadata(said)
