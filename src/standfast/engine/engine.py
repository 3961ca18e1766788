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
from standfast.engine.answer import Answer, Outcome
from standfast.engine.door import DEAD_LETTERS, Batch, Door
from standfast.engine.group import Group
from standfast.engine.identities import Noted
from standfast.engine.sharing import ALL, Share
from standfast.engine.snapshot import State, load, pack, save, unpack
from standfast.engine.store import Store
from standfast.engine.strings import Strings
from standfast.errors import BadInput, FailedAggregate
from standfast.model.columns import is_integer
from standfast.model.names import did_you_mean, shown
from standfast.model.rows import MAX_TIME_US
from standfast.model.stream import Input
from standfast.model.template import Template
from standfast.model.windows import is_free_name
from standfast.operators.aggregates import UserAggregate, check_made_of_functions

Outcomes = dict[str, Outcome]


def now_us() -> int:
    """The clock of this machine in microseconds since 1970."""
    return time.time_ns() // 1000


class Engine:
    """Keeps standing queries answered over the batches pushed into its inputs.

    Kernels use every core by themselves; calls on one engine and its groups belong to one thread
    at a time.
    """

    def __init__(self, *, clock: Callable[[], int] = now_us, follows: bool = False) -> None:
        """`clock` gives the current time in microseconds; rows far ahead of it are rejected.

        An engine that `follows` judges lateness by the times told to `advance`, not by its rows.
        """
        self._clock = clock
        self._follows = follows
        self._doors: dict[str, Door] = {}
        self._stores: dict[str, Store] = {}
        self._groups: dict[str, Group] = {}
        self._strings = Strings()
        self._users: dict[str, UserAggregate] = {}

    def stream(
        self, name: str, schema: Mapping[str, str], *, time: str | None = None,
        lateness_us: int | None = None, id: str | None = None,
    ) -> None:  # fmt: skip
        """Declare an append-only input; `time` names its event-time column.

        Of rows with the same value in the column `id` only the first is used. Ids are forgotten
        when their rows would be late; without a lateness they are kept.
        """
        self._declare(Input.stream(name, schema, time=time, lateness_us=lateness_us, id=id))

    def table(self, name: str, schema: Mapping[str, str], *, key: str | Sequence[str]) -> None:
        """Declare a keyed input, whose `push` replaces rows that have the same key."""
        self._declare(Input.table(name, schema, key=key))

    def register(self, sql: str, *, name: str | None = None, strategy: str = "auto") -> Group:
        """Recognise the question of a template and make a group for its standing queries.

        A stream keeps rows from the moment the first join that reads it is registered; a join
        registered later sees what is kept. A table keeps its rows from the start.
        """
        if name is not None and type(name) is not str:
            raise BadInput(f"a template cannot be called {shown(name)}", hint="take a text")
        if not name:
            name = next(n for i in count(1) if (n := f"template_{i}") not in self._groups)
        if name in self._groups:
            raise BadInput(f"the name {name!r} is taken by another template")
        template = Template.parse(name, sql, self.inputs, self._users)
        group = Group(template, strategy, self._stores, self._strings, self._users)
        self._groups[name] = group
        return group

    def aggregate(self, name: str, functions: UserAggregate) -> None:
        """Let templates use an aggregate of the user's own by this name.

        A snapshot does not hold the functions: `restore` has to be given them again. What becomes
        of errors that they raise is told at `UserAggregate`.
        """
        if not is_free_name(name):
            hint = "take an identifier that SQL knows no function by"
            raise BadInput(f"an aggregate cannot be called {shown(name)}", hint=hint)
        if name in self._users:
            raise BadInput(f"the name {name!r} is taken by another aggregate")
        check_made_of_functions(name, functions)
        functions.width()
        self._users[name] = functions

    @property
    def inputs(self) -> dict[str, Input]:
        """The declared inputs by name."""
        return {name: store.input for name, store in self._stores.items()}

    @property
    def groups(self) -> dict[str, Group]:
        """The registered groups by name."""
        return dict(self._groups)

    def push(self, name: str, rows: Any, *, noted: Noted | None = None) -> dict[str, Answer]:
        """Take in a batch of rows; returns what changed, one `Answer` per template that reads it.

        Bad rows do not stop the batch: they are counted in `metrics` and kept as `dead_letters`.
        Nor does an aggregate of the user's own that fails: `Answer.failed` of its template tells.
        Rows that are counted as used are kept even if the push is interrupted while it answers.
        Where rows are dealt to several engines that follow, the ids of `noted` ones, which others
        take in, count as used.
        """
        store = self._store(name)
        outcomes: Outcomes = {group.name: () for group in self._readers(name)}
        n_rows = self._take_in(store, rows, outcomes, noted)
        return self._answers(n_rows, outcomes)

    def store(self, name: str, rows: Any, *, noted: Noted | None = None) -> None:
        """Take in a batch like `push` when nobody asks what it changes."""
        self._take_in(self._store(name), rows, {}, noted)

    def report(self, share: Share = ALL) -> dict[str, Answer]:
        """What changed in the answers of windows since the last `push` or `report`, by template.

        It is told by a row 0, whatever changed it: rows that were stored, time, new queries. Of
        engines that hold the same rows each may tell of its `share` of the queries.
        """
        if type(share) is not Share:
            raise BadInput(f"a share is told as Share(number, of), got {shown(share)}")
        windows = {n: group for n, group in self._groups.items() if group.keeps_lanes}
        return self._answers(1, {name: group.report(share) for name, group in windows.items()})

    def advance(self, name: str, time_us: int) -> None:
        """The latest time of a stream is at least this: rows will be late, old ones may go.

        An earlier time than one told before changes nothing.
        """
        source = self._store(name).input
        if source.time is None:
            raise BadInput(f"input {name!r} has no time column", hint="declare a stream with time=")
        if type(time_us) is not int or not 0 <= time_us <= MAX_TIME_US:
            raise BadInput(
                f"input {name!r}: a time is microseconds from 0 to 2262, got {shown(time_us)}"
            )
        self._doors[name].advance(time_us)
        for group in self._readers(name):
            group.advance(time_us)
        self._expire()

    def forgo(self, name: str) -> None:
        """Keep no rows of a stream for joins: nothing will come that could meet them.

        A snapshot does not tell of it.
        """
        store = self._store(name)
        if store.input.kind != "stream" or len(store):
            raise BadInput(f"the rows of {name!r} are needed", hint="forgo an empty stream")
        store.is_forgone = True

    def delete(self, name: str, keys: Any) -> dict[str, Answer]:
        """Delete rows of a table, given by its key columns; returns what changed.

        A key that the table does not hold is rejected like a bad row.
        """
        store = self._store(name)
        if store.input.kind != "table":
            raise BadInput(f"{name!r} is a stream, which is append-only", hint="declare a table")
        batch = self._doors[name].admit_keys(keys)
        old, ids = store.named_by(batch, self._doors[name])
        outcomes: Outcomes = {group.name: () for group in self._readers(name)}
        self._forget(store, old, ids, outcomes)
        return self._answers(batch.n_rows, outcomes)

    def metrics(self) -> dict[str, Any]:
        """Counts so far: what became of the rows of each input, and what each group holds."""
        return {
            "inputs": {
                name: door.counters.as_dict()
                | {"stored": len(self._stores[name]), "memory_bytes": self._input_bytes(name)}
                for name, door in self._doors.items()
            },
            "groups": {name: group.metrics() for name, group in self._groups.items()},
        }

    def counters(self, name: str) -> dict[str, int]:
        """What became of the rows of one input: received, used, late, duplicate, rejected."""
        self._store(name)
        return self._doors[name].counters.rows()

    def holds_rows(self, name: str) -> bool:
        """Whether rows of this input leave anything behind: themselves or their ids."""
        is_kept = self._store(name).holds_rows or self._doors[name].identities is not None
        return is_kept or any(group.keeps_lanes for group in self._readers(name))

    def memory_bytes(self) -> int:
        """Bytes held for rows, for their ids and for the indexes of queries."""
        inputs = sum(self._input_bytes(name) for name in self._stores)
        return inputs + sum(group.memory_bytes() for group in self._groups.values())

    def dead_letters(self, *, take: bool = False) -> pa.Table:
        """Rows that were not used, with the reason; `take` hands them over and forgets them."""
        letters = [door.dead_letters() for door in self._doors.values()]
        if take:
            for door in self._doors.values():
                door.letters = []
        return pa.concat_tables([DEAD_LETTERS.empty_table(), *letters])

    def snapshot(self, path: str | PathLike[str]) -> None:
        """Write inputs, rows and standing queries to one file, all or nothing."""
        save(path, self._state())

    @staticmethod
    def restore(
        path: str | PathLike[str], *, clock: Callable[[], int] = now_us,
        aggregates: Mapping[str, UserAggregate] | None = None,
    ) -> Engine:  # fmt: skip
        """The engine as it was when the snapshot was taken; answers continue from there.

        `aggregates` are those that its templates use beyond the built-in ones.
        """
        return Engine._of(load(path, aggregates), clock)

    def to_bytes(self) -> bytes:
        """What `snapshot` writes."""
        return pack(self._state())

    @staticmethod
    def from_bytes(
        data: bytes | bytearray | memoryview, *, clock: Callable[[], int] = now_us,
        aggregates: Mapping[str, UserAggregate] | None = None,
    ) -> Engine:  # fmt: skip
        """The engine that `to_bytes` was asked of, as it was then."""
        return Engine._of(unpack(data, users=aggregates), clock)

    def check(self) -> None:
        """Assert the invariants of everything inside; for tests."""
        for store in self._stores.values():
            store.check()
        for door in self._doors.values():
            if door.identities is not None:
                door.identities.check()
        for group in self._groups.values():
            group.check()

    def _state(self) -> State:
        return State(
            self._doors, self._stores, self._groups, self._strings, self._follows, self._users
        )

    @staticmethod
    def _of(state: State, clock: Callable[[], int]) -> Engine:
        engine = Engine(clock=clock, follows=state.follows)
        engine._doors, engine._stores, engine._groups, engine._strings, _, engine._users = state
        return engine

    def _take_in(self, store: Store, rows: Any, outcomes: Outcomes, noted: Noted | None) -> int:
        """Let rows in and store them, with what that changes for the groups of `outcomes`."""
        if noted is not None and not self._follows:
            hint = "make it with follows=True, and tell it the times with advance"
            raise BadInput("only an engine that follows takes note of rows of others", hint=hint)
        own = store.input
        if noted is not None and (why := noted.misfit(own.columns[own.id] if own.id else None)):
            raise BadInput(f"rows of others cannot be noted for {own.name!r}: {why}")
        batch = self._doors[store.input.name].admit(rows, self._now_us(), noted)
        if store.input.kind == "table":
            old, ids, batch = store.replaced_by(batch)
            try:
                self._forget(store, old, ids, outcomes)
            except BaseException:
                self._keep(store, batch, {})
                raise
        self._keep(store, batch, outcomes)
        self._expire()
        return batch.n_rows

    def _now_us(self) -> int:
        now = self._clock()
        if not is_integer(now):
            hint = "for example lambda: time.time_ns() // 1000"
            raise BadInput(f"a clock gives microseconds as an integer, got {shown(now)}", hint=hint)
        return int(now)

    def _keep(self, store: Store, batch: Batch, outcomes: Outcomes) -> None:
        """Answer rows that came and store them.

        The door has counted them as used, so they are stored even if no answer comes of it.
        """
        try:
            self._process(store, batch, 1, outcomes, stored=False)
        finally:
            store.append(batch.rows)
            for group in self._readers(store.input.name):
                group.take_in(batch, self._doors[store.input.name].latest_us)
        self._process(store, batch, 1, outcomes, stored=True)

    def _forget(self, store: Store, batch: Batch, ids: Int64s, outcomes: Outcomes) -> None:
        """Answer rows that went and delete them."""
        try:
            self._process(store, batch, -1, outcomes, stored=False)
        finally:
            store.delete(ids)
        self._process(store, batch, -1, outcomes, stored=True)

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
        self, store: Store, batch: Batch, change: Literal[1, -1], outcomes: Outcomes,
        *, stored: bool,
    ) -> None:  # fmt: skip
        for name, before in outcomes.items():
            side = self._groups[name].side_of(store.input.name, stored=stored)
            if side is None or not batch.rows.num_rows:
                continue
            found = self._groups[name].process(batch, side, change)
            if isinstance(before, FailedAggregate) or isinstance(found, FailedAggregate):
                outcomes[name] = found
            else:
                outcomes[name] = [*before, *found]

    def _answers(self, n_rows: int, outcomes: Outcomes) -> dict[str, Answer]:
        return {
            name: Answer(n_rows, found, self._groups[name].schema, signed=self._groups[name].signed)
            for name, found in outcomes.items()
        }

    def _readers(self, name: str) -> list[Group]:
        return [group for group in self._groups.values() if name in group.inputs]

    def _input_bytes(self, name: str) -> int:
        return self._stores[name].memory_bytes() + self._doors[name].memory_bytes()

    def _store(self, name: str) -> Store:
        if type(name) is not str or name not in self._stores:
            raise BadInput(
                f"there is no input {name!r}",
                hint=did_you_mean(str(name), self._stores, what="inputs"),
            )
        return self._stores[name]

    def _declare(self, source: Input) -> None:
        if source.name in self._stores:
            raise BadInput(f"the name {source.name!r} is taken by another input")
        self._stores[source.name] = Store(source, self._strings)
        self._doors[source.name] = Door(source, follows=self._follows)
