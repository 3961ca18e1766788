"""From rows of a DataFrame to chunks for the shards, inside the tasks that read the source.

Rows are gathered until a task has enough for a chunk, then cut by part, bucket and slice. A shard
gets each chunk that it stores or answers; queries and times go to all shards, and one that a task
has nothing for is asked all the same. Where rows have ids and there are several buckets, a chunk
also says which ids went to the others, and where they stood.

What Spark could not read comes as its text. It is nobody's row: it neither moves time nor uses an
id, and goes to one shard as dead letters, to be counted there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from standfast.errors import BadInput
from standfast.model.rows import AHEAD_US, read_rows
from standfast.model.stream import Input
from standfast.spark.arriving import TEXT
from standfast.spark.brief import EVENT, Brief
from standfast.spark.outputs import LETTER_SCHEMA, readable
from standfast.spark.shards import Part, places
from standfast.spark.thrift import spare_modules
from standfast.spark.wire import (
    CHANGES,
    CHUNK_FIELDS,
    NO_INPUT,
    NO_TIME,
    NOTES,
    ROWS,
    TICK,
    UNREAD,
    Chunk,
    to_ipc,
)

Int64s = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Rows of a task that are cut into chunks together: so many, or with so many bytes. What a chunk
# costs a shard at least follows the queries; Java holds it several times while it moves it.
GATHERED, GATHERED_BYTES = 1 << 18, 1 << 23
# Bytes of chunks that Spark is given at once, if there are several; it takes less than 2^31.
GIVEN_BYTES = 1 << 26
ARRIVED = "standfast arrived"  # the time of the micro-batch, the same for all its rows
BATCH_BITS, TASK_BITS, ROW_BITS = 24, 14, 25  # of the number of an event that has no id
_TYPES = {"int": pa.int32(), "bigint": pa.int64(), "boolean": pa.bool_(), "binary": pa.binary()}
CHUNK_SCHEMA = pa.schema([(name, _TYPES[kind]) for name, kind in CHUNK_FIELDS])
CANNOT_BE_READ = "cannot be read"  # the reason of dead letters that have nothing but a text


class Place(NamedTuple):
    """The micro-batch and the task that rows are packed in."""

    batch: int
    task: int

    @staticmethod
    def current() -> Place:
        context = TaskContext.get()
        assert context is not None, "rows are packed inside a task"
        batch = context.getLocalProperty("streaming.sql.batchId")
        return Place(int(batch or 0), context.partitionId())


def rows_packer(
    brief_text: str, keys: list[int], number: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """`pack_rows` as a task of Spark does it."""
    spare_modules()
    yield from pack_rows(Brief.from_json(brief_text), keys, number, batches, Place.current())


def changes_packer(keys: list[int], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`pack_changes` as a task of Spark does it."""
    spare_modules()
    yield from pack_changes(keys, batches, Place.current())


def pack_rows(
    brief: Brief, keys: list[int], number: int, batches: Iterable[pa.RecordBatch], place: Place
) -> Iterator[pa.RecordBatch]:
    """The chunks of one task's rows of the input with this number."""
    source = brief.inputs[brief.names[number]]
    seen = n_chunks = 0
    met = set[int]()  # the shards that have any of the rows
    latest: int | None = None
    for table, arrived in _gathered(batches):
        events = (
            _numbers(place, seen, table.num_rows, source.name)
            if source.id is None
            else table[source.id]
        )
        seen += table.num_rows
        table, unread = _read(table.append_column(EVENT, events))
        rows = []
        if unread.num_rows:
            body = _letters(pa.repeat(source.name, unread.num_rows), unread[EVENT], unread[TEXT])
            lost = Chunk(
                UNREAD, number, 0, place.task, n_chunks, True, unread.num_rows, arrived, body
            )
            rows.append((keys[place.task % len(keys)], lost))
            n_chunks += 1
        notes = None
        if source.time is not None or any(source.name in p.noted for p in brief.plan.parts):
            notes = _notes(source, table, arrived)
            latest = max((t for t in (latest, notes.latest()) if t is not None), default=None)
        for p, part in enumerate(brief.plan.parts):
            if source.name not in part.inputs:
                continue
            for shards, owner, n, body in _dealt(brief, part, number, table, notes):
                chunk = Chunk(ROWS, number, p, place.task, n_chunks, False, n, arrived, body)
                n_chunks += 1
                met.update(shards)
                rows += [(keys[s], chunk._replace(owned=s == owner)) for s in shards]
        yield from _batches(rows)
    # Every shard takes part in every micro-batch. It knows whether the state fits the job, has to
    # answer for what the job started with, and tells how much it holds.
    time = latest if latest is not None and latest >= 0 else NO_TIME
    asked = [key for s, key in enumerate(keys) if time != NO_TIME or s not in met]
    if asked:
        tick = Chunk(TICK, number, 0, place.task, 0, False, 0, time, b"")
        yield from _batches([(key, tick) for key in asked])


class Notes(NamedTuple):
    """The rows that doors may let in, if they are not late: where they stand, id and time."""

    places: Int64s
    table: pa.Table

    def latest(self) -> int | None:
        """The latest time among them, if they have times."""
        if NOTES[1] not in self.table.column_names:
            return None
        latest: int | None = pc.max(self.table[NOTES[1]]).as_py()
        return latest

    def among(self, rows: Int64s, others: Mask) -> pa.Table:
        """Those at places that are `others`, as they stand among `rows`, which ascend."""
        told = others[self.places]
        befores = np.searchsorted(rows, self.places[told]).astype(np.int32)
        return self.table.filter(pa.array(told)).append_column(NOTES[2], pa.array(befores))


def _notes(source: Input, table: pa.Table, arrived: int) -> Notes:
    """The same judgement that a door makes: a rejected row neither moves time nor uses its id."""
    intake = read_rows(source, table)
    usable, found = np.ones(intake.kept.size, np.bool_), dict[str, pa.ChunkedArray]()
    if source.id is not None:
        found[NOTES[0]] = intake.table[source.id]
        usable &= found[NOTES[0]].is_valid().to_numpy()
    if source.time is not None:
        found[NOTES[1]] = pc.cast(intake.table[source.time], pa.int64())
        usable &= found[NOTES[1]].to_numpy() <= arrived + AHEAD_US
    return Notes(intake.kept[usable], pa.table(found).filter(pa.array(usable)))


def pack_changes(
    keys: list[int], batches: Iterable[pa.RecordBatch], place: Place
) -> Iterator[pa.RecordBatch]:
    """The chunks of one task's changes of queries: all of them for every shard."""
    n_chunks = 0
    for n_chunks, (table, arrived) in enumerate(_gathered(batches), 1):
        table, unread = _read(table)
        rows = []
        if table.num_rows:
            body = to_ipc(table)
            chunk = Chunk(CHANGES, 0, 0, place.task, n_chunks, False, table.num_rows, arrived, body)
            rows += [(key, chunk._replace(owned=key == keys[0])) for key in keys]
        if unread.num_rows:
            body = _letters(unread["template"], unread["id"], unread[TEXT])
            n_lost = unread.num_rows
            lost = Chunk(UNREAD, NO_INPUT, 0, place.task, n_chunks, True, n_lost, arrived, body)
            others = lost._replace(owned=False, n_rows=0, body=b"")  # for them to take part
            rows += [(key, lost if key == keys[0] else others) for key in keys]
        yield from _batches(rows)
    if not n_chunks:  # an empty file of changes may be all that a micro-batch has
        tick = Chunk(TICK, NO_INPUT, 0, place.task, 0, False, 0, NO_TIME, b"")
        yield from _batches([(key, tick) for key in keys])


def _read(table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows that Spark could read, and those of which it has the text."""
    if TEXT not in table.column_names:
        return table, table.slice(0, 0)
    is_read = table[TEXT].is_null()
    unread = table.filter(pc.invert(is_read))
    table = table.drop_columns([TEXT])
    return table.filter(is_read) if unread.num_rows else table, unread


def _letters(
    sources: pa.Array | pa.ChunkedArray, events: pa.ChunkedArray, texts: pa.ChunkedArray
) -> bytes:
    """Dead letters of rows that could not be read."""
    n = len(texts)
    columns = [
        readable(sources), readable(events), pa.repeat(CANNOT_BE_READ, n),
        pa.nulls(n, pa.string()), readable(texts),
    ]  # fmt: skip
    return to_ipc(pa.table(columns, schema=LETTER_SCHEMA))


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.Table, int]]:
    """Rows of several batches together, unless they are from other files, and when they arrived."""
    waiting: list[pa.RecordBatch] = []
    n_rows = n_bytes = 0
    for batch, size in _in_parts(batches):
        is_other = waiting and batch.schema.metadata != waiting[0].schema.metadata
        if is_other or (waiting and n_bytes + size > GATHERED_BYTES):
            yield _together(waiting)
            waiting, n_rows, n_bytes = [], 0, 0
        waiting.append(batch)
        n_rows, n_bytes = n_rows + batch.num_rows, n_bytes + size
        if n_rows >= GATHERED:
            yield _together(waiting)
            waiting, n_rows, n_bytes = [], 0, 0
    if n_rows:
        yield _together(waiting)


def _in_parts(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, int]]:
    """The same rows with their bytes; a batch that is too large for a chunk comes in several."""
    for batch in batches:
        size = batch.nbytes
        n_parts = min(max(1, -(-size // GATHERED_BYTES)), batch.num_rows)  # none of an empty one
        step = -(-batch.num_rows // max(1, n_parts))
        for part in range(n_parts):
            yield batch.slice(part * step, step) if n_parts > 1 else batch, size // n_parts


def _together(batches: list[pa.RecordBatch]) -> tuple[pa.Table, int]:
    table = pa.Table.from_batches(batches).combine_chunks()
    arrived = pc.cast(table[ARRIVED].slice(0, 1), pa.int64())[0].as_py()
    return table.drop_columns([ARRIVED]), arrived


def _dealt(
    brief: Brief, part: Part, number: int, table: pa.Table, notes: Notes | None
) -> Iterator[tuple[range, int, int, bytes]]:
    """The shards that get some rows, the one that answers them, how many, and the rows as bytes.

    Rows of a slice that fall into another bucket are noted: a shard that gets all chunks of its
    bucket, slice by slice, so knows all ids in the order of their rows.
    """
    source = brief.inputs[brief.names[number]]
    n_slices = brief.plan.grid(part)[1]
    bucket, slice_ = places(brief.plan, part, source, table)
    cells = bucket * n_slices + slice_
    order = np.argsort(cells, kind="stable")
    notes = notes if source.name in part.noted else None
    owners = np.unique(cells) if notes is None else np.arange(brief.n_shards)
    starts, ends = (np.searchsorted(cells[order], owners, side) for side in ("left", "right"))
    is_sorted = bool(np.all(cells[:-1] <= cells[1:]))
    if not is_sorted:
        table = table.take(pa.array(order))
    for owner, first, last in zip(owners.tolist(), starts.tolist(), ends.tolist(), strict=True):
        begin = owner - owner % n_slices
        is_stored = part.stores(source.name)
        shards = range(begin, begin + n_slices) if is_stored else range(owner, owner + 1)
        body = to_ipc(table.slice(first, last - first))
        if notes is not None:
            others = (slice_ == owner % n_slices) & (cells != owner)
            told = notes.among(order[first:last], others)
            if first == last and not told.num_rows:
                continue
            body += to_ipc(told)
        yield shards, owner, last - first, body


def _numbers(place: Place, first: int, n: int, name: str) -> pa.Array:
    """Numbers for events without an id: micro-batch, task, place in it."""
    if place.batch >= 1 << BATCH_BITS or place.task >= 1 << TASK_BITS or first + n > 1 << ROW_BITS:
        raise BadInput(
            f"input {name!r} has too many rows to number", hint="give it an id: Source(df, id=...)"
        )
    base = (place.batch << TASK_BITS | place.task) << ROW_BITS
    return pa.array(base + first + np.arange(n, dtype=np.int64))


def _batches(rows: list[tuple[int, Chunk]]) -> Iterator[pa.RecordBatch]:
    """Chunks with the keys of their shards, as Spark moves them.

    A chunk that goes to many shards is written out for each, so all together may be too large.
    """
    first = n_bytes = 0
    for i, (_, chunk) in enumerate(rows):
        if i > first and n_bytes + len(chunk.body) > GIVEN_BYTES:
            yield _batch(rows[first:i])
            first, n_bytes = i, 0
        n_bytes += len(chunk.body)
    yield _batch(rows[first:])


def _batch(rows: list[tuple[int, Chunk]]) -> pa.RecordBatch:
    columns = [[key for key, _ in rows], *zip(*(chunk for _, chunk in rows), strict=True)]
    named = dict(zip(("shard", *Chunk._fields), columns, strict=True))
    return pa.RecordBatch.from_arrays(
        [pa.array(named[f.name], f.type) for f in CHUNK_SCHEMA], schema=CHUNK_SCHEMA
    )
