"""Histories of key thresholds without an engine: rows and queries come and go, with the definition.

The definition keeps every row that came and works out each answer from scratch, with Python's own
numbers: `math.fsum` for sums of floats, whole numbers of any size for the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np

from standfast.indexes.lanes import Lanes
from standfast.model.numbers import FAR, INF_KEY, LEAST, float_keys
from standfast.operators.base import Crossings, ThresholdStrategy
from standfast.operators.catalog import KEY_THRESHOLDS
from standfast.operators.key_threshold.keyed import Function

REACH = 40
FUNCTIONS = ("COUNT", "SUM", "MIN", "MAX")
Answer = set[tuple[int, int]]  # slot, code


def aggregated(function: str, values: list[Any]) -> Any:
    """The aggregate of a window that holds these values; a sum may be no number."""
    if function == "COUNT":
        return len(values)
    if function in ("MIN", "MAX"):
        return min(values) if function == "MIN" else max(values)
    if isinstance(values[0], int) or not all(map(math.isfinite, values)):
        return sum(values)
    return math.fsum(values)


class History:
    """One strategy, told the same as the definition."""

    def __init__(self, way: str, function: Function, *, is_float: bool, rng: Random) -> None:
        self.rng, self.function, self.is_float = rng, function, is_float
        self.lanes = Lanes("range", is_float=is_float, is_keyed=True, reach=REACH)
        made = KEY_THRESHOLDS[way]
        self.strategy: ThresholdStrategy = made(function, self.lanes, is_float=is_float)
        self.rows: list[tuple[int, int, Any]] = []  # time, code, value
        self.queries: dict[int, tuple[int, Any, Any]] = {}
        self.now = 0
        self.held: Answer = set()
        self.next_slot = 0

    @property
    def has_float_bounds(self) -> bool:
        return self.is_float and self.function != "COUNT"

    def add(self, n: int) -> None:
        rng, asked = self.rng, []
        for _ in range(n):
            low = rng.choice([rng.randint(-4, 30), rng.randint(0, 6), None])
            high = rng.choice([None, (low or 0) + rng.randint(0, 9)])
            asked.append((rng.randint(0, REACH), low, high))
        self.enter(asked)

    def enter(self, asked: list[tuple[int, Any, Any]]) -> None:
        """Queries as (window, low, high), None for no end."""
        slots = np.arange(self.next_slot, self.next_slot + len(asked))
        self.next_slot += len(asked)
        self.queries |= dict(zip(slots.tolist(), asked, strict=True))
        ends = np.array([self._keys(low, high) for _, low, high in asked], np.int64).reshape(-1, 2)
        lows = np.stack([np.zeros(slots.size, np.int64), ends[:, 0]])
        highs = np.stack([np.array([w for w, *_ in asked], np.int64), ends[:, 1]])
        self.strategy.add(slots, lows, highs)

    def _keys(self, low: Any, high: Any) -> tuple[int, int]:
        least, most = (-INF_KEY, INF_KEY) if self.has_float_bounds else (LEAST, FAR)
        if self.has_float_bounds:
            keys = float_keys(np.array([0.0 if end is None else float(end) for end in (low, high)]))
            return least if low is None else int(keys[0]), most if high is None else int(keys[1])
        return least if low is None else low, most if high is None else high

    def remove(self, n: int) -> None:
        slots = self.rng.sample(sorted(self.queries), min(n, len(self.queries)))
        for slot in slots:
            del self.queries[slot]
        self.held = {(slot, code) for slot, code in self.held if slot in self.queries}
        self.strategy.remove(np.array(slots, np.int64))

    def push(self, n: int) -> None:
        rng, rows = self.rng, []
        for _ in range(n):
            self.now += rng.choice([0, 0, 1, 3]) if rng.random() < 0.97 else 2 * REACH
            late = rng.choice([0, 0, 0, 5, REACH // 2])
            rows.append((max(self.now - late, 0), rng.choice([3, 7, -1, 10**12, 8]), self._value()))
        self.take(sorted(rows, key=lambda row: row[0]))

    def _value(self) -> Any:
        value = self.rng.choice([0, 1, 1, 2, 5, self.rng.randint(0, 20), -3])
        if self.is_float:
            return self.rng.choice([float(value), value * 0.1, value * 0.1, 1e17])
        return self.rng.choice([value, value, value, 2**61])

    def take(self, rows: list[tuple[int, int, Any]]) -> None:
        self.rows += rows
        self.now = max([self.now, *(time for time, *_ in rows)])
        times, codes = (np.array([row[i] for row in rows], np.int64) for i in (0, 1))
        values = np.array([row[2] for row in rows], self.lanes.dtype)
        self.lanes.advance(self.now)
        self.lanes.append(codes, times, values, np.ones(times.size, np.bool_))
        self.strategy.append(codes, times, values)
        self.strategy.advance(self.now)

    def right(self) -> Answer:
        """What the definition says."""
        found = set()
        for slot, (window, low, high) in self.queries.items():
            inside: dict[int, list[Any]] = {}
            for time, code, value in self.rows:
                if self.now - window <= time:
                    inside.setdefault(code, []).append(value)
            for code, values in inside.items():
                value = aggregated(self.function, values)
                if (low is None or value >= low) and (high is None or value <= high):
                    found.add((slot, code))
        return found

    def looked_up(self) -> Answer:
        slots = np.array(sorted(self.queries), np.int64)
        offsets, codes = self.strategy.lookup(slots)
        assert offsets[-1] == codes.size
        for i in range(slots.size):
            own = codes[offsets[i] : offsets[i + 1]]
            assert np.unique(own).size == own.size, "a code came twice"
        return set(zip(np.repeat(slots, np.diff(offsets)).tolist(), codes.tolist(), strict=True))

    def told(self) -> Answer:
        """What the changes so far add up to."""
        crossings: Crossings = self.strategy.changed()
        for slot, code, change in zip(*(c.tolist() for c in crossings), strict=True):
            assert ((slot, code) in self.held) == (change < 0), "a change that is none"
            (self.held.add if change > 0 else self.held.remove)((slot, code))
        return self.held


def played(history: History, n: int) -> Iterator[str]:
    """Do n things, one after the other; what was done."""
    history.add(6)
    for _ in range(n):
        done = history.rng.choices(("push", "add", "remove", "tell"), (6, 1, 1, 2))[0]
        if done == "push":
            history.push(history.rng.choice([1, 4, 12]))
        elif done == "add":
            history.add(history.rng.randint(1, 4))
        elif done == "remove":
            history.remove(history.rng.randint(0, 3))
        else:
            history.told()
        yield done
