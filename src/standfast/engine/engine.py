"""The engine: inputs, groups of standing queries, and the loop that a pushed batch walks.

    rows -> door (good, late, bad) -> for each group that reads the input: strategy -> Answer
                                   -> store (sorted runs, for joins and tables)

What a batch changes is computed before the rows are stored. Only the second side of a self join
is computed after that, so that every pair of rows meets exactly once, pairs within the batch too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from os import PathLike
from typing import Any, Literal

import pyarrow as pa

from standfast.arrays import Int64s
from standfast.engine.answer import Answer, Part
from standfast.engine.door import DEAD_LETTERS, Batch, Door
from standfast.engine.group import Group
from standfast.engine.snapshot import State, load, save
from standfast.engine.store import Store
from standfast.engine.strings import Strings
from standfast.errors import BadInput
from standfast.model.names import did_you_mean
from standfast.model.stream import Input
from standfast.model.template import Template

Parts = dict[str, list[Part]]


def now_us() -> int:
    """The clock of this machine in microseconds since 1970."""
    return time.time_ns() // 1000


class Engine:
    """Keeps standing queries answered over the batches pushed into its inputs.

    Kernels use every core by themselves; calls on one engine and its groups belong to one thread
    at a time.
    """

    def __init__(self, *, clock: Callable[[], int] = now_us) -> None:
        """`clock` gives the current time in microseconds; rows far ahead of it are rejected."""
        self._clock = clock
        self._doors: dict[str, Door] = {}
        self._stores: dict[str, Store] = {}
        self._groups: dict[str, Group] = {}
        self._strings = Strings()

    def stream(
        self, name: str, schema: Mapping[str, str], *, time: str | None = None,
        lateness_us: int | None = None,
    ) -> None:  # fmt: skip
        """Declare an append-only input; `time` names its event-time column."""
        self._declare(Input.stream(name, schema, time=time, lateness_us=lateness_us))

    def table(self, name: str, schema: Mapping[str, str], *, key: str | Sequence[str]) -> None:
        """Declare a keyed input, whose `push` replaces rows that have the same key."""
        self._declare(Input.table(name, schema, key=key))

    def register(self, sql: str, *, name: str | None = None, strategy: str = "auto") -> Group:
        """Recognise the question of a template and make a group for its standing queries.

        A stream keeps rows from the moment the first join that reads it is registered; a join
        registered later sees what is kept. A table keeps its rows from the start.
        """
        if not name:
            name = next(n for i in count(1) if (n := f"template_{i}") not in self._groups)
        if name in self._groups:
            raise BadInput(f"the name {name!r} is taken by another template")
        template = Template.parse(name, sql, self.inputs)
        group = Group(template, strategy, self._stores, self._strings)
        self._groups[name] = group
        return group

    @property
    def inputs(self) -> dict[str, Input]:
        """The declared inputs by name."""
        return {name: store.input for name, store in self._stores.items()}

    @property
    def groups(self) -> dict[str, Group]:
        """The registered groups by name."""
        return dict(self._groups)

    def push(self, name: str, rows: Any) -> dict[str, Answer]:
        """Take in a batch of rows; returns what changed, one `Answer` per template that reads it.

        Bad rows do not stop the batch: they are counted in `metrics` and kept as `dead_letters`.
        """
        store = self._store(name)
        batch = self._doors[name].admit(rows, self._clock())
        parts: Parts = {group.name: [] for group in self._readers(name)}
        if store.input.kind == "table":
            old, ids, batch = store.replaced_by(batch)
            self._forget(store, old, ids, parts)
        self._keep(store, batch, parts)
        self._expire()
        return self._answers(batch.n_rows, parts)

    def delete(self, name: str, keys: Any) -> dict[str, Answer]:
        """Delete rows of a table, given by its key columns; returns what changed.

        A key that the table does not hold is rejected like a bad row.
        """
        store = self._store(name)
        if store.input.kind != "table":
            raise BadInput(f"{name!r} is a stream, which is append-only", hint="declare a table")
        batch = self._doors[name].admit_keys(keys, self._clock())
        old, ids = store.named_by(batch, self._doors[name])
        parts: Parts = {group.name: [] for group in self._readers(name)}
        self._forget(store, old, ids, parts)
        return self._answers(batch.n_rows, parts)

    def metrics(self) -> dict[str, Any]:
        """Counts so far: what became of the rows of each input, and what each group holds."""
        return {
            "inputs": {
                name: door.counters.as_dict() | self._stores[name].metrics()
                for name, door in self._doors.items()
            },
            "groups": {name: group.metrics() for name, group in self._groups.items()},
        }

    def dead_letters(self, *, take: bool = False) -> pa.Table:
        """Rows that were not used, with the reason; `take` hands them over and forgets them."""
        letters = [door.dead_letters() for door in self._doors.values()]
        if take:
            for door in self._doors.values():
                door.letters = []
        return pa.concat_tables([DEAD_LETTERS.empty_table(), *letters])

    def snapshot(self, path: str | PathLike[str]) -> None:
        """Write inputs, rows and standing queries to one file, all or nothing."""
        save(path, State(self._doors, self._stores, self._groups, self._strings))

    @staticmethod
    def restore(path: str | PathLike[str], *, clock: Callable[[], int] = now_us) -> Engine:
        """The engine as it was when the snapshot was taken; answers continue from there."""
        engine = Engine(clock=clock)
        engine._doors, engine._stores, engine._groups, engine._strings = load(path)
        return engine

    def check(self) -> None:
        """Assert the invariants of everything inside; for tests."""
        for store in self._stores.values():
            store.check()
        for group in self._groups.values():
            group.check()

    def _keep(self, store: Store, batch: Batch, parts: Parts) -> None:
        """Answer rows that came and store them."""
        self._process(store, batch, 1, parts, stored=False)
        store.append(batch.rows)
        self._process(store, batch, 1, parts, stored=True)

    def _forget(self, store: Store, batch: Batch, ids: Int64s, parts: Parts) -> None:
        """Answer rows that went and delete them."""
        self._process(store, batch, -1, parts, stored=False)
        store.delete(ids)
        self._process(store, batch, -1, parts, stored=True)

    def _expire(self) -> None:
        """Let rows go that no window can reach any more, and strings that went with them."""
        ahead = {name: door.ahead_us for name, door in self._doors.items()}
        for name, store in self._stores.items():
            readers = [group for group in self._readers(name) if group.keeps_rows]
            if store.input.kind == "table" or not readers:
                continue
            needed = [group.horizon(name, ahead) for group in readers]
            known = [time for time in needed if time is not None]
            if len(known) == len(needed):
                store.expire(min(known))
        self._strings.tidy()

    def _process(
        self, store: Store, batch: Batch, change: Literal[1, -1], parts: Parts, *, stored: bool
    ) -> None:
        for name, found in parts.items():
            side = self._groups[name].side_of(store.input.name, stored=stored)
            if side is not None and batch.rows.num_rows:
                found.append(self._groups[name].process(batch, side, change))

    def _answers(self, n_rows: int, parts: Parts) -> dict[str, Answer]:
        return {
            name: Answer(n_rows, found, self._groups[name].schema, signed=self._groups[name].signed)
            for name, found in parts.items()
        }

    def _readers(self, name: str) -> list[Group]:
        return [group for group in self._groups.values() if name in group.inputs]

    def _store(self, name: str) -> Store:
        if name not in self._stores:
            raise BadInput(
                f"there is no input {name!r}",
                hint=did_you_mean(str(name), self._stores, what="inputs"),
            )
        return self._stores[name]

    def _declare(self, source: Input) -> None:
        if source.name in self._stores:
            raise BadInput(f"the name {source.name!r} is taken by another input")
        self._stores[source.name] = Store(source, self._strings)
        self._doors[source.name] = Door(source)
