"""What a drawn history holds that is hard to get right, counted against empty victories.

empty ranges          a query that can match nothing
special numbers       infinite, beyond 2^53, denormal or NaN, as a value or as a bound
nulls                 a row without a number, a text, a join key or a time
ties                  a row whose number an earlier row of the input has
went                  a row of a table that was replaced or deleted
several rows of a key a row that meets two or more rows of its join key on the other side
late rows             behind their stream by more than its lateness
expired rows          so old that no row to come is near enough, whatever the query
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tests.contract.oracle import Row, joins
from tests.contract.worlds import World

Tally = Counter[str]

# What the histories of each question must show; the last ones only where streams have times.
EVERYWHERE = ("empty ranges", "special numbers", "nulls", "ties", "went")
MATCHING = (*EVERYWHERE, "several rows of a key")
WANTED = {
    "filter": EVERYWHERE,
    "band_join": EVERYWHERE,
    "select_join": MATCHING,
    "window_join": (*MATCHING, "late rows", "expired rows"),
}


class Sights:
    """Watches a history as it is drawn."""

    def __init__(self, world: World, tally: Tally) -> None:
        self.world = world
        self.tally = tally
        self.rows: dict[str, list[Row]] = {name: [] for name in world.inputs}
        self.latest: dict[str, int] = {}
        # Beyond this distance in time no query matches; literals of shapes are small too.
        self.widest = None if world.widest is None else max(world.widest, 3)

    def added(self, holes: dict[str, list[Any]], n: int) -> None:
        """Queries that come."""
        for values in holes.values():
            self.tally["special numbers"] += sum(map(is_special, values))
        for i in range(n):
            self.tally["empty ranges"] += self._is_empty({h: v[i] for h, v in holes.items()})

    def pushed(self, name: str, rows: Sequence[Row]) -> None:
        """Rows that come."""
        columns = list(self.world.columns(name))
        for row in rows:
            self.tally["special numbers"] += is_special(row[1])
            self.tally["nulls"] += None in row[1:]
            self.tally["ties"] += any(row[1] == other[1] for other in self.rows[name])
            if self.world.has_keys:
                self._meet(row[columns.index("j")], name)
            if self.world.inputs[name] == "table":
                self.deleted(name, [row[0]])
            if self._is_late(name, row):
                self.tally["late rows"] += 1
            else:
                self.rows[name].append(row)
        self._expire()

    def deleted(self, name: str, keys: Iterable[int]) -> None:
        """Rows of a table that go."""
        gone = set(keys)
        kept = [row for row in self.rows[name] if row[0] not in gone]
        self.tally["went"] += len(self.rows[name]) - len(kept)
        self.rows[name] = kept

    def _meet(self, key: Any, name: str) -> None:
        sides = self.world.sides
        for other, side in zip(reversed(sides), sides, strict=True):
            if side == name:
                at = list(self.world.columns(other)).index("j")
                met = sum(joins(key, row[at]) for row in self.rows[other])
                self.tally["several rows of a key"] += met > 1

    def _is_late(self, name: str, row: Row) -> bool:
        if not self.world.time or self.world.inputs[name] == "table":
            return False
        latest = self.latest.get(name, row[-1])
        self.latest[name] = max(latest, row[-1])
        return self.world.lateness_us is not None and row[-1] < latest - self.world.lateness_us

    def _expire(self) -> None:
        """Forget rows that the other stream has left behind for good."""
        if self.widest is None or "table" in self.world.inputs.values():
            return
        lateness = self.world.lateness_us or 0
        for name, other in zip(self.world.sides, reversed(self.world.sides), strict=True):
            if other in self.latest:
                least = self.latest[other] - lateness - self.widest
                kept = [row for row in self.rows[name] if row[-1] >= least]
                self.tally["expired rows"] += len(self.rows[name]) - len(kept)
                self.rows[name] = kept

    def _is_empty(self, holes: dict[str, Any]) -> bool:
        """Whether a low end lies above a high end, or a window is negative."""
        bounds = [c for c in self.world.shape.comparisons if c.hole]
        if any(c.subject in ("gap", "abs") and holes[c.hole] < 0 for c in bounds):
            return True
        lows = [(c.subject, holes[c.hole]) for c in bounds if c.operator in (">", ">=")]
        highs = [(c.subject, holes[c.hole]) for c in bounds if c.operator in ("<", "<=")]
        return any(s == t and low > high for s, low in lows for t, high in highs)


def is_special(value: Any) -> bool:
    """Whether a number is one that breaks programs."""
    if not isinstance(value, int | float):
        return False
    if not math.isfinite(value) or 0 < abs(value) < 1e-300:
        return True
    return abs(value) >= 2**53 - 1
