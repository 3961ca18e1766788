"""Worlds of key thresholds: a template, histories for it, and what it means, by brute force.

Rows, queries and time as in `window_worlds`. The first query has the widest window and always
stays, so that all rows that a later query may see are kept.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any, NamedTuple

from tests.contract import window_worlds
from tests.contract.window_worlds import LATENESS, WIDEST, Add, Row, answer

from standfast import Engine
from standfast.operators.catalog import KEY_THRESHOLDS

FUNCTIONS = ("COUNT(*)", "COUNT", "SUM", "MIN", "MAX")
BOUNDS = ("> :low", ">= :low", "< :high", "<= :high", "BETWEEN :low AND :high", "= :low")
Found = Counter[tuple[Any, ...]]  # query, key


class World(NamedTuple):
    """One template: an aggregate of a column by key, and how it is compared."""

    function: str
    kind: str
    key: str
    bound: str

    @property
    def ways(self) -> list[str]:
        return list(KEY_THRESHOLDS)

    @property
    def sql(self) -> str:
        called = "COUNT(*)" if self.function == "COUNT(*)" else f"{self.function}(v)"
        over = "PARTITION BY k ORDER BY ts RANGE BETWEEN :left PRECEDING AND CURRENT ROW"
        return f"SELECT k FROM s WHERE o < 9 QUALIFY {called} OVER ({over}) {self.bound}"

    def engine(self, *, follows: bool = False) -> Engine:
        engine = Engine(clock=lambda: 2**50, follows=follows)
        columns = {"ts": "timestamp", "v": self.kind, "k": self.key, "o": "int64"}
        engine.stream("s", columns, time="ts", lateness_us=LATENESS)
        return engine

    def holds(self, value: Any, low: Any, high: Any) -> bool:
        """Whether an aggregate is within the bound; NULL and what is no number are not."""
        if value is None or value != value:
            return False
        return {
            "> :low": value > low, ">= :low": value >= low, "= :low": value == low,
            "< :high": value < high, "<= :high": value <= high,
        }.get(self.bound, low <= value <= high)  # fmt: skip


def draw_world(rng: Random, function: str) -> World:
    return World(
        function, rng.choice(["int64", "float64"]), rng.choice(["string", "int64", "float64"]),
        rng.choice(BOUNDS),
    )  # fmt: skip


class Draft(window_worlds.Draft):
    """Draws histories of a world."""

    world: Any

    def add(self, n: int) -> Add:
        ids = list(range(self.next_id, self.next_id + n))
        self.next_id += n
        lefts = [self.rng.randint(-1, WIDEST) for _ in ids]
        if 0 in ids:
            lefts[0] = WIDEST
        lows = [self.rng.choice([-20, -3, 0, 1, 2, 3, 5, 9, 20]) for _ in ids]
        highs = [low + self.rng.choice([-1, 0, 1, 4, 20]) for low in lows]
        params = {"left": lefts, "id": ids, "low": lows, "high": highs}
        wanted = {name for name in params if f":{name}" in self.world.sql} | {"id"}
        self.living += ids
        return Add(ids, {name: params[name] for name in wanted})

    def value(self) -> Any:
        """As in windows, but often from 0 on, as the collective index wants sums to be."""
        value = super().value()
        if value is None or value != value or self.rng.random() < 0.1:
            return value
        return abs(value)

    def key(self) -> Any:
        """Sometimes one of many keys, which comes and goes."""
        if self.rng.random() < 0.85:
            return super().key()
        number = self.rng.randrange(40)
        return str(number) if self.world.key == "string" else float(number) \
            if self.world.key == "float64" else number  # fmt: skip


class Model(window_worlds.Model):
    """What the answers are, by definition: all rows are kept and looked at."""

    world: Any

    def answers(self) -> Found:
        """The pairs (query, key) of the current result.

        A key has an answer while its window holds a row, for COUNT(*), or a row with a value.
        """
        found: Found = Counter()
        by_key: dict[Any, list[Row]] = {}
        for row in self.rows:
            if row[3] < 9 and row[2] is not None:
                by_key.setdefault(row[2], []).append(row)
        for query, holes in self.queries.items():
            for key, rows in by_key.items():
                inside = [row for row in rows if 0 <= self.now - row[0] <= holes["left"]]
                values = [row[1] for row in inside]
                if self.world.function != "COUNT(*)":
                    values = [value for value in values if window_worlds._has_value(value)]
                if not values:
                    continue
                value = answer(self.world, values, holes)
                if self.world.holds(value, holes.get("low", 0), holes.get("high", 0)):
                    found[query, key] += 1
        return found


class Player(window_worlds.Player):
    """An engine with one group for each way, and what its answers add up to."""

    def _add_up(self, way: str, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            self.sums[way][row["query"], row["k"]] += row["change"]
        left = Counter({row: n for row, n in self.sums[way].items() if n})
        assert all(n == 1 for n in left.values()), "a key came twice or left before it came"
        self.sums[way] = left

    def found(self, way: str, ids: list[int] | None = None) -> Found:
        """The current result by lookup."""
        rows = self.engine.groups[way].lookup(ids).to_pylist()
        return Counter((row["query"], row["k"]) for row in rows)
