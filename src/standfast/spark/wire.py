"""Chunks: rows and changes of queries on their way to the shards, and bytes in frames.

    a task of the source   ->  rows of an input, cut by part, bucket and slice  ->  chunks
    a chunk                ->  the shards that store it; `owned` by the one that answers it
    its body               ->  rows | ids of rows that shards of other buckets take, if they matter

A chunk names the task that made it and its place there, so that every shard sorts its chunks the
same way, whatever order they come in.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from standfast.errors import BadSnapshot

# Columns of a chunk as Spark moves it.
CHUNK_FIELDS = (
    ("shard", "int"), ("kind", "int"), ("name", "int"), ("part", "int"), ("task", "int"),
    ("number", "int"), ("owned", "boolean"), ("n_rows", "bigint"), ("time_us", "bigint"),
    ("body", "binary"),
)  # fmt: skip
CHUNK_DDL = ", ".join(f"{name} {kind}" for name, kind in CHUNK_FIELDS)
CHANGES, ROWS, TICK = 0, 1, 2  # kinds of chunks, in the order in which a shard takes them
TOLD = 3  # in logs only: what was reported of a template, `name` being its number
UNREAD = 4  # rows, or changes, that Spark could not read: they are dead letters already
NO_INPUT = -1  # in place of an input's number, where it is changes
NO_TIME = -1  # of a tick that only asks a shard to take part
# Columns of notes: the id and the time of a row, and which of the chunk's rows it stands before.
NOTES = ("id", "time", "before")
# In the old folder of answers the new ones would lie beside those of the old checkpoint.
AFRESH = "start with a new checkpoint and a new output folder"
PLACE = b"standfast file"  # in the schema of rows: the file of a chunk, as `arriving` says it
_SIZE = struct.Struct(">Q")
MAGIC, FORMAT = b"SFSHARD\n", 1
_SEAL = struct.Struct(">8sIQI")  # magic, format, length, checksum


class Chunk(NamedTuple):
    """Something for a shard. `name` numbers the input, `time_us` is when it arrived.

    A tick has no body; its `time_us` is the latest event time that its task has seen.
    """

    kind: int
    name: int
    part: int
    task: int
    number: int
    owned: bool
    n_rows: int
    time_us: int
    body: bytes

    def table(self) -> pa.Table:
        """The rows."""
        return tables(self.body)[0]

    def notes(self) -> pa.Table | None:
        """Rows that the shard does not get, as far as it must know them: see `NOTES`."""
        rest = tables(self.body)[1:]
        return rest[0] if rest else None

    def place(self) -> tuple[Any, ...]:
        """When the file of the rows was modified, its name, and where in it they begin."""
        said = (pa.ipc.open_stream(pa.py_buffer(self.body)).schema.metadata or {}).get(PLACE)
        return () if said is None else tuple(json.loads(said))


def in_order(chunks: Iterable[Chunk], tables: Collection[int] = ()) -> list[Chunk]:
    """Changes first, then the rows input by input, each as its tasks made them.

    Changes, and rows of tables, which are inputs by number, come file by file before that.
    """

    def place(chunk: Chunk) -> tuple[Any, ...]:
        is_replacing = chunk.kind == ROWS and chunk.name in tables
        return chunk.place() if chunk.kind == CHANGES or is_replacing else ()

    return sorted(chunks, key=lambda c: (c.kind, c.name, place(c), c.task, c.number, c.part))


def to_ipc(table: pa.Table) -> bytes:
    """A table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def from_ipc(data: bytes) -> pa.Table:
    """The table of an Arrow IPC stream."""
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()


def tables(data: bytes) -> list[pa.Table]:
    """The tables of Arrow IPC streams that stand one behind the other."""
    source, found = pa.BufferReader(data), []
    while source.tell() < source.size():
        found.append(pa.ipc.open_stream(source).read_all())
    return found


def framed(head: Any, blobs: Sequence[bytes]) -> bytes:
    """A JSON head and some bytes as one."""
    parts = [json.dumps(head).encode(), *blobs]
    return b"".join(piece for part in parts for piece in (_SIZE.pack(len(part)), part))


def unframed(data: bytes) -> tuple[Any, list[bytes]]:
    """What `framed` put together."""
    parts, at = [], 0
    while at < len(data):
        if at + _SIZE.size > len(data):
            raise BadSnapshot("the state of a shard is cut off")
        (size,) = _SIZE.unpack_from(data, at)
        at += _SIZE.size
        parts.append(data[at : at + size])
        if len(parts[-1]) < size:
            raise BadSnapshot("the state of a shard is cut off")
        at += size
    return json.loads(parts[0]), parts[1:]


def sealed(data: bytes) -> bytes:
    """Something that is kept, behind what tells whether it is whole."""
    return _SEAL.pack(MAGIC, FORMAT, len(data), zlib.crc32(data)) + data


def unsealed(data: bytes, what: str) -> bytes:
    """What `sealed` was given, or a refusal if a bit of it is another."""
    if len(data) < _SEAL.size or data[: len(MAGIC)] != MAGIC:
        raise BadSnapshot(f"{what} is damaged, or of Standfast 0.7 or earlier", hint=AFRESH)
    _, number, size, checksum = _SEAL.unpack_from(data)
    body = data[_SEAL.size :]
    if number != FORMAT:
        known = f"{what} has the format {number}, and this version of Standfast reads {FORMAT}"
        raise BadSnapshot(known, hint=f"go on with the version that wrote it, or {AFRESH}")
    if len(body) != size or zlib.crc32(body) != checksum:
        raise BadSnapshot(f"{what} is damaged", hint=f"bring the checkpoint back, or {AFRESH}")
    return body


def chunks_to_bytes(chunks: Sequence[Chunk]) -> bytes:
    """Chunks as one piece of bytes, for the log of a shard."""
    return framed(*taken_apart(chunks))


def chunks_from_bytes(data: bytes) -> list[Chunk]:
    """What `chunks_to_bytes` wrote."""
    return put_together(*unframed(data))


def taken_apart(chunks: Sequence[Chunk]) -> tuple[list[tuple[Any, ...]], list[bytes]]:
    """What is known of each chunk, and their bodies, which are large and are not copied."""
    return [chunk[:-1] for chunk in chunks], [chunk.body for chunk in chunks]


def put_together(heads: Sequence[Sequence[Any]], bodies: Sequence[bytes]) -> list[Chunk]:
    """The chunks that `taken_apart` was given."""
    return [Chunk._make((*head, body)) for head, body in zip(heads, bodies, strict=True)]
