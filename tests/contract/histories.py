"""Histories: what happens to an engine, as plain values that can be printed, cut and replayed.

A query is known by its *handle*, a number of the history; its id is what the history says or what
the engine assigned. A history is drawn from a `Random`, which is either seeded or one that
Hypothesis controls and shrinks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from tests.contract.numbers import FEW_TIMES, draw_bounds, draw_key, draw_value
from tests.contract.oracle import Row
from tests.contract.sights import Sights, Tally
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
        first_id: int | None = None, tally: Tally | None = None,
    ) -> None:  # fmt: skip
        """`first_id` makes every query come with an id of its own, from there on.

        The tally counts what the drawn actions hold.
        """
        self.world = world
        self.rng = rng
        self.largest = largest
        self.next_handle = first_handle
        self.living: dict[int, int | None] = {}
        self.anchors: set[int] = set()
        self.sights = Sights(world, Counter() if tally is None else tally)
        self.now = FEW_TIMES
        # Assigned ids start at 0: own ids beside them are negative.
        self.own_ids = 1.0 if first_id is not None else rng.choice([0.0, 0.5, 1.0])
        self.first_id = -40 if self.own_ids == 0.5 else first_id or 0

    def actions(self, n: int) -> list[Action]:
        """A history of n actions; queries and rows are there before the rest is drawn."""
        n_first = min(self.largest, 6) if self.world.has_keys else None
        begin: list[Action] = [self.push(name, n_first) for name in self.world.inputs]
        return [self.first_add(n_first), *begin, *(self.action() for _ in range(n))]

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

    def add(self, n: int | None = None) -> Add:
        """Some queries, with ids of their own (also ids that were used before) or without."""
        n, ids = self._size() if n is None else n, None
        if self.rng.random() < self.own_ids:
            taken = set(self.living.values())
            free = [i for i in range(self.first_id, self.first_id + 40) if i not in taken]
            n = min(n, len(free))
            ids = tuple(self.rng.sample(free, n))
        handles = tuple(range(self.next_handle, self.next_handle + n))
        self.next_handle += n
        self.living |= dict(zip(handles, ids or [None] * n, strict=True))
        holes = self.bounds(n)
        self.sights.added(holes, n)
        return Add(handles, holes, ids)

    def bounds(self, n: int) -> dict[str, list[Any]]:
        """What n queries say, by hole."""
        meets = self.world.shape.holes
        found = {hole: bounds_of(self.rng, self.world, meets[hole], n) for hole in meets}
        if self.world.has_keys:
            self._widen(found)
        return found

    def _widen(self, found: dict[str, list[Any]]) -> None:
        """Turn most empty ranges round: a join of two ranges has few results as it is."""
        bounds = [c for c in self.world.shape.comparisons if c.hole]
        lows = [c for c in bounds if c.operator in (">", ">=")]
        for low in lows:
            for high in bounds:
                if high.subject == low.subject and high.operator in ("<", "<="):
                    one, other = found[low.hole], found[high.hole]
                    for i, ends in enumerate(zip(one, other, strict=True)):
                        # A column of bounds keeps to one type.
                        if type(ends[0]) is type(ends[1]) and self.rng.random() < 0.85:
                            one[i], other[i] = sorted(ends)

    def first_add(self, n: int | None = None) -> Add:
        """Some queries; where rows expire, the first has the widest window and always stays.

        A query that comes later sees the rows that are kept then, so all others are narrower.
        """
        first = self.add(n)
        if self.world.widest is None:
            return first
        self.anchors = {first.handles[0]}
        for hole, subject in self.world.shape.holes.items():
            if subject == "gap":
                first.holes[hole][0] = self.world.widest
        return first

    def remove(self) -> Remove:
        """Some of the living queries, in any order."""
        others = sorted(self.living.keys() - self.anchors)
        handles = tuple(self.rng.sample(others, min(self._size(), len(others))))
        for handle in handles:
            del self.living[handle]
        return Remove(handles)

    def push(self, name: str, n: int | None = None) -> Push:
        """Some rows; the same key may come twice, a table's key may be null."""
        rows = [self.row(name) for _ in range(self._size() if n is None else n)]
        if self.world.time and "t" in self.world.columns(name) and self.rng.random() < 0.7:
            rows.sort(key=lambda row: row[-1])
        self.sights.pushed(name, rows)
        return Push(name, tuple(rows))

    def delete(self, name: str) -> Delete:
        """Some keys, known or not, some twice."""
        keys = tuple(self.rng.randrange(KEYS + 1) for _ in range(self._size()))
        self.sights.deleted(name, keys)
        return Delete(name, keys)

    def _size(self) -> int:
        """Often one, sometimes none."""
        return self.rng.choice([0, 1, 1, 2, 3, self.largest])

    def row(self, name: str) -> Row:
        """A row of an input."""
        key = None if self.rng.random() < 0.05 else self.rng.randrange(KEYS)
        other = None if self.rng.random() < 0.05 else self.rng.randint(0, 4)
        row: Row = (key, draw_value(self.rng, self.world.kind), other, self.rng.choice(WORDS))
        if self.world.has_keys:
            row = (*row, draw_key(self.rng, self.world.key))
        if "t" not in self.world.columns(name):
            return row
        return (*row, self._time())

    def _time(self) -> Any:
        """A time of some rows; where rows expire it goes on, and some rows are late."""
        if not self.world.time:
            return draw_value(self.rng, self.world.clock)
        if self.world.widest is None:
            return FEW_TIMES + self.rng.randint(0, 4)
        self.now += self.rng.choice([0, 0, 0, 1, 1, 2])
        return self.now - self.rng.choice([0, 0, 0, 1, 2, 4])


def bounds_of(rng: Random, world: World, subject: str, n: int) -> list[Any]:
    """What n queries say for a hole that meets this subject."""
    kind = world.kind_of(subject)
    if kind == "string":
        return [rng.choice(("p", "q", "r", "")) for _ in range(n)]
    if subject == "gap" and world.widest is not None:
        return [rng.randint(-1, world.widest) for _ in range(n)]
    return draw_bounds(rng, kind, n, is_band=subject in ("a-b", "b-a", "abs", "gap"))


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
