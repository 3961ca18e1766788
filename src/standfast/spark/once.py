"""Shards of static frames: they see everything once, and keep nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from standfast.spark.outputs import COUNTS, TALLY
from standfast.spark.shard import Done, Shard
from standfast.spark.shards import shard_keys
from standfast.spark.spec import Spec
from standfast.spark.wire import Chunk

_SCHEMA = pa.schema(
    [("kind", pa.int32()), ("body", pa.binary()), *((name, pa.int64()) for name in COUNTS)]
)


def in_one_go(spec_text: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The compact rows of shards that see all their chunks once, and then end.

    Each piece of the answers is given away before the next one is made.
    """
    spec, found = Spec.from_json(spec_text), dict[int, list[Chunk]]()
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in ("shard", *Chunk._fields)]
        for key, *values in zip(*columns, strict=True):
            found.setdefault(key, []).append(Chunk._make(values))
    for key in sorted(found):
        shard, done = Shard(spec, shard_keys(spec.n_shards).index(key)), Done()
        for kind, body in shard.pieces(found.pop(key), done):
            yield _compact(kind, body, {})
        yield _compact(TALLY, b"", done.tally)


def _compact(kind: int, body: bytes, tally: Mapping[str, int]) -> pa.RecordBatch:
    row = {"kind": kind, "body": body} | {name: tally.get(name, 0) for name in COUNTS}
    return pa.RecordBatch.from_pylist([row], schema=_SCHEMA)
