"""Worlds of window aggregates: a template, histories for it, and what it means, by brute force.

A history is a list of actions drawn from a seed: queries come and go, rows come in time or late, at
equal times, without a value, after gaps longer than any window; time is told. The first query has
the widest window and always stays, so that all rows that a later query may see are kept.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from random import Random
from typing import Any, NamedTuple

import numpy as np

from standfast import Engine
from standfast.operators.aggregates import UserAggregate, class_of, serves
from standfast.operators.catalog import WINDOW_AGGREGATES

WIDEST = 40
LATENESS = 30
START = 1_000_000
HOLISTIC = ("PERCENTILE_DISC", "COUNT(DISTINCT)")
FUNCTIONS = (
    "COUNT(*)", "COUNT", "SUM", "AVG", "VARIANCE", "VAR_POP", "STDDEV", "STDDEV_POP",
    "MIN", "MAX", "FIRST", "LAST", "PERCENTILE_DISC", "COUNT(DISTINCT)", "span", "latest",
)  # fmt: skip
# Some are so far apart that the difference of their codes leaves int64.
NUMBER_KEYS: dict[str, list[Any]] = {
    "int64": [-1, 0, 1, 2, -(2**63), 2**63 - 1],
    "float64": [-0.5, 0.0, 2.5, -3.0, 3.0],
}


def users() -> dict[str, UserAggregate]:
    """Aggregates of the user's own: one that can be taken away again, one that minds the order."""
    return {
        "span": UserAggregate(
            lift=lambda v: np.stack([v, v * v], axis=1),
            combine=lambda a, b: a + b,
            lower=lambda s: s[:, 1] - s[:, 0],
            inverse=lambda total, part: total - part,
        ),
        "latest": UserAggregate(
            lift=lambda v: np.stack([v, v], axis=1),
            combine=lambda a, b: np.stack([a[:, 0], b[:, 1]], axis=1),
            lower=lambda s: 2 * s[:, 1] - s[:, 0],
        ),
    }


class World(NamedTuple):
    """One template: an aggregate of a column, by rows or by time, with keys or without."""

    function: str
    kind: str
    unit: str
    key: str | None
    is_historical: bool
    is_qualified: bool

    @property
    def ways(self) -> list[str]:
        """The ways that answer it."""
        name = {"COUNT(*)": "COUNT", "COUNT(DISTINCT)": "COUNT_DISTINCT"}.get(
            self.function, self.function
        )
        found = class_of(name, users())
        return [way for way, made in WINDOW_AGGREGATES.items() if serves(made.spec.needs, found)]

    @property
    def sql(self) -> str:
        called = {
            "COUNT(*)": "COUNT(*)", "COUNT(DISTINCT)": "COUNT(DISTINCT v)",
            "PERCENTILE_DISC": "PERCENTILE_DISC(v, :phi)",
        }.get(self.function, f"{self.function}(v)")  # fmt: skip
        partition = "PARTITION BY k " if self.key else ""
        right = ":right PRECEDING" if self.is_historical else "CURRENT ROW"
        frame = f"{self.unit} BETWEEN :left PRECEDING AND {right}"
        qualify = " QUALIFY answer >= :limit" if self.is_qualified else ""
        over = f"({partition}ORDER BY ts {frame})"
        return f"SELECT {called} OVER {over} AS answer FROM s WHERE o < 9{qualify}"

    def engine(self, *, follows: bool = False) -> Engine:
        engine = Engine(clock=lambda: 2**50, follows=follows)
        for name, functions in users().items():
            engine.aggregate(name, functions)
        columns = {"ts": "timestamp", "v": self.kind, "k": self.key or "string", "o": "int64"}
        engine.stream("s", columns, time="ts", lateness_us=LATENESS)
        return engine


def draw_world(rng: Random, function: str | None = None) -> World:
    function = rng.choice(FUNCTIONS) if function is None else function
    return World(
        function, rng.choice(["int64", "float64"]), rng.choice(["ROWS", "RANGE"]),
        rng.choice([None, None, "string", "int64", "float64"]), rng.random() < 0.5,
        rng.random() < 0.25,
    )  # fmt: skip


Row = tuple[int, Any, Any, Any]  # time, value, key, the filtered column


class Add(NamedTuple):
    ids: list[int]
    params: dict[str, list[Any]]


class Remove(NamedTuple):
    ids: list[int]


class Push(NamedTuple):
    rows: list[Row]


class Advance(NamedTuple):
    time: int


Action = Add | Remove | Push | Advance


class Draft:
    """Draws histories of a world."""

    def __init__(self, world: World, rng: Random) -> None:
        self.world = world
        self.rng = rng
        self.now = START
        self.next_id = 0
        self.living: list[int] = []

    def actions(self, n: int) -> list[Action]:
        """Queries come, then n things happen. Whatever the seed, two of them in the first half are
        rows with a gap between them, and then a time when no window by time holds a row.
        """
        n_before = self.rng.randrange(n // 2)
        before = [self.add(3), *(self.action() for _ in range(n_before))]
        sure = [self.push(20, gap=10), self.advance(WIDEST + 1)]
        return [*before, *sure, *(self.action() for _ in range(n - n_before - 2))]

    def action(self) -> Action:
        chosen = self.rng.choices(["push", "add", "remove", "advance"], [8, 2, 1, 1])[0]
        if chosen == "add":
            return self.add(self.rng.randint(0, 4))
        if chosen == "remove" and len(self.living) > 1:
            gone = self.rng.sample(self.living[1:], self.rng.randint(0, len(self.living) - 1))
            self.living = [i for i in self.living if i not in gone]
            return Remove(gone)
        if chosen == "advance":
            return self.advance(self.rng.randint(0, 20))
        return self.push(self.rng.choice([0, 1, 2, 3, 8, 30]))

    def advance(self, by: int) -> Advance:
        self.now += by
        return Advance(self.now)

    def add(self, n: int) -> Add:
        ids = list(range(self.next_id, self.next_id + n))
        self.next_id += n
        lefts = [max(-1, self.rng.randint(-5, WIDEST)) for _ in ids]  # -1 is always empty
        if 0 in ids:
            lefts[0] = WIDEST
        params = {"left": lefts, "id": ids}
        if self.world.is_historical:
            params["right"] = [self.rng.randint(0, WIDEST // 2) for _ in ids]
        if self.world.function == "PERCENTILE_DISC":
            params["phi"] = [self.rng.choice([0.01, 0.25, 0.28, 0.5, 0.56, 0.9, 1.0]) for _ in ids]
        if self.world.is_qualified:
            limits = [self.rng.choice([-5, 0, 1, 3, 10]) for _ in ids]
            params["limit"] = limits
        self.living += ids
        return Add(ids, params)

    def push(self, n: int, gap: int | None = None) -> Push:
        """Rows, after gaps now and then; row `gap` of them comes after one for sure."""
        rows = []
        for i in range(n):
            self.now += self.rng.choice([0, 0, 0, 1, 1, 2, 5])
            if self.rng.random() < 0.02 or i == gap:
                self.now += 3 * WIDEST
            late = self.rng.choice([0] * 12 + [1, 3, LATENESS, LATENESS + 5])
            rows.append((self.now - late, self.value(), self.key(), self.rng.choice([1, 1, 1, 9])))
        return Push(rows)

    def value(self) -> Any:
        chance = self.rng.random()
        if chance < 0.05:
            return None
        if self.world.kind == "int64":
            return self.rng.randint(-20, 20)
        if chance < 0.08:
            return math.nan
        if chance < 0.09 and self.world.function in ("SUM", "AVG", "MIN", "FIRST"):
            return self.rng.choice([math.inf, -math.inf, 1e300, -1e300])
        return self.rng.randint(-80, 80) / 4

    def key(self) -> Any:
        kind = self.world.key or "string"
        if self.rng.random() < 0.02:
            return None
        if kind == "string":
            return self.rng.choice("abc")
        return self.rng.choice(NUMBER_KEYS[kind])


class Model:
    """What the answers are, by definition: all rows are kept and looked at."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rows: list[Row] = []
        self.now = 0
        self.queries: dict[int, dict[str, Any]] = {}

    def play(self, action: Action) -> bool:
        """Let it happen; whether rows were used, so that what changed is reported."""
        n_rows = len(self.rows)
        match action:
            case Add(ids, params):
                for i, query in enumerate(ids):
                    self.queries[query] = {name: column[i] for name, column in params.items()}
            case Remove(ids):
                for query in ids:
                    del self.queries[query]
            case Advance(time):
                self.now = max(self.now, time)
            case Push(rows):
                for row in rows:
                    if row[0] >= self.now - LATENESS:
                        self.rows.append(row)
                    self.now = max(self.now, row[0])
        return len(self.rows) > n_rows

    def answers(self) -> Counter[tuple[Any, ...]]:
        """The rows (query, key, value) of the current result."""
        found: Counter[tuple[Any, ...]] = Counter()
        for query, key, inside in self.windows():
            value = answer(self.world, [row[1] for row in inside], self.queries[query])
            if (inside or not self.world.key) and self.qualifies(value, self.queries[query]):
                found[query, key, shown(value)] += 1
        return found

    def windows(self) -> Iterator[tuple[int, Any, list[Row]]]:
        """Every query with every key that has rows, None without keys, and the rows inside."""
        by_key: dict[Any, list[Row]] = {} if self.world.key else {None: []}
        for row in self.rows:
            if self.sees(row):
                by_key.setdefault(row[2] if self.world.key else None, []).append(row)
        for rows in by_key.values():
            rows.sort(key=_order)
        for query, holes in self.queries.items():
            for key, rows in by_key.items():
                yield query, key, self._inside(rows, holes)

    def sees(self, row: Row) -> bool:
        """Whether a row has a key, if it needs one, and passes the filter."""
        return row[3] < 9 and not (self.world.key and row[2] is None)

    def qualifies(self, value: Any, holes: dict[str, Any]) -> bool:
        return not self.world.is_qualified or (value is not None and value >= holes["limit"])

    def _inside(self, rows: list[Row], holes: dict[str, Any]) -> list[Row]:
        left, right = holes["left"], holes.get("right", 0)
        if self.world.unit == "RANGE":
            return [row for row in rows if right <= self.now - row[0] <= left]
        return [row for i, row in enumerate(rows) if right <= len(rows) - 1 - i <= left]


def _order(row: Row) -> tuple[Any, ...]:
    has_value = _has_value(row[1])
    return row[0], has_value, row[1] if has_value else 0


def _has_value(value: Any) -> bool:
    return value is not None and not math.isnan(value)


def answer(world: World, values: list[Any], holes: dict[str, Any]) -> Any:
    """The aggregate of the values of a window, in order; None for NULL."""
    kept = [value for value in values if _has_value(value)]
    n = len(kept)
    match world.function:
        case "COUNT(*)":
            return len(values)
        case "COUNT":
            return n
        case "COUNT(DISTINCT)":
            return len(set(kept))
        case "FIRST" | "LAST":
            at = 0 if world.function == "FIRST" else -1
            return values[at] if values and _has_value(values[at]) else None
    if not kept:
        return None
    match world.function:
        case "SUM" | "AVG":
            total = _sum(kept)
            return total if world.function == "SUM" else total / n
        case "MIN":
            return min(kept)
        case "MAX":
            return max(kept)
        case "PERCENTILE_DISC":
            return next(v for i, v in enumerate(sorted(kept), 1) if i / n >= holes["phi"])
        case "span":
            return float(sum(v * v for v in kept) - sum(kept))
        case "latest":
            return float(2 * kept[-1] - kept[0])
    is_sample = world.function in ("VARIANCE", "STDDEV")
    if n <= is_sample:
        return None
    exact = [Fraction(v) for v in kept]
    variance = statistics.variance(exact) if is_sample else statistics.pvariance(exact)
    return math.sqrt(variance) if "STDDEV" in world.function else float(variance)


def _sum(kept: list[Any]) -> Any:
    if any(math.isinf(value) for value in kept):
        return sum(value for value in kept if math.isinf(value))
    total = sum(map(Fraction, kept))
    return int(total) if isinstance(kept[0], int) else float(total)


def shown(value: Any) -> Any:
    """A value that can be compared: NaN equals itself, roots and shares are rounded."""
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return float(f"{value:.12e}") + 0.0
    return value


class Player:
    """An engine with one group for each way, and what its answers add up to."""

    def __init__(self, world: World, ways: list[str], *, follows: bool = False) -> None:
        self.world = world
        self.engine = world.engine(follows=follows)
        self.ways = ways
        for way in ways:
            self.engine.register(world.sql, name=way, strategy=way)
        self.sums: dict[str, Counter[tuple[Any, ...]]] = {way: Counter() for way in ways}

    def play(self, action: Action) -> None:
        groups = self.engine.groups
        match action:
            case Add(ids, params):
                for way in self.ways:
                    assert groups[way].add(params).to_pylist() == ids
            case Remove(ids):
                for way in self.ways:
                    groups[way].remove(ids)
                    gone = [row for row in self.sums[way] if row[0] in ids]
                    for row in gone:
                        del self.sums[way][row]
            case Advance(time):
                self.engine.advance("s", time)
            case Push(rows):
                answers = self.engine.push("s", columns(rows))
                for way in self.ways:
                    self._add_up(way, answers[way].rows().to_pylist())

    def _add_up(self, way: str, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            self.sums[way][row["query"], row.get("k"), shown(row["answer"])] += row["change"]
        left = Counter({row: n for row, n in self.sums[way].items() if n})
        assert all(n == 1 for n in left.values()), "a row came twice or went before it came"
        self.sums[way] = left

    def found(self, way: str, ids: list[int] | None = None) -> Counter[tuple[Any, ...]]:
        """The current result by lookup."""
        rows = self.engine.groups[way].lookup(ids).to_pylist()
        return Counter((row["query"], row.get("k"), shown(row["answer"])) for row in rows)


def columns(rows: list[Row]) -> dict[str, list[Any]]:
    return {name: [row[i] for row in rows] for i, name in enumerate(("ts", "v", "k", "o"))}
