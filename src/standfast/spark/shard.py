"""A shard: the engines of its parts, fed with chunks, asked for answers and for what to keep.

    chunks of a micro-batch  ->  changes of queries, rows, times  ->  answers, letters, tally
                             ->  windows, when all of that is in  ->  answers
                             ->  a log entry: the chunks that leave something behind

The state of a shard is a snapshot and a log. Taking in the log again, without answering, gives the
same shard, because a shard does nothing that does not follow from its chunks in their order.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from standfast.engine.answer import Answer
from standfast.engine.engine import Engine
from standfast.engine.group import Group
from standfast.engine.identities import Noted
from standfast.spark import changes
from standfast.spark.brief import EVENT
from standfast.spark.outputs import ANSWERS, COUNTS, LETTER_SCHEMA, LETTERS, packed, readable
from standfast.spark.shards import Part
from standfast.spark.spec import Spec
from standfast.spark.wire import (
    CHANGES,
    NO_INPUT,
    NO_TIME,
    NOTES,
    ROWS,
    TICK,
    TOLD,
    UNREAD,
    Chunk,
    chunks_from_bytes,
    chunks_to_bytes,
    framed,
    in_order,
    to_ipc,
    unframed,
)

# Rows that are pushed at once where cuts are visible.
ROWS_AT_ONCE = 4096
# Elsewhere the first are few, and then so many that no more answers are written out at once.
FIRST_ROWS_AT_ONCE, MOST_ROWS_AT_ONCE, GROWTH = 64, 1 << 17, 8
ANSWERS_AT_ONCE = 4_000_000
CHANGES_AT_ONCE = 1 << 18  # changes of queries that are applied together, of however many chunks
COUNTERS = ("received", "used", "late", "duplicate", "rejected")


Emit = Callable[[int, bytes], None]  # takes answers and letters, piece by piece
Pieces = Iterator[tuple[int, bytes]]  # gives them


@dataclass
class Done:
    """What a micro-batch did to a shard; `log` is what must be kept to do it again."""

    tally: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    log: bytes = b""


class Shard:
    """The live state of one shard."""

    def __init__(self, spec: Spec, number: int = 0) -> None:
        self.spec = spec
        self.number = number
        self.registry = 0  # the version of the set of queries
        self._now_us = 0
        self._tables = {i for i, name in enumerate(spec.names) if spec.inputs[name].key}
        self._engines = [spec.engine(part, self._clock) for part in spec.plan.parts]
        self._per_row = [0.0] * len(self._engines)  # answers that a row brings, lately
        self._at_once = [FIRST_ROWS_AT_ONCE // GROWTH] * len(self._engines)  # rows, lately

    def apply(self, chunks: Sequence[Chunk], emit: Emit) -> Done:
        """Take in the chunks of a micro-batch and answer those that this shard owns."""
        done = Done()
        for kind, body in self.pieces(chunks, done):
            emit(kind, body)
        return done

    def pieces(self, chunks: Sequence[Chunk], done: Done) -> Pieces:
        """The same, answer by answer: a piece is made when it is asked for."""
        begin, ticks = time.perf_counter(), dict[str, int]()
        self.registry += any(chunk.kind == CHANGES for chunk in chunks)
        ordered = in_order(chunks, self._tables)
        kept = [chunk for chunk in ordered if chunk.kind == CHANGES]
        for table in _changes(kept):
            yield from self._change(table, done, is_told=kept[0].owned)
        for chunk in ordered[len(kept) :]:
            if chunk.kind == ROWS:
                name = self.spec.names[chunk.name]
                yield from self._take(chunk, name, done)
                if self._engines[chunk.part].holds_rows(name):
                    kept.append(chunk)
            elif chunk.kind == UNREAD:
                yield from self._lose(chunk, done)
            elif chunk.time_us != NO_TIME:
                name = self.spec.names[chunk.name]
                ticks[name] = max(ticks.get(name, 0), chunk.time_us)
        kept += [
            Chunk(TICK, self.spec.names.index(name), 0, 0, 0, False, 0, at, b"")
            for name, at in ticks.items()
        ]
        self._advance(ticks)
        yield from self._report(done)
        kept += self._told()
        done.log = chunks_to_bytes(kept) if kept else b""
        self._tally(done, begin)

    def replay(self, log: bytes) -> None:
        """Take in again what `apply` has logged; nobody is answered."""
        chunks = chunks_from_bytes(log)
        ticks = dict[str, int]()
        changed = [chunk for chunk in chunks if chunk.kind == CHANGES]
        for table in _changes(changed):
            changes.apply(self._groups(), table)
        for chunk in chunks[len(changed) :]:
            if chunk.kind == TOLD:
                self._groups()[list(self.spec.templates)[chunk.name]].retell(chunk.table())
            elif chunk.kind == ROWS:
                self._keep(chunk, self.spec.names[chunk.name])
            else:
                ticks[self.spec.names[chunk.name]] = chunk.time_us
        self._advance(ticks)
        self.registry += bool(changed)

    def settle(self) -> None:
        """The log was taken in again: what windows say now has been told.

        Of sums of floats the log has what was told: a shard built anew may round otherwise.
        """
        for part, engine in self._windows():
            for group in engine.groups.values():
                if group.is_stable:
                    group.report(self.spec.plan.share(part, self.number))

    def to_bytes(self) -> bytes:
        """Everything, for a snapshot."""
        return framed({"registry": self.registry}, [e.to_bytes() for e in self._engines])

    @staticmethod
    def from_bytes(spec: Spec, data: bytes, number: int = 0) -> Shard:
        """The shard that `to_bytes` was asked of."""
        shard = Shard(spec, number)
        head, engines = unframed(data)
        shard.registry = head["registry"]
        shard._engines = [Engine.from_bytes(engine, clock=shard._clock) for engine in engines]
        for part, engine in zip(spec.plan.parts, shard._engines, strict=True):
            for name in part.forgone:
                engine.forgo(name)
            for name, group in engine.groups.items():
                wanted = spec.strategies.get(name, "auto")
                if group.wanted != wanted:
                    group.switch(wanted)
        return shard

    def check(self) -> None:
        for engine in self._engines:
            engine.check()

    def _clock(self) -> int:
        return self._now_us

    def _groups(self) -> dict[str, Group]:
        return {name: group for engine in self._engines for name, group in engine.groups.items()}

    def _change(self, rows: pa.Table, done: Done, *, is_told: bool) -> Pieces:
        outcome = changes.apply(self._groups(), rows)
        if not is_told:  # every shard has the same changes, and one tells of them
            return
        done.tally["added"] += outcome.added
        done.tally["removed"] += outcome.removed
        done.tally["repeated"] += outcome.repeated
        done.tally["refused"] += len(outcome.refused)
        if outcome.refused:
            n = len(outcome.refused)
            source, event, reason = (
                pa.array(column, pa.string())
                for column in list(zip(*outcome.refused, strict=True))[:3]
            )
            nothing = pa.nulls(n, pa.string())
            columns = [source, event, reason, nothing, nothing]
            yield LETTERS, packed(pa.table(columns, schema=LETTER_SCHEMA))

    def _lose(self, chunk: Chunk, done: Done) -> Pieces:
        """Count what Spark could not read, and hand its letters on; it leaves nothing behind."""
        if chunk.owned:
            for what in ("refused",) if chunk.name == NO_INPUT else ("received", "rejected"):
                done.tally[what] += chunk.n_rows
            yield LETTERS, packed(chunk.table())

    def _take(self, chunk: Chunk, name: str, done: Done) -> Pieces:
        self._now_us = chunk.time_us
        if not chunk.owned or not chunk.n_rows:
            self._keep(chunk, name)
            return
        engine, table = self._engines[chunk.part], chunk.table()
        is_counted = self.spec.plan.counter(name) == chunk.part
        before = engine.counters(name)
        for piece, noted in self._cut(chunk.part, table, _noted(chunk)):
            events, rows = piece[EVENT].combine_chunks(), piece.drop_columns([EVENT])
            if self.spec.plan.parts[chunk.part].deal == "windows":
                engine.store(name, rows, noted=noted)
            else:
                found = engine.push(name, rows, noted=noted)
                n_written = yield from self._write(done, name, found, events)
                self._per_row[chunk.part] = n_written / max(1, piece.num_rows)
            letters = engine.dead_letters(take=True)
            if is_counted and letters.num_rows:
                yield LETTERS, packed(_letters(letters, events))
        if is_counted:
            after = engine.counters(name)
            for what in COUNTERS:
                done.tally[what] += after[what] - before[what]

    def _keep(self, chunk: Chunk, name: str) -> None:
        """Take in rows that nobody asks about here."""
        self._now_us, engine = chunk.time_us, self._engines[chunk.part]
        engine.store(name, chunk.table().drop_columns([EVENT]), noted=_noted(chunk))
        engine.dead_letters(take=True)

    def _report(self, done: Done) -> Pieces:
        """Answer windows, when all rows are there and the time is known; no event stands for it."""
        nobody = pa.nulls(1, self.spec.output.event)
        for part, engine in self._windows():
            found = engine.report(self.spec.plan.share(part, self.number))
            for template, answer in found.items():
                (name,) = engine.groups[template].inputs
                yield from self._write(done, name, {template: answer}, nobody)

    def _told(self) -> Iterator[Chunk]:
        """What was reported and would not follow from the rows again, bit by bit."""
        numbers = {name: i for i, name in enumerate(self.spec.templates)}
        for _, engine in self._windows():
            for name, group in engine.groups.items():
                told = None if group.is_stable else group.told()
                if told is not None and told.num_rows:
                    body = to_ipc(told)
                    yield Chunk(TOLD, numbers[name], 0, 0, 0, False, told.num_rows, 0, body)

    def _windows(self) -> Iterator[tuple[Part, Engine]]:
        for part, engine in zip(self.spec.plan.parts, self._engines, strict=True):
            if part.deal == "windows":
                yield part, engine

    def _write(
        self, done: Done, name: str, found: Mapping[str, Answer], events: pa.Array
    ) -> Generator[tuple[int, bytes], None, int]:
        """Hand over what an input brought; returns how much it was."""
        n_answers = n_affected = 0
        for template, answer in found.items():
            for rows in self.spec.output.written(answer, events):
                n_answers += rows.num_rows
                n_affected += self.spec.output.n_affected(rows)
                shared = {"template": template, "input": name, "registry": self.registry}
                yield ANSWERS, packed(rows, **shared)
        done.tally["answers"] += n_answers
        done.tally["affected"] += n_affected
        # Counts are small however many queries they count.
        return n_answers if self.spec.form == "counts" else n_affected

    def _cut(
        self, part: int, table: pa.Table, noted: Noted | None
    ) -> Iterator[tuple[pa.Table, Noted | None]]:
        """Rows that are pushed together, with those that are noted among them."""
        first, n_rows = 0, table.num_rows
        while first < n_rows:
            n = ROWS_AT_ONCE if self.spec.is_delicate(part) else self._fitting(part)
            last = first + n if first + n < n_rows else n_rows + 1  # noted ones behind all rows
            yield table.slice(first, n), None if noted is None else noted.cut(first, last)
            first += n

    def _fitting(self, part: int) -> int:
        """So many rows that their answers fit into memory, by what the last ones brought."""
        fit = int(ANSWERS_AT_ONCE / max(self._per_row[part], 1e-9))
        n = max(1, min(fit, GROWTH * self._at_once[part], MOST_ROWS_AT_ONCE))
        self._at_once[part] = n
        return n

    def _advance(self, ticks: dict[str, int]) -> None:
        for part, engine in zip(self.spec.plan.parts, self._engines, strict=True):
            for name, at in ticks.items():
                if name in part.inputs:
                    engine.advance(name, at)

    def _tally(self, done: Done, begin: float) -> None:
        tally = done.tally
        tally["registry"] = self.registry
        tally["queries"] = sum(len(group) for group in self._groups().values())
        held = [engine.metrics()["inputs"].values() for engine in self._engines]
        tally["stored"] = sum(counts["stored"] for inputs in held for counts in inputs)
        tally["memory_bytes"] = sum(engine.memory_bytes() for engine in self._engines)
        tally["peak_bytes"] = peak_bytes()
        tally["engine_us"] = round(1e6 * (time.perf_counter() - begin))


def peak_bytes() -> int:
    """The most memory that this process has had so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _changes(chunks: Sequence[Chunk]) -> Iterator[pa.Table]:
    """The changes of several chunks together, so that many small files cost few calls."""
    waiting, n_rows = list[pa.Table](), 0
    for chunk in chunks:
        if waiting and n_rows + chunk.n_rows > CHANGES_AT_ONCE:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting, n_rows = [], 0
        waiting.append(chunk.table().replace_schema_metadata(None))
        n_rows += chunk.n_rows
    if waiting:
        yield pa.concat_tables(waiting).combine_chunks()


def _noted(chunk: Chunk) -> Noted | None:
    """The rows of a chunk that other shards take."""
    notes = chunk.notes()
    if notes is None:
        return None
    identity, time, before = NOTES
    times = np.zeros(notes.num_rows, np.int64)
    if time in notes.column_names:  # a stream without a time never forgets
        times = notes[time].to_numpy()
    return Noted(notes[identity].combine_chunks(), times, notes[before].to_numpy().astype(np.int64))


def _letters(letters: pa.Table, events: pa.Array) -> pa.Table:
    """The engine's dead letters with the names of their events."""
    rows = letters["row"].to_numpy()
    named = readable(events.take(pa.array(rows.astype(np.int64))))
    columns = [letters["input"], named, letters["reason"], letters["column"], letters["value"]]
    return pa.table(columns, schema=LETTER_SCHEMA)
