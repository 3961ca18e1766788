"""What the homes are compared on: inputs, a template for every way, and a seeded history.

    a, b     streams with whole numbers as ids: filters, band joins, select-joins, self joins
    stock    a table
    u, v     streams with a time, for windows; u has texts as ids, v has none

A history is a list of micro-batches. Each has changes of queries, good and bad, and rows of every
input: usable, late, known already, and of no use.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from standfast.model.rows import ARROW_TYPES
from standfast.operators.catalog import (
    BAND_JOINS,
    FILTERS,
    KEY_THRESHOLDS,
    SELECT_JOINS,
    WINDOW_AGGREGATES,
    WINDOW_JOINS,
)

Row = dict[str, Any]

LATENESS_US = 10_000_000
START = datetime(2024, 5, 1, tzinfo=UTC)
WORDS = ("red", "green", "blue", "", None)
QUERIES = "queries"  # the folder of changes, beside those of the inputs


class Declared(NamedTuple):
    """An input: its columns, and what they mean."""

    columns: dict[str, str]
    key: str | None = None
    time: str | None = None
    id: str | None = None


_PLAIN = {"id": "int64", "j": "int64", "x": "float64", "y": "int64", "s": "string"}
_TIMED = {"j": "int64", "x": "float64", "ts": "timestamp"}
INPUTS = {
    "a": Declared(_PLAIN, id="id"),
    "b": Declared(_PLAIN, id="id"),
    "stock": Declared({"k": "int64", "x": "float64", "y": "int64"}, key="k"),
    "u": Declared({"name": "string", **_TIMED}, time="ts", id="name"),
    "v": Declared(_TIMED, time="ts"),
}

FILTER = "SELECT * FROM a WHERE x BETWEEN :lo AND :hi"
BAND = "SELECT a.id AS aid, b.id AS bid FROM a JOIN b ON b.x - a.x BETWEEN :lo AND :hi"
SELECT = (
    "SELECT a.id AS aid, b.x AS bx FROM a JOIN b ON a.j = b.j "
    "WHERE a.x BETWEEN :lo AND :hi AND b.x BETWEEN :low AND :high"
)
WINDOW = (
    "SELECT u.name AS uname, u.ts AS at, v.x AS vx FROM u JOIN v ON u.j = v.j "
    "WHERE ABS(u.ts - v.ts) <= :w AND u.x BETWEEN :lo AND :hi AND v.x BETWEEN :low AND :high"
)
AGGREGATE = (
    "SELECT j, SUM(x) OVER (PARTITION BY j ORDER BY ts RANGE BETWEEN :w PRECEDING AND CURRENT ROW)"
    " AS answer FROM u"
)
QUANTILE = AGGREGATE.replace("SUM(x)", "PERCENTILE_DISC(x, :phi )")
THRESHOLD = (
    "SELECT j FROM v QUALIFY COUNT(*) OVER "
    "(PARTITION BY j ORDER BY ts RANGE BETWEEN :w PRECEDING AND CURRENT ROW) >= :n"
)
# Answered as the engine chooses.
OTHERS = {
    "box": "SELECT id, x FROM a WHERE x >= :lo AND y < :hi",
    "word": "SELECT id, s FROM b WHERE s = :word AND x >= :lo",
    "recent": "SELECT name, x FROM u WHERE x > :lo",
    "string_key": "SELECT a.id AS aid, b.id AS bid FROM a JOIN b ON a.s = b.s WHERE a.x < :hi",
    "self_band": "SELECT p.id AS pid, q.id AS qid FROM a p JOIN a q "
    "ON p.x - q.x BETWEEN :lo AND :hi",
    "self_select": "SELECT p.id AS pid, q.id AS qid FROM a p JOIN a q ON p.j = q.j "
    "WHERE p.x BETWEEN :lo AND :hi AND q.x BETWEEN :low AND :high",
    "table_filter": "SELECT k, x FROM stock WHERE x BETWEEN :lo AND :hi",
    "table_select": "SELECT a.id AS aid, stock.k AS k FROM a JOIN stock ON a.j = stock.k "
    "WHERE a.x BETWEEN :lo AND :hi AND stock.x BETWEEN :low AND :high",
    "table_moving": "SELECT b.id AS bid, stock.k AS k FROM b JOIN stock ON b.j = stock.y "
    "WHERE b.x >= :lo AND stock.x <= :high",
    "table_band": "SELECT a.id AS aid, stock.k AS k FROM a JOIN stock "
    "ON stock.x - a.x BETWEEN :lo AND :hi",
    "last_rows": "SELECT MAX(x) OVER (ORDER BY ts ROWS BETWEEN :n PRECEDING AND CURRENT ROW) "
    "AS answer FROM v",
    "older": "SELECT AVG(x) OVER (ORDER BY ts RANGE BETWEEN :w PRECEDING AND INTERVAL '1' SECOND "
    "PRECEDING) AS answer FROM u WHERE x < 18",
    "high": "SELECT j, MIN(x) OVER (PARTITION BY j ORDER BY ts ROWS BETWEEN :n PRECEDING AND "
    "CURRENT ROW) AS answer FROM v QUALIFY answer >= :lo",
}  # fmt: skip
# Where it shows which row of a pair came last, or what was between: cuts of a batch are visible.
DELICATE = frozenset(name for name in OTHERS if name.startswith(("self", "table")))
HOLES = {"lo": "float64", "hi": "float64", "low": "float64", "high": "float64",
         "w": "int64", "n": "int64", "phi": "float64", "word": "string"}  # fmt: skip
CHANGE_COLUMNS = {"template": "string", "op": "string", "id": "int64", **HOLES}


@dataclass(frozen=True)
class World:
    """Templates with their ways, over the inputs that they read."""

    templates: Mapping[str, str]
    ways: Mapping[str, str]

    @property
    def inputs(self) -> dict[str, Declared]:
        """Those that some template reads, in the order of `INPUTS`."""
        words = {word for sql in self.templates.values() for word in sql.split()}
        return {name: declared for name, declared in INPUTS.items() if name in words}

    def holes(self, template: str) -> list[str]:
        """The holes of a template."""
        words = self.templates[template].replace(",", " ").split()
        return [hole for hole in HOLES if f":{hole}" in words]

    def windows(self) -> list[str]:
        """The templates that are answered at the end of a micro-batch, by no event."""
        return [name for name, sql in self.templates.items() if " OVER " in sql]

    def only(self, *templates: str) -> World:
        """The same with some of the templates."""
        kept = {name: self.templates[name] for name in templates}
        return World(kept, {name: way for name, way in self.ways.items() if name in kept})


def whole_world() -> World:
    """Every way of the catalogue, and the shapes of inputs that they meet."""
    templates, ways = {}, {}
    for question, sql, catalogue in (
        ("filter", FILTER, FILTERS), ("band", BAND, BAND_JOINS), ("select", SELECT, SELECT_JOINS),
        ("window", WINDOW, WINDOW_JOINS), ("aggregate", AGGREGATE, WINDOW_AGGREGATES),
        ("threshold", THRESHOLD, KEY_THRESHOLDS),
    ):  # fmt: skip
        for way in catalogue:
            templates[f"{question}_{way}"], ways[f"{question}_{way}"] = sql, way
    templates["aggregate_base_interval_quantiles"] = QUANTILE
    return World(templates | OTHERS, ways)


@dataclass(frozen=True)
class Batch:
    """What one micro-batch brings: changes in their order, and rows by input."""

    changes: list[Row]
    rows: dict[str, list[Row]]


@dataclass
class Draft:
    """Draws the micro-batches of a history one after the other."""

    world: World
    rng: Random
    n_rows: int
    n_queries: int
    n_made: int = 0  # queries that have had an id
    living: dict[tuple[str, int], Row] = field(default_factory=dict)
    past: dict[str, list[Row]] = field(default_factory=dict)

    def batch(self, number: int) -> Batch:
        """Rows of every input, and changes: many at first, few later, none in every fourth."""
        rows = {name: self._rows(name, number) for name in self.world.inputs}
        if number == 0:
            changes = [
                self._add(name) for name in self.world.templates for _ in range(self.n_queries)
            ]
            self.rng.shuffle(changes)
        else:
            changes = [] if number % 4 == 3 else self._changes()
        return Batch(changes, rows)

    def _changes(self) -> list[Row]:
        """Some of every kind, in any order."""
        once = [self._repeated, self._taken, self._replaced, self._bad]
        often = [lambda: [self._add(self._template())], self._removed]
        draws = once + self.rng.choices(often, k=self.rng.randint(6, 20))
        self.rng.shuffle(draws)
        return [row for draw in draws for row in draw()]

    def _template(self) -> str:
        return self.rng.choice(list(self.world.templates))

    def _add(self, template: str, identity: int | None = None) -> Row:
        if identity is None:
            identity, self.n_made = self.n_made, self.n_made + 1
        values = {hole: self._bound(hole) for hole in self.world.holes(template)}
        for low, high in (("lo", "hi"), ("low", "high")):
            if low in values and high in values and self.rng.random() < 0.9:
                values[low], values[high] = sorted((values[low], values[high]))
        row = {"template": template, "op": "add", "id": identity, **values}
        self.living[template, identity] = row
        return row

    def _bound(self, hole: str) -> Any:
        if hole == "w":
            return self.rng.choice([0, 500_000, 2_000_000, 8_000_000])
        if hole == "n":
            return self.rng.choice([0, 1, 2, 5, 20])
        if hole == "phi":
            return self.rng.choice([0.0, 0.25, 0.5, 1.0])
        if hole == "word":
            return self.rng.choice(["red", "green", "none"])
        return self.rng.choice([self.rng.randint(0, 40) / 2] * 12 + [math.inf, -math.inf, -0.0])

    def _removed(self) -> list[Row]:
        if not self.living:
            return []
        template, identity = self.rng.choice(list(self.living))
        del self.living[template, identity]
        gone = {"template": template, "op": "remove", "id": identity}
        return [gone] * self.rng.choice([1, 1, 1, 2])

    def _repeated(self) -> list[Row]:
        return [self.rng.choice(list(self.living.values()))] if self.living else []

    def _taken(self) -> list[Row]:
        if not self.living:
            return []
        template, identity = self.rng.choice(list(self.living))
        known = self.living[template, identity]
        other = self._add(template, identity)
        self.living[template, identity] = known
        return [other]

    def _replaced(self) -> list[Row]:
        """A query that goes and comes back under its id, asking something else."""
        if not self.living:
            return []
        template, identity = self.rng.choice(list(self.living))
        gone = {"template": template, "op": "remove", "id": identity}
        return [gone, self._add(template, identity)]

    def _bad(self) -> list[Row]:
        """Changes that nobody can apply."""
        template = self._template()
        good = {hole: self._bound(hole) for hole in self.world.holes(template)}
        base = {"template": template, "op": "add", "id": -self.rng.randint(1, 1000), **good}
        number = next((h for h in good if HOLES[h] == "float64"), None)
        draws = [
            base | {"template": template[:-1]},
            base | {"template": None},
            base | {"op": "ad"},
            base | {"op": None},
            base | {"id": None},
            base | {"op": "remove"},
            base | {next(iter(good)): None},
        ]
        if number is not None:
            draws.append(base | {number: math.nan})
        return self.rng.sample(draws, 2)

    def _rows(self, name: str, number: int) -> list[Row]:
        past = self.past.setdefault(name, [])
        found = []
        for i in range(self.n_rows):
            row = _DRAWS[name](self.rng, number, number * self.n_rows + i)
            if self.rng.random() < 0.12 and past:
                again, id = self.rng.choice(past[-3 * self.n_rows :]), INPUTS[name].id
                # Every other one has just the id of a row that was, and another key.
                row = again if id is None or self.rng.random() < 0.5 else row | {id: again[id]}
            past.append(row)
            found.append(row)
        return found


def _plain(rng: Random, _: int, n: int) -> Row:
    return {
        "id": None if rng.random() < 0.03 else n,
        "j": None if rng.random() < 0.03 else rng.randint(0, 6),
        "x": _number(rng),
        "y": rng.randint(-3, 30),
        "s": rng.choice(WORDS),
    }


def _stock(rng: Random, *_: int) -> Row:
    key = None if rng.random() < 0.05 else rng.randint(0, 8)
    return {"k": key, "x": _number(rng), "y": rng.randint(0, 6)}


def _timed(rng: Random, batch: int, _: int) -> Row:
    at: datetime | None = START + timedelta(seconds=3 * batch + rng.randint(0, 5))
    odd = rng.random()
    if odd < 0.08:
        at = START - timedelta(seconds=rng.randint(1, 60))
    elif odd < 0.11:
        at = rng.choice([None, datetime(2200, 1, 1, tzinfo=UTC), datetime(1960, 1, 1, tzinfo=UTC)])
    return {"j": rng.randint(0, 4), "x": _number(rng), "ts": at}


def _named(rng: Random, batch: int, n: int) -> Row:
    return {"name": None if rng.random() < 0.03 else f"u{n}", **_timed(rng, batch, n)}


def _number(rng: Random) -> float | None:
    odd = [None, math.nan, math.inf, -math.inf, -0.0, 1e300]
    return rng.choice(odd) if rng.random() < 0.06 else rng.randint(0, 40) / 2


_DRAWS: dict[str, Callable[[Random, int, int], Row]] = {
    "a": _plain, "b": _plain, "stock": _stock, "u": _named, "v": _timed,
}  # fmt: skip


def draw_history(
    world: World, seed: int, *, n_batches: int = 5, n_rows: int = 40, n_queries: int = 6
) -> list[Batch]:
    """The micro-batches that follow from a seed."""
    draft = Draft(world, Random(seed), n_rows, n_queries)
    return [draft.batch(number) for number in range(n_batches)]


def table_of(columns: Mapping[str, str], rows: Sequence[Row]) -> pa.Table:
    """Rows as an Arrow table; what a row does not say is null."""
    fields = [(name, ARROW_TYPES[kind]) for name, kind in columns.items()]
    return pa.Table.from_pylist([{n: r.get(n) for n, _ in fields} for r in rows], pa.schema(fields))


def tables(world: World, batch: Batch) -> dict[str, pa.Table]:
    """The rows of each input, and the changes."""
    found = {n: table_of(d.columns, batch.rows[n]) for n, d in world.inputs.items()}
    return found | {QUERIES: table_of(CHANGE_COLUMNS, batch.changes)}


def write_history(world: World, history: Sequence[Batch], folder: Path) -> None:
    """A folder for each input and for the changes, with a file for each micro-batch.

    Spark takes files in the order of their times, so these are set.
    """
    for number, batch in enumerate(history):
        for name, table in tables(world, batch).items():
            path = folder / name / f"{number:04}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, path)
            os.utime(path, (1_700_000_000 + number,) * 2)
