"""The stateful operator: from chunks to compact rows, with the shard's state kept by Spark.

    task of a shard  ->  meta row  ->  host: ready? else build  ->  apply  ->  answers, tally
                     ->  log entry or snapshot, meta row: committed by Spark with the micro-batch

Nothing that an attempt does counts before Spark commits it: a failed attempt leaves a host with a
nonce that no meta row has, and the next one builds the shard anew.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict
from functools import cached_property
from typing import Any

import pandas as pd
from pyspark import TaskContext
from pyspark.sql import types
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from standfast.errors import StandfastError
from standfast.spark.brief import Brief, name_of
from standfast.spark.hosting import connected
from standfast.spark.outputs import COUNTS, TALLY
from standfast.spark.shards import shard_keys
from standfast.spark.state import (
    Meta,
    entries,
    read_meta,
    write_log,
    write_snapshot,
)
from standfast.spark.talk import Gone, receive, send
from standfast.spark.thrift import spare_modules
from standfast.spark.wire import (
    Chunk,
    chunks_from_bytes,
    chunks_to_bytes,
    sealed,
    taken_apart,
    unsealed,
)

COMPACT_DDL = "kind int, body binary, " + ", ".join(f"{name} bigint" for name in COUNTS)
REST_SECONDS = 0.2
# Entries beside those that are numbered from 0 on.
WAITING = -1  # chunks that came as first state and wait for the first rows
META = -2


class ShardFailed(StandfastError):
    """A shard could not take in a micro-batch."""


class SparkCells:
    """Spark's state of one key as the cells of a shard.

    All of it is one map, the meta row too: setting up a second variable costs each task as much as
    all its reads and writes.
    """

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        place = types.StructType(
            [
                types.StructField("number", types.LongType()),
                types.StructField("piece", types.LongType()),
            ]
        )
        data = types.StructType([types.StructField("data", types.BinaryType())])
        self._cells = handle.getMapState("cells", place, data)

    def meta(self) -> bytes | None:
        return self.found(META, 0)

    def write_meta(self, data: bytes) -> None:
        self.write_entry(META, 0, data)

    def entry(self, number: int, piece: int) -> bytes:
        data = self.found(number, piece)
        if data is None:
            raise ShardFailed(f"entry {number}, {piece} is missing from the state of a shard")
        return data

    def found(self, number: int, piece: int) -> bytes | None:
        """What a cell holds, if it holds anything."""
        value = self._cells.getValue((number, piece))
        return None if value is None else bytes(value[0])

    def write_entry(self, number: int, piece: int, data: bytes) -> None:
        self._cells.updateValue((number, piece), (data,))

    def remove_entry(self, number: int, piece: int) -> None:
        self._cells.removeKey((number, piece))


class ShardProcessor(StatefulProcessor):
    """Takes in the chunks of one shard in each micro-batch."""

    def __init__(self, spec_text: str, brief_text: str) -> None:
        self._spec_text = spec_text  # for the hosts
        self._brief_text = brief_text

    @cached_property
    def _brief(self) -> Brief:
        return Brief.from_json(self._brief_text)

    def init(self, handle: StatefulProcessorHandle) -> None:
        spare_modules()
        self._cells = SparkCells(handle)

    def handleInitialState(self, key: Any, initialState: pd.DataFrame, timerValues: Any) -> None:
        """Keep what the job starts with until the first rows come, so that it is reported then."""
        piece = 0
        while self._cells.found(WAITING, piece) is not None:
            piece += 1
        for chunk in chunks_in(initialState):
            self._cells.write_entry(WAITING, piece, sealed(chunks_to_bytes([chunk])))
            piece += 1

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        meta = read_meta(self._cells, self._brief)
        waiting = [] if meta.version else self._waiting()
        chunks = waiting + [chunk for frame in rows for chunk in chunks_in(frame)]
        yield from self._applied(int(key[0]), meta, chunks)

    def close(self) -> None:
        """Nothing is held between tasks: the shard lives in its host."""

    def _waiting(self) -> list[Chunk]:
        found: list[Chunk] = []
        piece = 0
        while (data := self._cells.found(WAITING, piece)) is not None:
            found += chunks_from_bytes(unsealed(data, "what a shard begins with"))
            self._cells.remove_entry(WAITING, piece)
            piece += 1
        return found

    def _applied(self, shard: int, meta: Meta, chunks: list[Chunk]) -> Iterator[pd.DataFrame]:
        """Have the chunks applied; a host that dies before its first answer is replaced once."""
        n_sent = 0
        for attempt in (1, 2):
            try:
                for frame in self._asked(shard, meta, chunks):
                    n_sent += 1
                    yield frame
            except (Gone, ConnectionError) as error:
                if attempt == 2 or n_sent:
                    raise ShardFailed(
                        f"the process of shard {shard} ended while it worked: {error}",
                        hint="the task is tried again; look whether memory was short",
                    ) from error
            else:
                return
            time.sleep(REST_SECONDS)  # a host that is dying answers for a moment longer

    def _asked(self, shard: int, meta: Meta, chunks: list[Chunk]) -> Iterator[pd.DataFrame]:
        begin = time.perf_counter()
        with connected(query_id(), shard, self._brief.n_shards) as talk:
            rebuilt = self._ready(talk, shard, meta)
            nonce = uuid.uuid4().hex
            heads, bodies = taken_apart(chunks)
            request = {"do": "apply", "nonce": nonce, "meta": asdict(meta), "chunks": heads}
            send(talk, request, bodies)
            while True:
                head, blobs = _answer(talk)
                if "tally" in head:
                    break
                yield compact(head["kind"], blobs[0], {})
        tally, before = head["tally"], time.perf_counter()
        write = write_snapshot if head["snapshot"] else write_log
        meta = write(self._cells, meta, blobs[0], nonce)
        tally["rebuilds"] = int(rebuilt)
        tally["state_bytes"] = meta.base_bytes + meta.log_bytes
        tally["transfer_us"] = (
            round(1e6 * (before - begin)) - tally["engine_us"] - tally["state_us"]
        )
        tally["state_us"] += round(1e6 * (time.perf_counter() - before))
        yield compact(TALLY, b"", tally)

    def _ready(self, talk: Any, key: int, meta: Meta) -> bool:
        """Make sure that the host has the shard of this version; tells if it had to be rebuilt."""
        asked = {"do": "ask", "job": name_of(self._spec_text), "version": meta.version}
        send(talk, asked | {"nonce": meta.nonce})
        if _answer(talk)[0]["ready"]:
            return False
        shard = shard_keys(self._brief.n_shards).index(key)
        request = {"do": "build", "spec": self._spec_text, "shard": shard, "version": meta.version}
        send(talk, request | {"nonce": meta.nonce}, list(entries(self._cells, meta)))
        _answer(talk)
        return meta.version > 0


def query_id() -> str:
    """The streaming query that this task belongs to."""
    context = TaskContext.get()
    found = context.getLocalProperty("sql.streaming.queryId") if context else None
    return found or "batch"


def _answer(talk: Any) -> tuple[dict[str, Any], list[bytes]]:
    head, blobs = receive(talk)
    if "error" in head:
        raise ShardFailed(head["error"], hint=head["hint"])
    return head, blobs


def chunks_in(frame: pd.DataFrame) -> list[Chunk]:
    """The chunks of a frame that Spark hands over."""
    columns = [frame[name].tolist() for name in Chunk._fields]
    chunks = [Chunk._make(values) for values in zip(*columns, strict=True)]
    return [chunk._replace(body=bytes(chunk.body)) for chunk in chunks]


def compact(kind: int, body: bytes, tally: dict[str, int]) -> pd.DataFrame:
    counts = {name: [tally.get(name, 0)] for name in COUNTS}
    return pd.DataFrame({"kind": [kind], "body": [body], **counts})
