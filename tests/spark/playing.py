"""Shards without Spark: rows are packed, dealt and applied as the job does it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from standfast.spark.outputs import ANSWERS, LETTERS
from standfast.spark.packing import ARRIVED, Place, pack_changes, pack_rows
from standfast.spark.shard import Done, Shard
from standfast.spark.spec import Spec
from standfast.spark.wire import Chunk, from_ipc, unframed

NOW_US = 1_000_000_000
AT_ONCE = 16  # rows of a task that Spark hands over together


def chunks_of(
    spec: Spec, batch: int, changes: pa.Table | None, rows: Mapping[str, pa.Table], tasks: int = 2
) -> list[list[Chunk]]:
    """The chunks of a micro-batch by shard; the rows of an input come from several tasks."""
    keys, found = list(range(spec.n_shards)), [list[Chunk]() for _ in range(spec.n_shards)]

    def take(batches: Any) -> None:
        for some in batches:
            for row in some.to_pylist():
                found[row["shard"]].append(Chunk(*(row[name] for name in Chunk._fields)))

    if changes is not None:
        take(pack_changes(keys, _arrived(changes).to_batches(), Place(batch, 0)))
    for number, name in enumerate(spec.inputs):
        table = rows.get(name)
        if table is None:
            continue
        cuts = np.linspace(0, table.num_rows, tasks + 1).astype(int)
        for task in range(tasks):
            part = table.slice(cuts[task], cuts[task + 1] - cuts[task])
            batches = _arrived(part).to_batches(max_chunksize=AT_ONCE)
            take(pack_rows(spec.brief, keys, number, batches, Place(batch, task)))
    rng = np.random.default_rng(batch)  # Spark brings chunks in any order
    return [[chunks[i] for i in rng.permutation(len(chunks))] for chunks in found]


def _arrived(table: pa.Table) -> pa.Table:
    times = pa.array(np.full(table.num_rows, NOW_US), pa.timestamp("us", "UTC"))
    return table.append_column(ARRIVED, times)


class Outcome:
    """What shards gave out, as multisets."""

    def __init__(self) -> None:
        self.answers: Counter[tuple[Any, ...]] = Counter()
        self.letters: Counter[tuple[Any, ...]] = Counter()
        self.tally: Counter[str] = Counter()

    def apply(self, spec: Spec, shard: Shard, chunks: list[Chunk]) -> Done:
        def emit(kind: int, body: bytes) -> None:
            if kind == ANSWERS:
                self.answers.update(_rows(spec.output.unpacked(body)))
            else:
                assert kind == LETTERS
                self.letters.update(_rows(from_ipc(unframed(body)[1][0])))

        done = shard.apply(chunks, emit)
        self.tally.update(done.tally)
        return done


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [
        [tuple(sorted(v)) if isinstance(v, list) else v for v in column.to_pylist()]
        for column in table.columns
    ]
    return list(zip(*columns, strict=True))
