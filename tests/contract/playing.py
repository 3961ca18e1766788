"""Plays histories on engines and reads their answers as plain Python values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from tests.contract.histories import Action, Add, Delete, Push, Remove
from tests.contract.oracle import Expected, Model, Pair, Result, Row, plain
from tests.contract.worlds import World

from standfast import Answer, Engine, Group

# What metrics say about the rows of an input, beside what is held of them.
COUNTED = ("batches", "received", "used", "late", "rejected", "reasons")


class Seen(NamedTuple):
    """An answer in all its forms, each in a fixed order."""

    pairs: list[Pair]
    by_row: list[tuple[int, int]]
    by_query: list[tuple[int, int]]
    rows: list[Row]
    spans: list[Pair]

    @property
    def change(self) -> Result:
        """The changes of every query's result, added up."""
        total: Result = Counter()
        for *row, change in self.rows:
            total[tuple(row)] += change
        return nonzero(total)


def nonzero(total: Result) -> Result:
    """The entries that are not zero, negative ones too."""
    return Counter({row: n for row, n in total.items() if n})


def seen(answer: Answer) -> Seen:
    """Everything that an answer says."""
    return Seen(
        pairs=sorted(pairs_of(answer.pairs())),
        by_row=_tuples(answer.counts()),
        by_query=_tuples(answer.counts(by="query")),
        rows=sorted(result_rows(answer.rows()), key=repr),
        spans=sorted(_spans(answer)),
    )


def _tuples(table: pa.Table) -> list[Any]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def pairs_of(table: pa.Table) -> list[Pair]:
    """Pairs with their change, which is +1 where only streams are read."""
    rows = table["row"].to_pylist()
    assert rows == sorted(rows), "pairs are not in the order of the rows"
    change = table["change"].to_pylist() if "change" in table.column_names else [1] * len(rows)
    return list(zip(rows, table["query"].to_pylist(), change, strict=True))


def result_rows(table: pa.Table) -> list[Row]:
    """Result rows as tuples; times as microseconds."""
    columns = []
    for column in table.columns:
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        columns.append([plain(value) for value in column.to_pylist()])
    return list(zip(*columns, strict=True))


def _spans(answer: Answer) -> list[Pair]:
    """The pairs that the spans stand for, expanded by the rule that `Spans` states."""
    spans = answer.spans()
    order, rank = spans.order.to_pylist(), spans.rank.to_pylist()
    return [
        (span["row"], order[i], span["change"])
        for span in spans.spans.to_pylist()
        for i in range(span["start"], span["stop"])
        if order[i] is not None and rank[i] >= span["floor"]
    ]


class Player:
    """An engine in a world, with one group for each way, and the names of its queries."""

    def __init__(self, world: World, ways: Sequence[str]) -> None:
        self.world = world
        self.engine: Engine = world.engine()
        self.ways = list(ways)
        for way in ways:
            world.register(self.engine, way)
        self.ids: dict[int, int] = {}

    @property
    def groups(self) -> dict[str, Group]:
        return self.engine.groups

    def play(self, action: Action) -> dict[str, Answer]:
        """Let it happen; the answers by way, none when only queries changed."""
        match action:
            case Add(handles, holes, ids):
                params = holes if ids is None else holes | {"id": list(ids)}
                named = {way: self.groups[way].add(params).to_pylist() for way in self.ways}
                assert len(set(map(tuple, named.values()))) == 1, "ids depend on the strategy"
                assigned = named[self.ways[0]]
                assert ids is None or assigned == list(ids), "ids were not taken over"
                self.ids |= dict(zip(handles, assigned, strict=True))
            case Remove(handles):
                for way in self.ways:
                    self.groups[way].remove([self.ids[handle] for handle in handles])
            case Push(name, rows):
                columns = self.world.columns(name)
                batch = {c: [row[i] for row in rows] for i, c in enumerate(columns)}
                return self.engine.push(name, batch)
            case Delete(name, keys):
                return self.engine.delete(name, {"k": list(keys)})
        return {}

    def handles(self, result: Mapping[Row, int]) -> Result:
        """A result of this engine with handles instead of ids, to compare with another engine."""
        names = {i: handle for handle, i in self.ids.items()}
        return Counter({(names[query], *row): n for (query, *row), n in result.items()})

    def counters(self) -> dict[str, Any]:
        """What became of the rows so far."""
        inputs = self.engine.metrics()["inputs"]
        return {
            name: {what: counters[what] for what in COUNTED} for name, counters in inputs.items()
        }

    def stored(self) -> dict[str, int]:
        """How many rows are kept; those that can matter no more may go at any time."""
        inputs = self.engine.metrics()["inputs"]
        return {name: counters["stored"] for name, counters in inputs.items()}


def expect(model: Model, player: Player, action: Action) -> Expected | None:
    """What the oracle says about an action that a player has just played."""
    match action:
        case Add(handles, holes, _):
            for i, handle in enumerate(handles):
                model.queries[player.ids[handle]] = {h: v[i] for h, v in holes.items()}
        case Remove(handles):
            for handle in handles:
                del model.queries[player.ids[handle]]
        case Push(name, rows):
            return model.push(name, rows)
        case Delete(name, keys):
            return model.delete(name, keys)
    return None
