"""Histories: what happens to an engine, as plain values that can be printed, cut and replayed.

A query is known by its *handle*, a number of the history; its id is what the history says or what
the engine assigned. A history is drawn from a `Random`, which is either seeded or one that
Hypothesis controls and shrinks.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from tests.contract.numbers import FEW_TIMES, draw_bounds, draw_value
from tests.contract.oracle import Row
from tests.contract.worlds import World

WORDS = ("p", "q", "", None)
KEYS = 6  # so few keys that upserts and deletes meet rows


class Add(NamedTuple):
    """Register queries: `holes[hole][i]` is what query `handles[i]` says, `ids[i]` its id."""

    handles: tuple[int, ...]
    holes: dict[str, list[Any]]
    ids: tuple[int, ...] | None


class Remove(NamedTuple):
    """Forget queries."""

    handles: tuple[int, ...]


class Push(NamedTuple):
    """Push rows into an input."""

    name: str
    rows: tuple[Row, ...]


class Delete(NamedTuple):
    """Delete rows of a table by key."""

    name: str
    keys: tuple[int, ...]


Action = Add | Remove | Push | Delete


class Draft:
    """Draws actions one after the other; knows which queries live and which ids are free."""

    def __init__(
        self, world: World, rng: Random, *, largest: int = 6, first_handle: int = 0,
        first_id: int | None = None,
    ) -> None:  # fmt: skip
        """`first_id` makes every query come with an id of its own, from there on."""
        self.world = world
        self.rng = rng
        self.largest = largest
        self.next_handle = first_handle
        self.living: dict[int, int | None] = {}
        # Assigned ids start at 0: own ids beside them are negative.
        self.own_ids = 1.0 if first_id is not None else rng.choice([0.0, 0.5, 1.0])
        self.first_id = -40 if self.own_ids == 0.5 else first_id or 0

    def actions(self, n: int) -> list[Action]:
        """A history of n actions; queries and rows are there before the rest is drawn."""
        names = list(self.world.inputs)
        begin: list[Action] = [self.push(name) for name in names]
        return [self.add(), *begin, *(self.action() for _ in range(n))]

    def action(self) -> Action:
        """Any action that can happen now."""
        name = self.rng.choice(list(self.world.inputs))
        chosen = self.rng.choices(("push", "add", "remove", "delete"), (5, 3, 2, 2))[0]
        if chosen == "add":
            return self.add()
        if chosen == "remove" and self.living:
            return self.remove()
        if chosen == "delete" and self.world.inputs[name] == "table":
            return self.delete(name)
        return self.push(name)

    def add(self) -> Add:
        """Some queries, with ids of their own (also ids that were used before) or without."""
        n, ids = self._size(), None
        if self.rng.random() < self.own_ids:
            taken = set(self.living.values())
            free = [i for i in range(self.first_id, self.first_id + 40) if i not in taken]
            n = min(n, len(free))
            ids = tuple(self.rng.sample(free, n))
        handles = tuple(range(self.next_handle, self.next_handle + n))
        self.next_handle += n
        self.living |= dict(zip(handles, ids or [None] * n, strict=True))
        meets = self.world.shape.holes
        return Add(handles, {hole: self._bounds(meets[hole], n) for hole in meets}, ids)

    def remove(self) -> Remove:
        """Some of the living queries, in any order."""
        n = min(self._size(), len(self.living))
        handles = tuple(self.rng.sample(sorted(self.living), n))
        for handle in handles:
            del self.living[handle]
        return Remove(handles)

    def push(self, name: str) -> Push:
        """Some rows; the same key may come twice, a table's key may be null."""
        rows = [self._row(name) for _ in range(self._size())]
        if "t" in self.world.columns(name) and self.rng.random() < 0.7:
            rows.sort(key=lambda row: row[-1])
        return Push(name, tuple(rows))

    def delete(self, name: str) -> Delete:
        """Some keys, known or not, some twice."""
        return Delete(name, tuple(self.rng.randrange(KEYS + 1) for _ in range(self._size())))

    def _size(self) -> int:
        """Often one, sometimes none."""
        return self.rng.choice([0, 1, 1, 2, 3, self.largest])

    def _row(self, name: str) -> Row:
        key = None if self.rng.random() < 0.05 else self.rng.randrange(KEYS)
        other = None if self.rng.random() < 0.05 else self.rng.randint(0, 4)
        row = (key, draw_value(self.rng, self.world.kind), other, self.rng.choice(WORDS))
        if "t" in self.world.columns(name):
            return (*row, FEW_TIMES + self.rng.randint(0, 4))
        return row

    def _bounds(self, subject: str, n: int) -> list[Any]:
        if subject == "s":
            return [self.rng.choice(("p", "q", "r", "")) for _ in range(n)]
        if subject == "y":
            return draw_bounds(self.rng, "int64", n, is_band=False)
        return draw_bounds(self.rng, self.world.kind, n, is_band=subject != "x")


def cut(rng: Random, history: Sequence[Action]) -> list[Action]:
    """The same history with every batch cut somewhere, into one or more pieces."""
    pieces: list[Action] = []
    for action in history:
        match action:
            case Add(handles, holes, ids):
                for i, j in _cuts(rng, len(handles)):
                    own = ids if ids is None else ids[i:j]
                    pieces.append(
                        Add(handles[i:j], {h: values[i:j] for h, values in holes.items()}, own)
                    )
            case Remove(handles):
                pieces += [Remove(handles[i:j]) for i, j in _cuts(rng, len(handles))]
            case Push(name, rows):
                pieces += [Push(name, rows[i:j]) for i, j in _cuts(rng, len(rows))]
            case Delete(name, keys):
                pieces += [Delete(name, keys[i:j]) for i, j in _cuts(rng, len(keys))]
    return pieces


def _cuts(rng: Random, n: int) -> list[tuple[int, int]]:
    """Neighbouring slices of 0..n; some may be empty."""
    places = sorted(rng.randint(0, n) for _ in range(rng.randint(0, 3)))
    return list(zip([0, *places], [*places, n], strict=True))
