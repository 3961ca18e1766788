"""The embedded home: a history played in this process, and what comes out of a home.

    changes one by one, then the rows input by input, then the time  ->  Played

Answers and dead letters are multisets of plain values, counts stand by micro-batch.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from tests.spark.world import CHANGE_COLUMNS, LATENESS_US, Batch, Row, World, table_of, tables

from standfast import Answer, Engine, Group
from standfast.errors import StandfastError

NOW_US = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
ROWS = ("received", "used", "late", "duplicate", "rejected")
CHANGED = ("added", "removed", "repeated", "refused")
WINDOWS = 0  # in place of a number of pieces
COUNTED = (*ROWS, *CHANGED, "answers", "registry", "queries")


@dataclass
class Played:
    """What came out: answers, dead letters, and what was counted for each micro-batch."""

    answers: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    letters: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    counts: list[dict[str, int]] = field(default_factory=list)

    def differences(self, other: Played) -> list[str]:
        """What one of the two has and the other one has not; nothing if they are equal."""
        found = [
            f"{what} {'missing' if side == 0 else 'too many'}, {n} times: {entry}"
            for what in ("answers", "letters")
            for side, (one, two) in enumerate([(self, other), (other, self)])
            for entry, n in (getattr(one, what) - getattr(two, what)).items()
        ]
        for number, (mine, its) in enumerate(zip(self.counts, other.counts, strict=False)):
            found += [
                f"batch {number}: {name} is {its[name]}, not {mine[name]}"
                for name in mine
                if mine[name] != its[name]
            ]
        if self.counts and other.counts and len(self.counts) != len(other.counts):
            found.append(f"{len(other.counts)} batches, not {len(self.counts)}")
        return found


class Embedded:
    """The world in embedded engines, fed with whole micro-batches.

    `pieces` says for a template into how many pieces its rows are cut, where cuts are visible.
    Templates with as many pieces share an engine; the first has all inputs, and counts. Windows
    have one of their own, which is asked when the micro-batch is in.
    """

    def __init__(self, world: World, form: str, pieces: Mapping[str, int]) -> None:
        self.world, self.form = world, form
        self.played = Played()
        self.registry = 0
        self._engines: dict[int, Engine] = {1: self._engine()}
        for name, sql in world.templates.items():
            n = WINDOWS if name in world.windows() else pieces.get(name, 1)
            engine = self._engines.setdefault(n, self._engine())
            engine.register(sql, name=name, strategy=world.ways.get(name, "auto"))
        self._groups: dict[str, Group] = {
            n: g for engine in self._engines.values() for n, g in engine.groups.items()
        }
        self._asked: dict[tuple[str, int], Row] = {}
        self._since: dict[tuple[str, int], int] = {}  # the version that a query came with

    def _engine(self) -> Engine:
        engine = Engine(clock=lambda: NOW_US, follows=True)
        for name, declared in self.world.inputs.items():
            if declared.key is not None:
                engine.table(name, declared.columns, key=declared.key)
            else:
                lateness = LATENESS_US if declared.time else None
                engine.stream(
                    name, declared.columns, time=declared.time, lateness_us=lateness,
                    id=declared.id,
                )  # fmt: skip
        return engine

    def play(self, batch: Batch, number: int) -> None:
        """A micro-batch in which each input is read by one task."""
        found = {name: [table] for name, table in tables(self.world, batch).items()}
        self.play_tasks(batch.changes, found, number)

    def play_tasks(
        self, changes: Sequence[Row], tasks: Mapping[str, Sequence[pa.Table]], number: int
    ) -> None:
        """Changes, then the rows of each input, task by task, then the time."""
        counts = dict.fromkeys(COUNTED, 0)
        self.registry += bool(changes)
        for row in changes:
            what = self._change(row)
            counts[what] += 1
        n_before = self.played.answers.total()
        for name in self.world.inputs:
            before = self._engines[1].counters(name)
            for table in tasks[name]:
                self._push(name, table, number)
            after = self._engines[1].counters(name)
            for what in ROWS:
                counts[what] += after[what] - before[what]
        for name, declared in self.world.inputs.items():
            for table in tasks[name] if declared.time is not None else ():
                known = (
                    table if declared.id is None else table.filter(table[declared.id].is_valid())
                )
                self._advance(name, known[declared.time])
        self._report()
        counts["answers"] = self.played.answers.total() - n_before
        counts["registry"] = self.registry
        counts["queries"] = sum(map(len, self._groups.values()))
        self.played.counts.append(counts)

    def _report(self) -> None:
        if WINDOWS in self._engines:
            for template, answer in self._engines[WINDOWS].report().items():
                (name,) = self._groups[template].inputs
                self._note(name, {template: answer}, [None])

    def _advance(self, name: str, times: pa.ChunkedArray) -> None:
        usable = [t for t in times.cast(pa.int64()).to_pylist() if t is not None and t <= NOW_US]
        for engine in self._engines.values():
            if usable and max(usable) >= 0:
                engine.advance(name, max(usable))

    def _change(self, row: Row) -> str:
        """Apply one change; tells what became of it."""
        template, identity, op = row["template"], row["id"], row["op"]
        group, known = self._groups.get(template), self._asked.get((template, identity))
        holes = {h: row.get(h) for h in self.world.holes(template)} if group is not None else {}
        if template is None:
            return self._refused(row, "the template is null")
        if group is None:
            return self._refused(row, f"there is no template {template!r}")
        if op not in ("add", "remove"):
            return self._refused(row, f"the operation {op!r} is neither add nor remove")
        if identity is None:
            return self._refused(row, "the id is null")
        if op == "remove":
            if known is None:
                why = "no query has this id: it was removed before, or never added"
                return self._refused(row, why)
            group.remove([identity])
            del self._asked[template, identity]
            return "removed"
        if known == holes:
            return "repeated"
        if known is not None:
            return self._refused(row, "another query has this id; remove it first")
        try:
            group.add(table_of(CHANGE_COLUMNS, [row]).select(["id", *holes]))
        except StandfastError as error:
            # Added alone it is row 0, which a job does not say.
            return self._refused(row, error.message.replace(" in row 0", "", 1))
        self._asked[template, identity] = holes
        self._since[template, identity] = self.registry
        return "added"

    def standing(self) -> Counter[tuple[Any, ...]]:
        """The current answers of windows."""
        found: Counter[tuple[Any, ...]] = Counter()
        for template in self.world.windows():
            for row in plain_rows(self._groups[template].lookup()):
                found[entry_of({"template": template} | row)] += 1
        return found

    def added_up(self, played: Played) -> Counter[tuple[Any, ...]]:
        """What all told changes of the windows of living queries, in the form of rows, come to."""
        found: Counter[tuple[Any, ...]] = Counter()
        for entry, n in played.answers.items():
            row = dict(entry)
            query = row["template"], row["query"]
            told = {name: row.pop(name) for name in ("input", "event", "registry", "change")}
            is_window = row["template"] in self.world.windows() and query in self._asked
            # One that went took its answers with it, also if another has its id now.
            if is_window and told["registry"] >= self._since[query]:
                found[entry_of(row)] += n * told["change"]
        return Counter({entry: n for entry, n in found.items() if n})

    def _refused(self, row: Row, reason: str) -> str:
        identity = None if row["id"] is None else str(row["id"])
        self.played.letters[row["template"], identity, reason, None, None] += 1
        return "refused"

    def _push(self, name: str, table: pa.Table, number: int) -> None:
        declared = self.world.inputs[name]
        events = (
            [(number, i) for i in range(table.num_rows)]
            if declared.id is None
            else table[declared.id].to_pylist()
        )
        for n_pieces, engine in self._engines.items():
            if n_pieces == WINDOWS:
                engine.store(name, table)
                engine.dead_letters(take=True)
                continue
            place = np.arange(table.num_rows) * n_pieces // max(1, table.num_rows)
            for piece in np.unique(place).tolist():
                first, last = np.searchsorted(place, [piece, piece + 1]).tolist()
                answers = engine.push(name, table.slice(first, last - first))
                self._note(name, answers, events[first:last])
                letters = engine.dead_letters(take=True)
                if n_pieces == 1:
                    self._write(letters, events)

    def _note(self, name: str, answers: Mapping[str, Answer], events: Sequence[Any]) -> None:
        for template, answer in answers.items():
            for row, own in FORMS[self.form](answer):
                whole = {"template": template, "input": name, "event": events[row], **own}
                self.played.answers[entry_of(whole | {"registry": self.registry})] += 1

    def _write(self, letters: pa.Table, events: Sequence[Any]) -> None:
        for letter in letters.to_pylist():
            source, event = letter["input"], events[letter["row"]]
            event = event if event is None or isinstance(event, tuple) else str(event)
            rest = (letter["reason"], letter["column"], letter["value"])
            self.played.letters[source, event, *rest] += 1


def _pairs(answer: Answer) -> Iterator[tuple[int, Row]]:
    for row in answer.pairs().to_pylist():
        yield row.pop("row"), {"change": 1, **row}


def _rows(answer: Answer) -> Iterator[tuple[int, Row]]:
    table, pushed = answer.traced_rows()
    return zip(pushed.tolist(), plain_rows(table), strict=True)


def _counts(answer: Answer) -> Iterator[tuple[int, Row]]:
    for row in answer.counts().to_pylist():
        if row["queries"]:
            yield row["row"], {"queries": row["queries"]}


def _spans(answer: Answer) -> Iterator[tuple[int, Row]]:
    found: dict[tuple[int, int], list[int]] = {}
    for row, pair in _pairs(answer):
        found.setdefault((row, pair["change"]), []).append(pair["query"])
    for (row, change), queries in found.items():
        yield row, {"change": change, "queries": tuple(sorted(queries))}


FORMS = {"pairs": _pairs, "rows": _rows, "counts": _counts, "spans": _spans}


def plain_rows(table: pa.Table) -> list[Row]:
    """Rows as dicts: times as microseconds, NaN as text, lists sorted, nothing that is null."""
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        columns[name] = [_plain(value) for value in column.to_pylist()]
    names = list(columns)
    return [
        {n: v for n, v in zip(names, values, strict=True) if v is not None}
        for values in zip(*columns.values(), strict=True)
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(sorted(value))
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def entry_of(row: Row) -> tuple[Any, ...]:
    """A row that can be counted."""
    return tuple(sorted(row.items()))


def embedded(
    world: World, history: Sequence[Batch], form: str = "pairs",
    pieces: Mapping[str, int] | None = None,
) -> Played:  # fmt: skip
    """The history in this process."""
    home = Embedded(world, form, pieces or {})
    for number, batch in enumerate(history):
        home.play(batch, number)
    return home.played
