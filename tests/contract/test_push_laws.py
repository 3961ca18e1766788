"""Laws of push mode: what was told adds up to what a naive lookup says, and little is read for it.

A history has hundreds of queries with bounds near and far, rows that come in time, late, at equal
times and after gaps, rows without a value, very large ones, queries that come and go, and time that
goes on alone. Values are multiples of a quarter, so that sums of floats are exact.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

import standfast as sf

START = 1_000_000
WIDEST = 60
N_STEPS = 8 if numba.config.DISABLE_JIT else 20
FUNCTIONS = ("COUNT(*)", "COUNT(v)", "SUM(v)", "AVG(v)", "MIN(v)", "MAX(v)", "FIRST(v)", "LAST(v)")
BOUNDS = {
    "": (),
    "answer >= :a": ("a",),
    "answer < :b": ("b",),
    "answer BETWEEN :a AND :b": ("a", "b"),
}

each_unit = pytest.mark.parametrize("unit", ["ROWS", "RANGE"])


def sql_of(function: str, unit: str, bound: str, *, key: bool = False, right: bool = False) -> str:
    over = "PARTITION BY k ORDER BY ts" if key else "ORDER BY ts"
    last = ":right PRECEDING" if right else "CURRENT ROW"
    frame = f"{over} {unit} BETWEEN :left PRECEDING AND {last}"
    qualify = f" QUALIFY {bound}" if bound else ""
    return f"SELECT {function} OVER ({frame}) AS answer FROM s{qualify}"


def engine_of(sql: str, kind: str = "float64", ways: tuple[str, ...] = ("auto",)) -> sf.Engine:
    engine = sf.Engine(clock=lambda: 2**50, follows=True)
    columns = {"ts": "timestamp", "v": kind, "k": "int64"}
    engine.stream("s", columns, time="ts", lateness_us=WIDEST)
    for way in ways:
        engine.register(sql, name=way, strategy=way)
    return engine


class Sums:
    """The answers that a group's reports add up to."""

    def __init__(self) -> None:
        self.answers: dict[tuple[int, Any], str] = {}  # NaN equals itself

    def add(self, answer: sf.Answer) -> None:
        rows = answer.rows().to_pylist()
        for row in (row for row in rows if row["change"] < 0):
            assert self.answers.pop((row["query"], row.get("k"))) == repr(row["answer"]), row
        for row in (row for row in rows if row["change"] > 0):
            assert (row["query"], row.get("k")) not in self.answers, row
            self.answers[row["query"], row.get("k")] = repr(row["answer"])

    def forget(self, ids: list[int]) -> None:
        gone = set(ids)
        self.answers = {of: value for of, value in self.answers.items() if of[0] not in gone}


def looked_up(group: sf.Group) -> dict[tuple[int, Any], str]:
    rows = group.lookup().to_pylist()
    return {(row["query"], row.get("k")): repr(row["answer"]) for row in rows}


class History:
    """Draws what happens."""

    def __init__(self, seed: Any, kind: str, holes: tuple[str, ...], scale: float) -> None:
        self.rng = np.random.default_rng(seed)
        self.kind, self.holes, self.scale = kind, holes, scale
        self.now, self.next_id = START, 0
        self.living: list[int] = []

    def queries(self, n: int) -> dict[str, Any]:
        ids = np.arange(self.next_id, self.next_id + n)
        self.next_id += n
        self.living += ids.tolist()
        params = {"id": ids, "left": self.rng.integers(-1, WIDEST, n)}
        if ids[0] == 0:
            params["left"][0] = WIDEST
        if "right" in self.holes:
            params["right"] = self.rng.integers(0, WIDEST, n)
        # Bounds close by, and so far away that only few rows lead there.
        far = np.where(self.rng.random(n) < 0.5, 1.0, 100.0)
        low = np.round(self.rng.normal(0, self.scale * far, n))
        bounds = {"a": low, "b": low + np.round(self.rng.exponential(self.scale, n) - 1)}
        whole = {name: each.astype(self.kind) for name, each in bounds.items()}
        return params | {name: whole[name] for name in whole if name in self.holes}

    def gone(self) -> list[int]:
        n = int(self.rng.integers(0, 1 + len(self.living) // 3))
        ids = self.rng.choice(self.living[1:], n, replace=False).tolist() if n else []
        self.living = [i for i in self.living if i not in set(ids)]
        return ids

    def rows(self, n: int) -> dict[str, Any]:
        steps = self.rng.choice([0, 0, 1, 2, 5], n)
        times = self.now + np.cumsum(steps)
        self.now = int(times.max(initial=self.now))
        late = np.where(self.rng.random(n) < 0.1, self.rng.integers(0, WIDEST, n), 0)
        values = self.rng.integers(-40, 80, n) / (4 if self.kind == "float64" else 1)
        if self.kind == "float64" and self.rng.random() < 0.1:
            values[: n // 2] = self.rng.choice([np.inf, -np.inf, 2.0**500])
        nulls = self.rng.random(n) < 0.05
        column = [None if null else v for null, v in zip(nulls, values.tolist(), strict=True)]
        if self.kind == "int64":
            column = [None if v is None else int(v) for v in column]
        return {"ts": times - late, "v": column, "k": self.rng.integers(0, 4, n)}


def play(sql: str, kind: str, history: History) -> tuple[int, int]:
    """Play a history; how many windows were read again, and how many a push would at most."""
    engine, sums = engine_of(sql, kind, ("auto", "naive")), Sums()
    group, naive = engine.groups["auto"], engine.groups["naive"]
    n_read = n_most = 0
    for step in range(N_STEPS):
        action = (
            "add" if step == 0 else history.rng.choice(["rows"] * 8 + ["add", "remove", "time"])
        )
        if action == "add":
            params = history.queries(60 if step == 0 else 5)
            for each in (group, naive):
                each.add(params)
        elif action == "remove":
            ids = history.gone()
            sums.forget(ids)
            for each in (group, naive):
                each.remove(ids)
        elif action == "time":
            history.now += int(history.rng.choice([1, 7, 3 * WIDEST]))
            engine.advance("s", history.now)
        else:
            batch = history.rows(int(history.rng.choice([1, 1, 2, 5, 40])))
            if history.rng.random() < 0.7:
                sums.add(engine.push("s", batch)["auto"])
            else:
                engine.store("s", batch)
        if history.rng.random() < 0.8:
            sums.add(engine.report()["auto"])
            n_read += group.metrics()["reread"]
            n_most += len(group) * group.reader.lanes.n_lanes
            assert sums.answers == looked_up(naive), (step, action)
        engine.check()
    return n_read, n_most


@each_unit
@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_was_told_adds_up_to_what_a_naive_lookup_says(function, unit):
    for i, (bound, holes) in enumerate(BOUNDS.items()):
        for key, right in ((False, i % 2 == 0), (True, i % 2 == 1)):
            kind = "int64" if i % 2 else "float64"
            if function == "AVG(v)" and bound:
                continue  # a mean is rounded, and may be on either side of its bound
            if function.startswith("COUNT") and bound:
                kind = "int64"
            asked = (*holes, "right") if right else holes
            seed = [len(function), ord(function[0]), ord(unit[1]), i, key, right]
            history = History(seed, kind, asked, 10.0 if function[0] in "CMFL" else 200.0)
            play(sql_of(function, unit, bound, key=key, right=right), kind, history)
